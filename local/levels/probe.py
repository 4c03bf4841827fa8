"""Levels `import` to `rehearsal`: one clean process on the host, in the job's exact environment, decides them all.

It begins to import while the laptop still examines the sources: what is independent need not wait. Each check comes as
it is decided, on a connection of its own; where there is none to be had (a jump host that is busy), all come at once on
the one that there is. Whoever closes the probe ends it on the host, too: nobody listens to it any more.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from local import answers
from local.errors import LinkLost, PayloadCrashed, Unreachable
from local.levels.host.gpus import smallest
from local.streaming import BadStream, Frames
from remote import wire
from remote.schema import Check, ProbeAnswer, ProbeRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.levels.context import Context
    from local.links.base import Stream
    from local.streaming import Frame

LEVELS = ("import", "signature", "contract", "inputs", "rehearsal")
DEADLINE = 600.0  # of the imports themselves: cold disks and eight busy cores
REHEARSAL = 900.0  # of the rehearsal: one engine start on the tiny model, seconds where all is well
GRACE = 30.0  # for the answer to come back
SILENCE = (
    DEADLINE + REHEARSAL + 2 * GRACE
)  # the link has a pulse of its own: nothing else limits how long a level takes


def begin(context: Context) -> Probe:
    """Ask the host to import the gate's modules, and for all that is seen with them imported."""
    return Probe(context)


class Probe:
    """The checks of a probe that has begun, as they come."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._where = context.host.name
        self._stream: Stream | None = None
        with contextlib.suppress(LinkLost, Unreachable):  # its turn is to come: then it is asked for once more
            self._stream = context.host.stream("levels", _request(context), bundle=context.bundle)

    def __iter__(self) -> Iterator[Check]:
        if self._stream is None:
            yield from _asked(self._context)
            return
        frames = Frames()
        while data := self._stream.read(SILENCE):
            try:
                for frame in frames.feed(data):
                    if frame.header.get("kind") == "end":
                        return
                    yield _check(frame)
            except (BadStream, wire.WireError) as error:
                raise PayloadCrashed(f"the probe's answer is damaged: {error}", where=self._where) from error
        raise PayloadCrashed("the probe ended without saying so", where=self._where)

    def close(self) -> None:
        """Listen no more, which ends what still goes on over there."""
        if self._stream is not None:
            self._stream.close()


def _asked(context: Context) -> tuple[Check, ...]:
    """Ask on the control connection, and wait for all checks."""
    request = _request(context)
    return context.host.call("probe", request, ProbeAnswer, bundle=context.bundle, deadline=SILENCE).checks


def _request(context: Context) -> ProbeRequest:
    return ProbeRequest(
        job=context.job,
        bundle=context.bundle,
        secrets=dict(context.secrets),
        deadline=DEADLINE,
        until=context.until,
        rehearsal=REHEARSAL,
        # With a patch left out by will the pair is not the known good one, but the rehearsal names the line: let it.
        patched=context.reviewed or bool(context.applied.files),
        usd_per_hour=context.usd_per_hour,
        sharers=context.sharers,
        card=smallest(context.facts, context.job),
    )


def _check(frame: Frame) -> Check:
    return answers.loads(Check, frame.body, "levels")
