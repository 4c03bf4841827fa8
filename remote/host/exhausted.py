"""Which limit of this session an exception's words speak of: a library says what it did not get, never why."""

from __future__ import annotations

import os
import re
import resource
from typing import NamedTuple

GIB, MIB = 2**30, 2**20


class Kind(NamedTuple):
    """Words by which a used-up limit is known (any case); what it limits, with a place for the number; its names."""

    words: str
    number: int
    what: str
    flag: str
    name: str


KINDS = (
    Kind(
        r"failed to map segment|cannot allocate memory|memory ?error|bad_alloc|\b(?:mmap|map) .{0,40}failed",
        resource.RLIMIT_AS,
        "a process of this session may map {size} of memory",
        "-v",
        "as",
    ),
    Kind(
        r"too many open files|\bEMFILE\b",
        resource.RLIMIT_NOFILE,
        "a process of this session may open {count} files",
        "-n",
        "nofile",
    ),
    Kind(
        r"can't start new thread|\[Errno 11\]|pthread_create|thread creation failed|(?:cannot|unable to) fork",
        resource.RLIMIT_NPROC,
        "this user may have {count} processes and threads",
        "-u",
        "nproc",
    ),
)


def told(words: str) -> str:
    """Give a clause on the limit that the words may come from, with its number and remedy; nothing where there is none.

    Memory and processes may be wanting for other reasons: only a limit that is set is named.
    """
    for kind in KINDS:
        soft = _limit(kind.number)
        if soft is not None and re.search(kind.words, words, re.IGNORECASE):
            what = kind.what.format(size=_size(soft), count=soft)
            return (
                f"; {what} (`ulimit {kind.flag}`): raise `{kind.name}` in /etc/security/limits.conf (or in the "
                "container's `--ulimit`; look for `ulimit` in the shell's start-up files, too) and connect anew"
            )
    return ""


def _limit(number: int) -> int | None:
    """Give a limit that is set and holds for this user: of processes, root has as many as there are."""
    soft, _ = resource.getrlimit(number)
    free = soft == resource.RLIM_INFINITY or (number == resource.RLIMIT_NPROC and os.geteuid() == 0)
    return None if free else soft


def _size(value: int) -> str:
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.0f} MiB"
