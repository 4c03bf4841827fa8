"""The gate: findings, checks, verdicts, and what is asked of a host for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from remote.schema.facts import HostFacts
from remote.schema.job import Job

SHARED_SPACE = "output-space-shared"  # the rule of an output that fits in shares only: a host alone goes by it


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that a check saw. `line` is 1-based, `column` and `end_column` are 0-based characters of `text`."""

    rule: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    text: str | None = None
    callee: str | None = None
    signature: str | None = None
    fix: str | None = None
    severity: str = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One level of the gate, decided: `status` is pass, fail, warn or skip."""

    id: str
    status: str
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SurfaceRequest:
    """Ask for the sources that a job's gate modules stand on; `held` are the fingerprints that need no data."""

    job: Job
    held: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SurfaceAnswer:
    """`data` is a compressed tar in base64, empty where the caller holds it; `missing` are not installed.

    `trouble` says why the job's Python does not tell where its packages are; the rest is empty then.
    """

    fingerprint: str
    python: str
    versions: dict[str, str]
    missing: tuple[str, ...] = ()
    data: str = ""
    trouble: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeRequest:
    """Import the modules of the job's gate under its exact environment and look at all that needs the imports.

    `bundle` is the bundle's id; its overlay is first on the path. `until` is the last level that is wanted (None: all);
    `deadline` is for the levels before the rehearsal, which has `rehearsal` seconds of its own. `patched` says that
    the series for these versions is in force (less what was left out by will), by the overlay or in the packages.
    `sharers` counts the hosts to which the dataset is dealt: each needs room for its share alone. `card` are the
    bytes of memory of the smallest card that the job takes, 0 where that is not known.
    """

    job: Job
    bundle: str
    secrets: dict[str, str] = field(default_factory=dict)
    deadline: float = 600.0
    until: str | None = None
    rehearsal: float = 900.0
    patched: bool = False
    usd_per_hour: float | None = None
    sharers: int = 1
    card: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeAnswer:
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The gate's decision for a bundle in an environment; `fingerprint` names both.

    `basis` is what it rests on (name → version or value), `changed` what differs from the pass before it.
    """

    fingerprint: str
    bundle: str
    verdict: str
    level: str
    decided: float
    checks: tuple[Check, ...]
    basis: dict[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictRequest:
    """Ask for the verdict on a job's bundle in the host's present environment; `store` one instead of asking.

    With `still` it is stored only where the present environment is the one that it was made for.
    """

    job: Job
    bundle: str
    store: Verdict | None = None
    still: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictAnswer:
    """`fingerprint` names the present environment; `previous` is the job's last pass in any other one.

    Where a verdict was not stored because the environment is another one by now, `basis` says what it rests on.
    """

    fingerprint: str
    verdict: Verdict | None = None
    previous: Verdict | None = None
    basis: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallRequest:
    """Ask, while reaching a host, for its facts and for what it remembers of a bundle; `held` as for facts.

    With `surfaces` the surface is wanted as well, its sources only where they are none of these fingerprints.
    """

    job: Job
    bundle: str
    sources: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    surfaces: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallAnswer:
    """`known` is for exactly these `facts`: both were found by one process, in this order."""

    facts: HostFacts
    known: VerdictAnswer
    surface: SurfaceAnswer | None = None
