"""Verb `send`: output files as frames, from byte offsets: the manifest, and samples `data_<n>.pt`, nothing else.

Frames are told in docs/wire.md ("Sending"). Names are made here from numbers, files are opened below the output folder
without following links, and only plain files are sent: what else lies there under such a name is told as `not`.
"""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from remote.paths import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.channel import Channel
    from remote.schema import SendRequest

CHUNK = 1 << 16  # what a reader gets at once: larger frames are put together at a cost, smaller ones save nothing


class _Unfit(Exception):
    """A file that is not sent; the message says why."""


def stream(request: SendRequest, channel: Channel) -> None:
    """Send what was asked for, then an end; a reader that has gone away ends the stream at the next frame."""
    try:
        channel.frame({"kind": "end", **_send(request, channel)})
    except BrokenPipeError:
        return


def _send(request: SendRequest, channel: Channel) -> dict[str, str]:
    try:
        folder = os.open(request.output, os.O_RDONLY | os.O_DIRECTORY)
    except (OSError, ValueError) as error:
        return {"error": f"the output folder {request.output} cannot be opened ({_why(error)})"}
    try:
        for name, offset in _wanted(request):
            _file(channel, folder, name, offset)
    finally:
        os.close(folder)
    return {}


def _wanted(request: SendRequest) -> Iterator[tuple[str, int]]:
    output = Output(PurePosixPath(request.output))
    if request.manifest:
        yield output.manifest.name, 0
    for index in request.indices:
        yield output.sample(index).name, max(0, request.offsets.get(str(index), 0))


def _file(channel: Channel, folder: int, name: str, offset: int) -> None:
    """Send one file from an offset to the size that it had when it was opened."""
    try:
        descriptor, size = _open(folder, name)
    except _Unfit as error:
        channel.frame({"kind": "not", "file": name, "why": str(error)})
        return
    try:
        _bytes(channel, descriptor, name, min(offset, size), size)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        channel.frame({"kind": "not", "file": name, "why": f"cannot be read ({_why(error)})"})
    finally:
        os.close(descriptor)


def _bytes(channel: Channel, descriptor: int, name: str, at: int, size: int) -> None:
    """Send data frames, one at least: each says the whole size of the file."""
    while True:
        data = os.pread(descriptor, min(CHUNK, size - at), at)
        channel.frame({"kind": "data", "file": name, "offset": at, "of": size}, data)
        at += len(data)
        if at >= size or not data:  # no data before the size is reached: it was cut meanwhile
            return


def _open(folder: int, name: str) -> tuple[int, int]:
    """Open a plain file of the folder itself; a pipe of that name must not make us wait."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        raise _Unfit(f"cannot be opened ({_why(error)})") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise _Unfit("is no plain file")
    return descriptor, found.st_size


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
