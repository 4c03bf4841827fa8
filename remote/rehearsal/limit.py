"""A limit on time for what may hang: says where the main thread stands when it is up, and lets the answer out.

Also what it takes to leave nothing behind then: the shared memory that this process has made has no other keeper.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from remote.host import shared_memory
from remote.rehearsal.blame import Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def limit(seconds: float, time_is_up: Callable[[list[Frame]], None]) -> Iterator[None]:
    """Call `time_is_up` with the main thread's stack, outermost frame first, from a thread of its own."""
    over = threading.Event()
    main = threading.get_ident()

    def watch() -> None:
        if not over.wait(seconds):
            time_is_up(stack_of(main))

    watcher = threading.Thread(target=watch, name="rehearsal-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def stack_of(thread: int) -> list[Frame]:
    """Give where a thread stands, outermost frame first."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented, for debuggers
    return [Frame(one.filename, one.lineno or 0) for one in traceback.extract_stack(frame)] if frame else []


def forget_shared_memory() -> None:
    """Unlink the shared memory that this process and its workers have mapped: who is killed cannot do it."""
    for name in shared_memory.of_session(os.getpid()) | shared_memory.of_processes([os.getpid()]):
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - one system call
