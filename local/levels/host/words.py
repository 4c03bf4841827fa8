"""Sizes, releases and lists of cards, as the findings of this level word them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remote.schema import Gpu

GIB = 2**30
MIB = 2**20


def size(value: float) -> str:
    """Word a number of bytes."""
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.0f} MiB"


def card(gpu: Gpu) -> str:
    """Name one card as nvidia-smi and dmesg do."""
    bus = f", {gpu.bus}" if gpu.bus else ""
    return f"GPU {gpu.index} ({gpu.name or 'unnamed'}{bus})"


def cards(gpus: Iterable[Gpu]) -> str:
    """Name some cards by number."""
    numbers = [str(gpu.index) for gpu in gpus]
    return f"GPU {numbers[0]}" if len(numbers) == 1 else f"GPUs {', '.join(numbers)}"


def reset(gpu: Gpu) -> str:
    """Say how one card is reset."""
    return f"`nvidia-smi --gpu-reset -i {gpu.index}` as root, with no process on it, or reboot"


def release(text: str | None) -> tuple[int, ...]:
    """Give a dotted release as numbers that compare (`570.26` is older than `570.124.06`); empty for none."""
    found = re.match(r"\d+(?:\.\d+)*", text or "", re.ASCII)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
