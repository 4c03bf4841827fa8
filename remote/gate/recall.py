"""What a host remembers, asked in the same breath as reaching it: fresh facts, and the verdict stored for them.

The bootstrap calls `document` from the payload of the bundle that it was asked about, in its own process. Nothing is
decided here: the laptop decides reach, host and patch from these facts, and sees that the verdict is for its bundle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remote import facts, verdict, wire
from remote.schema import FactsRequest, RecallAnswer, RecallRequest, SurfaceRequest, VerdictRequest

if TYPE_CHECKING:
    from remote.schema import HostFacts, VerdictAnswer


def document(data: bytes) -> str:
    """Answer one encoded question by one encoded answer."""
    return wire.dumps(answer(wire.loads(RecallRequest, data, "recall")))


def answer(request: RecallRequest) -> RecallAnswer:
    """Give the facts of this moment, what was decided for exactly them, and the sources where they are asked for."""
    if request.surfaces is None:
        found, known = _known(request)
        return RecallAnswer(facts=found, known=known)
    from concurrent.futures import ThreadPoolExecutor

    from remote import surface

    with ThreadPoolExecutor(1, thread_name_prefix="surface") as pool:  # both wait for disks and processes
        asked = pool.submit(surface.answer, SurfaceRequest(job=request.job, held=request.surfaces))
        found, known = _known(request)
        return RecallAnswer(facts=found, known=known, surface=asked.result())


def _known(request: RecallRequest) -> tuple[HostFacts, VerdictAnswer]:
    wanted = FactsRequest(job=request.job, sources=request.sources, bundle=request.bundle, held=request.held)
    found = facts.answer(wanted)
    question = VerdictRequest(job=request.job, bundle=request.bundle)
    return found, verdict.known(question, found.fingerprint)
