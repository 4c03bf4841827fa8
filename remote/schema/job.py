"""The job: what to extract, with which engine and environment, and how failures are treated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """A text of the job's own by which a failed attempt is known: `kind` is transient, fatal or node-fatal."""

    match: str
    kind: str
    cause: str = "own-pattern"
    advice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """How the supervisor treats failed and silent attempts.

    `hang` is restart or report; more than `max_failed_samples` failed samples end the run; `patterns` come before ours.
    """

    transient: int = 3
    start_line: float = 600.0
    progress_line: float = 900.0
    backoff: float = 5.0
    hang: str = "restart"
    max_failed_samples: int = 100
    patterns: tuple[Pattern, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GateSpec:
    """What the gate looks at: modules whose call sites are bound, symbols whose parameters are printed.

    `thin` says whether the rehearsal is repeated at the target's real sizes; not said: on GPUs alone.
    """

    modules: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    constants: dict[str, Any] = field(default_factory=dict)
    thin: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """Commands that the host runs by itself, as text for its shell. Beside the job: they change nothing of its verdict.

    `on_done` waits for the outputs to be verified.
    """

    on_done: tuple[str, ...] = ()
    on_failed: tuple[str, ...] = ()
    on_hang: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What to extract, with which engine and environment; all paths are the host's."""

    name: str
    engine: str
    python: str
    workdir: str
    output: str
    model: str = ""
    dataset: str = ""
    layers: tuple[int, ...] = ()
    tensor_parallel: int = 1
    max_model_len: int = 2048
    batch_size: int = 8
    device: str = "cuda"
    memory_fraction: float = 0.8
    env: dict[str, str] = field(default_factory=dict)
    secret_env: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    progress: str | None = None
    keep_log_mb: int = 2048  # of the log's end, on the host
    retry: Retry = field(default_factory=Retry)
    gate: GateSpec = field(default_factory=GateSpec)
