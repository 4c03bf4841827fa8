"""Work done once for many pipelines, a few at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from local.sharing import Shared

MANY = 24


def test_the_same_work_is_done_once_and_waited_for() -> None:
    shared, calls = Shared[object](), list[int]()
    together = threading.Barrier(MANY)

    def make() -> object:
        calls.append(1)
        return object()

    def pipeline(_: int) -> object:
        together.wait(30)
        return shared.once("key", make)

    with ThreadPoolExecutor(MANY) as pool:
        found = list(pool.map(pipeline, range(MANY)))
    assert len(calls) == 1
    assert len({id(one) for one in found}) == 1


def test_no_more_is_done_at_a_time_than_there_is_room_for() -> None:
    shared, lock = Shared[int](at_once=2), threading.Lock()
    now, most = 0, 0

    def make() -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.01)
        with lock:
            now -= 1
        return now

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(lambda key: shared.once(key, make), range(MANY)))
    assert 1 <= most <= 2


def test_a_failure_is_told_to_all_and_tried_again_by_the_next() -> None:
    shared = Shared[int]()
    with pytest.raises(ZeroDivisionError):
        shared.once("key", lambda: 1 // 0)
    assert shared.once("key", lambda: 7) == 7


def test_old_results_are_dropped() -> None:
    shared, calls = Shared[int](kept=2), list[int]()
    for key in (1, 2, 3, 3, 1):
        shared.once(key, lambda key=key: calls.append(key) or key)  # type: ignore[misc]
    assert calls == [1, 2, 3, 1]
