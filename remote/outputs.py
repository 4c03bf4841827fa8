"""The output folder: one file per sample, written whole, and a manifest line after the file stands.

No name but a sample file's ends in `pt`, since the `list_files` of speculators takes every such name. The manifest may
end in a torn line and may lack lines for files that stand (a crash between the two): the next start mends both.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import files, samples, wire
from remote.schema import ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

    from remote.paths import Output
    from remote.tokens import Tokens

SAMPLE = re.compile(r"data_(\d+)\.pt")
MODE = 0o644  # the trainer may be another user's
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Missing:
    """What is to be extracted, and how many samples (with how many tokens) stand already."""

    samples: tuple[Tokens, ...]
    done: int
    tokens_done: int
    adopted: int


def write(output: Output, tokens: Tokens, states: Sequence[Any], layers: Sequence[int]) -> ManifestEntry:
    """Write a sample's file, then its line in the manifest; raises samples.SampleInvalid before anything is written."""
    import torch

    problem = samples.problem_of(states, len(tokens))
    if problem:
        raise samples.SampleInvalid(problem)
    document = {
        "input_ids": torch.tensor(tokens.input_ids.tolist(), dtype=torch.long),
        # Clones: a view would be saved with all of the storage that it is a part of.
        "hidden_states": [state.detach().cpu().clone(memory_format=torch.contiguous_format) for state in states],
        "loss_mask": torch.tensor(list(tokens.loss_mask), dtype=torch.long),
    }
    target = output.sample(tokens.index)
    with files.replacing(target, mode=MODE) as file:
        hashing = _Hashing(file)
        torch.save(document, hashing)  # type: ignore[arg-type, unused-ignore]
    return _record(output, tokens, states, layers, size=hashing.size, sha256=hashing.digest.hexdigest())


def find_missing(output: Output, wanted: Iterable[Tokens], layers: Sequence[int]) -> Missing:
    """Hold the wanted samples against folder and manifest; files that stand without a line are checked and adopted."""
    Path(output.root).mkdir(parents=True, exist_ok=True)
    for unfinished in Path(output.root).glob(".data_*.tmp"):  # of an attempt that was killed; this folder is ours
        unfinished.unlink()
    entries, sizes = read_manifest(output), sample_sizes(output)
    # A file does not say which layers it holds: only in a folder of these layers is one without a line taken for ours.
    ours = any(not layers or entry.layers == tuple(layers) for entry in entries.values())
    missing: list[Tokens] = []
    done = tokens_done = adopted = 0
    for sample in wanted:
        if stands(entries.get(sample.index), sample, sizes.get(sample.index), layers):
            pass
        elif ours and sample.index in sizes and sample.index not in entries and _adopt(output, sample, layers):
            adopted += 1
        else:
            missing.append(sample)
            continue
        done += 1
        tokens_done += len(sample)
    return Missing(tuple(missing), done, tokens_done, adopted)


def stands(entry: ManifestEntry | None, sample: Tokens, size: int | None, layers: Sequence[int]) -> bool:
    """Tell whether a file of this size is this sample, by the manifest's word."""
    return (
        entry is not None
        and entry.size == size
        and entry.tokens_sha256 == sample.sha256
        and (not layers or entry.layers == tuple(layers))
    )


def read_manifest(output: Output) -> dict[int, ManifestEntry]:
    """Give the last word on every sample; lines that cannot be read (torn by a crash) are passed over."""
    entries: dict[int, ManifestEntry] = {}
    try:
        with Path(output.manifest).open("rb") as file:
            for line in file:
                try:
                    entry = wire.loads(ManifestEntry, line, "manifest")
                except (wire.WireError, UnicodeDecodeError):
                    continue
                entries[entry.index] = entry
    except FileNotFoundError:
        pass
    return entries


def sample_sizes(output: Output) -> dict[int, int]:
    """Give the size of every sample file in the folder."""
    sizes: dict[int, int] = {}
    with os.scandir(output.root) as found:
        for item in found:
            if (match := SAMPLE.fullmatch(item.name)) and item.is_file():
                sizes[int(match[1])] = item.stat().st_size
    return sizes


def sha256_of(path: os.PathLike[str] | str) -> str:
    """Hash a file in a stream."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _adopt(output: Output, sample: Tokens, layers: Sequence[int]) -> bool:
    """Give a file that stands without a line its line, when it is this sample and sound."""
    path = output.sample(sample.index)
    try:
        document = samples.load(path)
        if samples.problem_with(document, sample, layers):
            return False
    except (samples.SampleInvalid, OSError, AttributeError, TypeError, ValueError):
        return False
    size = Path(path).stat().st_size
    _record(output, sample, document["hidden_states"], layers, size=size, sha256=sha256_of(path))
    return True


def _record(
    output: Output, tokens: Tokens, states: Sequence[Any], layers: Sequence[int], *, size: int, sha256: str
) -> ManifestEntry:
    entry = ManifestEntry(
        index=tokens.index,
        file=output.sample(tokens.index).name,
        tokens=len(tokens),
        shape=(len(states), *states[0].shape),
        dtype=str(states[0].dtype).removeprefix("torch."),
        size=size,
        sha256=sha256,
        tokens_sha256=tokens.sha256,
        layers=tuple(layers),
    )
    files.append_line(output.manifest, wire.dumps(entry).encode())
    return entry


class _Hashing:
    """Takes what `torch.save` writes, front to back, and hashes it on the way to the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        """Pass a block on."""
        view = memoryview(data).cast("B")
        self.digest.update(view)
        self._file.write(view)
        self.size += len(view)
        return len(view)

    def flush(self) -> None:
        """Pass the wish on."""
        self._file.flush()
