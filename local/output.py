"""Standard output while a command runs: whatever the locale, and told in our words when it cannot be written."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any

from local.errors import PrudentError

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputGone(PrudentError):
    """Nobody reads our standard output any more (`fab logs | head`): the end of the command, and no fault."""

    exit_code = 141  # as the shell says of a program that SIGPIPE has ended


class OutputFailed(PrudentError):
    """Standard output cannot be written."""


class Guarded:
    """A stream whose failed writes are ours to tell; all else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> Guarded:
        """Give the binary stream below, guarded as well."""
        return Guarded(self._stream.buffer)

    def write(self, data: Any) -> int:
        """Write; raises OutputGone or OutputFailed."""
        with self._told():
            return int(self._stream.write(data))

    def flush(self) -> None:
        """Flush; raises OutputGone or OutputFailed."""
        with self._told():
            self._stream.flush()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _give_up_on(self._stream)
            if isinstance(error, BrokenPipeError):
                raise OutputGone("nobody reads standard output any more") from error
            raise OutputFailed(
                f"standard output cannot be written: {error.strerror or error}",
                remedy="Make room where it goes, or send it elsewhere; nothing on the hosts is lost.",
            ) from error


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Let both standard streams take any text, absent ones included, and guard standard output."""
    out, err = sys.stdout, sys.stderr
    try:
        sys.stdout, sys.stderr = Guarded(_ready(out)), _ready(err)
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = out, err


def _ready(stream: Any) -> Any:
    """Give a stream that takes any text: what its encoding lacks is written as an escape."""
    if stream is None:  # closed by whoever started us
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives as long as this process
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _give_up_on(stream: Any) -> None:
    """Send what is still held to nowhere, or Python would complain of it at its end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
