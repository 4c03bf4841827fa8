"""The engine `speculators`: drives `VllmHiddenStatesGenerator`, vLLM prefilling in its own worker processes.

The generator cuts a prompt silently to `max_model_len - 1` tokens (it asks for one generated token, which needs a
place), so that is what `longest` says and what prompts are cut to before they get here; a longer one is an error. It
captures layers in the model's order whatever order they are asked for: they are given back in the job's.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Any

from remote.engines.base import EngineError, packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remote.schema import Job


def make(job: Job) -> SpeculatorsEngine:
    """Give the engine of a job."""
    return SpeculatorsEngine(job)


class SpeculatorsEngine:
    """One generator, loaded once, called with as many prompts as one scheduling step holds."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._generator: Any = None
        self._wanted = job.layers

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt that comes back whole."""
        return self._job.max_model_len - 1

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that `extract` gives, in its order."""
        return self._wanted

    def load(self) -> None:
        """Load the model into the workers."""
        from speculators.data_generation.vllm_hidden_states_generator import VllmHiddenStatesGenerator

        self._generator = VllmHiddenStatesGenerator(
            model_path=self._job.model,
            layer_ids=sorted(set(self._wanted)) or None,
            max_model_len=self._job.max_model_len,
            gpu_memory_utilization=self._job.memory_fraction,
            tensor_parallel_size=self._job.tensor_parallel,
        )
        self._wanted = self._wanted or tuple(self._generator.layer_ids)

    def extract(self, prompts: Sequence[Sequence[int]]) -> list[list[Any]]:
        """Give for each prompt one tensor [tokens, hidden size] per layer; raises EngineError."""
        for number, prompt in enumerate(prompts):
            if not 1 <= len(prompt) <= self.longest:
                raise EngineError(f"prompt {number} has {len(prompt)} tokens; 1 to {self.longest} can be extracted")
        limits = self._generator.vllm_config.scheduler_config
        lengths = [len(prompt) for prompt in prompts]
        calls = packed(lengths, most=limits.max_num_seqs, budget=limits.max_num_batched_tokens)
        return [states for call in calls for states in self._call([prompts[index] for index in call])]

    def alive(self) -> bool:
        """Tell whether the workers live."""
        return self._generator is not None and not self._generator.executor.is_failed

    def close(self) -> None:
        """End the workers."""
        if self._generator is not None:
            self._generator.executor.shutdown()
            self._generator = None
            gc.collect()  # its queues to the workers unlink their shared memory when they are collected

    def _call(self, prompts: list[Sequence[int]]) -> list[list[Any]]:
        asked = [list(prompt) for prompt in prompts]
        try:
            answers = self._generator.generate(asked)
        except BaseException:
            self._forget()
            raise
        if len(answers) != len(asked):
            raise EngineError(f"{len(asked)} prompts were asked for, {len(answers)} came back")
        return [self._own(prompt, answer) for prompt, answer in zip(asked, answers, strict=True)]

    def _own(self, prompt: list[int], answer: dict[str, Any]) -> list[Any]:
        """Give the states of a prompt in the job's order of layers, once they are proven to be its own."""
        captured = sorted(set(self._wanted))
        states = answer["hidden_states"]
        if answer["input_ids"].tolist() != prompt:
            raise EngineError("a prompt came back with tokens that are not its own")
        if len(states) != len(captured):
            raise EngineError(f"{len(captured)} layers were asked for, {len(states)} came back")
        if rows := {len(state) for state in states} - {len(prompt)}:
            raise EngineError(f"a prompt of {len(prompt)} tokens came back with {sorted(rows)} rows")
        return [states[captured.index(layer)] for layer in self._wanted]

    def _forget(self) -> None:
        """Drop the requests that a failed call has left in the scheduler: they are not the next call's."""
        with contextlib.suppress(Exception):  # an engine that is broken stays so: `alive` and the next call tell
            from vllm.v1.request import RequestStatus

            scheduler = self._generator.scheduler
            scheduler.finish_requests(list(scheduler.requests), RequestStatus.FINISHED_ABORTED)
