from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.engines import base
from remote.schema import Job


@given(st.lists(st.integers(1, 50)), st.integers(1, 8), st.integers(1, 60))
def test_calls_hold_every_prompt_once_in_order_under_both_limits(lengths: list[int], most: int, budget: int) -> None:
    calls = base.packed(lengths, most=most, budget=budget)
    assert [index for call in calls for index in call] == list(range(len(lengths)))
    for call in calls:
        assert 1 <= len(call) <= most
        assert len(call) == 1 or sum(lengths[index] for index in call) <= budget


def test_a_call_takes_what_it_can() -> None:
    assert base.packed([4, 4, 1, 9, 1], most=3, budget=9) == [range(3), range(3, 4), range(4, 5)]
    assert base.packed([1] * 70, most=32, budget=8192) == [range(32), range(32, 64), range(64, 70)]


@pytest.mark.parametrize("engine", ["command", "no such", "../speculators", ""])
def test_an_engine_without_adapter_is_refused(engine: str) -> None:
    with pytest.raises(base.EngineError, match="has no adapter; known are speculators"):
        base.make(Job(name="j", engine=engine, python="", workdir="", output=""))


def test_making_an_engine_loads_nothing() -> None:
    engine = base.make(Job(name="j", engine="speculators", python="", workdir="", output="", max_model_len=100))
    assert (engine.longest, engine.alive()) == (99, False)
    engine.close()
