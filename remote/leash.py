"""What holds a child: when whoever asked it is gone, it ends, with all that it has started.

An asker ends its child in every way of ending that it can still act in. Killed itself, as where memory is short, it
cannot: a rehearsal would go on for minutes that nobody listens to, and hold the GPUs against the next gate.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

from remote.host import sockets

if TYPE_CHECKING:
    from collections.abc import Callable

ASKER_ENV = "PRUDENT_GATE_ASKER"
LOOK = 1.0  # seconds between two looks


def hold(tidy: Callable[[], object] = lambda: None) -> None:
    """In the child: end with the asker; `tidy` is done before, for what a killed process leaves behind."""
    asker = os.environ.get(ASKER_ENV, "")
    if asker.isdigit() and os.getpgrp() == os.getpid():  # ours to end as a whole
        threading.Thread(target=_watch, args=(int(asker), tidy), name="leash", daemon=True).start()


def _watch(asker: int, tidy: Callable[[], object]) -> None:
    while os.getppid() == asker:
        time.sleep(LOOK)
    with contextlib.suppress(Exception):  # whatever it is, the end must come
        tidy()
    sockets.remove(os.environ.get(sockets.VARIABLE))
    os.killpg(os.getpid(), signal.SIGKILL)
