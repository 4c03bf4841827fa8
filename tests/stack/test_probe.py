"""The probe on the real stack: exactly the faults that a signature can tell, and none once the series mends them."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from local import bundle as bundles
from remote import schema, wire
from remote.paths import Bundle
from tests.unpacking import unpack

if TYPE_CHECKING:
    from conftest import Stack

pytestmark = pytest.mark.stack
GENERATOR = "speculators/data_generation/vllm_hidden_states_generator.py"


def probe(stack: Stack, bundle: Bundle) -> dict[str, schema.Check]:
    """Ask the pushed payload, isolated, as the controller does."""
    request = schema.ProbeRequest(job=stack.job, bundle=bundle.root.name, until="signature")
    done = subprocess.run(
        [stack.python, "-I", "-B", str(bundle.entry), "probe"],
        input=wire.dumps(request).encode(),
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer = wire.loads(schema.ProbeAnswer, done.stdout.partition(b"\n")[2])
    return {check.id: check for check in answer.checks}


def sources(stack: Stack) -> str:
    """Hash the installed speculators, names, contents and times: what must never change."""
    (site,) = Path(stack.python).parent.parent.glob("lib/python3*/site-packages")
    state = hashlib.sha256()
    for folder, _, names in sorted(os.walk(site / "speculators")):
        for name in sorted(names):
            path = Path(folder, name)
            state.update(f"{path} {path.stat().st_mtime_ns}".encode() + path.read_bytes())
    return state.hexdigest()


def test_the_released_speculators_shows_the_faults_that_signatures_tell(stack: Stack) -> None:
    packed = bundles.pack(dataclasses.replace(stack.job, name="unpatched"), {})
    folder = Path(stack.job.workdir, "bundles", packed.id)
    folder.mkdir(parents=True)
    unpack(packed.data, folder)
    checks = probe(stack, Bundle(PurePosixPath(folder)))
    assert checks["import"].status == "pass"
    told = [(f.rule, f.file, f.line, (f.text or "")[f.column : f.end_column]) for f in checks["signature"].findings]
    assert told == [
        ("unexpected-argument", GENERATOR, 139, "kv_cache_specs"),
        ("missing-argument", GENERATOR, 148, "Scheduler"),
        ("missing-argument", GENERATOR, 194, "SchedulerConfig"),
    ]
    assert "'block_size'" in checks["signature"].findings[1].message
    assert "'is_encoder_decoder'" in checks["signature"].findings[2].message


def test_the_series_leaves_no_finding_and_workers_see_it(stack: Stack) -> None:
    before = sources(stack)
    checks = probe(stack, stack.bundle)
    assert {name: (check.status, check.findings) for name, check in checks.items()} == {
        "import": ("pass", ()),
        "signature": ("pass", ()),
    }
    overlay = str(stack.bundle.overlay)
    for seen in (checks["import"].facts["modules"], checks["import"].facts["workers"]):
        assert len(seen) == 2
        assert all(module["overlay"] and module["file"].startswith(overlay) for module in seen.values())
    facts = checks["signature"].facts
    assert facts["calls"]["bound"] > 40
    assert len(facts["parameters"]) == 3
    assert "block_size" in facts["parameters"]["vllm.v1.core.sched.scheduler:Scheduler.__init__"]
    assert sources(stack) == before
