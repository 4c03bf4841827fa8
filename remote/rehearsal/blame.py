"""From an exception to the line that is to blame: the innermost one within the gated or patched sources.

An engine's worker processes tell their exceptions as text, through loggers that put their own words before each line,
while the exception here only says that a worker failed. Both are read; pure but for the sources that are quoted.
"""

from __future__ import annotations

import linecache
import re
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remote.code import imports
from remote.rehearsal import hints
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

LONGEST = 500  # characters of an exception's words
HEAD = "Traceback (most recent call last):"
PREFIX = re.compile(
    r"^(?P<process>\([^()]*pid=\d+[^()]*\)\s?)?"
    r"(?:(?:ERROR|CRITICAL|WARNING|INFO|DEBUG)\s\d\d-\d\d\s[\d:.]+\s\[[^\]]{0,120}\]\s?)?"
)
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<words>.*))?$")
# What an exception says that only passes on what another process has told.
PASSED_ON = re.compile(r"root cause|Worker failed|WorkerProc initialization failed|Engine core", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback."""

    file: str
    line: int

    @property
    def text(self) -> str | None:
        """Give the source line."""
        return linecache.getline(self.file, self.line).rstrip("\n") or None


@dataclass(frozen=True, slots=True)
class Trace:
    """A traceback, outermost frame first, and its exception."""

    frames: tuple[Frame, ...]
    kind: str
    words: str


def finding(error: BaseException, said: str, modules: Collection[str], overlay: str, *, during: str) -> Finding:
    """Say what went wrong and where; `said` is what the processes have printed meanwhile."""
    ours = {file for name in modules if (file := imports.locate(name))}
    trace, frame = _chosen(own(error), list(traces(said)) if said else [], ours)
    words = " ".join(trace.words.split())[:LONGEST]
    message = f"{during}: {trace.kind}{': ' if words else ''}{words}"
    last = trace.frames[-1] if trace.frames else None
    if last is not None and last != frame:
        message += f" (raised in {imports.shown(last.file, overlay)}:{last.line}"
        message += f": {last.text.strip()})" if not words and last.text else ")"
    for number, origin in _origins(frame) if frame else ():
        message += f"; line {number} has `{origin}`"
    text = frame.text if frame else None
    return Finding(
        rule="rehearsal-crashed",
        message=message,
        file=imports.shown(frame.file, overlay) if frame else None,
        line=frame.line if frame else None,
        column=len(text) - len(text.lstrip()) if text else None,
        end_column=len(text) if text else None,
        text=text,
    )


def _origins(frame: Frame) -> list[tuple[int, str]]:
    return hints.origins("".join(linecache.getlines(frame.file)), frame.line)


def stack(frames: Sequence[Frame], modules: Collection[str], overlay: str) -> tuple[str | None, Frame | None]:
    """Give the innermost of a stack's frames within the gated sources, and its file as a patch names it."""
    ours = {file for name in modules if (file := imports.locate(name))}
    found = _innermost(frames, ours) or (frames[-1] if frames else None)
    return (imports.shown(found.file, overlay), found) if found else (None, None)


def _chosen(own: list[Trace], told: list[Trace], ours: Collection[str]) -> tuple[Trace, Frame | None]:
    """Choose between the exception here, with what it came from, and those that other processes told of."""
    last = own[0]
    passed_on = any(PASSED_ON.search(trace.words) for trace in own)
    near = [trace for trace in told if passed_on or (trace.words and trace.words in last.words)]
    for trace in near:
        if (frame := _innermost(trace.frames, ours)) is not None:
            return trace, frame
    for trace in own:
        if (frame := _innermost(trace.frames, ours)) is not None:
            root = near[0] if near else trace
            return root, frame
    trace = near[0] if near else last
    return trace, trace.frames[-1] if trace.frames else None


def _innermost(frames: Sequence[Frame], ours: Collection[str]) -> Frame | None:
    return next((frame for frame in reversed(frames) if frame.file in ours), None)


def own(error: BaseException) -> list[Trace]:
    """Give an exception and those that it came from, latest first."""
    found: list[Trace] = []
    seen: BaseException | None = error
    while seen is not None and len(found) < 10:  # noqa: PLR2004 - a chain may be a ring
        frames = tuple(Frame(one.filename, one.lineno or 0) for one in traceback.extract_tb(seen.__traceback__))
        found.append(Trace(frames, type(seen).__name__, str(seen)))
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return found


def words(error: BaseException, told: str) -> str:
    """Give all that an exception and what it came from say, after what was told of them."""
    return "\n".join((told, *(f"{trace.kind}: {trace.words}" for trace in own(error))))


def traces(text: str) -> Iterator[Trace]:
    """Read the tracebacks in what processes have printed, each process's lines by themselves."""
    lines: dict[str, list[str]] = {}
    for raw in text.splitlines():
        match = PREFIX.match(raw)
        process = (match["process"] or "").strip() if match else ""
        lines.setdefault(process, []).append(raw[match.end() :] if match else raw)
    for own in lines.values():
        yield from _read(own)


def _read(lines: Sequence[str]) -> Iterator[Trace]:
    frames: list[Frame] | None = None
    for line in lines:
        if line.strip() == HEAD:
            frames = []
        elif frames is None:
            continue
        elif match := FRAME.match(line):
            frames.append(Frame(match["file"], int(match["line"])))
        elif line[:1].strip() and (match := EXCEPTION.match(line)):
            yield Trace(tuple(frames), match["type"].rpartition(".")[2], match["words"] or "")
            frames = None
