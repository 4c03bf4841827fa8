"""Weights, held against what a process of the session may map."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from remote.gate import maplimit
from remote.model import model_config
from remote.model.model_folder import ModelFolder
from remote.model.safetensors_header import Header
from remote.schema import Job

GB = 10**9
ROOT = Path(__file__).parents[2]


def job(**changes: Any) -> Job:
    return Job(name="j", engine="speculators", python="python3", workdir="/w", output="/o", model="/m", **changes)


def folder(shard: int, *, shards: int = 2) -> ModelFolder:
    names = [f"model-{number}.safetensors" for number in range(shards)]
    headers = {name: Header(size=shard, needed=shard, data=shard) for name in names}
    return ModelFolder(
        path="/m",
        exists=True,
        config=model_config.parse({"torch_dtype": "bfloat16", "num_hidden_layers": 2, "hidden_size": 64}),
        headers={**headers, "consolidated.safetensors": Header(size=99 * GB, needed=99 * GB, data=99 * GB)},
        index={f"t{name}": name for name in names},
    )


@pytest.mark.parametrize(
    ("wanted", "limit", "refused"),
    [
        (job(device="cuda"), -1, False),
        (job(device="cuda"), 5 * GB, False),  # a file at a time
        (job(device="cuda"), 5 * GB - 1, True),
        (job(device="cpu"), 8 * GB, True),  # nine tenths of both
        (job(device="cpu"), 9 * GB, False),
        (job(device="cpu", tensor_parallel=2), 5 * GB, False),
        (job(device="cpu"), 0, True),
    ],
)
def test_weights_that_may_not_be_mapped_are_an_error(wanted: Job, limit: int, *, refused: bool) -> None:
    found = list(maplimit.findings(wanted, folder(5 * GB), limit))
    assert [(one.rule, one.severity, one.file) for one in found] == [
        ("weights-memory-limit", "error", "/m") for _ in range(refused)
    ]


def test_a_folder_without_weights_is_no_concern_of_it() -> None:
    nothing = ModelFolder(path="/m", exists=True, config=None, headers={}, index=None)
    assert list(maplimit.findings(job(device="cpu"), nothing, 1)) == []


def test_the_limit_is_the_sessions() -> None:
    def smaller() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))

    asked = [sys.executable, "-c", "from remote.gate import maplimit; print(maplimit.here())"]
    done = subprocess.run(asked, preexec_fn=smaller, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == f"{4 << 30}\n"
