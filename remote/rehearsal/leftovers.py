"""What an engine still holds after its batches: requests that nobody ended, blocks of the KV cache not given back.

A rehearsal has fewer prompts than an engine has places, a job has thousands: what is left of each call adds up until
nothing is scheduled any more, long after the load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote.schema import Finding

if TYPE_CHECKING:
    from remote.engines.base import Engine


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """Requests in the scheduler, places for them, and free blocks of the KV cache; None where nobody says."""

    requests: int
    places: int | None = None
    free: int | None = None


def held(engine: Engine) -> Held | None:
    """Look at an engine between two calls; None where it has no scheduler that could be asked."""
    generator: Any = getattr(engine, "_generator", None)
    scheduler = getattr(generator, "scheduler", None)
    requests = getattr(scheduler, "requests", None)
    if not isinstance(requests, dict):
        return None
    config = getattr(getattr(generator, "vllm_config", None), "scheduler_config", None)
    places = getattr(config, "max_num_seqs", None)
    pool = getattr(getattr(scheduler, "kv_cache_manager", None), "block_pool", None)
    ask = getattr(pool, "get_num_free_blocks", None)
    free = ask() if callable(ask) else None
    return Held(
        requests=len(requests),
        places=places if type(places) is int else None,
        free=free if type(free) is int else None,
    )


def told(before: Held | None, after: Held | None, prompts: int) -> str | None:
    """Say what so many prompts have left behind, and what comes of it; None where nothing is left."""
    if before is None or after is None:
        return None
    if more := max(0, after.requests - before.requests):
        of = f" (it takes {after.places} at a time)" if after.places else ""
        return (
            f"{more} of {prompts} prompts are still requests of the engine{of} after their answers came: nothing ends "
            "them, and when all places are taken no prompt is computed any more"
        )
    if before.free is not None and after.free is not None and after.free < before.free:
        return (
            f"{before.free - after.free} blocks of the KV cache are not given back after {prompts} prompts, "
            f"{after.free} are left: when none is, no prompt is computed any more"
        )
    return None


def finding(message: str, place: Finding) -> Finding:
    """Give the finding, at the function that hands out hidden states."""
    return Finding(rule="rehearsal-leftover", message=message, file=place.file, line=place.line, text=place.text)
