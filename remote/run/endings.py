"""Failures that the supervisor knows by itself, without asking the log."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from remote.failures import Failure
from remote.host import processes

if TYPE_CHECKING:
    from remote.schema import Samples


def hung(waiting: str) -> Failure:
    """Give the failure of an attempt that was ended because it made no headway."""
    return Failure(kind="transient", cause="hang", root_line=waiting, advice="The attempt made no headway.")


def disk_full(line: str) -> Failure:
    """Give the failure of a run that nothing can be written for any more."""
    return Failure(
        kind="fatal",
        cause="disk-full",
        root_line=line,
        advice="Free space there, then run `extract` again: it goes on.",
    )


def stuck(left: tuple[int, ...]) -> Failure:
    """Give the failure of a run whose processes cannot be ended: another attempt would run beside them."""
    found = [process for pid in left if (process := processes.read(pid)) is not None]
    names = ", ".join(f"{process.name} (pid {process.pid}, state {process.state})" for process in found)
    return Failure(
        kind="node-fatal", cause="cannot-be-ended", root_line=f"these processes outlive SIGKILL: {names or left}",
        advice="A process that is stuck in the kernel (state D) goes only with a reboot of the host.",
    )  # fmt: skip


def samples_failed(samples: Samples) -> Failure:
    """Give the failure of a run that did all but a few samples."""
    line = f"{samples.failed} of {samples.total} samples failed, all others are done"
    advice = "The events and the log say which, and why each."
    return Failure(kind="fatal", cause="samples-failed", root_line=line, advice=advice)


def too_many_failed(samples: Samples, allowed: int) -> Failure:
    """Give the failure of a run that was given up because too many samples failed."""
    line = f"{samples.failed} of {samples.total} samples failed, {allowed} may"
    advice = "Look at why they failed; retry.max_failed_samples says how many may."
    return Failure(kind="fatal", cause="too-many-failed", root_line=line, advice=advice)


def patterns_overran(failure: Failure, seconds: float) -> Failure:
    """Give a failure that the job's own patterns could not be asked about."""
    words = f"retry.patterns took more than {seconds:.0f} s on this log and were left out: make them simpler."
    return dataclasses.replace(failure, advice=f"{failure.advice} {words}".strip())
