"""What is said of money where the gate refuses and where a run ends."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from local.errors import LinkLost, PayloadCrashed
from local.tasks import saving
from remote.schema import Check, Exit, ExpectAnswer, Finding, Job, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTS = tuple(Finding(rule="missing-argument", message=f"no {name}", callee="vllm.X") for name in "abc")
GPUS = Check(id="host", status="pass", facts={"gpus": ["NVIDIA B200"] * 8})


@dataclass
class Laptop:
    """As much of a session as is asked here; `answer` is what the host says when it is asked for a load."""

    answer: Callable[[], ExpectAnswer]
    usd_per_hour: float | None = 36.0
    written: io.StringIO = field(default_factory=io.StringIO)
    asked: list[str] = field(default_factory=list)

    def session(self) -> Any:
        def call(verb: str, *_: Any, **__: Any) -> ExpectAnswer:
            self.asked.append(verb)
            return self.answer()

        return SimpleNamespace(
            name="gpu[01]", alone=True, console=Console(file=self.written, width=200), payload="b",
            job=Job(name="j", engine="x", python="/p", workdir="/w", output="/o"),
            target=SimpleNamespace(usd_per_hour=self.usd_per_hour, gpus=4), host=SimpleNamespace(call=call),
        )  # fmt: skip


def verdict(*checks: Check) -> Verdict:
    return Verdict(fingerprint="f", bundle="b", verdict="fail", level=checks[-1].id, decided=1.0, checks=checks)


def failing(level: str = "static") -> Check:
    return Check(id=level, status="fail", findings=FAULTS)


def lost() -> ExpectAnswer:
    raise LinkLost("no answer")


def crashed() -> ExpectAnswer:
    raise PayloadCrashed("unknown verb")


def test_a_refusal_says_what_it_saved_by_what_the_host_knows_of_loads() -> None:
    laptop = Laptop(lambda: ExpectAnswer(load=1080.0, assumed=False))
    saving.refused(laptop.session(), verdict(GPUS, failing()))
    assert laptop.written.getvalue() == "gpu[01]  3 faults found before the load: about 54 min × 8 GPUs ($32.40)\n"
    assert laptop.asked == ["expect"]


def test_what_the_gate_has_reckoned_itself_is_not_asked_for_again() -> None:
    inputs = Check(id="inputs", status="pass", facts={"time": {"load": 60.0, "assumed": True}})
    laptop = Laptop(lost)
    made = saving.refused(laptop.session(), verdict(inputs, failing("rehearsal")))
    assert made is not None
    assert (made.load, made.assumed, made.gpus) == (60.0, True, 4)
    assert laptop.asked == []


@pytest.mark.parametrize("answer", [lost, crashed, ExpectAnswer], ids=["lost", "crashed", "nothing"])
def test_a_host_that_cannot_say_how_long_a_load_takes_keeps_nothing_back(answer: Callable[[], ExpectAnswer]) -> None:
    laptop = Laptop(answer)
    saving.refused(laptop.session(), verdict(failing()))
    assert laptop.written.getvalue() == "gpu[01]  3 faults found before the load\n"


def test_a_refusal_that_saved_no_load_says_nothing_and_asks_nothing() -> None:
    laptop = Laptop(lost)
    assert saving.refused(laptop.session(), verdict(failing("host"))) is None
    assert (laptop.written.getvalue(), laptop.asked) == ("", [])


def ended(at: float) -> Exit:
    return Exit(phase="failed", code=1, ended=at, attempts=1)


def test_the_end_of_a_run_has_its_price() -> None:
    laptop = Laptop(lost)
    assert saving.final(laptop.session(), "20260101-000000-abcd", ended(1767225600.0 + 1800)) == 18.0
    assert laptop.written.getvalue() == "gpu[01]  30 min 00 s, $18.00\n"


@pytest.mark.parametrize(
    ("run", "price", "exit_"),
    [("20260101-000000-abcd", None, ended(2e9)), ("20260101-000000-abcd", 1.0, None), ("no run", 1.0, ended(2e9))],
)
def test_what_is_not_known_is_not_said(run: str, price: float | None, exit_: Exit | None) -> None:
    laptop = Laptop(lost, usd_per_hour=price)
    assert saving.final(laptop.session(), run, exit_) is None
    assert laptop.written.getvalue() == ""
