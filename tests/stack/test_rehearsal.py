"""The rehearsal on the real stack: every start of an engine here takes 10 to 50 seconds, so there are few."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.gate import preflight
from local.gateoptions import GateOptions
from local.host import Host
from local.levels import LEVELS
from local.links.here import HereLink
from remote import overlay, wire
from remote.environment import job_environment
from remote.host import processes
from remote.schema import Check, GateSpec, ProbeAnswer, ProbeRequest
from tests.stack.conftest import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.schema import Finding, Job
    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack
GENERATOR = "speculators/data_generation/vllm_hidden_states_generator.py"
WORKER = "speculators/data_generation/custom_worker.py"
KIMI = Path(__file__).parent.parent / "data" / "kimi-k2.5"


@pytest.fixture(autouse=True)
def nothing_left(stack: Stack) -> Iterator[None]:
    """See that a rehearsal, whatever came of it, leaves neither processes nor shared memory."""
    before = shared_memory()
    yield
    until = time.monotonic() + 10
    while (at_work(stack.root) or orphans(before)) and time.monotonic() < until:
        time.sleep(0.1)
    assert at_work(stack.root) == []
    assert orphans(before) == set()


def at_work(root: Path) -> list[str]:
    """Name the processes whose current folder is within this one: those of a job, workers included."""
    folders = {path: str(path.resolve()) for path in Path("/proc").glob("[0-9]*/cwd") if path.parent.name != "self"}
    return [str(path) for path, folder in folders.items() if folder.startswith(f"{root.resolve()}/")]


def shared_memory() -> set[str]:
    """Name the shared memory and semaphores of this machine."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(("psm_", "sem.mp-", "torch_"))}  # noqa: PTH208


def orphans(before: set[str]) -> set[str]:
    """Name the shared memory that is new and that no living process has mapped."""
    new = shared_memory() - before
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            text = maps.read_text(errors="replace")
            new = {name for name in new if name not in text}
    return new


def probed(stack: Stack, *without: str) -> Check:
    """Take the levels from the import on over a job with patches left out; gives the rehearsal's check."""
    bundle = unpacked(stack.job, stack.root, without)
    host = Host(HereLink(stack.root), name="here", python=stack.python, workdir=stack.job.workdir)
    host.reach()
    request = ProbeRequest(job=stack.job, bundle=bundle.root.name, patched=True)
    checks = host.call("probe", request, ProbeAnswer, bundle=bundle.root.name, deadline=1000).checks
    assert [check.id for check in checks] == ["import", "signature", "contract", "inputs", "rehearsal"]
    assert {check.status for check in checks[:-1]} <= {"pass", "warn"}
    return checks[-1]


def rehearsed(stack: Stack, job: Job, *without: str, dtype: str = "own", seconds: float = 600) -> Check:
    """Rehearse alone, without the levels that would have seen it before."""
    bundle = unpacked(job, stack.root, without)
    overlay.ensure(bundle, job.python)
    asked, answer = stack.root / "rehearse-job.json", stack.root / "rehearsed.json"
    asked.write_text(wire.dumps(job))
    answer.unlink(missing_ok=True)
    script = Path(__file__).parent / "rehearse.py"
    with (stack.root / "rehearsal.log").open("w+b") as log:
        process = subprocess.Popen(
            [job.python, str(script), str(asked), dtype, str(seconds), str(answer)],
            env=job_environment(job, bundle),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=str(bundle.root),
        )
        try:
            process.wait(700)
        finally:  # what `children.ask` does as well
            processes.end(lambda: [one for one in processes.everybody() if one.session == process.pid], grace=5)
            process.wait()
    return wire.loads(Check, answer.read_bytes())


def only(check: Check, status: str = "fail") -> Finding:
    """Give the one finding of a check."""
    assert check.status == status, check
    assert len(check.findings) == 1
    return check.findings[0]


def test_the_whole_gate_passes_on_the_patched_stack(stack: Stack) -> None:
    host = Host(HereLink(stack.root), name="here", python=stack.python, workdir=stack.job.workdir)
    outcome = preflight(host, stack.job, GateOptions(), lambda _check: None, {})
    checks = {check.id: check for check in outcome.verdict.checks}
    assert tuple(checks) == LEVELS
    assert outcome.passed
    facts = checks["rehearsal"].facts
    assert (checks["rehearsal"].status, facts["dtype"]) == ("pass", "float32")
    assert set(facts["errors"]) == {str(layer) for layer in stack.job.layers}
    assert max(error["worst"] for error in facts["errors"].values()) < 1e-4
    assert {1, 15, 16, 17, stack.job.max_model_len - 1} <= set(facts["lengths"])
    assert len(facts["lengths"]) >= 12
    assert facts["calls"] >= 2
    assert "capped" not in facts
    assert preflight(host, stack.job, GateOptions(), lambda _check: None, {}).cached


@pytest.mark.parametrize(
    ("number", "text", "words"),
    [
        ("0006", "scheduler_output := self.scheduler.schedule()", "AssertionError (raised in vllm/v1/core/block_pool"),
        ("0007", "if not aux_hidden_states:", "has `aux_hidden_states = captured_states_list[0]`"),
        ("0008", "self.executor.execute_model(scheduler_output)", "sample_tokens() must be called after"),
        (
            "0011",
            "def generate(self",
            "are not what Transformers computes: prompt 22 (40 tokens, in a batch of several",
        ),
    ],
)
def test_with_one_patch_left_out_the_job_fails_at_its_line(stack: Stack, number: str, text: str, words: str) -> None:
    finding = only(probed(stack, number))
    assert finding.file == GENERATOR
    assert text in (finding.text or "")
    assert words in finding.message


def test_what_dies_in_a_worker_is_placed_in_the_worker(stack: Stack) -> None:
    finding = only(rehearsed(stack, stack.job, "0005"))
    assert (finding.rule, finding.file) == ("rehearsal-crashed", WORKER)
    assert "self.get_input_embeddings(input_ids)" in (finding.text or "")
    assert finding.message.startswith("while the tiny model was loaded: AttributeError")


def test_in_half_precision_it_passes_and_what_only_a_small_cache_would_meet_is_a_warning(stack: Stack) -> None:
    check = rehearsed(stack, stack.job, "0010", dtype="bfloat16")
    finding = only(check, "warn")
    assert (finding.rule, finding.file) == ("rehearsal-in-parts", GENERATOR)
    assert "Prompt 1 has 40 tokens and 14 rows" in finding.message
    assert "No call of this job takes several steps (8192 tokens each)" in finding.message
    errors = check.facts["errors"].values()
    assert 1e-4 < max(error["worst"] for error in errors) < check.facts["bounds"]["worst"] / 2
    assert max(error["median"] for error in errors) < check.facts["bounds"]["median"] / 2


def test_a_tiny_kimi_on_two_workers_computes_what_transformers_does(stack: Stack) -> None:
    folder = stack.root / "kimi-in-two"
    folder.mkdir()
    for path in Path(stack.job.model).glob("*token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "config.json").write_text(json.dumps(json.loads((KIMI / "config.json").read_text())))
    env = {**stack.job.env, "VLLM_MLA_DISABLE": "1", "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
    job = dataclasses.replace(stack.job, model=str(folder), layers=(2, 30, 58, 60), env=env, max_model_len=512)
    check = rehearsed(stack, dataclasses.replace(job, tensor_parallel=2))
    assert check.status == "pass", check
    assert check.facts["tensor_parallel"] == 2
    assert check.facts["text_only"] == "text_config"
    assert set(check.facts["errors"]) == {"2", "30", "58", "60"}
    assert max(error["median"] for error in check.facts["errors"].values()) < check.facts["bounds"]["median"] / 10


def test_when_the_time_is_up_it_says_where_it_hangs(stack: Stack) -> None:
    check = rehearsed(stack, stack.job, seconds=2)
    finding = only(check)
    assert finding.rule == "rehearsal-timeout"
    assert (finding.file, finding.line is not None) == (GENERATOR, True)
    assert "self.executor = MultiprocExecutor(" in (finding.text or "")
    assert "no end within 2 s: it hangs while the tiny model was loaded" in finding.message


def test_at_the_real_sizes_with_made_up_weights(stack: Stack) -> None:
    check = rehearsed(stack, dataclasses.replace(stack.job, gate=GateSpec(thin=True)))
    assert check.status == "pass", check
    said = check.facts["thin"]
    target = json.loads((Path(stack.job.model) / "config.json").read_text())
    assert (said["hidden"], said["vocabulary"]) == (target["hidden_size"], target["vocab_size"])
    assert said["layers_kept"] == [0, 2, 4, 6, 7]
    assert said["tokens"] == stack.job.batch_size * (stack.job.max_model_len - 1) + 1
    assert said["dtype"] == "bfloat16"
    assert said["memory"][0]["resident"] > said["estimated"] > 0
    (folder,) = (Path(stack.job.workdir) / "cache" / "rehearsal").glob("thin-*")
    assert not list(folder.glob("*.safetensors*"))


def test_a_whole_tiny_kimi_at_its_real_sizes(stack: Stack) -> None:
    folder, text = stack.root / "whole-kimi", stack.root / "whole-kimi-text"
    script = Path(__file__).parent / "tiny_kimi.py"
    make = [stack.python, str(script), stack.job.model, str(folder), str(text)]
    subprocess.run(make, env=stack.environment(), check=True, capture_output=True, timeout=200)
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    env = {**stack.job.env, "VLLM_MLA_DISABLE": "1"}
    job = dataclasses.replace(stack.job, model=str(folder), layers=(1, 3), env=env, gate=GateSpec(thin=True))
    check = rehearsed(stack, dataclasses.replace(job, max_model_len=512))
    assert check.status == "pass", check
    said = check.facts["thin"]
    assert (said["layers_kept"], said["hidden"], said["experts"]) == ([0, 1, 3], 128, 8)
    assert (said["prompts"], said["tokens"]) == (5, 4 * 511 + 1)


def test_heads_that_no_kernel_takes_show_at_the_real_sizes(stack: Stack) -> None:
    folder = stack.root / "odd-heads"
    folder.mkdir()
    for path in Path(stack.job.model).glob("*token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((Path(stack.job.model) / "config.json").read_text())
    config |= {"head_dim": 40, "hidden_size": 80, "num_attention_heads": 2, "num_key_value_heads": 2}
    (folder / "config.json").write_text(json.dumps(config))
    check = rehearsed(stack, dataclasses.replace(stack.job, model=str(folder), gate=GateSpec(thin=True)))
    finding = only(check)
    assert finding.rule == "rehearsal-thin-crashed"
    assert "at the target's real sizes, while it was loaded" in finding.message
    assert "A worker process died unexpectedly" in finding.message  # in a kernel for heads of 40
    assert finding.file == GENERATOR
    assert set(check.facts["errors"]) == {str(layer) for layer in stack.job.layers}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "float17"}, "has no attribute 'float17'"),
        ({"quantization_config": {"quant_method": "nvfp9"}}, "Unknown quantization method: nvfp9"),
    ],
)
def test_what_the_tiny_model_leaves_out_shows_in_the_configuration_of_the_target(
    stack: Stack, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for path in Path(stack.job.model).glob("*token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((Path(stack.job.model) / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    finding = only(rehearsed(stack, dataclasses.replace(stack.job, model=str(folder))))
    assert (finding.rule, finding.file) == ("rehearsal-crashed", GENERATOR)
    assert finding.message.startswith("while the configuration for the model itself was made: ")
    assert words in finding.message
