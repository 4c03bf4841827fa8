"""A short folder for the sockets of a job's processes, removed with them: vLLM that is killed leaves its own behind.

The folder has a name that nobody can foresee, in the folder for temporary files, because a socket's whole path may have
no more than 107 bytes, and because not every file system that a workdir is on can hold one. Removed are the sockets in
a folder of that kind that is ours, and then the folder when it is empty: whatever name is given, nothing else.

Who makes one holds a lock on it for life. One that nobody holds was left by somebody who was killed before anybody knew
of it; neither a clock nor a number that the kernel gives out again is asked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import stat
import tempfile
from typing import TYPE_CHECKING

from remote import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remote.paths import Run

VARIABLE = "VLLM_RPC_BASE_PATH"
PREFIX = "pgs-"
MADE = re.compile(r"pgs-[a-z0-9_]{8}")
NOTED = re.compile(
    r"pgs?-[a-z0-9_]{8}"
)  # also by a run of before there were locks: nobody sweeps its folder, it may live
LONGEST = 107 - len("/7e57d004-2b97-4e7a-b45f-5387367791cd")  # bytes of the folder's path: vLLM adds such a name
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 3  # a folder that somebody sweeps away before we hold it is made anew
_held: dict[str, int] = {}  # the folders that this process has made, with the descriptors that lock them


def make(environment: dict[str, str]) -> str | None:
    """Make a folder and name it in an environment.

    None where the job has said where its sockets go, or where no short enough one can be made: they go there then.
    """
    place = _place(environment)
    if VARIABLE in environment or len(os.fsencode(place)) + len(f"/{PREFIX}12345678") > LONGEST:
        return None
    for _ in range(TRIES):
        try:
            made = tempfile.mkdtemp(prefix=PREFIX, dir=place)
        except OSError:
            return None
        if _hold(made):
            environment[VARIABLE] = made
            return made
    return None


def remove(folder: str | None) -> None:
    """Remove a folder that `make` has made, with the sockets in it."""
    if folder is None or not NOTED.fullmatch(os.path.basename(folder)):  # noqa: PTH119 - paths are text here
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, FOLDER)
        try:
            _remove(folder, descriptor)
        finally:
            os.close(descriptor)
    if (lock := _held.pop(folder, None)) is not None:
        os.close(lock)


def sweep_left(environment: Mapping[str, str]) -> None:
    """Remove what makers that are gone have left where `make` would make a folder, unless somebody still answers."""
    with contextlib.suppress(OSError):
        place = _place(environment)
        for name in os.listdir(place):  # noqa: PTH208 - as above
            if MADE.fullmatch(name):
                _take(os.path.join(place, name))  # noqa: PTH118 - as above


def _place(environment: Mapping[str, str]) -> str:
    return environment.get("TMPDIR") or tempfile.gettempdir()


def _hold(folder: str) -> bool:
    """Lock a folder that we have made for as long as we live; False where it was swept away meanwhile."""
    try:
        descriptor = os.open(folder, FOLDER)
    except OSError:
        return False
    with contextlib.suppress(OSError):  # where folders cannot be locked, nobody sweeps either
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):  # noqa: PTH116 - as above
            _held[folder] = descriptor
            return True
    os.close(descriptor)
    return False


def _take(folder: str) -> None:
    """Remove a folder that nobody holds."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, FOLDER)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            names = os.listdir(descriptor)  # noqa: PTH208 - of a descriptor: pathlib knows none
            if not any(_answers(descriptor, name) for name in names):
                _remove(folder, descriptor)
        finally:
            os.close(descriptor)


def _answers(descriptor: int, name: str) -> bool:
    """Tell whether somebody listens at a socket: what a killed owner has started may be finishing its work."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(0)
        try:
            asking.connect(f"/proc/self/fd/{descriptor}/{name}")
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _remove(folder: str, descriptor: int) -> None:
    if os.fstat(descriptor).st_uid == os.geteuid():
        _empty(descriptor)
        os.rmdir(folder)  # noqa: PTH106 - as above; follows no link, and takes nothing that is not empty


def _empty(descriptor: int) -> None:
    for name in os.listdir(descriptor):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=descriptor)


def note(run: Run, folder: str | None) -> None:
    """Note the folder of a run's attempt, for whoever comes when its supervisor was killed."""
    with contextlib.suppress(OSError):  # a full disk: the folder stays until the next launch
        if folder is not None:
            files.replace(run.sockets, os.fsencode(folder))


def sweep(run: Run) -> None:
    """Remove what a run's attempt has left, once nobody of it lives."""
    with contextlib.suppress(OSError):
        remove(os.fsdecode(files.read(run.sockets)))
        os.unlink(run.sockets)  # noqa: PTH108 - as above
