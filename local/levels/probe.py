"""Levels `import` and `signature`: one clean process on the host, under the job's exact environment, decides both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remote.schema import ProbeAnswer, ProbeRequest

if TYPE_CHECKING:
    from local.levels.context import Context
    from remote.schema import Check

LEVELS = ("import", "signature")
DEADLINE = 600.0  # of the imports themselves: cold disks and eight busy cores
GRACE = 30.0  # for the answer to come back


def run(context: Context) -> tuple[Check, ...]:
    """Ask the host to import the gate's modules and to bind their call sites."""
    request = ProbeRequest(job=context.job, bundle=context.bundle, secrets=dict(context.secrets), deadline=DEADLINE)
    answer = context.host.call("probe", request, ProbeAnswer, bundle=context.bundle, deadline=DEADLINE + GRACE)
    return answer.checks
