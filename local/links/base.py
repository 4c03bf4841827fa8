"""The transport: a small interface with three implementations (ssh, here, fake) and one conformance suite."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from types import TracebackType


# What shells take for their own even between single quotes: csh `!` and the end of a line, fish a backslash.
_TREACHEROUS = re.compile(r"[!\\\n]")
_DECODE = 'eval "exec $(printf %b "$0")"'


@dataclass(frozen=True, slots=True)
class Command:
    """Words for the host's login shell, whichever it is; quoting happens here and nowhere else."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        line = " ".join(map(_quoted, self.words))
        if not _TREACHEROUS.search(line):
            return line
        hidden = _TREACHEROUS.sub(lambda found: f"\\0{ord(found[0]):03o}", line)
        return shlex.join(("sh", "-c", _DECODE, hidden))


def _quoted(word: str) -> str:
    """Quote a word, and what is plain to sh alone: zsh's `=name`, fish's `%self`, an assignment in front."""
    quoted = shlex.quote(word)
    return f"'{quoted}'" if quoted == word and set("=%").intersection(word) else quoted


@dataclass(frozen=True, slots=True)
class Answer:
    """What a finished command said: `code` None means that the link closed without one (nothing is known)."""

    code: int | None
    stdout: bytes
    stderr: bytes


class Stream(Protocol):
    """A command whose standard output is read while it runs."""

    def read(self, timeout: float) -> bytes:
        """Give the next bytes, b"" at the end of output; raises LinkLost when none came for `timeout` seconds."""
        ...

    def ending(self) -> Answer:
        """Tell how the command ended, once `read` has given b"": its code and the end of what it said on stderr."""
        ...

    def close(self) -> None:
        """End reading; the command gets SIGPIPE or end of input, nothing more."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Link(Protocol):
    """One host, reached. Errors: LinkLost when the link breaks or a deadline passes, else the connect errors."""

    def run(self, command: Command, *, stdin: bytes = b"", deadline: float = 30.0, limit: int = 64 * 2**20) -> Answer:
        """Run a command to its end; at most `limit` bytes of output are taken, more raises LinkLost."""
        ...

    def stream(self, command: Command, *, stdin: bytes = b"") -> Stream:
        """Start a command on a connection of its own and read its output as it comes."""
        ...

    def reconnect(self) -> None:
        """Drop what is left of the link and connect anew."""
        ...

    def close(self) -> None:
        """Let go of the host; what was started there goes on."""
        ...
