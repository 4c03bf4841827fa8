"""The log of a run, bounded: its old bytes are let go, and every offset stays what it was.

The attempt's processes hold the log open and only append, so it can neither be renamed nor cut. Its old part is turned
into a hole instead (fallocate): the room is given back, the size and all offsets stay. `log.start` says where the kept
part begins, and is written before the hole is made: who reads bytes and then finds a later start read zeros.
"""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from remote import files, wire

if TYPE_CHECKING:
    from remote.paths import Run

PUNCH_HOLE, KEEP_SIZE = 2, 1  # of fallocate(2)
BLOCK = 4096
FAR = 1 << 32  # so far behind its end no log grows in a moment
SLACK = 8  # the log may be an eighth too long before it is cut again
_LIBC = ctypes.CDLL(None, use_errno=True)


def start(run: Run) -> int:
    """Give the offset of the first byte that is kept."""
    try:
        found = wire.parse(files.read(run.log_start))["start"]
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0  # garbled: nothing is known to be gone
    return found if type(found) is int and found >= 0 else 0


def trim(run: Run, keep: int) -> tuple[int, int] | None:
    """Let go of what is before the last `keep` bytes; gives the range that went, None when nothing did.

    Raises OSError where the file system cannot make holes, or is full.
    """
    try:
        size = Path(run.log).stat().st_size
    except FileNotFoundError:
        return None
    first = start(run)
    if size - first <= keep + max(BLOCK, keep // SLACK):
        return None
    last = (size - keep) // BLOCK * BLOCK
    if last <= first:
        return None
    descriptor = os.open(run.log, os.O_WRONLY)
    try:
        _punch(descriptor, size + FAR, BLOCK)  # harms nothing there, and tells whether it can be done at all
        files.replace(run.log_start, json.dumps({"start": last}).encode())
        _punch(descriptor, 0, last)
    finally:
        os.close(descriptor)
    return first, last


def _punch(descriptor: int, offset: int, length: int) -> None:
    done = _LIBC.fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, ctypes.c_int64(offset), ctypes.c_int64(length))
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
