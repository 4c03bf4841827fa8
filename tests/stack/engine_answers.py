"""In the stack's Python: `MODEL MAX_MODEL_LEN LAYERS ANSWER`. One engine start; what it gives against Transformers."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from reference import Errors, Reference  # type: ignore[import-not-found] # beside this script

from remote.engines import base
from remote.schema import Job


def prompts(sizes: list[int]) -> list[list[int]]:
    """Give random prompts of these sizes."""
    chance = random.Random(sum(sizes))  # noqa: S311
    return [[chance.randrange(10, 600) for _ in range(size)] for size in sizes]


def compared(reference: Reference, asked: list[list[int]], answers: list[list[Any]]) -> dict[str, Any]:
    """Hold the answers against the reference."""
    errors = Errors(len(answers[0]))
    for prompt, states in zip(asked, answers, strict=True):
        errors.add(states, reference.states(prompt))
    return {"by_layer": errors.by_layer, "worst_prompt": errors.worst_prompt, "prompts": len(asked)}


def main(model: str, max_model_len: str, layers: str, answer: str) -> None:
    """Write the answer."""
    job = Job(
        name="t", engine="speculators", python="", workdir="", output="", model=model,
        layers=tuple(json.loads(layers)), max_model_len=int(max_model_len), device="cpu",
    )  # fmt: skip
    engine: Any = base.make(job)
    told: dict[str, Any] = {"alive_before": engine.alive()}
    engine.load()
    longest = engine.longest
    reference = Reference(model, list(job.layers))
    cases = {
        "around a block": [1, 15, 16, 17],
        "one token": [1],
        "longest": [longest, longest - 1, 1],
        "more tokens than a step": [longest] * 5 + [1, 300, 40] + [1500] * 3,
        "more requests than a step": [5] * 70,
    }
    for name, sizes in cases.items():
        asked = prompts(sizes)
        told[name] = compared(reference, asked, engine.extract(asked))
        # The patched generator by itself, all in one call: what `extract` never asks of it.
        raw = engine._generator.generate(asked)
        order = sorted(job.layers)
        states = [[one["hidden_states"][order.index(layer)] for layer in job.layers] for one in raw]
        told[f"{name}, in one call"] = compared(reference, asked, states)
    told["too long"] = refusal(engine, [[7] * (longest + 1)])
    told["empty"] = refusal(engine, [[]])
    told["broken"] = broken(engine, prompts([400, 20, 30]))
    told["after a failed call"] = compared(reference, prompts([3, 20]), engine.extract(prompts([3, 20])))
    told["alive"] = engine.alive()
    engine.close()
    engine.close()
    told["alive_after"] = engine.alive()
    Path(answer).write_text(json.dumps(told))


def broken(engine: Any, asked: list[list[int]]) -> str:
    """Let one step fail on the way to the workers, with its requests scheduled."""
    executor = engine._generator.executor

    def fail(_scheduled: Any) -> None:
        raise TimeoutError("RPC call to execute_model timed out.")

    executor.execute_model = fail
    try:
        return refusal(engine, asked)
    finally:
        del executor.execute_model


def refusal(engine: Any, asked: Any) -> str:
    """Give what the engine says to prompts that it cannot take."""
    try:
        engine.extract(asked)
    except Exception as error:  # noqa: BLE001 - any refusal is told
        return f"{type(error).__name__}: {error}"
    return "no refusal"


if __name__ == "__main__":
    main(*sys.argv[1:])
