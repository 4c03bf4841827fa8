"""What the kernel says of processes that it killed for lack of memory."""

from __future__ import annotations

import contextlib
import os
import re

_KILLED = re.compile(rb"[Oo]ut of memory: Killed process (\d+) ")
RECORD = 8192  # no record of the kernel's buffer is longer


def killed(pid: int) -> bool:
    """Tell whether the kernel's log says that it killed this process; False, too, where it may not be read."""
    with contextlib.suppress(OSError):
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            return any(pid in found for found in _records(descriptor))
        finally:
            os.close(descriptor)
    return False


def of(record: bytes) -> set[int]:
    """Give the processes whose killing a record tells."""
    return {int(found) for found in _KILLED.findall(record)}


def _records(descriptor: int) -> list[set[int]]:
    """Read the buffer to its present end; a record that is overwritten while we read is passed over."""
    found: list[set[int]] = []
    with contextlib.suppress(BlockingIOError):
        while True:
            with contextlib.suppress(BrokenPipeError):
                found.append(of(os.read(descriptor, RECORD)))
    return found
