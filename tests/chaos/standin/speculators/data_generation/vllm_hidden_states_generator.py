"""A STAND-IN for the generator that `remote.engines.speculators` drives, for the chaos suite only.

One worker process in a session of its own, as vLLM's; states that follow from the tokens, so that whoever knows the
tokens knows what must be in the file; `STANDIN_SECONDS` per prompt. A prompt that begins with a token of
`STANDIN_KILLS` ends the engine in the way that `STANDIN_HOW` names: its worker crashes (worker), this very process does
(self), it never answers (hang), or memory runs out and the worker with it (memory).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import torch

HIDDEN = 6


def states(prompt: list[int], layers: list[int]) -> list[list[list[float]]]:
    """Give the states of a prompt: one row per token, one table per layer."""
    return [
        [[float(token * 31 + position * 7 + layer * 1000 + column + 1) for column in range(HIDDEN)]
         for position, token in enumerate(prompt)]
        for layer in layers
    ]  # fmt: skip


class _Executor:
    def __init__(self) -> None:
        self._worker = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, start_new_session=True)

    @property
    def is_failed(self) -> bool:
        return self._worker.poll() is not None

    def end(self, how: str) -> None:
        if how == "hang":
            time.sleep(600)
        if how == "self":
            os.kill(os.getpid(), signal.SIGSEGV)
        self._worker.send_signal(signal.SIGSEGV)
        self._worker.wait()
        if how == "memory":
            raise RuntimeError("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB")

    def shutdown(self) -> None:
        self._worker.kill()
        self._worker.wait()


class VllmHiddenStatesGenerator:
    def __init__(self, *, model_path: str, layer_ids: list[int] | None, **_: Any) -> None:
        sys.stdout.write(f"INFO loading {model_path} grüße\n")
        self.layer_ids = layer_ids or [2, 5]
        self.executor = _Executor()
        self.vllm_config = SimpleNamespace(
            scheduler_config=SimpleNamespace(max_num_seqs=64, max_num_batched_tokens=4096)
        )
        time.sleep(self._pause())

    def generate(self, prompts: list[list[int]]) -> list[dict[str, Any]]:
        found = []
        for prompt in prompts:
            time.sleep(self._pause())
            if str(prompt[0]) in os.environ.get("STANDIN_KILLS", "").split():
                self.executor.end(os.environ.get("STANDIN_HOW", "worker"))
            if self.executor.is_failed:
                raise RuntimeError("Executor failed: a worker died")
            sys.stdout.write(f"INFO a prompt of {len(prompt)} tokens \u2713\n")
            tables = [torch.tensor(table) for table in states(prompt, self.layer_ids)]
            found.append({"input_ids": torch.tensor(prompt, dtype=torch.long), "hidden_states": tables})
        return found

    @staticmethod
    def _pause() -> float:
        return float(os.environ.get("STANDIN_SECONDS", "0"))
