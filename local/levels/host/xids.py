"""What the driver wrote into the kernel's log about a job's cards. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local.levels.host.words import card, reset
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.schema import Gpu, GpuFacts, Xid

DAY = 86400.0
# What ends every process on the card and comes back until it is reset, repaired or replaced (NVIDIA, "Xid Errors").
FATAL = {
    48: "uncorrectable memory error",
    64: "a bad memory row could not be retired",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    95: "uncontained memory error",
    119: "the card's firmware (GSP) does not answer",
    120: "the card's firmware (GSP) failed",
}
# What a program brings about; it says little of the card.
PROGRAM = {
    13: "a program's exception",
    31: "a program's bad memory access",
    43: "a program's channel was reset",
    45: "a program's work was cleaned up",
    68: "a video decoder exception",
    109: "a program's work timed out",
}


def findings(gpu: GpuFacts, seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Judge the messages about the cards that the job takes."""
    ours = [(xid, one) for xid in gpu.xids or () for one in seen if _same_bus(xid.bus, one.bus)]
    for xid, one in ours:
        if xid.code in FATAL:
            yield _fatal(xid, one)
    rest = [(xid, one) for xid, one in ours if xid.code not in FATAL]
    if rest:
        told = "; ".join(f"GPU {one.index} {_kind(xid)}" for xid, one in rest[:8])
        yield Finding(
            rule="gpu-xid-noted",
            severity="note",
            message=f"the kernel's log has messages of the driver that programs bring about: {told}",
            text=rest[-1][0].text,
        )


def _fatal(xid: Xid, one: Gpu) -> Finding:
    over = xid.age is not None and xid.age > DAY and not (one.recovery or one.lost or one.ecc_uncorrectable)
    since = f", the last {_ago(xid.age)} ago" if xid.age is not None else ""
    return Finding(
        rule="gpu-xid",
        severity="warning" if over else "error",
        message=f"{card(one)}: {_kind(xid)}: {FATAL[xid.code]}{since}: {reset(one)}; if it was reset since, "
        "`dmesg --clear` as root forgets it",
        text=xid.text,
    )


def _kind(xid: Xid) -> str:
    meaning = PROGRAM.get(xid.code)
    return f"Xid {xid.code}" + (f" ({meaning})" if meaning else "") + (f" ×{xid.count}" if xid.count > 1 else "")


def _ago(age: float) -> str:
    for unit, length in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if age >= 2 * length:
            return f"{age / length:.0f} {unit}"
    return f"{age:.0f} seconds"


def _same_bus(one: str, other: str) -> bool:
    """Compare addresses: the kernel's log says 0000:3b:00, nvidia-smi 00000000:3B:00.0."""
    return bool(one) and _bus(one) == _bus(other)


def _bus(text: str) -> tuple[int, ...]:
    parts = re.split(r"[:.]", text)[:3]
    return tuple(int(part, 16) for part in parts) if all(re.fullmatch(r"[0-9A-Fa-f]+", part) for part in parts) else ()
