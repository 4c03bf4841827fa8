"""In the stack's Python: `MODEL TEXT LAYERS ANSWER`. A wrapped model's states against Transformers, token by token."""

from __future__ import annotations

import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

from reference import Reference  # type: ignore[import-not-found] # beside this script

from remote.engines import base
from remote.schema import Job

SIZES = [1, 15, 16, 17, 100, 511, 300, 5, 64, 33, 200, 9]


def main(model: str, text: str, layers: str, answer: str) -> None:
    """Write the answer."""
    job = Job(
        name="t", engine="speculators", python="", workdir="", output="", model=model,
        layers=tuple(json.loads(layers)), max_model_len=512, device="cpu",
    )  # fmt: skip
    chance = random.Random(3)  # noqa: S311
    prompts = [[chance.randrange(10, 580) for _ in range(size)] for size in SIZES]
    engine: Any = base.make(job)
    engine.load()
    answers = [*engine.extract(prompts[:6]), *engine.extract(prompts[6:])]
    engine.close()
    reference = Reference(text, list(job.layers))
    wanted = [reference.states(prompt) for prompt in prompts]
    told = {
        "own": medians(answers, wanted),
        "shifted": medians([[state.roll(1, 0) for state in states] for states in answers], wanted),
        "next layer": medians([states[1:] for states in answers], [states[:-1] for states in wanted]),
        "shapes": [list(state.shape) for state in answers[5]],
    }
    Path(answer).write_text(json.dumps(told))


def medians(answers: list[list[Any]], wanted: list[list[Any]]) -> list[float]:
    """Give the relative error of the median token in each layer: single tokens of a mixture of experts may flip."""
    errors: list[list[float]] = [[] for _ in wanted[0]]
    for states, right in zip(answers, wanted, strict=True):
        for layer, (state, want) in enumerate(zip(states, right, strict=True)):
            errors[layer] += ((state.float() - want).norm(dim=1) / want.norm(dim=1)).tolist()
    return [statistics.median(one) for one in errors]


if __name__ == "__main__":
    main(*sys.argv[1:])
