"""The job's own way of keeping a sample, tried on the rehearsal's: written whole, read back, and still the same."""

from __future__ import annotations

from array import array
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote.engines.base import EngineError
from remote.paths import Output
from remote.prompts.tokens import Tokens
from remote.results import outputs, samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remote.schema import Job


def kept(
    job: Job, batch: Sequence[Sequence[int]], answers: Sequence[list[Any]], layers: Sequence[int], *, first: int
) -> list[list[Any]]:
    """Write a batch's samples into the job's output and give them as they are read back; `first` numbers them."""
    if len(answers) != len(batch):
        raise EngineError(f"{len(batch)} prompts were asked for, {len(answers)} came back")
    output = Output(PurePosixPath(job.output))
    read: list[list[Any]] = []
    for index, (prompt, states) in enumerate(zip(batch, answers, strict=True), first):
        sample = Tokens(index, f"prompt {index}", array("i", prompt), bytes(len(prompt)))
        try:
            outputs.write(output, sample, states, layers)
            document = samples.load(output.sample(index))
            problem = samples.problem_with(document, sample, layers)
        except samples.SampleInvalid as error:
            problem = str(error)
        if problem:
            raise EngineError(f"prompt {index} (of {len(prompt)} tokens) {problem}")
        read.append(document["hidden_states"])
        Path(output.sample(index)).unlink()  # the largest batches need not all lie there at once
    return read
