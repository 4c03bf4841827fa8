"""A STAND-IN for torch, for the chaos suite only: as much of it as `outputs` and `samples` of remote.results touch.

Tensors are nested lists; `save` writes an archive with one JSON record in several pieces, `load` refuses what is not
whole. As with the real one, the archive has a checksum of its record and `load` does not look at it: a flipped bit in
the numbers can pass unnoticed.
"""

from __future__ import annotations

import json
import math
import zipfile
from typing import Any

long, float32, contiguous_format = "torch.int64", "torch.float32", None
RECORD = "archive/data.json"
PIECE = 256  # bytes of one write: a kill finds files that are half there


class Tensor:
    """Numbers in one or two dimensions."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: list[Any], dtype: str) -> None:
        self.values = values
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        nested = bool(self.values) and isinstance(self.values[0], list)
        return (len(self.values), len(self.values[0])) if nested else (len(self.values),)

    def __len__(self) -> int:
        return len(self.values)

    def __ne__(self, other: object) -> Any:
        return Tensor([value != other for value in self._flat()], "torch.bool")

    def tolist(self) -> list[Any]:
        return self.values

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def clone(self, memory_format: object = None) -> Tensor:
        del memory_format
        return Tensor([*self.values], self.dtype)

    def is_floating_point(self) -> bool:
        return self.dtype == float32

    def all(self) -> bool:
        return all(self._flat())

    def any(self) -> bool:
        return any(self._flat())

    def _flat(self) -> list[Any]:
        return [value for row in self.values for value in (row if isinstance(row, list) else [row])]


def tensor(values: list[Any], dtype: str = float32) -> Tensor:
    return Tensor(values, dtype)


def isfinite(one: Tensor) -> Tensor:
    return Tensor([math.isfinite(value) for value in one._flat()], "torch.bool")


def equal(one: Tensor, other: Tensor) -> bool:
    return one.values == other.values


def save(document: dict[str, Any], file: Any) -> None:
    plain = {name: [_plain(one) for one in value] if isinstance(value, list) else _plain(value)
             for name, value in document.items()}  # fmt: skip
    body = json.dumps(plain).encode()
    with zipfile.ZipFile(_Pieces(file), "w") as archive:
        archive.writestr(zipfile.ZipInfo(RECORD), body)


class _Pieces:
    """Passes an archive on in small pieces."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        for start in range(0, len(data), PIECE):
            self._file.write(data[start : start + PIECE])
            self._file.flush()
        return len(data)

    def flush(self) -> None:
        self._file.flush()


def load(path: Any, *, weights_only: bool, map_location: str) -> dict[str, Any]:
    del weights_only, map_location
    with zipfile.ZipFile(path) as archive, archive.open(RECORD) as record:
        record._expected_crc = None  # type: ignore[attr-defined]
        body = record.read()
    return {name: [_tensor(one) for one in value] if isinstance(value, list) else _tensor(value)
            for name, value in json.loads(body).items()}  # fmt: skip


def _plain(one: Tensor) -> dict[str, Any]:
    return {"dtype": one.dtype, "values": one.values}


def _tensor(plain: dict[str, Any]) -> Tensor:
    return Tensor(plain["values"], plain["dtype"])
