"""What `fab` does before it reads its own rooms: Ctrl-C leaves without a word, mistakes are told in one line.

Until the executor takes over, Invoke would leave with code 1, which is an error's. What is read before the fabfile
(Python, Fabric) is not ours: Ctrl-C within that time (0.2 s, on a busy machine seconds) shows Python's own traceback.
Between the fabfile and the executor Fabric reads the file of `-S`: what it raises then is a mistake of the user.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType, TracebackType

INTERRUPTED = 130
MISTAKEN = 2
UNWRITTEN, UNREAD = 1, 141
SELDOM = (50_000, 20, 50)  # objects, and collections of the younger, between two collections


def leave_quietly() -> None:
    """Let Ctrl-C end `fab` at once; whoever else reads the fabfile, or has SIGINT ignored, keeps what there is."""
    if _ours() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def tell_mistakes() -> None:
    """Let what Fabric cannot start with be told in a line, as every mistake of the command line is."""
    if _ours() and not os.environ.get("PRUDENT_GATE_DEBUG"):
        sys.excepthook = _tell
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # a list that cannot be written fails here, not at Python's end


def collect_seldom() -> None:
    """Let `fab` look seldom for garbage: a sixth of a short command's time went into looking through its modules."""
    if _ours():
        gc.freeze()
        gc.set_threshold(*SELDOM)


def take_over() -> None:
    """Let Ctrl-C be an exception from here on, and an exception what it is."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.excepthook is _tell:
        sys.excepthook = sys.__excepthook__


def _ours() -> bool:
    return PurePath(sys.argv[0]).name == "fab" and threading.current_thread() is threading.main_thread()


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(INTERRUPTED)  # nothing was begun or printed, and an exception in an import would be told as its failure


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    del trace
    if isinstance(error, OSError) and error.filename is None:  # of no file: `fab --list` and `--help` only write
        _tell_output(error)
    what = (
        repr(str(error.filename)) + f": {error.strerror}" if isinstance(error, OSError) else f"{kind.__name__}: {error}"
    )
    sys.stderr.write(f"error  fab cannot start: {' '.join(what.split())}\n")
    sys.stderr.write(
        "       Is -S the right file, and one that Fabric can read? PRUDENT_GATE_DEBUG=1 shows where it stopped.\n"
    )
    sys.stderr.flush()
    os._exit(MISTAKEN)


def _tell_output(error: OSError) -> None:
    """Leave as a task does whose standard output nobody reads, or which cannot be written."""
    if isinstance(error, BrokenPipeError):
        os._exit(UNREAD)
    sys.stderr.write(f"error  standard output cannot be written: {error.strerror or error}\n")
    sys.stderr.flush()
    os._exit(UNWRITTEN)
