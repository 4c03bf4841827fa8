"""The real stack: vLLM and speculators on the CPU, one bundle, one tiny model, one dataset for all tests."""

from __future__ import annotations

import json
import os
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from local import bundle as bundles
from local import folders, patches
from remote import overlay
from remote.environment import job_environment
from remote.paths import Bundle
from remote.schema import Job, Retry
from tests.unpacking import unpack

HERE = Path(__file__).parent
MAX_MODEL_LEN = 2048
LAYERS = (2, 4, 6, 7)
# Around a block of the KV cache (16 tokens); at, and beyond, what a prompt may have (max_model_len less one).
LENGTHS = (1, 15, 16, 17, MAX_MODEL_LEN - 2, MAX_MODEL_LEN - 1, MAX_MODEL_LEN, MAX_MODEL_LEN + 12)


@dataclass(frozen=True)
class Stack:
    """What the tests of a session share: a job on a tiny model under a real bundle."""

    python: str
    root: Path
    bundle: Bundle
    job: Job

    def environment(self, **marks: str) -> dict[str, str]:
        """Give what a process of the job sees."""
        return job_environment(self.job, self.bundle, marks=marks)

    def script(self, name: str, *arguments: str, deadline: float = 400) -> Any:
        """Run a script of this folder under the job's environment; gives what it writes to its last argument."""
        answer = self.root / f"{name}.json"
        done = subprocess.run(
            [self.python, str(HERE / name), *arguments, str(answer)],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return json.loads(answer.read_text())


def stack_python() -> str:
    """Give the Python of the stack; fails the test, rather than skipping it, where there is none."""
    python = os.environ.get("PRUDENT_GATE_STACK") or str(folders.cache() / "stack-cpu" / "bin" / "python")
    if not os.access(python, os.X_OK):
        pytest.fail(f"no stack at {python}: run `make stack`, or set PRUDENT_GATE_STACK to its Python", pytrace=False)
    return python


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Make model, dataset and bundle once; no engine is started."""
    python = stack_python()
    root = tmp_path_factory.mktemp("stack")
    job = Job(
        name="tiny",
        engine="speculators",
        python=python,
        workdir=str(root / "workdir"),
        output=str(root / "hidden_states"),
        model=str(root / "model"),
        dataset=str(root / "train.jsonl"),
        layers=LAYERS,
        max_model_len=MAX_MODEL_LEN,
        batch_size=4,
        device="cpu",
        env={"VLLM_CPU_KVCACHE_SPACE": "1"},
        retry=Retry(transient=0),
    )
    made = Stack(python, root, unpacked(job, root), job)
    overlay.ensure(made.bundle, python)
    make = ["-m", "remote", "tiny-model", job.model, "--dataset", job.dataset, "--conversations", "40"]
    subprocess.run([python, *make], env=made.environment(), check=True, capture_output=True, timeout=120)
    with Path(job.dataset).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in ready_samples())
    return made


def packed(job: Job, without: tuple[str, ...] = ()) -> bundles.Packed:
    """Pack the job's bundle with what the series makes of the stack's own sources."""
    site = next(Path(job.python).parent.parent.glob("lib/python3*/site-packages"))
    series = patches.select(patches.load_series(), {"speculators": "0.3.0", "vllm": "0.16.0"}, without=without)
    sources = {path: (site / path).read_text() for patch in series for path in patch.files}
    applied = patches.apply(series, sources)
    assert not applied.findings
    return bundles.pack(job, applied.files)


def unpacked(job: Job, root: Path, without: tuple[str, ...] = ()) -> Bundle:
    """Pack the job's bundle, and unpack it in its place."""
    made = packed(job, without)
    folder = root / "workdir" / "bundles" / made.id
    folder.mkdir(parents=True, exist_ok=True)
    unpack(made.data, folder)
    return Bundle(PurePosixPath(folder))


def ready_samples() -> list[dict[str, list[int]]]:
    """Give samples of ready tokens in every length that matters."""
    chance = random.Random(5)  # noqa: S311
    return [
        {
            "input_ids": [chance.randrange(10, 600) for _ in range(length)],
            "loss_mask": [chance.randrange(2) for _ in range(length)],
        }
        for length in LENGTHS
    ]
