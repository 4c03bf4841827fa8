from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local import bundle, checktask, surface
from local.host import Host
from local.levels import static
from local.levels.context import Context
from local.links.here import HereLink
from local.patches import Applied
from remote import schema

if TYPE_CHECKING:
    from pathlib import Path

    from tests.payload.conftest import Stage

CODE = "from vllm import run\n\n\nrun(a=1, gone=2)\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path / "cache"))


def test_the_level_fetches_what_it_needs_and_check_goes_on_without_a_host(stage: Stage, tmp_path: Path) -> None:
    stage.write({"vllm/__init__.py": "def run(a): ...\n", "mine/__init__.py": "", "mine/main.py": CODE})
    host = Host(HereLink(tmp_path / "home"), name="here", python=stage.python, workdir=str(tmp_path / "workdir"))
    (tmp_path / "home").mkdir()
    job = stage.job(gate=schema.GateSpec(modules=("mine.main",)))
    packed = bundle.pack(None, {})
    host.push(packed)
    facts = host.call("facts", schema.FactsRequest(job=job), schema.HostFacts, bundle=packed.id, deadline=60)
    context = Context(host=host, job=job, bundle=packed.id, facts=facts, series=(), applied=Applied(), secrets={})
    (check,) = static.begin(context)
    assert [(finding.rule, finding.line, finding.text) for finding in check.findings] == [
        ("unknown-argument", 4, "run(a=1, gone=2)")
    ]
    offline = checktask.check(job, surface.remembered("here", job.name), no_patches=True)
    assert offline.checks[-1].findings == check.findings
    assert surface.architectures("here", job.name) == ()
    assert "+run(a=1)\n" in offline.suggestion


def test_the_architectures_of_the_model_are_remembered_for_work_offline(stage: Stage, tmp_path: Path) -> None:
    stage.write({"vllm/__init__.py": "", "mine/__init__.py": ""})
    (tmp_path / "home").mkdir()
    host = Host(HereLink(tmp_path / "home"), name="here", python=stage.python, workdir=str(tmp_path / "workdir"))
    job = stage.job(gate=schema.GateSpec(modules=("mine",)))
    packed = bundle.pack(None, {})
    host.push(packed)
    surface.fetch(host, job, bundle=packed.id, architectures=("A", "B"))
    assert surface.architectures("here", job.name) == ("A", "B")
    assert surface.architectures("elsewhere", job.name) == ()
