"""What the contract says of Kimi-K2.5 with the series is true: a tiny one runs, and its states are its own."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack
TOLERANCE = 0.05  # of the median token, bf16, behind a mixture of experts


@pytest.fixture(scope="module")
def told(stack: Stack) -> Any:
    """Make the model, start one engine, compare."""
    env = {**stack.job.env, "VLLM_MLA_DISABLE": "1", "HF_HOME": str(stack.root / "hf")}
    here = dataclasses.replace(stack, job=dataclasses.replace(stack.job, env=env))
    model, text = str(stack.root / "kimi"), str(stack.root / "kimi-text")
    script = str(Path(__file__).parent / "tiny_kimi.py")
    made = subprocess.run(
        [here.python, script, stack.job.model, model, text],
        env=here.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    return here.script("kimi_answers.py", model, text, json.dumps([0, 1, 2, 3]), deadline=560)


def test_a_wrapped_text_model_gives_its_own_states(told: Any) -> None:
    assert max(told["own"]) <= TOLERANCE, told["own"]
    assert told["shapes"] == [[511, 128]] * 4


@pytest.mark.parametrize("fault", ["shifted", "next layer"])
def test_the_comparison_would_see_rows_that_are_not_their_own(told: Any, fault: str) -> None:
    assert min(told[fault]) >= 5 * max(told["own"])
