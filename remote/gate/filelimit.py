"""Whether a sample's file may be as large as the job makes it: `ulimit -f` cuts it off in the middle of a run."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from remote.gate.estimate import human
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


def here() -> int:
    """Give the bytes that a file may have which this session writes; -1 for no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return -1 if soft == resource.RLIM_INFINITY else soft


def findings(largest: int, limit: int, output: str) -> Iterator[Finding]:
    """Give the finding about samples that are larger than files may be."""
    if 0 <= limit < largest:
        yield Finding(
            rule="output-file-limit",
            file=output,
            message=f"the largest sample takes about {human(largest)}, and this session may write files of at most "
            f"{human(limit)} (`ulimit -f`): it would fail on them, after the load. Raise `fsize` in "
            "/etc/security/limits.conf (or in the container's `--ulimit`) and connect anew.",
        )
