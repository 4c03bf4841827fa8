"""In the stack's Python: `MODEL OUTPUT LAYERS ANSWER`. Sample files against Transformers, and for the trainer."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from reference import Errors, Reference  # type: ignore[import-not-found] # beside this script
from speculators.train.data import Eagle3SampleFileDataset


def main(model: str, output: str, layers: str, answer: str) -> None:
    """Write the answer."""
    wanted = json.loads(layers)
    reference, errors = Reference(model, wanted), Errors(len(wanted))
    expected = functools.cache(lambda tokens: reference.states(list(tokens)))  # a dataset may hold a sample many times
    files = sorted(Path(output).glob("data_*.pt"))
    told: dict[str, Any] = {"files": len(files), "dtypes": [], "longest": 0, "overhead": 0, "tokens": 0, "trained": 0}
    for file in files:
        sample = torch.load(file, weights_only=True)
        tokens, states = sample["input_ids"].tolist(), sample["hidden_states"]
        errors.add(states, expected(tuple(tokens)))
        told["dtypes"] = sorted({*told["dtypes"], *(str(state.dtype) for state in states)})
        told["longest"] = max(told["longest"], len(tokens))
        content = sum(state.numel() * state.element_size() for state in states) + 16 * len(tokens)
        told["overhead"] = max(told["overhead"], file.stat().st_size - content)
        told["tokens"] += len(tokens)
        told["trained"] += int(sample["loss_mask"].sum())
    told["by_layer"] = errors.by_layer
    told["trainer"] = trainer(output)
    Path(answer).write_text(json.dumps(told))


def trainer(output: str) -> dict[str, Any]:
    """Give what speculators' own dataset makes of the folder."""
    dataset = Eagle3SampleFileDataset(max_len=2048, datapath=output)
    samples = [dataset[index] for index in range(len(dataset))]
    hidden = {(one["hidden_states"].shape[-1], one["verifier_last_hidden_states"].shape[-1]) for one in samples}
    return {"samples": len(samples), "hidden": [size for pair in hidden for size in pair]}


if __name__ == "__main__":
    main(*sys.argv[1:])
