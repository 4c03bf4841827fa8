from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.stack.conftest import Stack

TOLERANCE = 0.02  # relative, bf16
CASES = (
    "around a block",
    "one token",
    "longest",
    "more tokens than a step",
    "more requests than a step",
)
pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def told(stack: Stack) -> Any:
    # An order that is not the model's: the answer must keep it.
    return stack.script("engine_answers.py", stack.job.model, str(stack.job.max_model_len), json.dumps([7, 2, 4]))


@pytest.mark.parametrize("case", [name for case in CASES for name in (case, f"{case}, in one call")])
def test_states_are_those_of_transformers(told: Any, case: str) -> None:
    assert max(told[case]["by_layer"]) <= TOLERANCE
    assert told[case]["worst_prompt"] <= 2 * TOLERANCE


def test_prompts_that_would_be_cut_are_refused(told: Any) -> None:
    assert told["too long"] == "EngineError: prompt 0 has 2048 tokens; 1 to 2047 can be extracted"
    assert told["empty"].startswith("EngineError: prompt 0 has 0 tokens")


def test_a_failed_call_leaves_nothing_to_the_next(told: Any) -> None:
    assert told["broken"] == "TimeoutError: RPC call to execute_model timed out."
    assert max(told["after a failed call"]["by_layer"]) <= TOLERANCE


def test_it_lives_from_load_to_close(told: Any) -> None:
    assert (told["alive_before"], told["alive"], told["alive_after"]) == (False, True, False)
