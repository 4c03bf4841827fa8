"""Folders that a job must not write to: the system's, a home itself, our own rooms, its own model. Pure.

An output folder gets as many files as there are samples, and `fab fetch`, `verify` and the trainer take what they find
in it; a workdir is made private and cleaned. Neither may be a folder that is somebody else's.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from local.errors import UsageError

if TYPE_CHECKING:
    from remote.schema import Job

ROOT = "/"
# Never these themselves: what is in them belongs to many.
_SHARED = {
    ROOT, "/home", "/root", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp", "/tmp", "/opt", "/srv", "/mnt",  # noqa: S108
    "/media", "/run", "/dev/shm",  # noqa: S108
}  # fmt: skip
# Neither these nor anything below them.
_SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr/bin", "/usr/lib", "/usr/sbin",
    "/var/lib/dpkg", "/var/run",
)  # fmt: skip
_BELOW_DEV = "/dev/shm"  # noqa: S108 - memory as a folder
_ROOMS = ("bundles", "runs", "verdicts", "cache")


def check(job: Job, *, user: str | None, of_job: str, of_host: str) -> None:
    """See that output and workdir are folders of their own; raises UsageError, naming the place in the file."""
    workdir = _whole(job.workdir, user)
    _alone(job.workdir, workdir, "workdir", f"{of_host}.workdir", "Name a folder for it, such as ~/.prudent-gate.")
    if not job.output:
        return
    output, where = _whole(job.output, user), f"{of_job}.output"
    apart = "Name a folder that holds the samples and nothing else."
    _alone(job.output, output, "output", where, apart)
    rooms = [posixpath.join(workdir, room) for room in _ROOMS]
    if output == workdir or any(_within(output, room) for room in rooms):
        raise UsageError(
            f"the output {job.output!r} is in the workdir {job.workdir!r}, which is cleaned", where=where, remedy=apart
        )
    if _within(workdir, output):
        raise UsageError(f"the workdir {job.workdir!r} is in the output {job.output!r}", where=where, remedy=apart)
    for what, path in (("model", job.model), ("dataset", job.dataset)):
        if path and output == _whole(path, user):
            raise UsageError(f"the output {job.output!r} is the {what} itself", where=where, remedy=apart)


def _alone(said: str, path: str, what: str, where: str, remedy: str) -> None:
    """See that a folder is neither the system's nor a home."""
    system = any(_within(path, one) for one in _SYSTEM) and not (_within(path, _BELOW_DEV) and path != _BELOW_DEV)
    if path in _SHARED or system:
        raise UsageError(f"the {what} {said!r} is a folder of the system", where=where, remedy=remedy)
    if path == "~" or posixpath.dirname(path) == "/home":
        raise UsageError(f"the {what} {said!r} is a home, with all that is in it", where=where, remedy=remedy)


def _whole(path: str, user: str | None) -> str:
    """Give a path without detours; a home whose place is not known stays `~`."""
    if path == "~" or path.startswith("~/"):
        home = {None: "~", "root": "/root"}.get(user, f"/home/{user}")
        path = posixpath.join(home, path[2:])
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
