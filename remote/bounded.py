"""Computing that may take for ever, interrupted: a user's regular expression can need years for one line.

Python's matching looks for signals on its way, so a timer ends it from within. The timer counts the processor time of
this process: neither a busy host nor a laptop's sleep makes a harmless pattern look like a bad one.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class Overrun(Exception):
    """The time was over before the work was done."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Overrun in the block when it computes for longer; only a process's main thread can be bounded so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    bounding = True

    def over(_number: int, _frame: FrameType | None) -> None:
        if bounding:
            raise Overrun(f"not done within {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        bounding = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
