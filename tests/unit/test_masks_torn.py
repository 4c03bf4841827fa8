"""Texts that were cut anywhere: nothing of a secret is left at the cut, and nothing else is lost."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from local.masks import MaskedLog
from local.text import clean
from remote import masks, torn

if TYPE_CHECKING:
    from collections.abc import Callable

SECRETS = (
    "hf_abcdefghij",
    "-----BEGIN KEY-----\nMIIEpqrstuv\nwxyzABCDEFG\n-----END KEY-----",
    "correct horse battery staple",
    "éàü-pässwörd",
    'quo"ted\\value',
)
SHOWN_AS = (
    str,
    json.dumps,
    repr,
    lambda secret: " ".join(secret.split()),  # echo $TOK
    lambda secret: secret.replace("\n", "\r\n"),
    lambda secret: f"\x1b[31m{secret[:4]}\x1b[0m{secret[4:8]}\x1b]0;t\x07{secret[8:]}\x1b[0m",
    "\x00".join,
)
AROUND = st.text("01234567\n", max_size=12)  # nothing that is a part of a secret
secrets = st.sampled_from(SECRETS)
ways = st.sampled_from(SHOWN_AS)


def pieces(secret: str) -> set[str]:
    """Give all that may not be seen: any three characters of a secret that follow each other in a line."""
    lines = [line for shape in masks.shapes((secret,)) for line in shape.split("\n")]
    return {line[at : at + 3] for line in lines for at in range(len(line) - 2)}


def leaks(shown: str, secret: str) -> list[str]:
    # What a cut has left of a terminal command is text; no letter of it is one of a secret here but by chance.
    return [piece for piece in pieces(secret) if piece in clean(shown, lines=True).replace(masks.MASK, "\n")]


@given(AROUND, secrets, ways, AROUND, st.data())
def test_no_cut_of_any_text_shows_a_part_of_a_secret(
    before: str, secret: str, way: Callable[[str], str], after: str, data: st.DataObject | None
) -> None:
    text = before + way(secret) + after
    assert data is not None
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    shown = masks.mask_torn(text[start:end], [secret], start=True, end=True)
    assert not leaks(shown, secret)
    raw = text.encode()
    start, end = len(text[:start].encode()), len(text[:end].encode())
    shown_bytes = masks.mask_bytes(raw[start:end], [secret], start=True, end=True)
    assert not leaks(shown_bytes.decode("utf-8", "replace"), secret)


@given(AROUND, secrets, ways, AROUND, st.data())
@example("", SECRETS[3], str, "", None)
def test_no_log_from_its_middle_shows_a_part_of_a_secret(
    before: str, secret: str, way: Callable[[str], str], after: str, data: st.DataObject | None
) -> None:
    """A log is cut at bytes, comes in any pieces, has a hole, and ends while its job writes."""
    raw = (before + way(secret) + after + way(secret) + before).encode()
    draw = (lambda high: data.draw(st.integers(0, high))) if data else (lambda high: 1 if high else 0)
    first = draw(len(raw))
    hole = first + draw(len(raw) - first)
    behind = hole + draw(len(raw) - hole)
    end = behind + draw(len(raw) - behind)
    kept: list[bytes] = []
    log = MaskedLog([secret], kept.append, torn=True)
    step = 1 + draw(20)
    for at in range(first, hole, step):
        log.feed(raw[at : min(at + step, hole)])
    log.skip()
    for at in range(behind, end, step):
        log.feed(raw[at : min(at + step, end)])
    log.finish()
    assert not [piece for part in kept for piece in leaks(part.decode("utf-8", "replace"), secret)]


@given(st.text("abc\n", max_size=40), st.text("abc", min_size=6, max_size=9), st.text("abc", min_size=6, max_size=9))
def test_overlapping_secrets_at_a_cut(text: str, one: str, other: str) -> None:
    """What is masked whole is not torn by what is masked at the edge, and the other way round."""
    shown = masks.mask_torn(text, [one, other], start=True, end=True)
    whole = masks.mask(text, [one, other])
    assert len(shown.replace(masks.MASK, "")) <= len(whole.replace(masks.MASK, ""))
    assert one not in shown
    assert other not in shown


@given(st.text("012345 \n\x1b[m", max_size=80), st.integers(1, 7))
def test_a_text_without_secrets_stays_as_it_is(text: str, step: int) -> None:
    kept: list[bytes] = []
    log = MaskedLog([SECRETS[0]], kept.append, torn=True)
    for at in range(0, len(text), step):
        log.feed(text[at : at + step].encode())
    log.finish()
    assert b"".join(kept).decode() == text
    assert masks.mask_torn(text, [SECRETS[0]], start=True, end=True) == text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("MIIEpqrstuv", "***"),  # a line of its own
        ("xyzABCDEFG\nnext", "***\nnext"),  # the rest of a line
        ("x -----BEGIN KEY----- MIIEpqrstuv wxyzABCDEFG -----END KEY----- y", "x *** y"),  # echo $KEY
        ("1mxyzABCDEFG", "***"),  # "\x1b[3" was before it
        ("title\x07CDEFG\n", "***\n"),
        ("EFG", "***"),
        ("KxyzABCDEFG", "***"),
        ("XyzABCDEFG is a word", "XyzABCDEFG is a word"),  # its first letter is no end of a command
        ("FG", "FG"),
    ],
)
def test_what_is_left_of_a_secret_of_several_lines(said: str, shown: str) -> None:
    assert masks.mask_torn(said, [SECRETS[1]], start=True) == shown


@pytest.mark.parametrize(
    ("secret", "said", "shown"),
    [
        ("Bearer abcdefghijk", "abcdefghijk", "***"),
        ("Bearer abcdefghijk", "Bearer of news", "Bearer of news"),  # a short word among several is a word
        ("a  b\tcdefgh", "a b cdefgh", "***"),  # what a shell makes of it
        ("correct horse battery staple", "correct horse battery staple", "***"),
        ("correct horse battery staple", "a horse", "a horse"),
    ],
)
def test_what_a_shell_makes_of_a_secret_without_quotes(secret: str, said: str, shown: str) -> None:
    assert masks.mask(said, [secret]) == shown


def test_a_secret_that_holds_terminal_commands_itself() -> None:
    """It is masked as it is and as it looks, and so is each rest of it."""
    secret = "abcde\x1b[31mfghij\x9b0mklmno"
    assert masks.mask(f"<{secret}> <{clean(secret)}>", [secret]) == "<***> <***>"
    for at in range(len(secret)):
        kept: list[bytes] = []
        log = MaskedLog([secret], kept.append, torn=True)
        log.feed(secret[at:].encode())
        log.finish()
        shown = clean(b"".join(kept).decode())
        assert not [piece for piece in ("abc", "efg", "hij", "klm", "mno") if piece in shown], at


def test_a_line_without_end_is_parted_between_secrets() -> None:
    kept: list[bytes] = []
    log = MaskedLog(["abcdefghij", "hijklmnop"], kept.append)
    line = b"abcdefghijklmnop-" * (3 * MaskedLog.LONGEST // 17)
    for at in range(0, len(line), 1000):
        log.feed(line[at : at + 1000])
    assert len(kept) > 1, "it is shown while it comes"
    log.finish()
    assert set(re.split(rb"\*\*\*", b"".join(kept))) == {b"", b"-"}


@pytest.mark.parametrize("text", ["\x1b]" * 40_000, "\x1b[" * 40_000, "a" * 80_000, "\x9d" * 80_000, "ab" * 40_000])
def test_edges_of_strange_texts_are_looked_at_in_no_time(text: str) -> None:
    assert len(masks.mask_torn(text, ["ab" * 2000 + "c"], start=True, end=True)) <= len(text)


def test_the_least_that_tells() -> None:
    assert torn.MINIMUM < masks.SECRET_MINIMUM <= masks.WORD_MINIMUM
