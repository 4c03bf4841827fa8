"""What is fetched from whom, and what is never mixed: pure decisions."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.errors import UsageError
from local.fetching import plan
from local.fetching.options import understood
from remote import wire
from tests.fetched import entry

OTHER = "f" * 64


def held(name: str, *indices: int, **changes: Any) -> plan.Holding:
    return plan.Holding(name, {index: entry(index, name.encode(), **changes) for index in indices})


@given(
    st.lists(st.sets(st.integers(0, 40)), min_size=1, max_size=5),
    st.sets(st.integers(0, 45)),
    st.sets(st.tuples(st.integers(0, 40), st.sampled_from("abcde"))),
)
def test_every_sample_that_can_be_had_is_asked_of_exactly_one_that_has_it(
    have: list[set[int]], missing: set[int], tried: set[tuple[int, str]]
) -> None:
    holdings = [held("abcde"[number], *indices) for number, indices in enumerate(have)]
    dealt = plan.deal(holdings, missing, tried)
    asked = [entry.index for entries in dealt.values() for entry in entries]
    assert len(asked) == len(set(asked))
    for name, entries in dealt.items():
        own = next(one for one in holdings if one.name == name)
        assert all(entry.index in own.entries and (entry.index, name) not in tried for entry in entries)
    can = {
        index for index in missing
        if any(index in one.entries and (index, one.name) not in tried for one in holdings)
    }  # fmt: skip
    assert set(asked) == can


def test_what_several_have_is_shared_out_by_size() -> None:
    dealt = plan.deal([held("a", *range(10)), held("b", *range(10))], set(range(10)))
    assert {name: len(entries) for name, entries in dealt.items()} == {"a": 5, "b": 5}


@given(st.lists(st.integers(0, 1 << 30), max_size=60), st.integers(1, 8))
def test_streams_part_a_share_without_losing_any(sizes: list[int], parallel: int) -> None:
    entries = [entry(index, b"", size=size) for index, size in enumerate(sizes)]
    parts = plan.streams(entries, parallel)
    assert len(parts) <= parallel
    assert sorted(one.index for part in parts for one in part) == list(range(len(sizes)))
    assert all(parts) or not sizes


def test_few_bytes_are_not_worth_many_connections() -> None:
    assert len(plan.streams([entry(index, b"x") for index in range(100)], 8)) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "e" * 16}, "2 models: mmmmmmmmmmmm (1 on a), eeeeeeeeeeee (2 on b)"),
        ({"layers": (2, 30)}, "2 sets of layers: 2×5 (1 on a), 2×30 (2 on b)"),
        ({"shape": (2, 4, 16)}, "2 shapes or types"),
        ({"shape": (3, 4, 8)}, "2 shapes or types"),
        ({"dtype": "float32"}, "2 shapes or types"),
        ({"tokens_sha256": OTHER}, "sample 0 has other tokens on b than on a"),
    ],
)
def test_what_does_not_belong_together_is_told(changes: dict[str, Any], said: str) -> None:
    troubles = plan.mixed([held("a", 0), held("b", 0, 1, **changes)])
    assert any(said in trouble for trouble in troubles), troubles


def test_other_bytes_of_the_same_sample_belong_together() -> None:
    assert plan.mixed([held("a", 0, 1), held("b", 0, 2), held("c", 5, model="", layers=())]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"file": "../data_1.pt"}, {"file": "data_2.pt"}, {"index": -1, "file": "data_-1.pt"}, {"size": -1},
        {"size": 1 << 60}, {"sha256": "short"}, {"sha256": "G" * 64}, {"tokens_sha256": ""}, {"model": "a b"},
        {"dtype": "\x1b[2J"}, {"index": 10**12, "file": f"data_{10**12}.pt"}, {"shape": (-1,)},
    ],
)  # fmt: skip
def test_a_line_that_is_not_sane_is_left_out(changes: dict[str, Any]) -> None:
    good = entry(5, b"five")
    bad = dataclasses.replace(entry(1, b"one"), **changes)
    text = "\n".join((wire.dumps(bad), wire.dumps(good), "{", "\x00", "[1]", ""))
    found = plan.holding("h", text.encode("utf-8", "surrogateescape"))
    assert (found.entries, found.odd) == ({5: good}, 1)


def test_the_last_word_counts() -> None:
    lines = [
        wire.dumps(entry(1, b"old")),
        wire.dumps(entry(1, b"new")),
        wire.dumps(entry(2, b"two")),
        json.dumps({"schema": 1, "index": 2, "damaged": "bits"}),
    ]
    assert plan.holding("h", "\n".join(lines).encode()).entries == {1: entry(1, b"new")}


def test_samples_are_chosen_by_number() -> None:
    holdings = [held("a", 1, 2, 3), held("b", 9)]
    assert plan.chosen(holdings, None) == {1, 2, 3, 9}
    assert plan.chosen(holdings, (range(2, 10),)) == {2, 3, 9}
    assert plan.nowhere(holdings, (range(2, 10), range(20, 21))) == 6


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"samples": True, "indices": "5-1"}, "--indices"), ({"samples": True, "indices": ""}, "--indices"),
        ({"samples": True, "indices": "a"}, "--indices"), ({"samples": True, "indices": "0-999999999"}, "--indices"),
        ({"indices": "1"}, ""), ({"parallel": 0}, "--parallel"), ({"parallel": 33}, "--parallel"),
        ({"parallel": "x"}, "--parallel"), ({"parallel": "9" * 5000}, "--parallel"),
        ({"patience": "soon"}, "--patience"), ({"to": ""}, "--to"), ({"to": "~nobody-of-that-name/x"}, "--to"),
    ],
)  # fmt: skip
def test_options_that_cannot_work_are_refused(given: dict[str, Any], place: str) -> None:
    with pytest.raises(UsageError) as caught:
        understood(**given)
    assert caught.value.where == place
    assert caught.value.remedy


def test_options_are_understood() -> None:
    found = understood(samples=True, indices="0-3, 7", parallel=2, patience="2m", json=True)
    assert (found.spans, found.parallel, found.patience) == ((range(4), range(7, 8)), 2, 120.0)
