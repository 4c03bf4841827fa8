"""Secrets in texts of others: whatever stands between their letters, whatever was cut off, however they overlap."""

from __future__ import annotations

import time

import pytest

from local.masks import MaskedLog
from local.text import clean
from remote import masks

SECRET = "hf_abcdefghij"
BETWEEN = (
    "\x1b[31m", "\x1b[0;1m", "\x1b]0;title\x07", "\x1b]8;;x\x1b\\", "\x1bP1$r\x1b\\", "\x1b(0", "\x00", "\x08", "\r",
    "\x7f", "\x1b[1m\x1b[31m", "\x00\x00",
)  # fmt: skip


@pytest.mark.parametrize("between", [*BETWEEN, "\x9b31m", "\x9d0;t\x9c", "\x85"])
def test_what_nobody_sees_hides_no_secret_in_text(between: str) -> None:
    text = f"<{between}{SECRET[:4]}{between}{SECRET[4:9]}{between}{SECRET[9:]}{between}>"
    assert clean(masks.mask(text, [SECRET])).replace("\N{REPLACEMENT CHARACTER}", "") == "<***>"


@pytest.mark.parametrize("between", [*BETWEEN, "\x9b31m", "\x85"])
def test_what_nobody_sees_hides_no_secret_in_bytes(between: str) -> None:
    data = f"ü{SECRET[:4]}{between}{SECRET[4:]}ü".encode()
    assert masks.mask_bytes(data, [SECRET]) == "ü***ü".encode()
    kept: list[bytes] = []
    log = MaskedLog([SECRET], kept.append)
    for place in range(len(data)):
        log.feed(data[place : place + 1])
    log.finish()
    if between != "\r":  # what follows a return is written over what stands before it: the two never stand together
        assert b"".join(kept) == "ü***ü".encode()


def test_bytes_of_no_encoding_stay_as_they_are() -> None:
    data = bytes(range(256))
    assert masks.mask_bytes(data + SECRET.encode() + data, [SECRET]) == data + b"***" + data


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{SECRET}{SECRET}", "******"),
        ("abcdefghijklm", "***"),  # two that overlap: neither's rest is left
        ("xabcdefghy", "x***y"),
        ("efghijklm", "***"),
        ("nothing", "nothing"),
    ],
)
def test_secrets_side_by_side_and_overlapping(text: str, shown: str) -> None:
    assert masks.mask(text, [SECRET, "abcdefgh", "efghijklm"]) == shown


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("x hf_abcdef", "x hf_abcdef", "x ***"),
        ("defghij x", "*** x", "defghij x"),
        ("x hf", "x hf", "x hf"),
        ("", "", ""),
        ("ij x", "ij x", "ij x"),
    ],
)
def test_what_a_cut_has_left_of_a_secret(text: str, start: str, end: str) -> None:
    assert masks.mask_torn(text, [SECRET], start=True) == start
    assert masks.mask_torn(text, [SECRET], end=True) == end


def test_a_log_that_is_looked_at_from_the_middle_begins_with_no_half_of_a_secret() -> None:
    kept: list[bytes] = []
    log = MaskedLog([SECRET], kept.append, torn=True)
    log.feed(b"defghij said\ndefghij\n")
    log.finish()
    assert b"".join(kept) == b"*** said\ndefghij\n"


@pytest.mark.parametrize("start", ["\x1b]", "\x9d", "\x1b", "\x1b[", "\x1bP", "\x90", "\x1b[0", "\x00"])
def test_a_text_of_nothing_but_starts_of_commands_is_read_in_no_time(start: str) -> None:
    text = start * 50_000
    began = time.process_time()
    assert not clean(text).strip("0\N{REPLACEMENT CHARACTER}")
    assert masks.mask(text, [SECRET]) == text
    assert time.process_time() - began < 5.0  # it was half a minute once
