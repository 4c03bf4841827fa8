"""Whether a worker may map its weights: `ulimit -v` ends it while it loads, and no tiny model comes near it."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from remote.gate import fits
from remote.gate.estimate import human
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.model.model_folder import ModelFolder
    from remote.schema import Job


def here() -> int:
    """Give the bytes that a process of this session may map; -1 for no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return -1 if soft == resource.RLIM_INFINITY else soft


def findings(job: Job, model: ModelFolder, limit: int) -> Iterator[Finding]:
    """Give the finding about weights that are more than a worker may map: a file at a time, on a CPU all of its own."""
    wanted = set(model.index.values()) if model.index is not None else set(model.headers)
    largest = max((header.size for name, header in model.headers.items() if name in wanted), default=0)
    mapped = max(largest, fits.each(job, model) if job.device == "cpu" else 0)
    if 0 <= limit < mapped:
        yield Finding(
            rule="weights-memory-limit",
            file=model.path,
            message=f"a worker maps at least {human(mapped)} of weights, and a process of this session may map "
            f"{human(limit)} (`ulimit -v`): it would end while it loads. Raise `as` in /etc/security/limits.conf (or "
            "in the container's `--ulimit`; look for `ulimit` in the shell's start-up files, too) and connect anew.",
        )
