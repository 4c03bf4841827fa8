"""What is imported for good is not looked through for garbage; what comes after it is, as ever."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from remote.gate import garbage

if TYPE_CHECKING:
    from collections.abc import Iterator


class Node:
    """Refers to itself: only the collector ends it."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Leave the collector as it was."""
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_collected_within() -> None:
    with garbage.uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_made_within_is_left_alone_and_what_comes_later_is_not() -> None:
    with garbage.uncollected():
        lasting = weakref.ref(Node())
    later = weakref.ref(Node())
    gc.collect()
    assert lasting() is not None
    assert later() is None


def test_an_import_that_raises_leaves_the_collector_at_work() -> None:
    with pytest.raises(ImportError), garbage.uncollected():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with garbage.uncollected():
        pass
    assert not gc.isenabled()
