"""How many threads a reference is worth."""

from __future__ import annotations

import pytest

from remote.rehearsal import threads


@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        ([], 1),
        ([1, 15, 16, 17, *[511] * 8], 1),  # the demo's
        ([2047] * 2, 1),
        ([2047] * 3, 64),
        ([10_000], 64),
    ],
)
def test_little_is_computed_by_one_thread(lengths: list[int], count: int) -> None:
    assert threads.wanted(lengths, 64) == count


def test_no_more_threads_than_torch_takes() -> None:
    assert threads.wanted([10_000], 1) == 1
