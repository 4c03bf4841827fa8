"""What a job will write, how long it will take and what it will cost: arithmetic on facts, nothing is read here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SAMPLE_OVERHEAD = 4096  # a sample file's own frame, and what its last block leaves unused
TOKEN_OVERHEAD = 16  # a token's id and its place in the loss mask, 64 bits each
# An assumption, used until something was measured: 595 GB of weights took 18 minutes on eight GPUs.
LOAD_RATE = 0.55e9
# Assumptions again, on the careful side: tokens per second × bytes of weights that one worker gets through, and what no
# job gets over, however small its model (states are copied and written).
TOKEN_RATE = {"cuda": 1.75e14, "cpu": 5e11}
FASTEST = 20e3
START = 90.0  # imports and start of the workers, before and after the weights
TIGHT = 0.9  # an output that takes more than this part of what is free is worth a warning
HOUR = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What a job will have written at its end."""

    samples: int
    tokens: int
    size: int
    largest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What an output's file system has left, and what stands in the output folder already."""

    free: int
    inodes_free: int
    held: int = 0
    files: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortage:
    """What does not fit: `what` is bytes or inodes; `tight` says that it fits, but only just."""

    what: str
    needed: int
    free: int
    tight: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What is known of a host's speed: bytes of weights and tokens of prompts a second, and what showed the latter."""

    load: float | None = None
    tokens: float | None = None
    shown_by: str = "runs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Duration:
    """Seconds to load and to extract; `assumed` says that `load` is a guess, `extract_by` what `extract` rests on.

    That is earlier "runs", the "rehearsal" at the real sizes, or nothing: "assumed".
    """

    load: float
    extract: float
    assumed: bool
    extract_by: str
    usd: float | None


def sample_bytes(tokens: int, *, layers: int, hidden: int, dtype_size: int) -> int:
    """Give the bytes of one sample's file."""
    return tokens * (layers * hidden * dtype_size + TOKEN_OVERHEAD) + SAMPLE_OVERHEAD


def output(*, samples: int, tokens: int, longest: int, layers: int, hidden: int, dtype_size: int) -> Output:
    """Give what `samples` samples of `tokens` tokens in all take."""
    per_token = layers * hidden * dtype_size + TOKEN_OVERHEAD
    return Output(
        samples=samples,
        tokens=tokens,
        size=tokens * per_token + samples * SAMPLE_OVERHEAD,
        largest=sample_bytes(longest, layers=layers, hidden=hidden, dtype_size=dtype_size),
    )


def share(planned: Output, sharers: int) -> Output:
    """Give what each of several hosts writes when they do the same part of it."""
    parts = max(1, sharers)
    return replace(
        planned,
        samples=math.ceil(planned.samples / parts),
        tokens=math.ceil(planned.tokens / parts),
        size=math.ceil(planned.size / parts),
    )


def shortages(planned: Output, room: Room) -> tuple[Shortage, ...]:
    """Say what the file system lacks; what an earlier run has left there need not be written again."""
    # Resuming writes a file beside the one that it replaces, so the largest is always needed once.
    size = max(planned.size - room.held, 0) + planned.largest
    inodes = max(planned.samples - room.files, 0) + 16  # the manifest, the lock and the like
    needs = (("bytes", size, room.free), ("inodes", inodes, room.inodes_free))
    return tuple(
        Shortage(what=what, needed=needed, free=free, tight=needed <= free)
        for what, needed, free in needs
        # File systems without a table of inodes (btrfs, some network ones) say 0.
        if needed > free * TIGHT and not (what == "inodes" and free == 0)
    )


def duration(
    *,
    weights: int,
    tokens: int,
    rates: Rates,
    usd_per_hour: float | None = None,
    workers: int = 1,
    device: str = "cuda",
) -> Duration:
    """Say how long a job takes, and what it costs where a price is known."""
    load = START + weights / (rates.load or LOAD_RATE)
    extract = tokens / (rates.tokens or assumed_tokens(weights, workers, device))
    return Duration(
        load=load,
        extract=extract,
        assumed=rates.load is None,
        extract_by=rates.shown_by if rates.tokens else "assumed",
        usd=None if usd_per_hour is None else round((load + extract) / HOUR * usd_per_hour, 2),
    )


def assumed_tokens(weights: int, workers: int, device: str) -> float:
    """Give the tokens per second to reckon with where nothing was measured."""
    return min(FASTEST, workers * TOKEN_RATE.get(device, TOKEN_RATE["cuda"]) / max(weights, 1))


def human(size: float) -> str:
    """Give a number of bytes as people read it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(size) < 1000:  # noqa: PLR2004 - the step from unit to unit
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
