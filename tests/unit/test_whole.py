"""One answer for a dataset on many hosts: what is valid, missing, doubled and damaged, for people and as a document."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from local import whole
from local.errors import PrudentError, Unreachable, UsageError
from remote import ranges
from remote.schema import VerifyAnswer

TOTAL = 10
SAMPLES = st.sets(st.integers(0, TOTAL - 1))


def answer(valid: set[int], damaged: set[int] = frozenset(), **changes: Any) -> VerifyAnswer:  # type: ignore[assignment]
    settings: dict[str, Any] = {
        "total": TOTAL, "valid": len(valid), "missing": TOTAL - len(valid | damaged), "damaged": len(damaged),
        "extra": 0, "tokens": 10, "size": 10, "whole": TOTAL, "ranges": ranges.tell(valid),
        "damaged_ranges": ranges.tell(damaged), "dataset": "d",
    }  # fmt: skip
    return VerifyAnswer(**{**settings, **changes})


def text(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(SAMPLES, SAMPLES), min_size=1))
def test_each_sample_is_valid_or_missing_and_doubled_where_it_stands_twice(
    hosts: dict[str, tuple[set[int], set[int]]],
) -> None:
    seen = whole.judge({name: answer(valid, damaged - valid) for name, (valid, damaged) in hosts.items()})
    assert seen is not None
    counts = [sum(index in valid for valid, _ in hosts.values()) for index in range(TOTAL)]
    assert seen.valid == tuple(index for index in range(TOTAL) if counts[index])
    assert seen.missing == tuple(index for index in range(TOTAL) if not counts[index])
    assert seen.doubled == tuple(index for index in range(TOTAL) if counts[index] > 1)
    assert set(seen.damaged) == {index for valid, damaged in hosts.values() for index in damaged - valid}
    assert seen.complete == all(counts)


def test_a_host_that_could_not_verify_says_nothing_of_the_whole() -> None:
    assert whole.judge({"a": answer(set(), whole=0, total=0)}) is None
    seen = whole.judge({"a": answer(set(), whole=0, total=0), "b": answer(set(range(TOTAL)))})
    assert seen is not None
    assert seen.complete


def test_states_of_two_models_are_no_whole() -> None:
    holds, empty = answer(set(range(TOTAL)), model="m" * 64), answer(set(), model="n" * 64)
    assert whole.judge({"a": holds, "b": empty}) is not None
    with pytest.raises(UsageError, match=r"different models: a, b \(m{12}\); c \(n{12}\)"):
        whole.judge({"a": holds, "b": holds, "c": answer({1}, model="n" * 64)})


@pytest.mark.parametrize("changes", [{"dataset": "other"}, {"whole": 11}])
def test_hosts_of_two_datasets_are_named(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"different datasets: a \(10 samples\); b \(1[01] samples\)"):
        whole.judge({"a": answer({1}), "b": answer({2}, **changes)})


def test_the_document_names_who_holds_what_and_who_is_silent() -> None:
    answers: dict[str, VerifyAnswer | PrudentError] = {
        "a": answer({0, 1, 2, 3}, {4}), "b": answer({3, 5, 6}), "c": Unreachable("no answer"),
    }  # fmt: skip
    seen = whole.judge({name: one for name, one in answers.items() if isinstance(one, VerifyAnswer)})
    document = json.loads(json.dumps(whole.document("job", answers, {"a": "/o", "b": "/o"}, seen)))
    assert list(document) == [
        "schema", "job", "whole", "total", "valid", "missing", "doubled", "damaged", "hosts",
    ]  # fmt: skip
    assert (document["valid"], document["missing"], document["doubled"]) == ("0-3,5-6", "4,7-9", "3")
    assert document["damaged"] == "4"
    assert document["whole"] is False
    assert document["hosts"]["a"] == {
        "valid": "0-3", "damaged": "4", "output": "/o", "tokens": 10, "bytes": 10, "error": None,
    }  # fmt: skip
    assert document["hosts"]["c"]["error"] == "no answer"


def test_the_table_shows_every_host_and_cleans_what_it_is_told() -> None:
    answers: dict[str, VerifyAnswer | PrudentError] = {"a": answer({0}), "b": Unreachable("gone")}
    seen = whole.judge({"a": answer({0})})
    assert seen is not None
    shown = text(whole.table(answers, {"a": "/o\x1b[31m[bold]"}, seen))
    assert "not known: Unreachable" in shown
    assert "the dataset: 1 of 10 samples are valid, 9 are missing everywhere" in shown
    assert "\x1b" not in shown
    assert "[bold]" in shown


def test_many_ranges_are_shortened() -> None:
    assert whole.few(range(0, 100, 2)).endswith("14 and 42 more ranges")
    assert whole.few([]) == ""
