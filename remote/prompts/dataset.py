"""The dataset as samples numbered by their position: JSON lines, parquet or a `datasets` folder.

A sample is a conversation (`conversations` or `messages`: turns of `from`/`value` or `role`/`content`) or ready tokens
(`input_ids` and `loss_mask`). Blank lines count for nothing. JSON lines need the standard library only.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

CONVERSATION_KEYS = ("conversations", "messages")
SPEAKERS = ("from", "role")
WORDS = ("value", "content")


class DatasetError(ValueError):
    """The dataset cannot be used; the message names file and line (or row)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: a conversation, or tokens with their loss mask; `where` says where it stands."""

    index: int
    where: str
    conversation: tuple[dict[str, str], ...] | None = None
    input_ids: tuple[int, ...] | None = None
    loss_mask: tuple[int, ...] | None = None


def read(path: str) -> Iterator[Sample]:
    """Give the samples one after the other; raises DatasetError at the first that cannot be one."""
    source = Path(path)
    empty = True
    for index, (where, record) in enumerate(_records(source)):
        empty = False
        yield _sample(index, where, record)
    if empty:
        raise DatasetError(f"{source.name}: holds no sample")


def _records(source: Path) -> Iterator[tuple[str, Any]]:
    try:
        if source.is_dir():
            yield from _folder(source)
        elif source.suffix == ".parquet":
            yield from _parquet(source)
        else:
            yield from _lines(source)
    except OSError as error:
        raise DatasetError(f"{source}: cannot be read ({error.strerror or error})") from error


def _lines(source: Path) -> Iterator[tuple[str, Any]]:
    with source.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                where = f"{source.name}:{number}"
                yield where, _json(line, where, encoding="utf-8-sig" if number == 1 else "utf-8")


def _json(line: bytes, where: str, *, encoding: str) -> Any:
    try:
        return json.loads(line.strip().decode(encoding))
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where}: not UTF-8 (byte {error.start + 1} of the line)") from error
    except json.JSONDecodeError as error:
        raise DatasetError(f"{where}: not JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: not JSON ({error})") from error


def _parquet(source: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        row = 0
        for batch in ParquetFile(source).iter_batches(batch_size=256):
            for record in batch.to_pylist():
                row += 1
                yield f"{source.name}: row {row}", record
    except pa.ArrowInvalid as error:
        raise DatasetError(f"{source.name}: not a whole parquet file ({error})") from error


def _folder(source: Path) -> Iterator[tuple[str, Any]]:
    import datasets

    try:
        loaded = datasets.load_from_disk(str(source))
    except FileNotFoundError as error:
        raise DatasetError(f"{source}: not a folder that `save_to_disk` of datasets has written") from error
    if isinstance(loaded, datasets.DatasetDict):
        raise DatasetError(f"{source}: holds the splits {', '.join(loaded)}; name the folder of one of them")
    for row, record in enumerate(loaded, 1):
        yield f"{source.name}: row {row}", record


def _sample(index: int, where: str, record: Any) -> Sample:
    if not isinstance(record, dict):
        raise DatasetError(f"{where}: expected an object, found {type(record).__name__}")
    if record.get("input_ids") is not None:
        return _tokens(index, where, record)
    for key in CONVERSATION_KEYS:
        if record.get(key) is not None:
            return Sample(index, where, conversation=_conversation(record[key], f"{where}: {key}"))
    found = ", ".join(sorted(map(str, record))) or "nothing"
    raise DatasetError(f"{where}: has neither `conversations`, `messages` nor `input_ids` (found {found})")


def _conversation(turns: Any, where: str) -> tuple[dict[str, str], ...]:
    if not isinstance(turns, list) or not turns:
        raise DatasetError(f"{where}: expected a list of turns, at least one")
    return tuple(_turn(turn, f"{where}[{number}]") for number, turn in enumerate(turns))


def _turn(turn: Any, where: str) -> dict[str, str]:
    if not isinstance(turn, dict):
        raise DatasetError(f"{where}: expected an object, found {type(turn).__name__}")
    return {"role": _text(turn, SPEAKERS, where), "content": _text(turn, WORDS, where)}


def _text(turn: dict[str, Any], names: tuple[str, ...], where: str) -> str:
    for name in names:
        if isinstance(turn.get(name), str):
            return str(turn[name])
    raise DatasetError(f"{where}: has no text under `{'` or `'.join(names)}`")


def _tokens(index: int, where: str, record: dict[str, Any]) -> Sample:
    ids, mask = (_whole_numbers(record.get(name), f"{where}: {name}") for name in ("input_ids", "loss_mask"))
    if len(ids) != len(mask):
        raise DatasetError(f"{where}: {len(ids)} input_ids but {len(mask)} in loss_mask")
    if not ids:
        raise DatasetError(f"{where}: input_ids: expected at least one token")
    if min(ids) < 0 or not set(mask) <= {0, 1}:
        raise DatasetError(f"{where}: input_ids must be 0 or more, loss_mask 0 or 1")
    return Sample(index, where, input_ids=ids, loss_mask=mask)


def _whole_numbers(values: Any, where: str) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise DatasetError(f"{where}: expected a list of whole numbers")
    for number, value in enumerate(values):
        if type(value) is not int:
            raise DatasetError(f"{where}[{number}]: expected a whole number, found {value!r:.40}")
    return tuple(values)


def faults(path: str, limit: int = 5, *, seconds: float = 30.0) -> list[DatasetError]:
    """Give the errors of samples that cannot be one, at most `limit`; JSON lines are gone through for `seconds`."""
    source = Path(path)
    until = time.monotonic() + seconds
    found: list[DatasetError] = []
    try:
        if source.is_dir() or source.suffix == ".parquet":
            for _ in read(path):
                pass
            return found
        with source.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and (error := _fault(line, number, source.name)) is not None:
                    found.append(error)
                if len(found) == limit or time.monotonic() > until:
                    break
    except OSError as error:
        found.append(DatasetError(f"{source}: cannot be read ({error.strerror or error})"))
    except DatasetError as error:
        found.append(error)
    return found


def count(path: str) -> int:
    """Count the samples without looking at them; raises DatasetError."""
    source = Path(path)
    try:
        if source.suffix == ".parquet":
            from pyarrow.parquet import ParquetFile

            return int(ParquetFile(source).metadata.num_rows)
        if source.is_dir():
            import datasets

            return len(datasets.load_from_disk(str(source)))
        with source.open("rb") as file:
            return sum(1 for line in file if line.strip())
    except OSError as error:
        raise DatasetError(f"{source}: cannot be read ({error.strerror or error})") from error


def _fault(line: bytes, number: int, name: str) -> DatasetError | None:
    where = f"{name}:{number}"
    try:
        _sample(0, where, _json(line, where, encoding="utf-8-sig" if number == 1 else "utf-8"))
    except DatasetError as error:
        return error
    return None
