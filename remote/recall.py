"""What a host remembers, asked in the same breath as reaching it: fresh facts, and the verdict stored for them.

The bootstrap calls `document` from the payload of the bundle that it was asked about, in its own process. Nothing is
decided here: the laptop decides reach, host and patch from these facts, and sees that the verdict is for its bundle.
"""

from __future__ import annotations

from remote import facts, verdict, wire
from remote.schema import FactsRequest, RecallAnswer, RecallRequest, VerdictRequest


def document(data: bytes) -> str:
    """Answer one encoded question by one encoded answer."""
    return wire.dumps(answer(wire.loads(RecallRequest, data, "recall")))


def answer(request: RecallRequest) -> RecallAnswer:
    """Give the facts of this moment, and what was decided for exactly them."""
    wanted = FactsRequest(job=request.job, sources=request.sources, bundle=request.bundle, held=request.held)
    found = facts.answer(wanted)
    question = VerdictRequest(job=request.job, bundle=request.bundle)
    return RecallAnswer(facts=found, known=verdict.known(question, found.fingerprint))
