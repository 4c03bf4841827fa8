"""Patches that look right and are not, brought into the whole series: the gate must refuse them. And those that the
static level writes itself: the gate must accept them.

Each start of an engine takes 10 to 50 seconds, so faults that are told apart by their findings share one.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from local import bundle as bundles
from local import checktask, patches
from local.host import Host
from local.links.here import HereLink
from local.static.tree import Surface
from remote.paths import Bundle
from remote.schema import ProbeAnswer, ProbeRequest
from tests.unpacking import unpack

if TYPE_CHECKING:
    from remote.schema import Check, Finding, Job
    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack
GENERATOR = "speculators/data_generation/vllm_hidden_states_generator.py"
WORKER = "speculators/data_generation/custom_worker.py"
# file, what the series makes of it, what a careless patch makes of that
NEVER_ENDED = (GENERATOR, "if request.num_computed_tokens >= request.num_prompt_tokens:", "if request.is_finished():")
LAST_LAYER = (
    WORKER,
    "aux_hidden_states.append((hidden_states + residual).clone())",
    """last = absolute_layer_idx == self.end_layer - 1
            aux_hidden_states.append((hidden_states if last else hidden_states + residual).clone())""",
)
WORKERS_ONLY = (
    WORKER,
    "import logging\n",
    """import logging
import multiprocessing

if multiprocessing.current_process().name.startswith("VllmWorker"):
    import fast_capture

""",
)
MANY = (
    GENERATOR,
    "        results = []\n",
    """        results = []
        if len(input_ids_list) > 18:
            raise ValueError("too many prompts at a time")
""",
)
Plant = tuple[str, str, str]
VERSIONS = {"speculators": "0.3.0", "vllm": "0.16.0+cpu"}
MENDED = ("0003", "0004", "0005")  # whose faults the static level can mend on this pair


def site(stack: Stack) -> Path:
    """Give the folder of the stack's packages."""
    return next(Path(stack.python).parent.parent.glob("lib/python3*/site-packages"))


def patched(stack: Stack, root: Path = patches.SERIES, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Give the files that a series makes of the stack's own."""
    series = patches.select(patches.load_series(root), VERSIONS, without=without)
    applied = patches.apply(series, {path: (site(stack) / path).read_text() for one in series for path in one.files})
    assert applied.findings == ()
    return applied.files


def planted(stack: Stack, job: Job, *plants: Plant) -> list[Check]:
    """Take a job through the levels from the import on, with the series and the faults brought into it."""
    files = patched(stack)
    for file, old, new in plants:
        assert files[file].count(old) == 1, old
        files[file] = files[file].replace(old, new)
    return levels(stack, job, files)


def levels(stack: Stack, job: Job, files: dict[str, str]) -> list[Check]:
    """Take a job through the levels from the import on, with these files in place of the installed ones."""
    made = bundles.pack(job, files)
    bundle = Bundle(PurePosixPath(stack.root, "workdir", "bundles", made.id))
    unpack(made.data, Path(bundle.root))
    host = Host(HereLink(stack.root), name="here", python=stack.python, workdir=job.workdir)
    host.reach()
    request = ProbeRequest(job=job, bundle=made.id, patched=True)
    return list(host.call("probe", request, ProbeAnswer, bundle=made.id, deadline=1000).checks)


def found(checks: list[Check]) -> dict[str, Finding]:
    """Give the rehearsal's findings by rule; all levels before it have let the patch pass."""
    assert [check.id for check in checks] == ["import", "signature", "contract", "inputs", "rehearsal"]
    assert {check.status for check in checks[:-1]} <= {"pass", "warn"}
    assert checks[-1].status == "fail"
    return {finding.rule: finding for finding in checks[-1].findings}


def test_prompts_that_nothing_ends_and_a_last_layer_that_is_wrong(stack: Stack) -> None:
    findings = found(planted(stack, stack.job, NEVER_ENDED, LAST_LAYER))
    assert set(findings) == {"rehearsal-leftover", "rehearsal-wrong-states"}
    assert "(it takes 32 at a time)" in findings["rehearsal-leftover"].message
    wrong = findings["rehearsal-wrong-states"].message
    assert f"layer {stack.job.layers[-1]}: " in wrong
    assert not any(f"layer {layer}: " in wrong for layer in stack.job.layers[:-1])


def test_what_only_a_worker_cannot_import_is_placed_in_its_file(stack: Stack) -> None:
    finding = found(planted(stack, stack.job, WORKERS_ONLY))["rehearsal-crashed"]
    assert (finding.file, (finding.text or "").strip()) == (WORKER, "import fast_capture")
    assert "No module named 'fast_capture'" in finding.message


def test_what_breaks_at_the_number_of_prompts_that_the_job_asks_for_at_a_time(stack: Stack) -> None:
    finding = found(planted(stack, dataclasses.replace(stack.job, batch_size=24), MANY))["rehearsal-crashed"]
    assert (finding.file, "too many prompts" in finding.message) == (GENERATOR, True)


@pytest.fixture(scope="module")
def surface(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Surface:
    """Give the installed sources, as the laptop holds them."""
    root = tmp_path_factory.mktemp("surface")
    for name in ("speculators", "vllm", "pydantic"):
        (root / name).symlink_to(site(stack) / name)
    return Surface(roots=(root,), python="3.11", versions=tuple(VERSIONS.items()))


def suggested(stack: Stack, surface: Surface, folder: Path, *without: str) -> Path:
    """Leave patches out, and add what `fab check --suggest` writes to a copy of the series; gives its folder."""
    written = checktask.check(stack.job, surface, without=without)
    assert written.failed
    shutil.copytree(patches.SERIES, folder)
    (folder / "speculators-0.3.0" / "0999-suggested.patch").write_text(written.suggestion)
    return folder


@pytest.mark.parametrize("number", MENDED)
def test_the_suggested_patch_is_accepted_in_place_of_ours(
    stack: Stack, surface: Surface, tmp_path: Path, number: str
) -> None:
    root = suggested(stack, surface, tmp_path / "series", number)
    again = checktask.check(stack.job, surface, root=root, without=(number,))
    assert not again.failed
    assert (again.checks[1].status, again.suggestion) == ("warn", "")


def test_all_that_can_be_suggested_at_once_passes_every_level(stack: Stack, surface: Surface, tmp_path: Path) -> None:
    root = suggested(stack, surface, tmp_path / "series", *MENDED)
    checks = levels(stack, stack.job, patched(stack, root, without=MENDED))
    assert [check.id for check in checks] == ["import", "signature", "contract", "inputs", "rehearsal"]
    assert {check.status for check in checks} <= {"pass", "warn"}
    assert checks[-1].status == "pass"
