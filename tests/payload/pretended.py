"""An engine's libraries, pretended: the chaos suite's torch, and a generator whose faults the environment chooses."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remote.schema import Job
    from tests.running import Lab

TORCH = Path(__file__).parents[1] / "chaos" / "standin" / "torch.py"
POISON = 666  # a token that no prompt may have
GENERATOR = f"""
import os, signal, time
from types import SimpleNamespace
import torch

class VllmHiddenStatesGenerator:
    def __init__(self, *, layer_ids, **_):
        self.layer_ids = layer_ids
        self.executor = SimpleNamespace(is_failed=False, shutdown=lambda: None)
        limits = SimpleNamespace(max_num_seqs=64, max_num_batched_tokens=4096)
        self.vllm_config = SimpleNamespace(scheduler_config=limits)
        if os.environ.get("MEMORY_AT_LOAD"):
            raise RuntimeError("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB")

        self.batches, self.wished = 0, False
        if os.environ.get("HOLDS"):  # this batch, until the attempt has been told to stop
            handler = signal.getsignal(signal.SIGTERM)
            def wish(*of):
                self.wished = True
                handler(*of)
            signal.signal(signal.SIGTERM, wish)

    def generate(self, prompts):
        self.batches += 1
        time.sleep(float(os.environ.get("SECONDS_EACH", "0")))
        print("BATCH", len(prompts), flush=True)
        while str(self.batches) == os.environ.get("HOLDS") and not self.wished:
            time.sleep(0.01)
        if any({POISON} in prompt for prompt in prompts):
            raise ValueError("this prompt cannot be")
        if len(prompts) > int(os.environ.get("MEMORY", "99")):
            self.executor.is_failed = bool(os.environ.get("DIES"))
            raise RuntimeError("Worker failed: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
        return [
            {{
                "input_ids": torch.tensor(prompt, dtype=torch.long),
                "hidden_states": [
                    torch.tensor([[float(token + layer + column + 1) for column in range(4)] for token in prompt])
                    for layer in self.layer_ids
                ],
            }}
            for prompt in prompts
        ]
"""


def job(lab: Lab, prompts: list[list[int]], *, env: dict[str, str] | None = None, **changes: Any) -> Job:
    """Give a job of the engine `speculators` over these prompts."""
    site = lab.root / "site"
    package = site / "speculators" / "data_generation"
    package.mkdir(parents=True, exist_ok=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "vllm_hidden_states_generator.py").write_text(GENERATOR)
    shutil.copy(TORCH, site / "torch.py")
    dataset = lab.root / "data.jsonl"
    lines = [json.dumps({"input_ids": prompt, "loss_mask": [1] * len(prompt)}) for prompt in prompts]
    dataset.write_text("\n".join(lines) + "\n")
    settings = {
        "engine": "speculators", "command": (), "progress": None, "dataset": str(dataset), "layers": (2, 5),
        "model": str(lab.root / "model"), "batch_size": 8, "env": {"PYTHONPATH": str(site), **(env or {})},
    }  # fmt: skip
    return dataclasses.replace(lab.job(), **{**settings, **changes})
