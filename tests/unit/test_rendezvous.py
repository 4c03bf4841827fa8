"""Pipelines that meet: nobody waits for those who are gone, nor for ever; who is late is told so."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from local.rendezvous import Gathering, Party, TooLate

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 60.0
FAR = 1000.0


def nothing() -> None:
    """Take a beat."""


class Guests:
    """Threads that meet, each with what came of it."""

    def __init__(self, party: Party, *, patience: float = LONG) -> None:
        self.party, self.patience = party, patience
        self.met: dict[str, Gathering[str] | BaseException] = {}
        self.waits: dict[str, tuple[str, ...]] = {}
        self.threads: list[threading.Thread] = []

    def come(self, name: str, on_beat: Callable[[], None] = nothing) -> None:
        def meet() -> None:
            try:
                self.met[name] = self.party.meet(
                    name, f"{name}'s", patience=self.patience, on_beat=on_beat,
                    on_wait=lambda expected: self._waits(name, expected),
                )  # fmt: skip
            except BaseException as error:  # noqa: BLE001 - kept for the test to see
                self.met[name] = error

        thread = threading.Thread(target=meet)
        thread.start()
        self.threads.append(thread)

    def _waits(self, name: str, expected: tuple[str, ...]) -> None:
        assert name not in self.waits
        self.waits[name] = expected

    def over(self) -> dict[str, Any]:
        for thread in self.threads:
            thread.join(LONG)
            assert not thread.is_alive()
        return self.met


def test_all_go_on_with_what_all_have_brought_in_the_partys_order() -> None:
    guests = Guests(Party("abc"))
    for name in "cab":
        guests.come(name)
    met = guests.over()
    assert {id(gathering) for gathering in met.values()} == {id(met["a"])}
    assert list(met["a"].brought.items()) == [("a", "a's"), ("b", "b's"), ("c", "c's")]
    assert met["a"].late == ()


def test_who_is_gone_is_not_waited_for() -> None:
    party = Party("abc")
    guests = Guests(party)
    party.leave("b", "unreachable")
    guests.come("a")
    guests.come("c")
    assert list(guests.over()["a"].brought) == ["a", "c"]
    assert party.gone == {"b": "unreachable"}


def test_leaving_ends_the_waiting_of_the_others() -> None:
    party = Party("ab")
    guests = Guests(party)
    waiting = threading.Event()
    guests.come("a", on_beat=waiting.set)
    assert waiting.wait(LONG)
    party.leave("b")
    assert list(guests.over()["a"].brought) == ["a"]


def test_nobody_is_waited_for_longer_than_told_and_comes_too_late_then() -> None:
    now = [0.0]
    party = Party("ab", clock=lambda: now[0])
    guests = Guests(party)

    def beat() -> None:
        now[0] += FAR

    guests.come("a", on_beat=beat)
    assert guests.over()["a"].late == ("b",)
    with pytest.raises(TooLate):
        party.meet("b", "", patience=LONG, on_beat=nothing)


def test_whom_we_wait_for_is_told_once_when_it_is_not_over_soon() -> None:
    now = [0.0]
    party = Party("abc", clock=lambda: now[0])
    party.leave("c")
    guests = Guests(party, patience=5.0)

    def beat() -> None:
        now[0] += 0.9

    guests.come("a", on_beat=beat)
    guests.over()
    assert guests.waits == {"a": ("b",)}


def test_who_was_late_is_at_the_next_meeting() -> None:
    party = Party("ab")
    assert party.meet("a", "", patience=0.0, on_beat=nothing).late == ("b",)
    with pytest.raises(TooLate):
        party.meet("b", "", patience=0.0, on_beat=nothing)
    guests = Guests(party)
    guests.come("a")
    guests.come("b")
    assert list(guests.over()["b"].brought) == ["a", "b"]
    assert [party.has_met(name) for name in ("a", "b", "c")] == [True, True, False]


def test_an_interrupt_ends_the_waiting_at_once() -> None:
    class Interrupted(BaseException):
        pass

    def beat() -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        Party("ab").meet("a", "", patience=LONG, on_beat=beat)


def test_one_alone_waits_for_nobody() -> None:
    assert list(Party("a").meet("a", "x", patience=LONG, on_beat=nothing).brought.values()) == ["x"]


def test_what_is_done_once_is_everybodys_result_or_error() -> None:
    gathering = Gathering[str]()
    calls: list[int] = []
    results = [gathering.once(lambda: calls.append(1) or "made") for _ in range(3)]
    assert (results, calls) == (["made"] * 3, [1])
    failing = Gathering[str]()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            failing.once(lambda: 1 // 0)
