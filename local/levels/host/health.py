"""Whether cards that answer will last: memory errors, repairs, links, and what the driver wrote of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.levels.host import xids
from local.levels.host.words import card, cards, reset
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.schema import Gpu, GpuFacts

REGISTRATION = ("Not Started", "In Progress", "Completed")  # what else is said in its place is no state


def findings(gpu: GpuFacts, seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Judge the health of the cards that the job takes."""
    for one in seen:
        yield from _answers(one)
        yield from _memory(one)
        yield from _slow(one)
    yield from _fabric(gpu, seen)
    yield from xids.findings(gpu, seen)


def _answers(gpu: Gpu) -> Iterator[Finding]:
    if gpu.lost:
        yield Finding(
            rule="gpu-lost",
            message=f"{card(gpu)} does not answer ({gpu.lost}): reboot the host; if it comes back so, the card or its "
            "slot is broken",
        )
    if gpu.recovery:
        yield Finding(
            rule="gpu-recovery",
            message=f"{card(gpu)}: the driver asks for a recovery ({gpu.recovery}) before more is run on it: "
            + ("reboot the host" if gpu.recovery == "Reboot" else reset(gpu)),
        )


def _memory(gpu: Gpu) -> Iterator[Finding]:
    if gpu.ecc_uncorrectable:
        yield Finding(
            rule="gpu-ecc",
            message=f"{card(gpu)} has counted {gpu.ecc_uncorrectable} uncorrectable memory errors since the driver was "
            f"loaded: what was computed on it cannot be trusted; {reset(gpu)}, and have it replaced if they come back",
        )
    if gpu.repairs_failed:
        yield Finding(
            rule="gpu-memory-failed",
            message=f"{card(gpu)}: {', '.join(gpu.repairs_failed)}: its memory can no longer be repaired; have it "
            "replaced, and leave it out by CUDA_VISIBLE_DEVICES until then",
        )
    if gpu.repairs_pending:
        yield Finding(
            rule="gpu-memory-pending",
            severity="warning",
            message=f"{card(gpu)} waits for a reset to repair its memory ({', '.join(gpu.repairs_pending)}): "
            f"{reset(gpu)}, before a long run",
        )


def _slow(gpu: Gpu) -> Iterator[Finding]:
    if gpu.slowed:
        yield Finding(
            rule="gpu-slowed",
            severity="warning",
            message=f"{card(gpu)} slows itself down ({', '.join(gpu.slowed)}): every rank waits for the slowest one; "
            "see to cooling and power (`nvidia-smi -q -d PERFORMANCE,TEMPERATURE`)",
        )


def _fabric(gpu: GpuFacts, seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    on_fabric = [one for one in seen if one.fabric_state in REGISTRATION]
    unready = [one for one in on_fabric if one.fabric_state != "Completed" or one.fabric_status not in {"", "Success"}]
    if unready:
        first = unready[0]
        state = f"{first.fabric_state}, {first.fabric_status}" if first.fabric_status else first.fabric_state
        yield Finding(
            rule="fabric-not-ready",
            message=f"{cards(unready)}: not registered with the NVSwitch fabric (state {state}), CUDA will fail with "
            f"error 802, system not yet initialized: {_manager(gpu, first)}",
        )
    elif on_fabric and gpu.fabric_manager and gpu.fabric_manager.state == "failed":
        yield Finding(
            rule="fabric-manager",
            message="the cards are registered with the NVSwitch fabric, but the fabric manager has failed since; new "
            f"programs on several GPUs may not start: {_manager(gpu, on_fabric[0])}",
        )
    unwell = [one for one in on_fabric if one.fabric_health]
    if unwell:
        yield Finding(
            rule="fabric-unhealthy",
            severity="warning",
            message=f"{cards(unwell)}: the NVSwitch links are not well ({unwell[0].fabric_health}): expect slow or "
            "failing collectives; see `nvidia-smi nvlink -e` and the fabric manager's log",
        )


def _manager(gpu: GpuFacts, one: Gpu) -> str:
    manager = gpu.fabric_manager
    start = "`systemctl restart nvidia-fabricmanager` as root, then `journalctl -u nvidia-fabricmanager`"
    if manager is None:
        return f"no fabric manager is seen here (install that of driver {one.driver}, or it is the host's): {start}"
    if manager.version and manager.version != one.driver:
        return (
            f"the fabric manager is {manager.version}, the driver {one.driver}, and it starts only with its own: "
            f"install nvidia-fabricmanager {one.driver}, then {start}"
        )
    return f"the fabric manager's state is {manager.state}: {start}"
