"""What an engine still holds after its batches, from stand-ins that have what is looked at, or lack it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from remote.rehearsal import leftovers
from remote.rehearsal.leftovers import Held
from remote.schema import Finding


def engine(requests: Any, places: Any = 32, free: Any = 100) -> Any:
    pool = SimpleNamespace(get_num_free_blocks=lambda: free)
    scheduler = SimpleNamespace(requests=requests, kv_cache_manager=SimpleNamespace(block_pool=pool))
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=places))
    return SimpleNamespace(_generator=SimpleNamespace(scheduler=scheduler, vllm_config=config))


def test_requests_places_and_free_blocks_are_counted() -> None:
    assert leftovers.held(engine({"req_0_0": object()})) == Held(requests=1, places=32, free=100)


@pytest.mark.parametrize(
    "other",
    [SimpleNamespace(), SimpleNamespace(_generator=None), SimpleNamespace(_generator=SimpleNamespace()), engine(None)],
)
def test_an_engine_of_another_make_says_nothing(other: Any) -> None:
    assert leftovers.held(other) is None


def test_what_is_no_number_counts_for_nothing() -> None:
    assert leftovers.held(engine({}, places="many", free=None)) == Held(requests=0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Held(requests=0, free=9), Held(requests=0, free=9)),
        (Held(requests=0, free=9), Held(requests=0, free=10)),
        (Held(requests=0), Held(requests=0)),
        (Held(requests=2), Held(requests=2)),
        (None, Held(requests=7)),
        (Held(requests=0), None),
    ],
)
def test_nothing_left_is_nothing_told(before: Held | None, after: Held | None) -> None:
    assert leftovers.told(before, after, 27) is None


def test_requests_that_nobody_ends_are_told_before_their_blocks() -> None:
    said = leftovers.told(Held(requests=0, places=32, free=9), Held(requests=27, places=32, free=1), 27)
    assert said is not None
    assert said.startswith("27 of 27 prompts are still requests of the engine (it takes 32 at a time)")


def test_blocks_that_nobody_gives_back_are_told() -> None:
    said = leftovers.told(Held(requests=0, free=90), Held(requests=0, free=12), 27)
    assert said is not None
    assert "78 blocks of the KV cache are not given back after 27 prompts, 12 are left" in said
    assert leftovers.finding(said, Finding(rule="", message="", file="a.py", line=3)).rule == "rehearsal-leftover"
