"""The documents that both sides share. Plain frozen dataclasses; `remote.wire` puts them on the wire.

Times are seconds since the epoch (float) or durations in seconds; sizes are bytes; lengths are tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# ---- the job ---------------------------------------------------------------------------------------------------


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


# ---- the gate --------------------------------------------------------------------------------------------------


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
class FactsRequest:
    """Ask a host for its facts; `sources` are package-relative files whose text is wanted.

    A text whose SHA-256 is among `held` is not sent: the caller has it.
    """

    job: Job | None = None
    sources: tuple[str, ...] = ()
    bundle: str | None = None
    held: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonFacts:
    executable: str
    version: str
    prefix: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaHome:
    """CUDA_HOME and the release of its nvcc; `first_nvcc` is the nvcc that PATH finds, and its release."""

    path: str | None = None
    exists: bool = False
    nvcc: str | None = None
    first_nvcc: str | None = None
    first_release: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchFacts:
    """The installed torch, read without importing it; `archs` is empty where the build does not tell."""

    version: str
    cuda: str | None = None
    archs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProcess:
    """A process on a GPU; `kind` is C (computes), G (draws) or both, `memory` 0 where it is not told."""

    pid: int
    name: str
    kind: str = "C"
    memory: int = 0
    user: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Xid:
    """A kind of error that the driver wrote into the kernel's log; `age` is the last one's, in seconds."""

    code: int
    bus: str
    count: int
    text: str
    age: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FabricManager:
    """The service that sets up NVSwitch: its state as systemd tells it, and its version."""

    state: str
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    index: int
    name: str
    memory_total: int
    memory_used: int
    driver: str
    uuid: str = ""
    bus: str = ""
    capability: str = ""
    lost: str = ""
    recovery: str = ""
    compute_mode: str = ""
    slowed: tuple[str, ...] = ()
    mig: bool = False
    mig_devices: int = 0
    ecc_uncorrectable: int = 0
    repairs_pending: tuple[str, ...] = ()
    repairs_failed: tuple[str, ...] = ()
    fabric_state: str = ""
    fabric_status: str = ""
    fabric_health: str = ""
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuFacts:
    """What nvidia-smi said: `error` says why there are none (not installed, hung, failed).

    `cuda` is the newest CUDA that the driver runs; `xids` are None where the kernel's log cannot be read.
    """

    gpus: tuple[Gpu, ...] = ()
    error: str | None = None
    cuda: str | None = None
    xids: tuple[Xid, ...] | None = None
    fabric_manager: FabricManager | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """The file system of `path`: `nearest` is the deepest folder of the path that exists already."""

    path: str
    nearest: str
    total: int
    free: int
    inodes_free: int
    writable: bool
    exists: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One installed source: `path` as asked for, `location` on the host, `text` None where it is not installed.

    `sha256` is of the text, which is None too where the caller said that it holds it.
    """

    path: str
    location: str | None = None
    text: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFacts:
    hostname: str
    system: str
    now: float
    boot_id: str
    python: PythonFacts
    cpus: int
    memory_total: int
    shm_free: int
    cuda_home: CudaHome
    gpu: GpuFacts
    distributions: dict[str, str]
    records: str
    disks: dict[str, Disk] = field(default_factory=dict)
    model_exists: bool | None = None
    dataset_exists: bool | None = None
    sources: tuple[SourceFile, ...] = ()
    kill_user_processes: bool | None = None
    fingerprint: str = ""
    shm_total: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    torch: TorchFacts | None = None
    basis: dict[str, str] = field(default_factory=dict)


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
    """

    job: Job
    bundle: str
    secrets: dict[str, str] = field(default_factory=dict)
    deadline: float = 600.0
    until: str | None = None
    rehearsal: float = 900.0
    patched: bool = False
    usd_per_hour: float | None = None


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
    """Ask for the verdict on a job's bundle in the host's present environment; `store` one instead of asking."""

    job: Job
    bundle: str
    store: Verdict | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictAnswer:
    """`fingerprint` names the present environment; `previous` is the job's last pass in any other one."""

    fingerprint: str
    verdict: Verdict | None = None
    previous: Verdict | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallRequest:
    """Ask, while reaching a host, for its facts and for what it remembers of a bundle; `held` as for facts."""

    job: Job
    bundle: str
    sources: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallAnswer:
    """`known` is for exactly these `facts`: both were found by one process, in this order."""

    facts: HostFacts
    known: VerdictAnswer


# ---- a run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchRequest:
    job: Job
    bundle: str
    fingerprint: str
    secrets: dict[str, str] = field(default_factory=dict)
    deadline: float = 30.0


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


# ---- outputs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestEntry:
    """One line of the manifest: one sample written whole. `shape` is layers × tokens × hidden size.

    `tokens_sha256` names tokens and loss mask; `layers` are the model's layers in the order of the file; `model` is the
    fingerprint of the model that they come from (empty where it is not known).
    """

    index: int
    file: str
    tokens: int
    shape: tuple[int, ...]
    dtype: str
    size: int
    sha256: str
    tokens_sha256: str
    layers: tuple[int, ...] = ()
    model: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestDamage:
    """A later line of the manifest: the sample's file was found damaged and is to be computed again."""

    index: int
    damaged: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestClean:
    """A later line of the manifest: what is above was written by attempts that ended in order."""

    clean: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyRequest:
    job: Job
    secrets: dict[str, str] = field(default_factory=dict)
    deadline: float = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyAnswer:
    """Every sample of the dataset held against its file: `findings` name the bad ones (at most 50, worst first)."""

    total: int
    valid: int
    missing: int
    damaged: int
    extra: int
    tokens: int
    size: int
    findings: tuple[Finding, ...] = ()
