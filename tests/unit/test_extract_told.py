"""What `extract` refuses on the laptop: the whole dataset on a host that has room for a share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from local import dealing
from local.errors import GateRefused, GaveUp, JobFailed, LinkLost, Unreachable
from local.gate import GateOutcome
from local.tasks import extract
from remote.schema import Check, Finding, Verdict
from remote.schema.gate import SHARED_SPACE


def outcome(rule: str, **facts: Any) -> GateOutcome:
    finding = Finding(rule=rule, message="room for a share, dealt to 8 hosts", severity="warning")
    inputs = Check(id="inputs", status="warn", findings=(finding,), facts=facts)
    checks = (Check(id="reach", status="pass"), inputs)
    verdict = Verdict(fingerprint="f", bundle="b", verdict="pass", level="rehearsal", decided=0.0, checks=checks)
    return GateOutcome(verdict=verdict, bundle="b", cached=True, facts=None, complete=True)


def test_a_pass_for_a_share_is_none_for_the_whole() -> None:
    with pytest.raises(GateRefused, match="one host alone: room for a share"):
        extract._hold_alone(outcome(SHARED_SPACE))


def test_other_warnings_are_no_matter() -> None:
    assert extract._hold_alone(outcome("output-space")) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"time": {"load": 90, "extract": 10.0}, "output": {"tokens": 1000}}, (90.0, 100.0)),
        ({"time": {"load": 90, "extract": None}, "output": {"tokens": 1000}}, (90.0, None)),
        ({"time": {"load": float("nan"), "extract": 0}, "output": {}}, (None, None)),
        ({"time": "soon", "output": ["much"]}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_what_the_gate_expects_is_taken_as_far_as_it_is_a_number(
    facts: dict[str, Any], expected: tuple[float | None, float | None]
) -> None:
    assert dealing.guesses(outcome("any", **facts)) == expected
    assert dealing.guesses(None) == (None, None)


def test_runs_that_nobody_hears_of_are_named() -> None:
    def session(name: str, run: str, error: Exception | None) -> Any:
        return SimpleNamespace(name=name, run=run, error=error)

    sessions = [
        session("a", "r", GaveUp("no link for 5 s")), session("b", "r", JobFailed("it failed")),
        session("c", "", Unreachable("nothing listens there")), session("d", "r", LinkLost("it broke")),
    ]  # fmt: skip
    assert extract._of_the_unwatched(sessions).startswith("What runs on a, d may go on")
    assert extract._of_the_unwatched(sessions[1:3]) == ""
