"""In the stack's Python, in a run folder: `SCENARIO`. A real attempt over an engine that plays the scenario."""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

import torch

from remote import attempt
from remote.engines import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remote.schema import Job

BATCH = 3


class Scripted:
    """Gives random states, less what the scenario spoils. A prompt's first token is 100 + its number."""

    longest = 50
    layers = (1, 2)

    def __init__(self, scenario: str) -> None:
        self._scenario = scenario
        self._calls = 0

    def load(self) -> None:
        """Be stopped, in one scenario."""
        if self._scenario == "stopped while loading":
            os.kill(os.getpid(), signal.SIGTERM)

    def alive(self) -> bool:
        """Be dead, in one scenario."""
        return self._scenario != "dead"

    def close(self) -> None:
        """Say so."""
        sys.stderr.write("CLOSED\n")

    def extract(self, prompts: Sequence[Sequence[int]]) -> list[list[Any]]:
        """Give states, or fail."""
        self._calls += 1
        if self._scenario in {"dead", "never works"}:
            raise RuntimeError("Worker failed with error 'out of luck'")
        if self._scenario == "stopped in a batch" and self._calls == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        if self._scenario == "disk refuses":
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        return [self._states(prompt) for prompt in prompts]

    def _states(self, prompt: Sequence[int]) -> list[Any]:
        states = [torch.randn(len(prompt), 64), torch.randn(len(prompt), 64)]
        if self._scenario == "poison" and len(prompt) > 1:
            match prompt[0] - 100:
                case 1:
                    raise ValueError("this prompt cannot be had")
                case 2:
                    states[1][3, 4] = float("nan")
                case 4:
                    states[0].zero_()
                case 6:
                    states[1] = states[0]
                case 7:
                    states = [state[1:] for state in states]
        return states


def make(_job: Job) -> Scripted:
    """Give the engine of a job."""
    return Scripted(sys.argv[1])


if __name__ == "__main__":
    base.ENGINES["scripted"] = "scripted"
    sys.modules["remote.engines.scripted"] = sys.modules["__main__"]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.exit(attempt.main([]))
