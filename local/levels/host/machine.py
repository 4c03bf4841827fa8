"""The machine around the cards: file systems, shared memory, limits, and what ends a user's processes. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from local.levels.host.words import GIB, MIB, size
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from remote.schema import Disk, HostFacts, Job

DISK_FULL, DISK_LOW = GIB // 4, 5 * GIB
INODES_LOW = 1000
SHM_LEAST, SHM_RANK = 64 * MIB, GIB
SHM_ANSWERS = 256 * MIB  # ten answers of at most 24 MiB are what vLLM's ring holds
FILES_LOW, PROCESSES_LOW, LOCKED_LOW = 1024, 4096, MIB
FILES_LEAST = 64  # with these not even a tiny model's worker starts
FILE_LOW = 4 * GIB  # a log may have two, a sample some hundred megabytes


def findings(facts: HostFacts, job: Job) -> Iterator[Finding]:
    """Judge the machine for a job."""
    for what in ("output", "workdir"):
        if what in facts.disks:
            yield from _space(what, facts.disks[what])
    yield from _inputs(facts, job)
    yield from _memory(facts, job)
    yield from _limits(facts, job)
    yield from _session(facts)


def secrets(job: Job, known: Collection[str] | None) -> Iterator[Finding]:
    """Name what the job is to get from this laptop, which does not have it: the job would run without."""
    missing = [name for name in job.secret_env if known is not None and name not in known]
    if missing:
        names = ", ".join(missing)
        message = (
            f"`secret_env` names {names}, not set on this machine (or empty): the job will run without; set it here"
        )
        yield Finding(rule="secret-missing", severity="warning", message=message)


def _space(what: str, disk: Disk) -> Iterator[Finding]:
    if disk.blocked:
        message = (
            f"`{what}` = {disk.path} cannot be a folder: {disk.blocked} is none; remove it, or name another folder"
        )
        yield Finding(rule=f"{what}-not-writable", message=message)
    elif not disk.writable:
        yield Finding(
            rule=f"{what}-not-writable",
            message=f"`{what}` = {disk.path} cannot be written ({disk.nearest} is not writable for this user): "
            "change its owner, or name another folder",
        )
    if disk.lacks:
        yield Finding(
            rule=f"{what}-lacks",
            message=f"the file system of `{what}` ({disk.nearest}) cannot do what a run needs: {disk.lacks}; "
            "name a folder on a local disk",
        )
    if disk.free < DISK_LOW:
        yield Finding(
            rule="disk-full" if disk.free < DISK_FULL else "disk-low",
            severity="error" if disk.free < DISK_FULL else "warning",
            message=f"the file system of `{what}` ({disk.nearest}) has {size(disk.free)} free: make room there, "
            "or name a folder on another one",
        )
    if 0 < disk.inodes_free < INODES_LOW:  # some file systems count none and say 0
        yield Finding(
            rule="inodes-low",
            message=f"the file system of `{what}` ({disk.nearest}) has room for {disk.inodes_free} more files: "
            "remove files there, or name a folder on another one",
        )


def _inputs(facts: HostFacts, job: Job) -> Iterator[Finding]:
    if job.model and facts.model_exists is False:
        yield Finding(
            rule="model-missing",
            message=f"`model` = {job.model} is not on the host: copy the model there first, or correct the path",
        )
    if job.model and facts.model_exists is None and job.engine != "command":
        yield Finding(
            rule="model-missing",
            message=f"`model` = {job.model} is no path on the host (those begin with / or ~/), and names of the hub "
            f"are not looked up: run `hf download {job.model}` there, and give the folder that it prints",
        )
    if job.dataset and facts.dataset_exists is False:
        yield Finding(
            rule="dataset-missing",
            message=f"`dataset` = {job.dataset} is not on the host: copy it there first, or correct the path",
        )


def _memory(facts: HostFacts, job: Job) -> Iterator[Finding]:
    """Judge /dev/shm, through which the workers of several GPUs and NCCL talk."""
    if job.device != "cuda" or job.tensor_parallel < 2:  # noqa: PLR2004 - one worker talks to its engine alone
        yield from _answers(facts, job)
        return
    total, free = facts.shm_total, facts.shm_free
    tiny = 0 < total <= SHM_LEAST
    if tiny or free < SHM_RANK * job.tensor_parallel:
        held = f" of {size(total)}" if total else ""
        why = "which is what a container gets unless told" if tiny else f"{job.tensor_parallel} ranks want 1 GiB each"
        remedy = (
            "give the container `--ipc=host` or `--shm-size=16g`"
            if tiny or not total
            else "remove what was left behind there (`ls -la /dev/shm`), or give the container a larger `--shm-size`"
        )
        yield Finding(
            rule="shm-small",
            severity="error" if tiny or free <= SHM_LEAST else "warning",
            message=f"shared memory (`df -h /dev/shm`) has {size(free)}{held} free, {why}: {remedy}",
        )


def _answers(facts: HostFacts, job: Job) -> Iterator[Finding]:
    """Judge /dev/shm for one worker: its answers go through a ring there, and small ones fill little of it."""
    if job.engine != "command" and facts.shm_free < SHM_ANSWERS:
        yield Finding(
            rule="shm-small",
            severity="warning",
            message=f"shared memory (`df -h /dev/shm`) has {size(facts.shm_free)} free: a worker's answers take up to "
            "240 MiB of it when they are large, and it dies of a bus error when they do not fit; give the container "
            "`--ipc=host` or `--shm-size=1g`, or remove what was left behind there",
        )


def _limits(facts: HostFacts, job: Job) -> Iterator[Finding]:
    files, processes = facts.limits.get("nofile", -1), facts.limits.get("nproc", -1)
    if 0 <= files < FILES_LOW:
        found = _limit("limit-files", f"a process may open {files} files (`ulimit -n`)", "nofile", facts)
        yield replace(found, severity="error") if files <= FILES_LEAST and job.engine != "command" else found
    if 0 <= processes < PROCESSES_LOW and job.tensor_parallel > 1:
        yield _limit("limit-processes", f"this user may have {processes} threads (`ulimit -u`)", "nproc", facts)
    yield from _ends(facts)
    locked = facts.limits.get("memlock", -1)
    if 0 <= locked < LOCKED_LOW and job.device == "cuda" and job.tensor_parallel > 1:
        yield Finding(
            rule="limit-locked",
            severity="note",
            message=f"a process may lock {size(locked)} of memory (`ulimit -l`): enough within one host, too little "
            "for InfiniBand; `memlock unlimited` in /etc/security/limits.conf changes it",
        )


def _ends(facts: HostFacts) -> Iterator[Finding]:
    """Name the limits that end a long run in its middle; the levels to come only see that a short one stays below."""
    written, mapped, computed = (facts.limits.get(name, -1) for name in ("fsize", "as", "cpu"))
    if 0 <= written < FILE_LOW:
        yield _ending("limit-file-size", f"a file may have {size(written)} (`ulimit -f`), a log too", "fsize")
    if mapped >= 0:
        yield _ending("limit-memory", f"a process may map {size(mapped)} of memory (`ulimit -v`)", "as")
    if computed >= 0:
        yield _ending("limit-cpu", f"a process is ended after {computed} s of computing (`ulimit -t`)", "cpu")


def _ending(rule: str, what: str, name: str) -> Finding:
    return Finding(
        rule=rule,
        severity="warning",
        message=f"{what}: a large model or a long run may end on it; raise `{name}` in /etc/security/limits.conf "
        "(or `--ulimit` of the container) and connect anew",
    )


def _limit(rule: str, what: str, name: str, facts: HostFacts) -> Finding:
    hard = facts.limits.get(f"{name}_hard", -1)
    most = "no limit above it" if hard < 0 else f"at most {hard}"
    return Finding(
        rule=rule,
        severity="warning",
        message=f"{what}, {most}: workers and loaders of a large model need thousands; raise `{name}` in "
        "/etc/security/limits.conf (or `--ulimit` of the container) and connect anew",
    )


def _session(facts: HostFacts) -> Iterator[Finding]:
    if facts.kill_user_processes:
        yield Finding(
            rule="kill-user-processes",
            severity="warning",
            message="systemd-logind ends a user's processes at logout here (KillUserProcesses=yes; lingering does not "
            "spare them): a detached run may die with the connection; set KillUserProcesses=no or add the user to "
            "KillExcludeUsers in /etc/systemd/logind.conf, or run as root",
        )
