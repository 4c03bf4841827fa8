"""What the user sees: results on standard output, everything else on standard error, many hosts line by line."""

from __future__ import annotations

import io
import sys
import threading
from typing import TYPE_CHECKING, TextIO, cast

from local import guard
from local.masks import MaskedLog, mask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rich.console import Console

__all__ = ["Lines", "MaskedLog", "Screen", "mask"]

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")

_LOCK = threading.RLock()


class Lines(io.TextIOBase):
    """A text stream that writes whole lines, each after a prefix, with secrets masked; safe from many threads."""

    def __init__(self, stream: TextIO, prefix: str = "", secrets: Collection[str] = ()) -> None:
        super().__init__()
        self._stream = stream
        self._prefix = prefix
        self._secrets = secrets
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
        self.secrets: set[str] = set()  # of all hosts: what is masked on every console
        self.console = guard.console(self.err, self.secrets)

    def __repr__(self) -> str:
        return f"<screen, {'terminal' if self.console.is_terminal else 'no terminal'}>"

    def for_host(self, name: str, index: int, width: int, secrets: Iterable[str]) -> tuple[Console, Lines]:
        """Give a host's console (on standard error) and its standard output; `width` 0 means that it is alone."""
        self.secrets.update(secrets)
        if not width:
            return self.console, Lines(self.out, "", self.secrets)
        colour = _COLOURS[index % len(_COLOURS)]
        with self.console.capture() as captured:
            self.console.print(f"[{colour}]{name:>{width}}[/] │ ", end="")
        lines = Lines(self.err, captured.get(), self.secrets)
        console = guard.console(
            cast("TextIO", lines),
            width=max(40, self.console.width - width - 3),
            force_terminal=self.console.is_terminal,
            force_interactive=False,
        )
        return console, Lines(self.out, f"{name:>{width}} │ ", self.secrets)
