"""The bundle: payload, carried libraries, patched files and job in one reproducible archive, named by its content.

The name is the SHA-256 of `bundle.json`, which lists the SHA-256 of every other file: the same content has the same
name whatever packed it, and the host can check a bundle against its own name.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.metadata
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import remote
from local.errors import UsageError
from remote import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remote.schema import Job

VENDORED = "tenacity"  # carried for the supervisor; pure Python and without requirements of its own


@dataclass(frozen=True, repr=False)
class Packed:
    """A bundle ready to be sent: `id` names its content, `data` is the compressed archive."""

    id: str
    files: Mapping[str, bytes]

    @functools.cached_property
    def data(self) -> bytes:
        """Give the archive, made when it is first wanted: a host mostly has the bundle already."""
        return _archive(self.files)

    @property
    def sha256(self) -> str:
        """Give the SHA-256 of the archive as it is sent."""
        return hashlib.sha256(self.data).hexdigest()

    def __repr__(self) -> str:
        return f"<bundle {self.id[:12]}, {len(self.data) / 1024:.0f} KiB>"


def pack(job: Job | None, patched: Mapping[str, str]) -> Packed:
    """Pack the payload with a job and its patched files; `pack(None, {})` is the bare payload."""
    files = {**_payload(), **_vendor(), **_patched(patched)}
    if job is not None:
        files["job.json"] = wire.dumps(job).encode()
    manifest = _manifest(files)
    return Packed(id=hashlib.sha256(manifest).hexdigest(), files={**files, "bundle.json": manifest})


@functools.cache
def _payload() -> dict[str, bytes]:
    root = Path(remote.__file__).parent
    return {f"payload/remote/{name}": data for name, data in _sources(root)}


@functools.cache
def _vendor() -> dict[str, bytes]:
    distribution = importlib.metadata.distribution(VENDORED)
    files = {f"vendor/{VENDORED}/{name}": data for name, data in _sources(_package(distribution))}
    for file in distribution.files or []:
        if file.name == "LICENSE":
            files[f"vendor/{VENDORED}/LICENSE"] = file.read_binary()
    return files


def _package(distribution: importlib.metadata.Distribution) -> Path:
    return Path(str(distribution.locate_file(VENDORED)))


def _sources(root: Path) -> Iterable[tuple[str, bytes]]:
    for path in sorted([*root.rglob("*.py"), *root.glob("data/*.json")]):
        name = path.relative_to(root)
        if not {"__pycache__", "patches", "tests"}.intersection(name.parts):
            yield name.as_posix(), path.read_bytes()


def _patched(patched: Mapping[str, str]) -> dict[str, bytes]:
    for name in patched:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UsageError(f"{name!r} is not a path inside a package", remedy="Patch only installed packages.")
    return {f"patched/{PurePosixPath(name)}": text.encode() for name, text in patched.items()}


def _manifest(files: Mapping[str, bytes]) -> bytes:
    document = {
        "schema": wire.SCHEMA,
        "versions": {VENDORED: importlib.metadata.version(VENDORED)},
        "files": {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)},
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _archive(files: Mapping[str, bytes]) -> bytes:
    """Give a compressed tar whose bytes depend on names and contents alone."""
    raw = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o600
            archive.addfile(member, io.BytesIO(files[name]))
    return raw.getvalue()
