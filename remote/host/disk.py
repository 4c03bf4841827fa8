"""The file systems that a job's paths are on, memory, and processors."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
from pathlib import Path

from remote.host import trial
from remote.schema import Disk


def disk(path: str, tried: dict[int, str] | None = None, *, ours: bool = True) -> Disk:
    """Tell the file system of a path, which need not exist yet; free is what we may use, not what root may.

    `tried` keeps what was found to be lacking, by device: several paths on one need but one trial, and none where a run
    of ours writes nothing.
    """
    target = Path(path).expanduser()
    nearest = _nearest(target)
    room = os.statvfs(nearest)
    total, free = _bytes(room)
    blocked = _blocked(target)
    writable = not blocked and _writable(nearest)
    return Disk(
        path=path,
        nearest=str(nearest),
        total=total,
        free=free,
        inodes_free=room.f_favail if room.f_files else sys.maxsize,  # some file systems (btrfs) have no such limit
        writable=writable,
        exists=exists(path),
        lacks=_lacks(nearest, {} if tried is None else tried) if writable and ours else "",
        blocked=blocked,
    )


def _lacks(folder: Path, tried: dict[int, str]) -> str:
    try:
        device = folder.stat().st_dev
    except OSError:  # gone meanwhile
        return ""
    if device not in tried:
        tried[device] = trial.lacks(folder)
    return tried[device]


def exists(path: str) -> bool:
    """Tell whether a path is there for us; what may not be looked at is not."""
    return os.path.exists(Path(path).expanduser())  # noqa: PTH110 - unlike Path.exists, it never raises


def shm_free() -> int:
    """Give the bytes free in /dev/shm, where NCCL and worker queues live; 0 where there is none."""
    return _shm()[1]


def shm_total() -> int:
    """Give the size of /dev/shm; 0 where there is none."""
    return _shm()[0]


def limits() -> dict[str, int]:
    """Give what this session may use, as its jobs inherit it; -1 is no limit."""
    names = {
        "nofile": resource.RLIMIT_NOFILE, "memlock": resource.RLIMIT_MEMLOCK, "nproc": resource.RLIMIT_NPROC,
        "fsize": resource.RLIMIT_FSIZE, "as": resource.RLIMIT_AS, "cpu": resource.RLIMIT_CPU,
    }  # fmt: skip
    found: dict[str, int] = {}
    for name, number in names.items():
        soft, hard = resource.getrlimit(number)
        found[name] = -1 if soft == resource.RLIM_INFINITY else soft
        found[f"{name}_hard"] = -1 if hard == resource.RLIM_INFINITY else hard
    return found


def memory_total() -> int:
    """Give the bytes of memory of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cpus() -> int:
    """Give the processors that we may use (a container may have fewer than the machine)."""
    return len(os.sched_getaffinity(0))


def boot_id() -> str:
    """Name this boot of the machine; a pid means something only together with it."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _shm() -> tuple[int, int]:
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")  # noqa: S108 - the place itself is asked for
        return _bytes(room)
    return 0, 0


def _bytes(room: os.statvfs_result) -> tuple[int, int]:
    """Give size and free bytes."""
    if not room.f_blocks:  # it counts none (ramfs, a tmpfs without limit), and has no such limit
        return sys.maxsize, sys.maxsize
    return room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize


def _nearest(path: Path) -> Path:
    """Give the deepest folder of the path that exists."""
    for folder in (path, *path.parents):
        with contextlib.suppress(OSError):
            if folder.is_dir():
                return folder
    return Path("/")


def _blocked(path: Path) -> str:
    """Name what is on the way to a path, itself included, and no folder; nothing where there is no such thing."""
    met = next((place for place in (path, *path.parents) if os.path.lexists(place)), Path("/"))
    return "" if met.is_dir() else str(met)


def _writable(folder: Path) -> bool:
    """Make a file: permissions, read-only mounts, quotas and root-squash say no in their own ways."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
            file.flush()
    except OSError:
        return False
    return True
