"""The cards themselves: that there are enough, that they answer, that nobody else holds them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.levels.host.words import card, cards, size
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remote.schema import Gpu, GpuProcess, HostFacts, Job

UNSEEN = 2 * 2**30  # an idle card holds some hundred MiB for itself
NAMED = 4  # processes that a finding names
REMEDIES = {
    "hung": "a driver that is stuck in a card answers nobody; processes in state D end only with a reboot",
    "not installed": "install the NVIDIA driver, or give the container the GPUs (`--gpus all`)",
    "Driver/library version mismatch": "the driver was updated under a running kernel module: reboot the host, or "
    "unload the `nvidia` modules and load them again",
    "No devices were found": "the driver is there and no card is: the container has none (`--gpus all`), or all have "
    "fallen off the bus (`lspci | grep -i nvidia`, then reboot)",
    "couldn't communicate with the NVIDIA driver": "the kernel module is not loaded: `modprobe nvidia`, and see "
    "`dmesg | grep -i nvrm` for why not; after an update of the kernel it has to be built anew (`dkms status`)",
    "GPU is lost": "a card does not answer any more: reboot the host",
    "Unable to determine the device handle": "a card does not answer any more: reboot the host",
}


def findings(facts: HostFacts, job: Job, seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Judge the cards that the job's processes will see."""
    if facts.gpu.error:
        yield Finding(rule="gpu-unknown", message=_unknown(facts.gpu.error))
    elif len(seen) < job.tensor_parallel:
        through = " through CUDA_VISIBLE_DEVICES" if len(seen) < len(facts.gpu.gpus) else ""
        yield Finding(
            rule="gpu-count",
            message=f"the job needs {job.tensor_parallel} GPUs (tensor_parallel), the host shows {len(seen)}{through}: "
            "lower `tensor_parallel`, or take a host that has them",
        )
    taken = used(seen, job)
    spare = [gpu for gpu in facts.gpu.gpus if gpu not in taken and _free(gpu, job)]
    for gpu in taken:
        yield from _mig(gpu, job)
        yield from _mode(gpu, job)
        yield from _held(gpu, job, spare)


def fewer(facts: HostFacts, expected: int | None) -> Iterator[Finding]:
    """Hold the number of cards against what the inventory expects; the job may have enough, but one is missing."""
    found = len(facts.gpu.gpus)
    if expected is None or facts.gpu.error or found >= expected:
        return
    yield Finding(
        rule="gpu-expected",
        severity="warning",
        message=f"expected {expected} GPUs (`gpus` in the inventory), found {found}: {_absent(facts, expected)}; "
        "a card that is gone shows in `lspci | grep -i nvidia` and `dmesg | grep -i xid`, and comes back with a "
        "reboot at best. Correct `gpus` where the host never had more",
    )


def _absent(facts: HostFacts, expected: int) -> str:
    """Say which cards are missing, as far as the numbers of the others tell."""
    there = {gpu.index for gpu in facts.gpu.gpus}
    gone = [str(index) for index in range(expected) if index not in there]
    return f"there is no GPU {', '.join(gone)}"


def visible(gpus: tuple[Gpu, ...], named: str | None) -> tuple[Gpu, ...]:
    """Give the GPUs that the job's processes will see, in their order, as CUDA does."""
    if named is None:
        return gpus
    seen = []
    for word in (part.strip() for part in named.split(",")):
        found = [gpu for gpu in gpus if _is(gpu, word)]
        if not found:
            break  # CUDA stops at the first name that is none
        seen.append(found[0])
    return tuple(seen)


def used(seen: tuple[Gpu, ...], job: Job) -> tuple[Gpu, ...]:
    """Give the cards that the job takes of those that it sees."""
    return seen[: job.tensor_parallel]


def smallest(facts: HostFacts, job: Job) -> int:
    """Give the bytes of the smallest card that the job takes; 0 where that is not known, as of slices."""
    if job.device != "cuda":
        return 0
    taken = used(visible(facts.gpu.gpus, job.env.get("CUDA_VISIBLE_DEVICES")), job)
    return 0 if any(gpu.mig for gpu in taken) else min((gpu.memory_total for gpu in taken), default=0)


def _is(gpu: Gpu, word: str) -> bool:
    if word.startswith("MIG-"):
        return gpu.mig and gpu.mig_devices > 0  # which card a slice is of, no reading tells
    return word == str(gpu.index) or (word.startswith("GPU-") and gpu.uuid.startswith(word))


def _unknown(error: str) -> str:
    known = next((remedy for mark, remedy in REMEDIES.items() if mark in error), None)
    remedy = known or "see that the driver is loaded (`nvidia-smi`, `dmesg | grep -i nvrm`)"
    return f"nvidia-smi gives no answer, or half of one: {error}. Without it nothing is known of the GPUs; {remedy}"


def _mig(gpu: Gpu, job: Job) -> Iterator[Finding]:
    if gpu.mig:
        slices = f"{gpu.mig_devices} slices" if gpu.mig_devices else "no slice"
        whole = job.tensor_parallel == 1 and gpu.mig_devices
        yield Finding(
            rule="gpu-mig",
            severity="warning" if whole else "error",
            message=f"{card(gpu)} is partitioned (MIG, {slices}): a process gets one slice of it, and several GPUs do "
            f"not work together; `nvidia-smi -i {gpu.index} -mig 0` (as root, with no process on it) gives the whole "
            "card back" + (", or name the slice in CUDA_VISIBLE_DEVICES" if whole else ""),
        )


def _mode(gpu: Gpu, job: Job) -> Iterator[Finding]:
    exclusive = gpu.compute_mode == "Exclusive_Process" and job.tensor_parallel == 1 and not _computing(gpu)
    if gpu.compute_mode in {"Prohibited", "Exclusive_Process"} and not exclusive:
        prohibited = gpu.compute_mode == "Prohibited"
        yield Finding(
            rule="gpu-compute-mode",
            severity="error" if prohibited else "warning",
            message=f"{card(gpu)} is in compute mode {gpu.compute_mode}: "
            + ("no process may compute on it" if prohibited else "one process at a time may compute on it")
            + f"; `nvidia-smi -i {gpu.index} -c DEFAULT` as root changes it",
        )


def _held(gpu: Gpu, job: Job, spare: Sequence[Gpu]) -> Iterator[Finding]:
    if gpu.mig:
        return  # its memory is the slices'
    free, wanted = gpu.memory_total - gpu.memory_used, gpu.memory_total * job.memory_fraction
    other = f", or take one that is free ({cards(spare)}) by CUDA_VISIBLE_DEVICES" if spare else ""
    if free < wanted:
        yield Finding(
            rule="gpu-busy",
            message=f"{card(gpu)} has {size(free)} free, vLLM will ask for {size(wanted)}: {_holders(gpu)}{other}, or "
            "lower `memory_fraction`",
        )
    elif _shared(gpu):
        yield Finding(
            rule="gpu-shared",
            severity="warning",
            message=f"{card(gpu)} is not free ({size(gpu.memory_used)} used, the rest will do): {_holders(gpu)}{other}"
            ", or the job shares its time and may run out of memory",
        )


def _free(gpu: Gpu, job: Job) -> bool:
    enough = gpu.memory_total - gpu.memory_used >= gpu.memory_total * job.memory_fraction
    return enough and not (gpu.mig or gpu.lost or _shared(gpu))


def _shared(gpu: Gpu) -> bool:
    return bool(_computing(gpu)) or gpu.memory_used > UNSEEN


def _holders(gpu: Gpu) -> str:
    """Say who holds a card, and what to do about it."""
    holders = _computing(gpu) or gpu.processes
    if not holders:
        return (
            "no process is shown for it: it is in another container, or a killed one left it behind; "
            "`fuser -v /dev/nvidia*` as root on the machine itself tells; end what holds it"
        )
    more = f" and {len(holders) - NAMED} more" if len(holders) > NAMED else ""
    named = ", ".join(_process(process) for process in holders[:NAMED])
    return f"{named}{more} on it; end what holds it"


def _process(process: GpuProcess) -> str:
    details = [process.user, size(process.memory) if process.memory else ""]
    told = ", ".join(part for part in details if part)
    return f"process {process.pid} `{process.name or '?'}`" + (f" ({told})" if told else "")


def _computing(gpu: Gpu) -> tuple[GpuProcess, ...]:
    return tuple(process for process in gpu.processes if "C" in process.kind)
