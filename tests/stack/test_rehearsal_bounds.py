"""What the comparison lets pass and what it does not: planted faults, in every precision and kind of model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.stack.conftest import Stack

pytestmark = pytest.mark.stack
KINDS = ("float32 dense", "float32 experts", "bfloat16 dense", "bfloat16 experts")
LONGEST = 6  # the number of the prompt of 200 tokens
SAYS = {
    "swapped": "is that of prompt 4",
    "shifted": "is shifted by one token: each has its predecessor's",
    "shifted back": "is shifted by one token: each has its successor's",
    "one row": "is right up to token 197 and wrong from token 198 on",
    "tail": "is right up to token 159 and wrong from token 160 on",
    "truncated": "has the shape (1, 64), not (2, 64)",
    "layer before": "is that of layer 0",
    "layer after": "is that of layer 2",
    "layers reversed": "is that of layer 6",
    "zeros": "is not what the model computes",
    "nan": "is not what the model computes",
}


@pytest.fixture(scope="module")
def told(stack: Stack) -> Any:
    return stack.script("planted.py")


@pytest.mark.parametrize("kind", KINDS)
def test_true_states_pass(told: Any, kind: str) -> None:
    assert told[kind]["true"] == {"prompts": [], "says": []}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plant", SAYS)
def test_a_planted_fault_is_seen_and_named(told: Any, kind: str, plant: str) -> None:
    assert told[kind][plant]["prompts"]
    assert told[kind][plant]["says"][0] == SAYS[plant]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_prompts_that_are_wrong_are_named(told: Any, kind: str) -> None:
    assert told[kind]["swapped"]["prompts"] == [3, 4]
    assert {name: told[kind][name]["prompts"] for name in ("shifted", "shifted back", "one row", "tail")} == {
        name: [LONGEST] for name in ("shifted", "shifted back", "one row", "tail")
    }


def test_other_experts_for_single_tokens_are_no_fault_of_a_mixture_of_experts(told: Any) -> None:
    flips = {kind: told[kind]["flipped"]["prompts"] for kind in KINDS}
    assert flips["bfloat16 experts"] == flips["float32 experts"] == []
    assert flips["bfloat16 dense"]
    assert flips["float32 dense"]
