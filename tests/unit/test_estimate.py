"""What a job writes, takes and costs."""

import pytest

from remote.gate import estimate
from remote.gate.estimate import Output, Rates, Room

GB = 10**9


def test_a_sample_of_the_original_job_is_as_large_as_its_file_was() -> None:
    # 4 layers of 7168 in bf16: 57,344 bytes a token, and the ids and mask beside it
    assert estimate.sample_bytes(2048, layers=4, hidden=7168, dtype_size=2) == 2048 * 57_360 + 4096


def _planned(size: int, samples: int = 100) -> Output:
    return Output(samples=samples, tokens=1, size=size, largest=0)


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (Room(free=2 * GB, inodes_free=10**6), []),
        (Room(free=GB, inodes_free=10**6), [("bytes", True)]),
        (Room(free=GB // 2, inodes_free=10**6), [("bytes", False)]),
        (Room(free=GB // 2, inodes_free=10**6, held=GB * 3 // 4, files=75), []),
        (Room(free=2 * GB, inodes_free=100), [("inodes", False)]),
        (Room(free=2 * GB, inodes_free=120), [("inodes", True)]),
        (Room(free=2 * GB, inodes_free=0), []),
        (Room(free=0, inodes_free=3), [("bytes", False), ("inodes", False)]),
        (Room(free=2 * GB, inodes_free=50, held=GB, files=100), []),
    ],
)
def test_what_does_not_fit_is_said(room: Room, expected: list[tuple[str, bool]]) -> None:
    assert [(short.what, short.tight) for short in estimate.shortages(_planned(GB), room)] == expected


def test_resuming_a_finished_output_still_needs_room_for_one_file() -> None:
    planned = Output(samples=2, tokens=2, size=2000, largest=1000)
    (short,) = estimate.shortages(planned, Room(free=999, inodes_free=10**6, held=2000, files=2))
    assert (short.what, short.needed, short.tight) == ("bytes", 1000, False)


def test_time_and_cost_of_a_measured_host() -> None:
    took = estimate.duration(weights=10 * GB, tokens=7_200_000, rates=Rates(load=GB, tokens=2000.0), usd_per_hour=36.0)
    assert took.load == estimate.START + 10
    assert took.extract == 3600.0
    assert took.usd == pytest.approx((3600 + 100) / 3600 * 36, abs=0.01)
    assert not took.assumed


def test_a_host_that_never_ran_is_reckoned_with_and_said_to_be_a_guess() -> None:
    took = estimate.duration(weights=595 * GB, tokens=8_000_000, rates=Rates(), workers=8, usd_per_hour=36.0)
    assert (took.assumed, took.extract_by) == (True, "assumed")
    assert 18 <= took.load / 60 <= 21
    assert 30 <= took.extract / 60 <= 90
    assert took.usd == pytest.approx((took.load + took.extract) / 100, abs=0.01)


def test_a_rate_says_what_has_shown_it() -> None:
    took = estimate.duration(weights=GB, tokens=1000, rates=Rates(tokens=10.0, shown_by="rehearsal"))
    assert (took.extract, took.extract_by, took.assumed) == (100.0, "rehearsal", True)
    assert estimate.duration(weights=GB, tokens=1, rates=Rates(load=GB, tokens=1.0)).extract_by == "runs"


@pytest.mark.parametrize("device", ["cuda", "cpu", "abacus"])
@pytest.mark.parametrize("weights", [0, 1, GB, 10**13])
def test_a_guess_is_never_nothing_and_grows_with_the_workers(weights: int, device: str) -> None:
    one, eight = (estimate.assumed_tokens(weights, workers, device) for workers in (1, 8))
    assert 0 < one <= eight <= estimate.FASTEST


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (35e12, "35.0 TB"), (1.17e9, "1.2 GB")]
)
def test_sizes_as_people_read_them(size: float, text: str) -> None:
    assert estimate.human(size) == text
