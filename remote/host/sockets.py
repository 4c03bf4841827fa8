"""A short folder for the sockets of a job's processes, removed with them: vLLM that is killed leaves its own behind.

The folder has a name that nobody can foresee, in the folder for temporary files, because a socket's whole path may have
no more than 107 bytes, and because not every file system that a workdir is on can hold one. Removed are the sockets in
a folder of that kind that is ours, and then the folder when it is empty: whatever name is given, nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from typing import TYPE_CHECKING

from remote import files

if TYPE_CHECKING:
    from remote.paths import Run

VARIABLE = "VLLM_RPC_BASE_PATH"
PREFIX = "pg-"
MADE = re.compile(r"pg-[a-z0-9_]{8}")
LONGEST = 107 - len("/7e57d004-2b97-4e7a-b45f-5387367791cd")  # bytes of the folder's path: vLLM adds such a name


def make(environment: dict[str, str]) -> str | None:
    """Make a folder and name it in an environment.

    None where the job has said where its sockets go, or where no short enough one can be made: they go there then.
    """
    place = environment.get("TMPDIR") or tempfile.gettempdir()
    if VARIABLE in environment or len(os.fsencode(place)) + len(f"/{PREFIX}12345678") > LONGEST:
        return None
    try:
        environment[VARIABLE] = made = tempfile.mkdtemp(prefix=PREFIX, dir=place)
    except OSError:
        return None
    return made


def remove(folder: str | None) -> None:
    """Remove a folder that `make` has made, with the sockets in it."""
    if folder is None or not MADE.fullmatch(os.path.basename(folder)):  # noqa: PTH119 - paths are text here
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                _empty(descriptor)
                os.rmdir(folder)  # noqa: PTH106 - as above; follows no link, and takes nothing that is not empty
        finally:
            os.close(descriptor)


def _empty(descriptor: int) -> None:
    for name in os.listdir(descriptor):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=descriptor)


def note(run: Run, folder: str | None) -> None:
    """Note the folder of a run's attempt, for whoever comes when its supervisor was killed."""
    with contextlib.suppress(OSError):  # a full disk: a few empty folders may stay
        if folder is not None:
            files.replace(run.sockets, os.fsencode(folder))


def sweep(run: Run) -> None:
    """Remove what a run's attempt has left, once nobody of it lives."""
    with contextlib.suppress(OSError):
        remove(os.fsdecode(files.read(run.sockets)))
        os.unlink(run.sockets)  # noqa: PTH108 - as above
