"""Answers of a worker, held against the shared memory that they go through."""

from __future__ import annotations

import pytest

from remote.gate import estimate, ring

MIB = 2**20
LAYERS, HIDDEN = 4, 4096  # 32 KiB a token in half precision


def planned(samples: int, each: int) -> estimate.Output:
    return estimate.output(
        samples=samples, tokens=samples * each, longest=each, layers=LAYERS, hidden=HIDDEN, dtype_size=2
    )


def test_a_batchs_answer_is_its_states() -> None:
    assert ring.of_batch(planned(100, 64), 8) == 8 * 64 * LAYERS * HIDDEN * 2
    assert ring.of_batch(planned(3, 64), 8) == 3 * 64 * LAYERS * HIDDEN * 2
    assert ring.of_batch(planned(0, 64), 8) == 0


@pytest.mark.parametrize(
    ("samples", "each", "free", "refused"),
    [
        (800, 64, 31 * MIB, True),  # 16 MiB a batch, in two places at least
        (800, 64, 32 * MIB, False),
        (8, 64, 64 * MIB, False),  # a single batch
        (8, 64, 15 * MIB, True),
        (15, 64, 20 * MIB, False),
        (16, 64, 31 * MIB, True),
        (800, 96, 47 * MIB, True),  # 24 MiB, the most that a place holds
        (800, 97, 0, False),  # larger ones go through a socket
        (0, 1, 0, False),
    ],
)
def test_answers_that_fill_more_than_is_free_are_an_error(samples: int, each: int, free: int, *, refused: bool) -> None:
    found = list(ring.findings(planned(samples, each), 8, free))
    assert [(one.rule, one.severity, one.file) for one in found] == [
        ("answers-too-large", "error", ring.FOLDER) for _ in range(refused)
    ]
