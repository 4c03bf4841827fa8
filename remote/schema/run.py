"""A run: its start, its state and end, and the verbs on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote.schema.job import Hooks, Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Dealt:
    """What a shard was dealt from: the census's name of the dataset, its number of samples, and the model."""

    dataset: str
    total: int
    model: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchRequest:
    """Start a job; `shard` are the samples to do, as ranges (`0-99,105`), None all of the dataset.

    `dealt` is what a shard was dealt from: an attempt that finds another dataset or model does not mix the two.
    """

    job: Job
    bundle: str
    fingerprint: str
    secrets: dict[str, str] = field(default_factory=dict)
    deadline: float = 30.0
    shard: str | None = None
    hooks: Hooks = field(default_factory=Hooks)
    dealt: Dealt | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchAnswer:
    """`outcome` is started, attached (that run holds the output folder already) or refused (`message` says why)."""

    outcome: str
    run: str | None = None
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    total: int = 0
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """state.json: what the supervisor last knew. `phase` is one of remote.paths.PHASES less lost and unknown."""

    run: str
    phase: str
    attempt: int
    pid: int
    pid_started: float
    boot_id: str
    started: float
    heartbeat: float
    output: str
    samples: Samples = field(default_factory=Samples)
    tokens: int = 0
    tokens_total: int = 0
    cause: str | None = None
    memory_kills: int = 0  # processes that the kernel had killed for memory since boot


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """exit.json: the end of a run. `phase` is done, failed or stopped; `code` the exit code of the last attempt.

    `kind` and `advice` are those of the failure; `gpu_held` are processes that are gone while a GPU still counts them.
    """

    phase: str
    code: int
    ended: float
    attempts: int
    cause: str | None = None
    root_line: str | None = None
    samples: Samples = field(default_factory=Samples)
    left_running: tuple[int, ...] = ()
    kind: str | None = None
    advice: str = ""
    gpu_held: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusRequest:
    """`run` None asks for all runs of the workdir, newest first (at most `limit`)."""

    workdir: str
    run: str | None = None
    limit: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """One run as the host's files and processes tell it; `lost` when the supervisor is gone without exit.json."""

    run: str
    phase: str
    attempt: int = 0
    pid: int | None = None
    started: float | None = None
    last_seen: float | None = None
    output: str | None = None
    samples: Samples = field(default_factory=Samples)
    tokens: int = 0
    tokens_total: int = 0
    log_bytes: int = 0
    exit: int | None = None
    cause: str | None = None
    job: str | None = None
    bundle: str | None = None
    shard: str | None = None  # its samples as ranges; None: the whole dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusAnswer:
    runs: tuple[RunStatus, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadRequest:
    """Stream a run's files from these byte offsets; see remote/read.py for the frames."""

    workdir: str
    run: str
    offsets: dict[str, int] = field(default_factory=dict)
    follow: bool = True
    heartbeat: float = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequest:
    workdir: str
    run: str | None = None
    grace: float = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StopAnswer:
    """`outcome` is stopped, already-ended, nothing-running or not-found; `left` are pids that still live."""

    outcome: str
    run: str | None = None
    left: tuple[int, ...] = ()
    message: str = ""
