"""Wait for blocked signals, without Python's own `sigtimedwait`: what that gives may be made up.

A process that is stopped and goes on (SIGSTOP and SIGCONT, a debugger, a freezer of the host) while it waits there, for
longer than it would have waited, is given the bytes that happened to lie on the stack in place of a signal (seen with
CPython 3.10 to 3.13): any number, from any process. Asked without waiting, it cannot be interrupted, and is right.
"""

from __future__ import annotations

import ctypes
import functools
import os
import select
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_WORD = 8 * ctypes.sizeof(ctypes.c_ulong)
_SET = ctypes.c_ulong * (1024 // _WORD)  # sigset_t, in glibc and musl


def wait(numbers: Collection[signal.Signals], seconds: float) -> Iterator[signal.struct_siginfo]:
    """Wait until one of these signals is pending, which must be blocked, or the time is over; give all that are."""
    descriptor = _watching(frozenset(numbers))
    if descriptor is None:
        time.sleep(seconds)
    else:
        select.select([descriptor], [], [], seconds)
    while (caught := signal.sigtimedwait(numbers, 0)) is not None:
        yield caught


@functools.cache
def _watching(numbers: frozenset[signal.Signals]) -> int | None:
    """Open a descriptor that is ready while one of them is pending; None where there is no such thing."""
    wanted = _SET()
    for number in numbers:
        wanted[(number - 1) // _WORD] |= 1 << (number - 1) % _WORD
    try:
        descriptor = int(ctypes.CDLL(None).signalfd(-1, ctypes.byref(wanted), os.O_CLOEXEC | os.O_NONBLOCK))
    except AttributeError:
        return None
    return descriptor if descriptor >= 0 else None
