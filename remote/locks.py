"""The lock on an output folder: one run at a time, held by the supervisor for life, released by the kernel.

`launch` takes it and hands the open descriptor down to the supervisor, so there is no moment at which a second
launch could slip between. The file says who holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remote import files, wire

if TYPE_CHECKING:
    from remote.paths import Output


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds an output folder."""

    run: str
    workdir: str


def take(output: Output) -> int | None:
    """Take the lock; gives its descriptor, None when somebody holds it. Raises OSError."""
    while True:
        descriptor = os.open(output.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        if _still_there(descriptor, output):
            return descriptor
        os.close(descriptor)  # the file was removed while we took it: what we hold guards nothing


def sign(descriptor: int, holder: Holder) -> None:
    """Say in the lock's file who holds it."""
    data = json.dumps({"run": holder.run, "workdir": holder.workdir}).encode()
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    files.write_all(descriptor, data)


def held(output: Output) -> bool | None:
    """Tell whether somebody holds the lock now, None where that cannot be known; a launch at this moment asks again."""
    try:
        descriptor = os.open(output.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(descriptor)


def holder(output: Output) -> Holder | None:
    """Give who signed last, None when nobody did or the file is half there."""
    try:
        data = wire.parse(files.read(output.lock)[:4096])
        return Holder(str(data["run"]), str(data["workdir"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _still_there(descriptor: int, output: Output) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), Path(output.lock).stat())
    return False
