"""What a safetensors file says of itself, from its first bytes: eight of length, then that much JSON, then the data."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LENGTH = 8
LARGEST_HEADER = 100_000_000  # the format's own limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """`data` are the bytes of tensors that the header promises, `needed` the size that the whole file must have."""

    size: int
    needed: int = 0
    data: int = 0
    tensors: frozenset[str] = frozenset()
    error: str | None = None

    @property
    def whole(self) -> bool:
        """Say whether the file is exactly what its header promises."""
        return self.error is None and self.size == self.needed


def read(path: str | os.PathLike[str]) -> Header:
    """Read a file's header; what is wrong with it is in `error`."""
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            first = file.read(LENGTH)
            length = int.from_bytes(first, "little")
            if (error := _bad_start(first, length, size)) is not None:
                return Header(size=size, error=error)
            return parse(file.read(length), size)
    except OSError as error:
        return Header(size=0, error=error.strerror or str(error))


def parse(text: bytes, size: int) -> Header:
    """Judge the JSON part of a file of `size` bytes."""
    try:
        entries: dict[str, Any] = json.loads(text)
        tensors = {name: entry for name, entry in entries.items() if name != "__metadata__"}
        data = max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError):
        return Header(size=size, error="its header cannot be read: damaged, or not written to the end")
    needed = LENGTH + len(text) + data
    error = None
    if size < needed:
        error = f"truncated: {size:,} bytes of the {needed:,} that its header promises"
    elif size > needed:
        error = f"longer than its header says: {size:,} bytes, not {needed:,}"
    return Header(size=size, needed=needed, data=data, tensors=frozenset(tensors), error=error)


def _bad_start(first: bytes, length: int, size: int) -> str | None:
    if size == 0:
        return "empty"
    if first == b"version ":
        return "a Git LFS pointer, not the file itself: fetch it with `git lfs pull`"
    if len(first) < LENGTH or not any(first):
        return "it does not begin with a safetensors header: not written yet, or damaged"
    if length > LARGEST_HEADER:
        return "it does not begin with a safetensors header"
    if LENGTH + length > size:
        return f"truncated: {size:,} bytes, in the middle of its header"
    return None
