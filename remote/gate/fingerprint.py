"""What a verdict rests on, name by name, and the one hash over it: where a name's value differs, the gate proves anew.

Pure but for looking at files. The values are short and nothing secret: versions, digests, sizes and times.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from remote import wire
from remote.engines.defaults import gate_of
from remote.environment import KEPT
from remote.host import packages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remote.host.packages import Installed
    from remote.schema import CudaHome, GpuFacts, Job

# What a session brings along that the job sees too: it decides what is found, loaded and written where. A terminal's
# name and the folder of a login are other ones from session to session, and decide nothing.
SESSION = tuple(name for name in KEPT if name not in {"TERM", "XDG_RUNTIME_DIR"})
PROGRAM = 2  # words of a command: an interpreter and its script


def basis(
    job: Job | None,
    found: Installed,
    environment: tuple[Mapping[str, str], Mapping[str, str]],
    gpu: GpuFacts,
    cuda_home: CudaHome,
) -> dict[str, str]:
    """Give all that a verdict rests on, but for job and bundle; `environment` is name → version, name → RECORD."""
    versions, records = environment
    named = {f"package {name}": version for name, version in versions.items()}
    named |= {f"record {name}": digest[:16] for name, digest in records.items()}
    named |= {f"sources {name}": packages.stamps(found.packages[name])[:16] for name in _watched(job, found)}
    named |= {f"session {name}": short(os.environ.get(name, "")) for name in SESSION}
    named |= {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_version()} ({sys.executable})",
        "python build": short(sys.version),
        "driver": ", ".join(sorted({card.driver for card in gpu.gpus})) or "none",
        "GPUs": ", ".join(card.name for card in gpu.gpus) or "none",
        "CUDA": cuda_home.nvcc or "none",
    }
    if job and job.model:
        named |= _model(job.model)
    if job and job.dataset:
        named["dataset"] = short(json.dumps(_dataset(job.dataset)))
    if job and job.command:
        named["program"] = short(json.dumps(_program(job.command[:PROGRAM])))
    return named


def of(named: Mapping[str, str], job: Job | None, bundle: str | None) -> str:
    """Give the fingerprint."""
    document = [dict(named), wire.encode(job) if job else None, bundle]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def short(text: str) -> str:
    """Give a digest that is long enough to tell values apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _watched(job: Job | None, found: Installed) -> list[str]:
    """Give the packages whose files are looked at one by one: an edit in place changes no RECORD."""
    gate = gate_of(job) if job else None
    names = (*gate.modules, *(symbol.partition(":")[0] for symbol in gate.symbols)) if gate else ()
    return sorted({packages.top_level(name) for name in names} & set(found.packages))


def _model(path: str) -> dict[str, str]:
    """Give each file of a model folder by size and time, and the content of its configuration."""
    folder = Path(path).expanduser()
    try:
        files = sorted((entry.name, entry) for entry in folder.iterdir() if entry.is_file())
        named = {f"model {name}": _file(entry) for name, entry in files}
        if "model config.json" in named:
            named["model config.json"] = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()[:16]
    except (OSError, ValueError):  # a name of the hub, nothing there yet, or nothing that we may read
        return {}
    return named


def _dataset(path: str) -> list[str]:
    """Give size and time of a dataset, or of each file in its folder."""
    place = Path(path).expanduser()
    try:
        files = sorted(entry for entry in place.iterdir() if entry.is_file()) if place.is_dir() else [place]
        return [f"{file.name} {_file(file)}" for file in files]
    except (OSError, ValueError):  # nothing there, or nothing that we may read
        return [path]


def _program(words: Sequence[str]) -> list[str]:
    """Give size and time of the files that a command starts with: the rest may be what it writes."""
    found = [shutil.which(word) or word for word in words]
    return [line for path in found if path.startswith("/") for line in _dataset(path)]


def _file(path: Path) -> str:
    found = path.stat()
    return f"{found.st_size} bytes, {found.st_mtime_ns}"
