"""The story of a run: all that a report of it needs, bounded in size; and what cleaning a workdir removes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from remote.schema.gate import Verdict
from remote.schema.job import Job
from remote.schema.outputs import VerifyAnswer
from remote.schema.run import Exit, LaunchRequest, RunStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryRequest:
    """`run` None asks for the latest; `points` bounds each series of measurements."""

    workdir: str
    run: str | None = None
    points: int = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """Lines of a run's log; `why` says what they were chosen for, `marked` is the deciding line's place in them."""

    why: str
    lines: tuple[str, ...]
    offset: int = 0
    marked: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What the manifest of an output folder says in all."""

    samples: int = 0
    tokens: int = 0
    size: int = 0
    shortest: int = 0
    longest: int = 0
    condemned: int = 0
    dtypes: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()
    models: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """The last check of an output folder, and when it was made."""

    time: float
    answer: VerifyAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """One run. `refused` are failing verdicts on the same job, from the run before it to its start, oldest first.

    `events` are whole but for thinned progress; `left_out` counts other events that there was no room for. `loads` are
    the seconds of its own loads that came to their end. `faults` tells of files that cannot be understood.
    """

    run: str
    status: RunStatus
    now: float
    request: LaunchRequest | None = None
    exit: Exit | None = None
    verdict: Verdict | None = None
    refused: tuple[Verdict, ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    left_out: int = 0
    vitals: tuple[dict[str, Any], ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    written: Written | None = None
    verified: Verified | None = None
    loads: tuple[float, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryAnswer:
    """`story` is None where there is no such run."""

    story: Story | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectRequest:
    """Ask how long a load of this job's model takes on this host."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectAnswer:
    """`load` is None where the model folder tells nothing; `assumed` where no run has measured it here."""

    load: float | None = None
    assumed: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanRequest:
    """Ask what could be removed from a workdir, or remove it; the `keep` newest ended runs stay."""

    workdir: str
    keep: int = 5
    remove: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Rubbish:
    """One thing that is not needed any more: `kind` is run, bundle, verdict, leftover or bytecode.

    `gone` says that it was removed; `trouble` why it was not, where that was tried.
    """

    kind: str
    path: str
    size: int
    why: str
    age: float = 0.0
    gone: bool = False
    trouble: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanAnswer:
    """`kept` counts what stays, by kind; `spared` says of runs that have ended why they stay nevertheless.

    `trouble` says why nothing was looked at.
    """

    items: tuple[Rubbish, ...] = ()
    kept: dict[str, int] = field(default_factory=dict)
    spared: tuple[str, ...] = ()
    trouble: str | None = None
