"""Start a job on a host, or attach to the run that has its output folder already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tenacity

from local.errors import GateRefused, LinkLost
from remote.schema import LaunchAnswer, LaunchRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.host import Host
    from remote.schema import Job

START = 60.0  # seconds that the supervisor has to say that it started
TRIES = 4


def start(host: Host, job: Job, *, bundle: str, fingerprint: str, secrets: Mapping[str, str]) -> LaunchAnswer:
    """Start a run or attach to one; raises GateRefused when the host will not start it.

    Asking again after a lost link is safe: a run that did start holds its output folder, and we attach to it.
    """
    request = LaunchRequest(job=job, bundle=bundle, fingerprint=fingerprint, secrets=dict(secrets), deadline=START)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(LinkLost),
        wait=tenacity.wait_exponential(multiplier=0.5, max=10.0) + tenacity.wait_random(0, 0.5),
        stop=tenacity.stop_after_attempt(TRIES),
        reraise=True,
    )
    for attempt in retrying:
        with attempt:
            if attempt.retry_state.attempt_number > 1:
                host.link.reconnect()
            answer = host.call("launch", request, LaunchAnswer, bundle=bundle, deadline=START * 1.5)
    if answer.outcome == "refused":
        remedy = "Nothing was changed on the host; mend that, then run the same command again."
        raise GateRefused(f"the job was not started: {answer.message}", where=host.name, remedy=remedy)
    return answer
