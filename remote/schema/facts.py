"""The facts of a host, and the request for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote.schema.job import Job


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
    """The file system of `path`: `nearest` is the deepest folder of the path that exists already.

    `lacks` says what a run needs and cannot do there, in words for people; `blocked` is what is on the way to the path
    and no folder.
    """

    path: str
    nearest: str
    total: int
    free: int
    inodes_free: int
    writable: bool
    exists: bool
    lacks: str = ""
    blocked: str = ""


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
    architectures: tuple[str, ...] = ()  # that the model's configuration names, those of its text model last
    elsewhere: dict[str, str] = field(default_factory=dict)  # packages that stand before the installed ones: folder
    network: dict[str, str] = field(default_factory=dict)  # variables that name where processes meet: what is wrong
