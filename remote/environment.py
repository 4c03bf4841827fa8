"""The one place that makes the environment of a job's processes: probes and attempts see exactly the same."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from remote import bytecode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remote.paths import Bundle
    from remote.schema import Job

# What the session may bring along; everything else that a job's processes see is said by the job.
KEPT = (
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM",
    "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
)  # fmt: skip
DEFAULTS = {
    "PYTHONUNBUFFERED": "1",  # the log streams while it is written
    "PYTHONUTF8": "1",  # sessions have no LANG
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # workers start clean, with the overlay first on their path
    "VLLM_NO_USAGE_STATS": "1",
}


def job_environment(
    job: Job, bundle: Bundle, *, secrets: Mapping[str, str] | None = None, marks: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Give the environment of a process of the job: the session's basics, our defaults, the job's, the overlay."""
    merged = {**session({**DEFAULTS, **job.env}), **(secrets or {}), **(marks or {})}
    merged["PATH"] = _search_path(job, merged)
    merged["PYTHONPATH"] = ":".join(
        part for part in (str(bundle.overlay), str(bundle.payload), job.env.get("PYTHONPATH", "")) if part
    )
    # Bytecode goes to a cache of ours: the installed packages are never written to, and no process compiles them twice.
    merged["PYTHONPYCACHEPREFIX"] = str(bytecode.home(job.workdir))
    return merged


def session(said: Mapping[str, str]) -> dict[str, str]:
    """Give what the session brings along, with what is said about it."""
    return {name: value for name in KEPT if (value := os.environ.get(name)) is not None} | dict(said)


def _search_path(job: Job, environment: Mapping[str, str]) -> str:
    """Give PATH with the environment's own programs first, then CUDA's, then what the session has."""
    first = [str(PurePosixPath(job.python).parent)]
    if cuda := environment.get("CUDA_HOME"):
        first.append(f"{cuda}/bin")
    rest = environment.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return ":".join([*first, rest])
