"""The output folder: one file per sample, written whole, and a manifest line after the file stands.

No name but a sample file's ends in `pt`, since the `list_files` of speculators takes every such name. The manifest may
end in a torn line and may lack lines for files that stand (a crash between the two): the next start mends both. It
looks at every file's end, and hashes what was written since somebody last ended in order.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import files
from remote.results import manifest, samples
from remote.schema import ManifestDamage, ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import BinaryIO

    from remote.paths import Output
    from remote.prompts.tokens import Tokens

SAMPLE = re.compile(r"data_(\d+)\.pt")
MODE = 0o644  # the trainer may be another user's
CHUNK = 1 << 20
HASHED = 4 << 30  # bytes of samples written since the last end in order that are hashed at a start, the latest first
ASIDE = ".extra"  # put behind the name of a sample file that is not of the dataset: the trainer does not take it then
ZIP, ZIP_END, ZIP_END_SIZE = b"PK\x03\x04", b"PK\x05\x06", 22


class OutputMixed(ValueError):
    """The output folder holds another model's samples."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What is to be extracted, and how many samples (with how many tokens) stand already."""

    samples: tuple[Tokens, ...]
    done: int
    tokens_done: int
    adopted: int
    damaged: tuple[str, ...] = ()  # what was found wrong with files that the manifest had vouched for
    aside: int = 0  # files that are not of this dataset, renamed so that nobody trains from them


def write(
    output: Output, tokens: Tokens, states: Sequence[Any], layers: Sequence[int], model: str = ""
) -> ManifestEntry:
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
    return _record(output, tokens, states, layers, model, size=hashing.size, sha256=hashing.digest.hexdigest())


def find_missing(
    output: Output,
    wanted: Iterable[Tokens],
    layers: Sequence[int],
    model: str = "",
    *,
    total: int = 0,
    is_of: Callable[[ManifestEntry], bool] = lambda _: True,
) -> Missing:
    """Hold the wanted samples against folder and manifest; files that stand without a line are checked and adopted.

    `total` counts the samples of the dataset where `wanted` is only a shard of it: files of the others are left alone
    where they are of these layers and `is_of` the dataset; else they are put aside, and their word is taken back.
    Raises OutputMixed when the folder holds samples of another model.
    """
    Path(output.root).mkdir(parents=True, exist_ok=True)
    for unfinished in Path(output.root).glob(".data_*.tmp"):  # of an attempt that was killed; this folder is ours
        unfinished.unlink()
    book, sizes = manifest.read(output), sample_sizes(output)
    _one_model(output, book, sizes, model)
    damaged = _condemn_damaged(output, book, sizes)
    # A file does not say which layers it holds: only in a folder of these layers is one without a line taken for ours.
    ours = any(_of_layers(entry, layers) for entry in book.entries.values())
    missing: list[Tokens] = []
    done = tokens_done = adopted = 0
    strangers = {index for index in sizes if index >= total}
    older = {entry.index for entry in book.entries.values() if not (_of_layers(entry, layers) and is_of(entry))}
    strangers |= older & sizes.keys()
    for sample in wanted:
        strangers.discard(sample.index)
        known = sample.index in book.entries or sample.index in book.condemned
        if sample.index not in sizes:
            _take_back(output, sample, book.entries.get(sample.index), sizes)
        if stands(book.entries.get(sample.index), sample, sizes.get(sample.index), layers):
            pass
        elif ours and sample.index in sizes and not known and _adopt(output, sample, layers, model):
            adopted += 1
        else:
            missing.append(sample)
            continue
        done += 1
        tokens_done += len(sample)
    for index in sorted(older & strangers):  # not of this dataset's end, which may be longer again one day
        if index < total:
            manifest.record(output, ManifestDamage(index=index, damaged="was of other layers or tokens: put aside"))
    return Missing(tuple(missing), done, tokens_done, adopted, damaged, _put_aside(output, strangers))


def _of_layers(entry: ManifestEntry, layers: Sequence[int]) -> bool:
    return not layers or entry.layers == tuple(layers)


def stands(entry: ManifestEntry | None, sample: Tokens, size: int | None, layers: Sequence[int]) -> bool:
    """Tell whether a file of this size is this sample, by the manifest's word."""
    return (
        entry is not None and entry.size == size and entry.tokens_sha256 == sample.sha256 and _of_layers(entry, layers)
    )


def read_manifest(output: Output) -> dict[int, ManifestEntry]:
    """Give the last word on every sample that stands by the manifest."""
    return manifest.read(output).entries


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
    with files.opened(path) as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def torn(path: os.PathLike[str] | str) -> bool:
    """Tell, from a few bytes of a file, whether its end was never written: the archive's directory is there."""
    with files.opened(path) as file:
        head = file.read(len(ZIP))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - ZIP_END_SIZE))
        tail = file.read()
    return not tail.strip(b"\0") or (head == ZIP and not tail.startswith(ZIP_END))


def _one_model(output: Output, book: manifest.Book, sizes: dict[int, int], model: str) -> None:
    others = [entry for entry in book.entries.values() if entry.index in sizes and entry.model not in {"", model}]
    if model and others:
        raise OutputMixed(
            f"the output folder {output.root} holds {len(others)} samples of another model "
            f"({others[0].model[:12]}, this one is {model[:12]}): choose another `output`, or remove them "
            f"with their manifest if they are not wanted any more"
        )


def _condemn_damaged(output: Output, book: manifest.Book, sizes: dict[int, int]) -> tuple[str, ...]:
    """Take back the manifest's word on files that are plainly damaged, or have changed since a crash."""
    found: list[str] = []
    hashed, all_hashed = 0, True
    fresh = set()
    for index in reversed(book.fresh):  # the latest first: they are those that a crash of the host may have harmed
        hashed += sizes.get(index, 0)
        if hashed > HASHED:
            all_hashed = False
            break
        fresh.add(index)
    for index, entry in sorted(book.entries.items()):
        if entry.size != sizes.get(index):
            continue  # missing, or told by its size
        problem = _damage(output, entry, hashing=index in fresh)
        if problem is not None:
            manifest.record(output, ManifestDamage(index=index, damaged=problem))
            book.condemned.add(index)
            found.append(f"{entry.file} {problem}")
    for index in book.condemned:
        book.entries.pop(index, None)
    if book.fresh and all_hashed:
        manifest.vouch(output)
    return tuple(found)


def _damage(output: Output, entry: ManifestEntry, *, hashing: bool) -> str | None:
    path = output.sample(entry.index)
    try:
        if hashing:
            return None if sha256_of(path) == entry.sha256 else "has not the SHA-256 that the manifest says"
        return "has no whole end" if torn(path) else None
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _put_aside(output: Output, strangers: Iterable[int]) -> int:
    """Rename sample files that are not of this dataset: the trainer takes every name that ends in `pt`."""
    count = 0
    for index in strangers:
        path = Path(output.sample(index))
        path.replace(path.with_name(path.name + ASIDE))
        count += 1
    return count


def _take_back(output: Output, sample: Tokens, entry: ManifestEntry | None, sizes: dict[int, int]) -> None:
    """Give a sample that was put aside its name again, now that the dataset has it once more."""
    path = Path(output.sample(sample.index))
    aside = path.with_name(path.name + ASIDE)
    if entry is None or entry.tokens_sha256 != sample.sha256 or not aside.is_file():
        return
    if sha256_of(aside) == entry.sha256:
        aside.replace(path)
        sizes[sample.index] = entry.size


def _adopt(output: Output, sample: Tokens, layers: Sequence[int], model: str) -> bool:
    """Give a file that stands without a line its line, when it is this sample, sound, and as it was written."""
    path = output.sample(sample.index)
    try:
        samples.hold_to_checksums(path)
        document = samples.load(path)
        if samples.problem_with(document, sample, layers):
            return False
    except (samples.SampleInvalid, OSError, AttributeError, TypeError, ValueError):
        return False
    size = Path(path).stat().st_size
    _record(output, sample, document["hidden_states"], layers, model, size=size, sha256=sha256_of(path))
    return True


def _record(
    output: Output, tokens: Tokens, states: Sequence[Any], layers: Sequence[int], model: str, *, size: int, sha256: str
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
        model=model,
    )
    manifest.record(output, entry)
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
