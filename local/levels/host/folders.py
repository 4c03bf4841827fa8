"""The folders that libraries write to without being told: temporary files, and the caches in a user's home. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.levels.host.words import MIB, size
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.schema import Disk, HostFacts, Job

TEMPORARY_LEAST, TEMPORARY_LOW = 16 * MIB, 512 * MIB
FILES_LEAST = 100
CACHES_LOW = 256 * MIB
CACHES = ("XDG_CACHE_HOME", "HF_HOME")  # who names both has thought of it


def findings(facts: HostFacts, job: Job) -> Iterator[Finding]:
    """Judge the folder for temporary files, and the home."""
    if "temporary" in facts.disks:
        yield from _temporary(facts.disks["temporary"], facts.disks.get("instead"))
    if "home" in facts.disks and not all(name in job.env for name in CACHES):
        yield from _home(facts.disks["home"])


def _temporary(named: Disk, instead: Disk | None) -> Iterator[Finding]:
    """Judge the folder that is named; Python takes another one where it can, compilers do not."""
    if named.exists and named.writable:
        yield from _room(named)
        return
    why = f"no temporary file can be made in {named.path} ({'it takes none' if named.exists else 'it is not there'})"
    remedy = "make it a folder that this user may write, or name another one as TMPDIR under `env` in the inventory"
    if instead is None:
        why += ", nor in /tmp and /var/tmp: nothing of the job would start"
    else:
        why += f": Python takes {instead.path} in its place, compilers of kernels may end"
    yield Finding(
        rule="temporary-not-writable",
        severity="error" if instead is None else "warning",
        message=f"{why}; {remedy}",
    )
    if instead is not None:
        yield from _room(instead)


def _room(place: Disk) -> Iterator[Finding]:
    few = 0 < place.inodes_free < FILES_LEAST
    if place.free < TEMPORARY_LOW or few:
        left = f"room for {place.inodes_free} more files" if few else f"{size(place.free)} free"
        yield Finding(
            rule="temporary-full",
            severity="error" if few or place.free < TEMPORARY_LEAST else "warning",
            message=f"the folder for temporary files ({place.path}) has {left}: the sockets of vLLM's processes "
            "and kernels while they are compiled go there; make room, or name another one as TMPDIR under `env` in the "
            "inventory",
        )


def _home(home: Disk) -> Iterator[Finding]:
    if home.writable and home.free >= CACHES_LOW:
        return
    yield Finding(
        rule="home-not-writable" if not home.writable else "home-full",
        severity="warning",
        message=f"the home ({home.path}) {f'has {size(home.free)} free' if home.writable else 'takes no files'}: vLLM, "
        "Transformers, Triton and FlashInfer keep there what they compile and load; name a folder that has room as "
        "XDG_CACHE_HOME, HF_HOME and TRITON_HOME under `env` in the inventory",
    )
