"""Samples as text: every set of indices survives, nothing else is taken for one."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import ranges

SETS = st.sets(st.integers(0, 300), max_size=120) | st.sets(st.integers(0, ranges.MOST), max_size=20)


@given(SETS)
def test_a_set_survives_as_text(indices: set[int]) -> None:
    text = ranges.tell(indices)
    assert set(ranges.parse(text)) == indices
    assert ranges.count(text) == len(indices)
    assert list(ranges.parse(text)) == sorted(indices)


@given(st.integers(0, 50), st.integers(1, 50))
def test_neighbours_are_one_range(first: int, length: int) -> None:
    text = ranges.tell(range(first, first + length))
    assert text == (f"{first}-{first + length - 1}" if length > 1 else str(first))


@given(st.text(alphabet="0123456789-, x", max_size=12))
def test_any_text_is_ranges_or_refused(text: str) -> None:
    try:
        found = ranges.parse(text)
    except ranges.RangeError as error:
        assert "expected" in str(error) or "more than" in str(error)
    else:
        assert ranges.parse(ranges.tell(found)) == found


@pytest.mark.parametrize(
    "text",
    ["5-3", "1,1", "2,1", "0-4,4", "-1", "1-", ",", "1,,2", " 1", "1 ", "x", "٣", "1\n", "0x1", "1e3", "0-9999999999",
     "0-999999999", "None"],
)  # fmt: skip
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ranges.RangeError):
        ranges.spans(text)


@given(st.lists(st.integers(0, 2**31 - 1), max_size=200))
def test_lengths_survive_their_packing(lengths: list[int]) -> None:
    assert ranges.unpack(ranges.pack(lengths)).tolist() == lengths


@pytest.mark.parametrize("word", ["", "x", "eJw=", "AAAA", "eJxjZGBgAAAABQAC", ranges.pack([1, 2, 3])[:-4], "é"])
def test_what_is_no_packed_list_is_refused(word: str) -> None:
    with pytest.raises(ranges.RangeError):
        ranges.unpack(word)


def test_a_bomb_of_lengths_is_refused() -> None:
    deflating = zlib.compressobj(9)
    packed = b"".join(deflating.compress(bytes(1 << 20)) for _ in range(4 * ranges.MOST // (1 << 20) + 2))
    with pytest.raises(ranges.RangeError):
        ranges.unpack(base64.b64encode(packed + deflating.flush()).decode())
