"""What a log says of an end, not of why it came: never the root line of a failure. Pure; both sides may import this.

An interpreter that ends, or whose other processes were killed, still speaks: exceptions that it ignores in destructors
and exit functions, names that it tidies up behind others, stacks without words. Several processes speak at once: what
belongs together is followed for each by the pid that stands before its lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remote.failure_table import ADVICE

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 2000  # characters of a line that are looked at and quoted
# What loggers, vLLM's process names, torchrun and rank prefixes put before the words.
DECORATION = re.compile(
    r"^(?:\s*(?:\([^()]*pid=\d+[^()]*\)|\[rank\d+\]:?|(?:ERROR|CRITICAL|INFO|WARNING)\s[^\]]{0,80}\]|\[[^\]]{0,60}\]:?))*\s?"
)
SPEAKER = re.compile(r"pid=\d+|\[rank\d+\]")
WARNING = re.compile(r"\bWARNING\b|\w*Warning:|\bwarning:")
TRACEBACK = "Traceback (most recent call last):"
IGNORED = re.compile(r"Exception ignored (?:in|on|while)\b|Error in atexit\._run_exitfuncs:")
TRACKER = re.compile(
    r'File "[^"]*resource_tracker\.py", line \d+, in main\b'
)  # the process that tidies up, and no other
CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b")
# Lines that are worth no quoting: what follows from an end, and stacks, whose words stand before them.
UNQUOTED = re.compile(
    r"\bresource_tracker[:.]|destroy_process_group\(\) was not called|nanobind: leaked|leaked instance "
    r"|sys\.meta_path is None|after (?:interpreter )?shutdown|new thread at interpreter shutdown"
    r"|Task was destroyed but it is pending|Parent process exited, terminating|WorkerProc shutting down"
    r"|Traceback \(most recent call last\):|^\s*File \"|^\s*[~^]+\s*$|^Extension modules: |^frame #\d+: "
    r"|^(?:Current t|T)hread 0x"
)


def closing(lines: Sequence[str]) -> list[bool]:
    """Tell for each line whether an interpreter says it of its own end."""
    found = [False] * len(lines)
    speakers: dict[str, _Speaker] = {}
    for number, line in enumerate(lines):
        start = undecorated(line[:LONGEST])
        named = SPEAKER.search(line, 0, start)
        speaker = speakers.setdefault(named[0] if named else "", _Speaker())
        if speaker.closes(number, line[start:LONGEST]):
            for each in speaker.block:
                found[each] = True
            speaker.block.clear()
    return found


def undecorated(line: str) -> int:
    """Give where the words of a line begin."""
    match = DECORATION.match(line)
    return match.end() if match else 0


def quotable(lines: Sequence[str], closes: Sequence[bool]) -> str | None:
    """Give what was said last and tells something: a warning only where nothing else was said."""
    warning: str | None = None
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number][:LONGEST]
        if not line.strip() or closes[number] or _worth_nothing(line):
            continue
        if WARNING.search(line):
            warning = warning or line.strip()
        elif not (number and line[0].isspace() and WARNING.search(lines[number - 1][:LONGEST])):  # the warning's source
            return line.strip()
    return warning


def _worth_nothing(line: str) -> bool:
    start = undecorated(line)
    advice = ADVICE.search(line) is not None and not RAISED.match(line, start)
    return advice or UNQUOTED.search(line[start:]) is not None


@dataclass(slots=True)
class _Speaker:
    """Where one process is in what it tells; `block` holds the lines of the traceback that it is telling."""

    place: str = ""  # ignored, traceback, told or chained
    ends: bool = False
    block: list[int] = field(default_factory=list)

    def closes(self, number: int, words: str) -> bool:
        """Take the next line; tell whether it, and its block, follow from an end."""
        if not words.strip():
            return False
        self.block.append(number)
        self._take(words)
        return self.ends

    def _take(self, words: str) -> None:
        if IGNORED.match(words):
            self.place, self.ends, self.block = "ignored", True, self.block[-1:]
        elif words.startswith(TRACEBACK):
            self.ends = self.ends and self.place in ("ignored", "chained")
            self.place, self.block = "traceback", self.block[-1:]
        elif self.place == "traceback" and words[0].isspace():
            self.ends = self.ends or TRACKER.search(words) is not None
        elif self.place == "traceback" or (self.place == "ignored" and RAISED.match(words)):
            self.place = "told"
        elif self.place == "told" and CHAINED.match(words):
            self.place = "chained"
        else:
            self.place, self.ends, self.block = "", False, []
