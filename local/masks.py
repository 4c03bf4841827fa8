"""Secrets in what is shown: masked as remote.masks knows them, whatever pieces they come in.

`too_short` names the secrets that cannot be masked, so that the user is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from remote.masks import between, mask, mask_bytes, mask_torn, shapes, shapes_of_bytes, within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

KEPT = 4  # times the longest secret: so much of a line without end is held

__all__ = ["MaskedLog", "MaskedText", "mask", "mask_bytes", "mask_torn", "shapes", "too_short", "within"]


def too_short(secrets: Mapping[str, str]) -> tuple[str, ...]:
    """Name the secrets that cannot be masked."""
    return tuple(name for name, value in secrets.items() if not shapes((value,)))


class MaskedLog:
    """A log on its way to the screen, with secrets masked; a line is held until it is whole, or too long.

    `torn`: it does not begin where a line begins, so that its first line may begin within a secret. Its end may be
    within one as well, since a job is at work on its last line or was killed there.
    """

    LONGEST = 1 << 16

    def __init__(self, secrets: Iterable[str], sink: Callable[[bytes], None], *, torn: bool = False) -> None:
        self._secrets = tuple(secrets)
        self._longest = max(map(len, shapes_of_bytes(self._secrets)), default=0)
        self._sink = sink
        self._torn = torn
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Pass on what is whole by now."""
        if not self._longest:
            self._sink(data)
            return
        self._held += data
        end = max(self._held.rfind(b"\n"), self._held.rfind(b"\r")) + 1
        if len(self._held) - end > self.LONGEST + KEPT * self._longest:
            # A secret may have come in part, with colours between its letters.
            end = between(self._held, self._secrets, len(self._held) - KEPT * self._longest)
        whole, self._held = self._held[:end], self._held[end:]
        self._pass(whole)

    def skip(self) -> None:
        """Note that what comes next does not follow on what has come: bytes are missing."""
        self.finish()
        self._torn = True

    def finish(self) -> None:
        """Pass on the last line."""
        held, self._held = self._held, b""
        self._pass(held, end=True)

    def _pass(self, data: bytes, *, end: bool = False) -> None:
        if data:
            start, self._torn = self._torn, False
            self._sink(mask_bytes(data, self._secrets, start=start, end=end))


class MaskedText:
    """A text stream that masks secrets (those that are known by then) in whatever is written."""

    def __init__(self, stream: TextIO, secrets: Collection[str]) -> None:
        self._stream = stream
        self._secrets = secrets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text, masked."""
        self._stream.write(mask(text, self._secrets))
        return len(text)
