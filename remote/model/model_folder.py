"""What stands in a model folder, as facts; `remote.model.model_checks` decides on them.

Standard library only, and nothing but headers is read: a terabyte of weights takes milliseconds.
"""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.model import model_config, safetensors_header
from remote.model.model_config import ConfigError, ModelConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remote.model.safetensors_header import Header

INDEX = "model.safetensors.index.json"
# Endings of files that a download or a copy has not finished (huggingface_hub, wget, browsers, aria2).
PARTIAL = (".incomplete", ".part", ".partial", ".crdownload", ".download", ".tmp", ".aria2", ".!qb")
RSYNC_ENDING = 6
YOUNG = 5.0  # a file written less than this many seconds ago is looked at twice
LOOK_AGAIN = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Stat:
    """One file: its size, the bytes that it takes on disk, and when it was last written."""

    size: int
    on_disk: int
    changed: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFolder:
    """What stands in a model folder; `growing` are files whose size changed while we looked."""

    path: str
    exists: bool = False
    error: str | None = None
    config: ModelConfig | None = None
    config_error: str | None = None
    config_line: int | None = None
    files: dict[str, Stat] = field(default_factory=dict)
    partial: tuple[str, ...] = ()
    growing: tuple[str, ...] = ()
    index: dict[str, str] | None = None
    index_total: int | None = None
    index_error: str | None = None
    headers: dict[str, Header] = field(default_factory=dict)
    chat_template: bool = False

    @property
    def weights(self) -> int:
        """Give the bytes of the weight files."""
        suffixes = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
        return sum(stat.size for name, stat in self.files.items() if name.endswith(suffixes))


def read(folder: str | os.PathLike[str], *, wait: Callable[[float], object] = time.sleep) -> ModelFolder:
    """Gather the facts of a folder; what cannot be read is in them as an error."""
    path = Path(folder)
    if not path.is_dir():
        return ModelFolder(path=str(path), error="is a file" if path.exists() else None)
    try:
        first = _stats(path)
    except OSError as error:
        return ModelFolder(path=str(path), exists=True, error=error.strerror or str(error))
    config, config_error, config_line = _config(path)
    index, total, index_error = _index(path, first)
    names = sorted(
        {name for name in first if name.endswith(".safetensors")}
        | (set(index.values()) & set(first) if index else set())
    )
    headers = {name: safetensors_header.read(path / name) for name in names}
    return ModelFolder(
        path=str(path),
        exists=True,
        config=config,
        config_error=config_error,
        config_line=config_line,
        files=first,
        partial=tuple(sorted(_partial(path))),
        growing=_growing(path, first, wait),
        index=index,
        index_total=total,
        index_error=index_error,
        headers=headers,
        chat_template=_has_template(path),
    )


def _stats(folder: Path) -> dict[str, Stat]:
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_file():
                    stat = entry.stat()
                    found[entry.name] = Stat(size=stat.st_size, on_disk=stat.st_blocks * 512, changed=stat.st_mtime)
            except OSError:
                continue  # a link whose target is gone, or a file that a download has just renamed
            if entry.is_symlink() and not entry.is_file() and not entry.is_dir():
                found[entry.name] = Stat(size=0, on_disk=0, changed=0.0)
    return found


def _config(folder: Path) -> tuple[ModelConfig | None, str | None, int | None]:
    try:
        return model_config.read(folder), None, None
    except ConfigError as error:
        return None, str(error), error.line


def _index(folder: Path, files: dict[str, Stat]) -> tuple[dict[str, str] | None, int | None, str | None]:
    if INDEX not in files:
        return None, None, None
    try:
        data: Any = json.loads((folder / INDEX).read_text("utf-8"))
        weights = {str(name): str(shard) for name, shard in data["weight_map"].items()}
        total = (data.get("metadata") or {}).get("total_size")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, None, f"{type(error).__name__}: {error}"
    return weights, int(total) if isinstance(total, int | float) and math.isfinite(total) else None, None


def _partial(folder: Path) -> Iterator[str]:
    """Name the unfinished files of the folder itself and of the cache that huggingface_hub keeps in it."""
    for place in (folder, folder / ".cache"):
        for root, folders, names in os.walk(place):
            if place == folder:
                folders.clear()
            for name in names:
                if name.lower().endswith(PARTIAL) or _rsync_temporary(name):
                    yield str(Path(root, name).relative_to(folder))


def _rsync_temporary(name: str) -> bool:
    """Recognise `.model-00001.safetensors.Xa3k9Q`, the name under which rsync writes a file."""
    stem, _, ending = name.rpartition(".")
    return name.startswith(".") and len(ending) == RSYNC_ENDING and ending.isalnum() and "." in stem[1:]


def _growing(folder: Path, first: dict[str, Stat], wait: Callable[[float], object]) -> tuple[str, ...]:
    """Look a second time where a file was written just now."""
    if not any(time.time() - stat.changed < YOUNG for stat in first.values()):  # in the future too: clocks differ
        return ()
    wait(LOOK_AGAIN)
    second = _stats(folder)
    return tuple(sorted(name for name in second if name not in first or second[name].size != first[name].size))


def _has_template(folder: Path) -> bool:
    if any((folder / name).exists() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    try:
        return bool(json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get("chat_template"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
