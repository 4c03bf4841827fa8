"""Files that are never half there: replaced whole, or appended to by whole lines."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, mode: int = 0o600, suffix: str = ".tmp") -> Iterator[BinaryIO]:
    """Give a file that takes `path`'s place, whole and durable, when the block ends well; else nothing changes."""
    target = Path(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=suffix)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, target)  # noqa: PTH105 - the function whose guarantee we rely on
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108
        raise
    sync_folder(target.parent)


def replace(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o600) -> None:
    """Put `data` in place of the file, whole and durable."""
    with replacing(path, mode=mode) as file:
        file.write(data)


def append_line(path: str | os.PathLike[str], line: bytes, *, durable: bool = True) -> None:
    """Append one line with one write; a torn last line of an earlier crash is closed first."""
    with open(path, "a+b", opener=_private) as file:
        if file.tell() and not _ends_line(file):
            line = b"\n" + line
        file.write(line + b"\n")
        file.flush()
        if durable:
            os.fsync(file.fileno())


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ends_line(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
