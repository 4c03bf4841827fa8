"""Levels `import` to `rehearsal`: one clean process on the host, in the job's exact environment, decides them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remote.schema import ProbeAnswer, ProbeRequest

if TYPE_CHECKING:
    from local.levels.context import Context
    from remote.schema import Check

LEVELS = ("import", "signature", "contract", "inputs", "rehearsal")
DEADLINE = 600.0  # of the imports themselves: cold disks and eight busy cores
REHEARSAL = 900.0  # of the rehearsal: one engine start on the tiny model, seconds where all is well
GRACE = 30.0  # for the answer to come back


def run(context: Context) -> tuple[Check, ...]:
    """Ask the host to import the gate's modules, and for all that is seen with them imported."""
    request = ProbeRequest(
        job=context.job,
        bundle=context.bundle,
        secrets=dict(context.secrets),
        deadline=DEADLINE,
        until=context.until,
        rehearsal=REHEARSAL,
        # With a patch left out by will the pair is not the known good one, but the rehearsal names the line: let it.
        patched=context.reviewed or bool(context.applied.files),
        usd_per_hour=context.usd_per_hour,
    )
    deadline = DEADLINE + REHEARSAL + 2 * GRACE
    answer = context.host.call("probe", request, ProbeAnswer, bundle=context.bundle, deadline=deadline)
    return answer.checks
