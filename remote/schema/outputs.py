"""The outputs: lines of the manifest, and what verify says."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote.schema.gate import Finding
from remote.schema.job import Job


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
    """Hold the files against dataset and manifest; `shard` are the samples meant, as ranges, None all of them."""

    job: Job
    secrets: dict[str, str] = field(default_factory=dict)
    deadline: float = 3600.0
    shard: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyAnswer:
    """Every sample that was meant held against its file: `findings` name the bad ones (at most 50, worst first).

    `whole` counts the samples of the whole dataset; `ranges` are the valid samples, `damaged_ranges` the damaged ones
    (`0-99,105`); `dataset` names tokens and masks of all samples in order (empty where only a shard was looked at),
    `model` the model that they were held against.
    """

    total: int
    valid: int
    missing: int
    damaged: int
    extra: int
    tokens: int
    size: int
    findings: tuple[Finding, ...] = ()
    whole: int = 0
    ranges: str = ""
    damaged_ranges: str = ""
    dataset: str = ""
    model: str = ""
