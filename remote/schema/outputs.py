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
