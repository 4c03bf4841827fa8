"""The keyboard while a screen is live: keys by name, and a terminal that is as it was, however we leave."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

ESCAPE = b"\x1b"
NAMES = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"\x1b[5~": "page-up",
    b"\x1b[6~": "page-down", b"\x1b": "escape", b"\r": "enter", b"\n": "enter", b"\x7f": "escape", b"\x08": "escape",
    b"\x04": "q",
}  # fmt: skip
PATIENCE = 0.05  # seconds in which the rest of a key's sequence comes, if there is one
LONGEST = 16  # bytes of a sequence
ENDING = (signal.SIGTERM, signal.SIGHUP)


def parse(data: bytes) -> tuple[list[str], bytes]:
    """Give the keys in what was typed, and what may be the start of one more; unknown sequences are no keys."""
    keys: list[str] = []
    while data:
        size = _size(data)
        if size is None:
            return keys, data
        key, data = data[:size], data[size:]
        name = NAMES.get(key) or key.decode("ascii", "ignore")
        if name.isprintable() and name:
            keys.append(name)
    return keys, b""


def _size(data: bytes) -> int | None:
    """Give the length of the first key, None when the rest of it may still come."""
    if not data.startswith(ESCAPE):
        return 1
    if len(data) == 1:
        return None
    if data[1:2] not in {b"[", b"O"}:
        return 1  # Escape itself, then another key
    for at in range(2, min(len(data), LONGEST)):
        if 0x40 <= data[at] <= 0x7E:  # noqa: PLR2004 - the last byte of a sequence, after ECMA-48
            return at + 1
    return None if len(data) < LONGEST else LONGEST


def available() -> bool:
    """Tell whether there is a keyboard that is ours: a terminal, and we in its foreground."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


class Keyboard:
    """Keys as they are pressed, without echo, while the block lasts; without a terminal there are none."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno() if available() else None
        self._before: list[Any] | None = None
        self._held = b""
        self._closed = False

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)  # Ctrl-C stays what it is
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None and self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._descriptor, termios.TCSAFLUSH, self._before)

    def read(self, seconds: float) -> list[str]:
        """Wait at most so long for keys."""
        if self._descriptor is None or self._closed:
            time.sleep(seconds)
            return []
        wait = PATIENCE if self._held else seconds
        if not select.select([self._descriptor], [], [], wait)[0]:
            lone, self._held = self._held, b""
            return [NAMES[lone]] if lone in NAMES else []
        try:
            data = os.read(self._descriptor, 256)
        except OSError:
            data = b""
        if not data:  # nobody will ever type again
            self._closed = True
            return ["q"]
        keys, self._held = parse(self._held + data)
        return keys


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Let the signals that end a program end the block in order, with the exit code that a shell would tell.

    Ctrl-Z is not heeded: it would leave the terminal to others in our state.
    """
    before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGTSTP)}

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    try:
        for number in ENDING:
            if before[number] != signal.SIG_IGN:  # as nohup has it
                signal.signal(number, leave)
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
