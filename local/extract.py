"""Start a job on a host, or attach to the run that has its output folder already."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

import tenacity

from local.errors import GateRefused, LinkLost
from remote.schema import Dealt, Hooks, LaunchAnswer, LaunchRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local.host import Host
    from remote.schema import Job

T = TypeVar("T")
START = 60.0  # seconds that the supervisor has to say that it started
TRIES = 4


def start(
    host: Host,
    job: Job,
    *,
    bundle: str,
    fingerprint: str,
    secrets: Mapping[str, str],
    shard: str | None = None,
    hooks: Hooks | None = None,
    dealt: Dealt | None = None,
) -> LaunchAnswer:
    """Start a run or attach to one; raises GateRefused when the host will not start it.

    `shard` None is the whole dataset. Asking again after a lost link is safe: a run that did start holds its output
    folder, and we attach to it.
    """
    request = LaunchRequest(
        job=job, bundle=bundle, fingerprint=fingerprint, secrets=dict(secrets), deadline=START, shard=shard,
        hooks=hooks or Hooks(), dealt=dealt,
    )  # fmt: skip
    answer = persist(host, lambda: host.call("launch", request, LaunchAnswer, bundle=bundle, deadline=START * 1.5))
    if answer.outcome == "refused":
        remedy = "Nothing was changed on the host; mend that, then run the same command again."
        raise GateRefused(f"the job was not started: {answer.message}", where=host.name, remedy=remedy)
    return answer


def persist(host: Host, ask: Callable[[], T]) -> T:
    """Ask, over a link that may be lost meanwhile: it is made again a few times. For what is safe to ask twice."""
    tries = itertools.count()

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(LinkLost),
        wait=tenacity.wait_exponential(multiplier=0.5, max=10.0) + tenacity.wait_random(0, 0.5),
        stop=tenacity.stop_after_attempt(TRIES),
        reraise=True,
    )
    def asking() -> T:
        if next(tries):
            host.link.reconnect()
        return ask()

    return asking()
