"""The wire form of SSH, read field by field."""

from __future__ import annotations

import struct

LENGTH = 4  # bytes of a field's length


class Fields:
    """Reads strings and numbers one after the other; raises struct.error where they end too early."""

    def __init__(self, blob: bytes) -> None:
        self._left = blob

    def string(self) -> bytes:
        """Give the next string."""
        (size,) = struct.unpack_from(">I", self._left)
        if size > len(self._left) - LENGTH:
            raise struct.error("a field is cut off")
        value, self._left = self._left[LENGTH : LENGTH + size], self._left[LENGTH + size :]
        return value

    def skip(self, strings: int) -> None:
        """Pass over strings."""
        for _ in range(strings):
            self.string()

    def number(self, size: int) -> int:
        """Give the next number of `size` bytes."""
        if size > len(self._left):
            raise struct.error("a number is cut off")
        value, self._left = int.from_bytes(self._left[:size]), self._left[size:]
        return value
