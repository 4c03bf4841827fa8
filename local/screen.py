"""What the user sees: results on standard output, everything else on standard error, many hosts line by line."""

from __future__ import annotations

import io
import sys
import threading
from typing import TYPE_CHECKING, TextIO, cast

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
SECRET_MINIMUM = 6  # shorter values are no secrets, and masking them would maim the text


_LOCK = threading.RLock()


def mask(text: str, secrets: Iterable[str]) -> str:
    """Put asterisks in place of secrets, the longest first."""
    for secret in sorted({secret for secret in secrets if len(secret) >= SECRET_MINIMUM}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class MaskedLog:
    """A log on its way to the screen, with secrets masked; a line is held until it is whole, or too long."""

    LONGEST = 1 << 16

    def __init__(self, secrets: Iterable[str], sink: Callable[[bytes], None]) -> None:
        self._secrets = sorted({s.encode() for s in secrets if len(s) >= SECRET_MINIMUM}, key=len, reverse=True)
        self._sink = sink
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Pass on what is whole by now."""
        if not self._secrets:
            self._sink(data)
            return
        self._held += data
        end = max(self._held.rfind(b"\n"), self._held.rfind(b"\r")) + 1
        end = len(self._held) if not end and len(self._held) > self.LONGEST else end
        whole, self._held = self._held[:end], self._held[end:]
        self._pass(whole)

    def finish(self) -> None:
        """Pass on the last line."""
        self._pass(self._held)
        self._held = b""

    def _pass(self, data: bytes) -> None:
        for secret in self._secrets:
            data = data.replace(secret, b"***")
        if data:
            self._sink(data)


class Lines(io.TextIOBase):
    """A text stream that writes whole lines, each after a prefix, with secrets masked; safe from many threads."""

    def __init__(self, stream: TextIO, prefix: str = "", secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._stream = stream
        self._prefix = prefix
        self._secrets = tuple(secrets)
        self._held = ""

    def write(self, text: str) -> int:
        """Write the lines that are whole by now."""
        lines = (self._held + text).split("\n")
        self._held = lines.pop()
        self._lines(lines)
        return len(text)

    def flush(self) -> None:
        """Pass on the stream's own flush; an unfinished line is held until it is whole, or closed."""
        with _LOCK:
            self._stream.flush()

    def finish(self) -> None:
        """Write what is held as a last line."""
        held, self._held = self._held, ""
        if held:
            self._lines([held])

    def isatty(self) -> bool:
        """Tell rich whether there is a terminal behind it."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Give the descriptor behind it."""
        return self._stream.fileno()

    def _lines(self, lines: list[str]) -> None:
        if not lines:
            return
        text = "".join(f"{self._prefix}{mask(line, self._secrets)}\n" for line in lines)
        with _LOCK:
            self._stream.write(text)
            self._stream.flush()


class Screen:
    """The two streams of this process, and a console of its own for each host."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.console = Console(file=self.err, highlight=False)

    def __repr__(self) -> str:
        return f"<screen, {'terminal' if self.console.is_terminal else 'no terminal'}>"

    def for_host(self, name: str, index: int, width: int, secrets: Iterable[str]) -> tuple[Console, Lines]:
        """Give a host's console (on standard error) and its standard output; `width` 0 means that it is alone."""
        if not width:
            return self.console, Lines(self.out, "", secrets)
        secrets = tuple(secrets)
        colour = _COLOURS[index % len(_COLOURS)]
        with self.console.capture() as captured:
            self.console.print(f"[{colour}]{name:>{width}}[/] │ ", end="")
        lines = Lines(self.err, captured.get(), secrets)
        console = Console(
            file=cast("TextIO", lines),
            width=max(40, self.console.width - width - 3),
            force_terminal=self.console.is_terminal,
            force_interactive=False,
            highlight=False,
        )
        return console, Lines(self.out, f"{name:>{width}} │ ", secrets)
