"""Folders that a job must not write to: the system's, a home itself, our own rooms, its own model. Pure.

An output folder gets as many files as there are samples, and `fab fetch`, `verify` and the trainer take what they find
in it; a workdir is made private and cleaned. Neither may be a folder that is somebody else's.
"""

from __future__ import annotations

import posixpath
import re
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
# Of a home, these and anything below them: keys, tokens, programs.
_KEYS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".docker", ".kube", ".password-store", ".pki", ".config/gcloud",
    ".config/systemd", ".cache/huggingface", ".local/bin", ".local/lib",
)  # fmt: skip
# Of a home, these themselves: settings, data and caches of many programs.
_OF_MANY = (".config", ".cache", ".local", ".local/share", ".local/state")
_HOME = re.compile(r"(?:~|/root|/home/[^/]+)/(?P<below>.+)")
_ROOMS = ("bundles", "runs", "verdicts", "cache")


def check(job: Job, *, user: str | None, of_job: str, of_host: str) -> None:
    """See that output and workdir are folders of their own; raises UsageError, naming the place in the file."""
    workdir, python = _whole(job.workdir, user), _whole(job.python, user)
    if whose := _whose(workdir, python):
        raise UsageError(
            f"the workdir {job.workdir!r} {whose}", where=f"{of_host}.workdir",
            remedy="Name a folder for it, such as ~/.prudent-gate.",
        )  # fmt: skip
    if not job.output:
        return
    output, where = _whole(job.output, user), f"{of_job}.output"
    apart = "Name a folder that holds the samples and nothing else."
    if whose := _whose(output, python):
        raise UsageError(f"the output {job.output!r} {whose}", where=where, remedy=apart)
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


def _whose(path: str, python: str) -> str:
    """Say to whom a folder belongs that a job must not write to, "" where it may be the job's own."""
    system = any(_within(path, one) for one in _SYSTEM) and not (_within(path, _BELOW_DEV) and path != _BELOW_DEV)
    if path in _SHARED or system:
        return "is a folder of the system"
    if path == "~" or posixpath.dirname(path) == "/home":
        return "is a home, with all that is in it"
    if relied := _relied_on(path):
        return f"is in a folder that others rely on ({relied})"
    return f"is in the environment of {python}" if _of_environment(path, python) else ""


def _relied_on(path: str) -> str:
    """Name the folder of a home that others rely on and that a job would write to, "" where it is none."""
    found = _HOME.fullmatch(path)
    below = found["below"] if found else ""
    within = (one for one in _KEYS if _within(below, one))
    return next((f"~/{one}" for one in within), f"~/{below}" if below in _OF_MANY else "")


def _of_environment(path: str, python: str) -> bool:
    """Tell whether a folder is that of the job's own Python: nothing in its environment is written to."""
    programs = posixpath.dirname(python)
    environment = posixpath.dirname(programs)
    if posixpath.basename(programs) != "bin" or environment in {"", "/", "~"}:
        return False
    parts = (posixpath.join(environment, part) for part in ("bin", "include", "lib", "lib64"))
    return path == environment or any(_within(path, part) for part in parts)


def _whole(path: str, user: str | None) -> str:
    """Give a path without detours; a home whose place is not known stays `~`."""
    if path == "~" or path.startswith("~/"):
        home = {None: "~", "root": "/root"}.get(user, f"/home/{user}")
        path = posixpath.join(home, path[2:])
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
