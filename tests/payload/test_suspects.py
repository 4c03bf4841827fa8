"""Who is suspected when an engine ends with samples in hand: what is decided, and what is kept."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from remote.failures import Failure
from remote.paths import Run
from remote.run import hand, suspects
from remote.run.suspects import Inquiry, Suspects

DIED = Failure(kind="transient", cause="engine-died", root_line="Executor failed", budget=1)
MEMORY = Failure(kind="fatal", cause="gpu-out-of-memory", root_line="CUDA out of memory")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(PurePosixPath(tmp_path))


def test_all_in_hand_are_suspected_and_the_one_that_does_it_again_alone_is_given_up() -> None:
    first = Suspects().after([3, 4, 5], "why")
    assert first == Suspects(frozenset({3, 4, 5}))
    assert first.after([4], "why") == Suspects(frozenset({3, 5}), {4: "why"})


@pytest.mark.parametrize("hands", [[[7], [7]], [[6, 7], [7]]])
def test_twice_is_enough_when_the_second_time_is_alone(hands: list[list[int]]) -> None:
    found = Suspects()
    for held in hands:
        found = found.after(held, "why")
    assert found.failed == {7: "why"}


def test_a_batch_that_ends_the_engine_twice_accuses_nobody_in_particular() -> None:
    assert Suspects().after([1, 2], "why").after([1, 2], "why") == Suspects(frozenset({1, 2}))


def test_suspects_and_causes_are_kept(run: Run) -> None:
    told = Suspects(frozenset({5, 2}), {9: "grüße: \ud7ff"})
    suspects.write(run, told)
    assert suspects.read(run) == told


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"samples": 3, "failed": {}}', b'{"samples": [], "failed": {"x": 1}}']
)
def test_what_cannot_be_read_suspects_nobody(run: Run, data: bytes) -> None:
    Path(run.suspects).write_bytes(data)
    assert suspects.read(run) == Suspects()


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b'{"samples": 3}', b'{"samples": [-1]}', b'{"samples": ["1"]}', b'{"samples": [true]}']
)
def test_a_note_that_is_none_holds_nothing(run: Run, data: bytes) -> None:
    Path(run.hand).write_bytes(data)
    assert hand.held(run) == ()


def test_what_is_in_hand_is_noted_until_there_is_an_answer(run: Run) -> None:
    with hand.taken(run, [4, 5]):
        assert hand.held(run) == (4, 5)
    assert hand.held(run) == ()
    with pytest.raises(RuntimeError), hand.taken(run, [6]):
        raise RuntimeError
    assert hand.held(run) == (6,)
    hand.drop(run)
    assert hand.held(run) == ()


def test_a_disk_without_room_lets_the_engine_be_asked_all_the_same(run: Run) -> None:
    with hand.taken(Run(run.root / "not there"), [1]):
        pass
    assert hand.held(run) == ()


def test_before_the_engine_has_done_anything_the_budgets_speak(run: Run) -> None:
    inquiry = Inquiry(run)
    assert inquiry.judge(DIED, [0, 1], progressed=False) is None
    assert inquiry.judge(DIED, [2, 3], progressed=False) is None
    assert suspects.read(run).samples == {0, 1, 2, 3}  # and yet it is known whom to take last


def test_where_nothing_else_is_left_the_one_that_is_alone_is_given_up_even_so(run: Run) -> None:
    inquiry = Inquiry(run)
    assert inquiry.judge(DIED, [0], progressed=False) is None
    blamed = inquiry.judge(DIED, [0], progressed=False)
    assert blamed is not None
    assert blamed.mended
    assert "engine-died: Executor failed" in suspects.read(run).failed[0]


def test_once_samples_were_done_an_end_with_samples_in_hand_costs_no_budget(run: Run) -> None:
    inquiry = Inquiry(run)
    blamed = inquiry.judge(DIED, [8, 9], progressed=True)
    assert blamed is not None
    assert (blamed.kind, blamed.mended) == ("transient", True)
    assert "samples 8 to 9 in hand" in blamed.advice


def test_different_samples_in_a_row_with_nothing_done_between_are_not_to_blame(run: Run) -> None:
    inquiry = Inquiry(run)
    for number in range(suspects.PROVEN):
        blamed = inquiry.judge(DIED, [number], progressed=number == 0)
        assert blamed is not None
        assert blamed.mended
    last = inquiry.judge(DIED, [77], progressed=False)
    assert last is not None
    assert (last.kind, last.cause, last.mended) == ("fatal", "engine-died", False)
    assert "it is the engine or the host" in last.advice
    assert 77 not in suspects.read(run).samples


def test_progress_between_starts_the_count_over(run: Run) -> None:
    inquiry = Inquiry(run)
    for number in range(3 * suspects.PROVEN):
        blamed = inquiry.judge(DIED, [number, number + 1], progressed=True)
        assert blamed is not None
        assert blamed.mended


@pytest.mark.parametrize(
    "failure",
    [
        Failure(kind="unknown", cause="sigkill"),
        Failure(kind="unknown", cause="sigterm"),
        Failure(kind="transient", cause="temporary"),
        Failure(kind="transient", cause="gpu-ecc", then="node-fatal"),
        Failure(kind="fatal", cause="disk-full"),
        Failure(kind="fatal", cause="code"),
        Failure(kind="node-fatal", cause="gpu-hardware"),
    ],
)
def test_what_no_sample_does_accuses_none(run: Run, failure: Failure) -> None:
    assert Inquiry(run).judge(failure, [1], progressed=True) is None
    assert suspects.read(run) == Suspects()


def test_nothing_in_hand_accuses_nobody(run: Run) -> None:
    assert Inquiry(run).judge(DIED, [], progressed=True) is None


def test_memory_for_the_first_sample_of_all_is_a_matter_of_settings(run: Run) -> None:
    assert Inquiry(run).judge(MEMORY, [0], progressed=False) is None
    blamed = Inquiry(run).judge(MEMORY, [0], progressed=True)
    assert blamed is not None
    assert blamed.kind == "transient"
