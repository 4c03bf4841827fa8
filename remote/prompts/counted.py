"""A dataset counted: the length of each sample, a digest of each, and the name of the whole; kept on the host.

Tokenising a large dataset takes minutes, and a census asks for no more than this. What was counted is found again
under the identity of all that it follows from: the dataset's files, the tokenizer's, the numbers of the job, the code.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
from array import array
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import files
from remote.paths import Workdir
from remote.prompts import tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.prompts.tokens import Tokens
    from remote.schema import Job, ManifestEntry

SHORT = 8  # bytes of a sample's digest that are kept: enough to tell an older dataset's samples from this one's
KEPT = 8  # datasets
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
CODE = ("speculators", "transformers", "tokenizers")


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known of each sample, by index."""

    lengths: array[int]
    digests: bytes

    def name(self, first: int | None = None) -> str:
        """Name tokens and masks of all samples in order, or of so many `first` ones."""
        return hashlib.sha256(self.digests if first is None else self.digests[: first * SHORT]).hexdigest()

    def is_of(self, entry: ManifestEntry) -> bool:
        """Tell whether a line of a manifest is of this dataset's sample."""
        index = entry.index
        return index < len(self.lengths) and entry.tokens_sha256[: 2 * SHORT] == self._digest(index)

    def _digest(self, index: int) -> str:
        return self.digests[index * SHORT : (index + 1) * SHORT].hex()


def count(job: Job, longest: int) -> Counted:
    """Give what was counted before, or count; raises dataset.DatasetError."""
    key = _key(job, longest)
    file = Path(Workdir(PurePosixPath(job.workdir)).census) / f"{key}.counted" if key else None
    found = _read(file) if file else None
    if found is None:
        found = tally(tokens.tokenise(job, longest))
        if file is not None:
            _keep(file, found)
    return found


def tally(samples: Iterable[Tokens]) -> Counted:
    """Count samples."""
    lengths, digests = array("i"), bytearray()
    for sample in samples:
        lengths.append(len(sample))
        digests += bytes.fromhex(sample.sha256[: 2 * SHORT])
    return Counted(lengths, bytes(digests))


def _read(file: Path) -> Counted | None:
    """Read what was kept; None for what is not there or not whole."""
    try:
        head, _, body = files.read(file).partition(b"\n")
        said = json.loads(head)
        if hashlib.sha256(body).hexdigest() != said["sha256"]:
            return None
        lengths = array("i")
        lengths.frombytes(body[: said["total"] * lengths.itemsize])
        return Counted(lengths, body[said["total"] * lengths.itemsize :])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(file: Path, counted: Counted) -> None:
    """Write it down, and drop the oldest; a workdir that takes nothing costs the next census its time, no more."""
    body = counted.lengths.tobytes() + counted.digests
    head = {"total": len(counted.lengths), "sha256": hashlib.sha256(body).hexdigest()}
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(PurePosixPath(file), json.dumps(head).encode() + b"\n" + body)
        others = [one for one in file.parent.glob("*.counted") if one != file]
        others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        for old in others[KEPT - 1 :]:
            old.unlink()


def _key(job: Job, longest: int) -> str | None:
    """Name all that the count follows from; None where it cannot be told whether it has changed."""
    data, model = Path(job.dataset), Path(job.model)
    if not data.exists() or not model.is_dir():
        return None
    try:
        said = {
            "code": [Path(__file__).resolve().parents[3].name, *map(_version, CODE), *_stats(_preprocessing())],
            "dataset": [str(data.resolve()), *_stats(_below(data))],
            "tokenizer": [*_stats(path for path in _below(model) if path.suffix not in WEIGHTS)],
            "numbers": [longest, job.engine, sorted(job.env.items())],
        }
    except OSError:
        return None
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(folder) / name for name in sorted(names))


def _stats(paths: Iterable[Path]) -> list[list[object]]:
    return [[path.name, (seen := path.stat()).st_size, seen.st_mtime_ns, seen.st_ino] for path in paths]


def _preprocessing() -> list[Path]:
    """Give the file whose functions tokenise conversations, where it is installed."""
    spec = importlib.util.find_spec("speculators")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [Path(folder) / "data_generation" / "preprocessing.py" for folder in folders]
    return [path for path in found if path.is_file()]


def _version(distribution: str) -> str:
    try:
        return f"{distribution} {importlib.metadata.version(distribution)}"
    except importlib.metadata.PackageNotFoundError:
        return distribution
