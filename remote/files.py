"""Files that are never half there: replaced whole, or appended to by whole lines; plain ones alone are read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

LARGEST = 64 << 20  # bytes of a document that is read whole


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
    # Not through a buffer: it would keep what a full disk refused, and try to write that once more when it is closed.
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        write_all(descriptor, b"\n" * torn + line + b"\n")
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, or raise OSError: a disk that is full takes a part first and tells so only by the count."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


class NotPlain(OSError):
    """A pipe, a device, a socket or a folder stands where a file is looked for."""


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a plain file for reading; raises OSError. A pipe of that name must not make us wait, nor a device act."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _not_plain(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_plain(path)
    return os.fdopen(descriptor, "rb")


def _not_plain(path: str | os.PathLike[str]) -> NotPlain:
    return NotPlain(errno.EINVAL, "is no plain file", os.fspath(path))


def read(path: str | os.PathLike[str]) -> bytes:
    """Give what a plain file of a sane size holds; raises OSError."""
    with opened(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    return data


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
