"""Verb `expect`: how long a load of the job's model takes on this host, measured or assumed."""

from __future__ import annotations

from remote.gate import estimate
from remote.gate.rates import measured
from remote.model import model_folder
from remote.schema import ExpectAnswer, ExpectRequest


def answer(request: ExpectRequest) -> ExpectAnswer:
    """Give the seconds of a load; nothing where there is no model folder to weigh."""
    weights = model_folder.read(request.job.model).weights if request.job.model else 0
    if not weights:
        return ExpectAnswer()
    planned = estimate.duration(weights=weights, tokens=0, rates=measured(request.job, weights))
    return ExpectAnswer(load=planned.load, assumed=planned.assumed)
