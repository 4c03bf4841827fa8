"""Sample indices as text, `0-99,105`, and back; and their lengths, packed. Pure, shared with the controller."""

from __future__ import annotations

import base64
import re
import sys
import zlib
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 10_000_000  # samples that one text may name: a text of a few bytes must not fill the memory
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class RangeError(ValueError):
    """A text that names no samples; the message quotes its start."""


def spans(text: str) -> tuple[range, ...]:
    """Give the ranges of a text, ascending and apart from each other; raises RangeError."""
    found: list[range] = []
    for part in text.split(",") if text else ():
        match = _PART.fullmatch(part)
        if match is None:
            raise RangeError(f"expected ranges like 0-99,105, found {text[:40]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (found and first < found[-1].stop):
            raise RangeError(f"expected ascending ranges, found {part!r} in {text[:40]!r}")
        found.append(range(first, last + 1))
    if sum(map(len, found)) > MOST:
        raise RangeError(f"names more than {MOST} samples: {text[:40]!r}")
    return tuple(found)


def parse(text: str) -> tuple[int, ...]:
    """Give the samples that a text names, ascending; raises RangeError."""
    return tuple(index for span in spans(text) for index in span)


def count(text: str) -> int:
    """Count the samples that a text names; raises RangeError."""
    return sum(map(len, spans(text)))


def tell(indices: Iterable[int]) -> str:
    """Give the text for samples in any order, each once."""
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in _runs(sorted(set(indices))))


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place, index in enumerate(ordered):
        if place + 1 == len(ordered) or ordered[place + 1] != index + 1:
            yield ordered[start], index
            start = place + 1


def pack(lengths: Iterable[int]) -> str:
    """Give lengths as one word: 32-bit little-endian numbers, deflated, in base64."""
    return base64.b64encode(zlib.compress(_little(array("i", lengths)).tobytes(), 6)).decode()


def unpack(word: str) -> array[int]:
    """Give the lengths that `pack` packed; raises RangeError."""
    lengths = array("i")
    try:
        inflating = zlib.decompressobj()
        data = inflating.decompress(base64.b64decode(word, validate=True), MOST * lengths.itemsize)
        if not inflating.eof or inflating.unused_data:
            raise ValueError("is not whole")  # noqa: TRY301 - every way to be wrong is told alike
        lengths.frombytes(data)
    except (ValueError, zlib.error) as error:
        raise RangeError(f"expected packed lengths, found {word[:40]!r} ({error})") from error
    return _little(lengths)


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
