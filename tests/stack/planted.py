"""In the stack's Python: `ANSWER`. True states and planted faults, held against a synthetic reference."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from remote.rehearsal import compare

LAYERS = (1, 3, 5, 6)
LENGTHS = (1, 2, 15, 16, 17, 64, 200)
HIDDEN = 64
CHANGE = 0.12  # of a layer that changes its input little: Gemma's do so


def made(seed: int = 0) -> list[list[Any]]:
    """Give states of seven layers for each prompt, as a model's residual stream grows."""
    chance = torch.Generator().manual_seed(seed)
    prompts = []
    for length in LENGTHS:
        state = torch.randn(length, HIDDEN, generator=chance)
        layers = []
        for _ in range(7):
            state = state + CHANGE * torch.randn(state.shape, generator=chance) * state.norm(dim=-1, keepdim=True) / 8
            layers.append(state)
        prompts.append(layers)
    return prompts


def rounded(states: list[list[Any]], dtype: str) -> list[list[Any]]:
    """Give what an engine answers: the job's layers, with the errors of its precision."""
    chance = torch.Generator().manual_seed(1)
    noise = {"float32": 1e-6, "bfloat16": 0.01}[dtype]
    kind = getattr(torch, dtype)

    def off(state: Any) -> Any:
        return (state * (1 + noise * torch.randn(state.shape, generator=chance))).to(kind)

    return [[off(layers[layer]) for layer in LAYERS] for layers in states]


def flipped(answers: list[list[Any]]) -> list[list[Any]]:
    """Let single tokens have chosen other experts, as a mixture of experts does for want of precision."""
    chance = torch.Generator().manual_seed(2)
    for states in answers:
        for state in states:
            for token in range(5, len(state), 12):
                state[token] += 0.4 * state[token].norm() / 8 * torch.randn(HIDDEN, generator=chance).to(state.dtype)
    return answers


def swapped(answers: list[list[Any]]) -> list[list[Any]]:
    """Give each of two prompts of one length's rows to the other."""
    first, second = answers[3], answers[4]
    return [*answers[:3], [state[:16].clone() for state in second], first_of(second, first), *answers[5:]]


def first_of(own: list[Any], other: list[Any]) -> list[Any]:
    """Put another prompt's rows in front of the last one's own."""
    return [torch.cat([theirs, mine[len(theirs) :]]) for mine, theirs in zip(own, other, strict=True)]


def shifted(answers: list[list[Any]], by: int) -> list[list[Any]]:
    """Move every row of a long prompt by one."""
    return [*answers[:-1], [state.roll(by, 0) for state in answers[-1]]]


def off_by_one(states: list[list[Any]], dtype: str, by: int) -> list[list[Any]]:
    """Answer with the layer before, or after, the one that was asked for."""
    moved = [[layers[min(6, max(0, number + by))] for number in range(7)] for layers in states]
    return rounded(moved, dtype)


def tail(answers: list[list[Any]], by: float) -> list[list[Any]]:
    """Let the last rows of the longest prompt be those of the prompt before it."""
    cut = int(200 * by)
    return [*answers[:-1], [torch.cat([own[:-cut], own[:cut].flip(0)]) for own in answers[-1]]]


def plants(states: list[list[Any]], dtype: str) -> dict[str, list[list[Any]]]:
    """Give every planted fault."""
    return {
        "swapped": swapped(rounded(states, dtype)),
        "shifted": shifted(rounded(states, dtype), 1),
        "shifted back": shifted(rounded(states, dtype), -1),
        "one row": tail(rounded(states, dtype), 0.01),
        "tail": tail(rounded(states, dtype), 0.2),
        "truncated": [[state[:-1] if len(state) > 1 else state for state in one] for one in rounded(states, dtype)],
        "layer before": off_by_one(states, dtype, -1),
        "layer after": off_by_one(states, dtype, 1),
        "layers reversed": [list(reversed(one)) for one in rounded(states, dtype)],
        "zeros": [[torch.zeros_like(state) for state in one] for one in rounded(states, dtype)],
        "nan": [[state * float("nan") for state in one] for one in rounded(states, dtype)],
    }


def held(answers: list[list[Any]], states: list[list[Any]], dtype: str, *, experts: bool) -> Any:
    """Give what is said of the first wrong states, and of which prompts and layers there are any."""
    _, wrong = compare.hold(answers, states, LAYERS, compare.bounds(dtype, experts=experts))
    return {"prompts": sorted({one.prompt for one in wrong}), "says": [one.seems for one in wrong][:3]}


def main(answer: str) -> None:
    """Write the answer."""
    states = made()
    told: dict[str, Any] = {}
    for dtype in ("float32", "bfloat16"):
        for experts in (False, True):
            kind = f"{dtype} {'experts' if experts else 'dense'}"
            told[kind] = {
                name: held(planted, states, dtype, experts=experts) for name, planted in plants(states, dtype).items()
            }
            told[kind]["true"] = held(rounded(states, dtype), states, dtype, experts=experts)
            told[kind]["flipped"] = held(flipped(rounded(states, dtype)), states, dtype, experts=experts)
    Path(answer).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
