"""The frames of a stream, found in bytes however they are cut, whatever a login script wrote before the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from local import answers
from remote import wire
from remote.channel import FRAME, MARK

START = MARK + FRAME + b" "
LONGEST_HEADER = 1 << 20  # the end frame carries the exit document in its header
LARGEST_BODY = 64 << 20


class BadStream(ValueError):
    """The bytes are no frames: the stream is damaged or is not ours."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: `header` has at least `kind` and `size`."""

    header: dict[str, Any]
    body: bytes


class Frames:
    """Takes bytes as they come, gives whole frames."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._coming: list[bytes] = []  # of a body that is not whole yet: joined once, not at every piece
        self._more = 0  # bytes that the body still lacks
        self._header: dict[str, Any] | None = None
        self._begun = False

    def feed(self, data: bytes) -> list[Frame]:
        """Give the frames that are whole by now; raises BadStream, once what was whole before the damage is given."""
        self._coming.append(data)
        self._more -= len(data)
        if self._more > 0:
            return []
        self._held += b"".join(self._coming)
        self._coming.clear()
        found: list[Frame] = []
        try:
            while (frame := self._next()) is not None:
                found.append(frame)
        except BadStream:
            if not found:
                raise
        return found

    def _next(self) -> Frame | None:
        if self._header is None:
            self._header = self._take_header()
        if self._header is None:
            return None
        size = self._header["size"]
        if (lacking := size - len(self._held)) > 0:
            self._more = lacking
            return None
        with memoryview(self._held) as held:
            frame = Frame(self._header, bytes(held[:size]))
        del self._held[:size]
        self._header = None
        return frame

    def _take_header(self) -> dict[str, Any] | None:
        if not self._find_start():
            return None
        end = self._held.find(b"\n")
        if end < 0:
            if len(self._held) > LONGEST_HEADER:
                raise BadStream("a frame's header does not end")
            return None
        header = _header(bytes(self._held[len(START) : end]))
        del self._held[: end + 1]
        return header

    def _find_start(self) -> bool:
        """Drop what stands before the first frame; after it, frames follow each other without a gap."""
        if self._begun:
            if not self._held.startswith(START[: len(self._held)]):
                raise BadStream(f"a frame was due, not {bytes(self._held[:40])!r}")
            return len(self._held) >= len(START)
        at = self._held.find(START)
        if at < 0:
            del self._held[: max(0, len(self._held) - len(START))]  # the start may have come in part
            return False
        del self._held[:at]
        self._begun = True
        return True


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = answers.sound(wire.parse(line), "header")
    except ValueError as error:
        raise BadStream(f"a frame's header is no JSON: {line[:80]!r}") from error
    size = header.get("size") if isinstance(header, dict) else None
    if type(size) is not int or not 0 <= size <= LARGEST_BODY:
        raise BadStream(f"a frame's header has no sane size: {line[:80]!r}")
    return dict(header)
