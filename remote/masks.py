"""Secrets in text: masked in every shape in which they are printed. Both sides use it; pure.

A value of fewer than six characters is not masked: it would maim every text, and its masks would tell where it stands.
A secret of several lines is masked line by line, one of several words also word by word (those of eight characters and
more): so a shell prints it unquoted. Colours and other terminal commands within a secret do not hide it:
who shows a text takes them out, and the secret would be whole again.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

from remote import torn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

SECRET_MINIMUM = 6
WORD_MINIMUM = 8  # characters of one word among several: shorter ones are words of any text
MASK = "***"
# Terminal commands up to their end, else single control characters; tabs and line ends are text.
_UNSEEN = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
# The same in bytes of UTF-8, read as Latin-1: there a byte of 0x80 and more is a part of a character.
_UNSEEN_BYTES = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?|\xc2[\x80-\x9f]|[\x00-\x08\x0b-\x1f\x7f]"
)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Put asterisks in place of secrets, those that overlap as one."""
    return _without(text, spans(text, shapes(tuple(secrets)), _UNSEEN))


def mask_bytes(data: bytes, secrets: Iterable[str], *, start: bool = False, end: bool = False) -> bytes:
    """Put asterisks in place of secrets in bytes, whatever else these are; `start` and `end` as in `mask_torn`."""
    hidden = shapes_of_bytes(tuple(secrets))
    if not hidden:
        return data
    text = data.decode("latin-1")
    found = spans(text, hidden, _UNSEEN_BYTES) + torn.spans(text, hidden, _UNSEEN_BYTES, start=start, end=end)
    return _without(text, found).encode("latin-1")


def mask_torn(text: str, secrets: Iterable[str], *, start: bool = False, end: bool = False) -> str:
    """Put asterisks in place of secrets, and of what is left of one where a text was cut off: its start or its end."""
    hidden = shapes(tuple(secrets))
    return _without(text, spans(text, hidden, _UNSEEN) + torn.spans(text, hidden, _UNSEEN, start=start, end=end))


def between(data: bytes, secrets: Iterable[str], at: int) -> int:
    """Give the last place up to `at` where bytes can be parted without parting a secret that stands there whole."""
    found = spans(data.decode("latin-1"), shapes_of_bytes(tuple(secrets)), _UNSEEN_BYTES)
    for first, last in sorted(found, reverse=True):
        if first < at < last:
            at = first
    return at


def within(value: Any, secrets: Collection[str]) -> Any:
    """Mask secrets in all texts of a JSON value."""
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, dict):
        return {mask(str(key), secrets): within(item, secrets) for key, item in value.items()}
    return [within(item, secrets) for item in value] if isinstance(value, list | tuple) else value


@functools.lru_cache(maxsize=64)
def shapes(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Give the texts to mask, the longest first: each secret and its parts, and as JSON and Python would write them."""
    found: set[str] = set()
    for part in (part for secret in secrets for part in _parts(secret)):
        found |= {part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1], repr(part)[1:-1]}
    return tuple(sorted((shape for shape in found if len(shape) >= SECRET_MINIMUM), key=len, reverse=True))


def _parts(secret: str) -> set[str]:
    """Give a secret, its lines, and what a shell makes of it unquoted: words, with one space between them."""
    words = secret.split()
    whole = {secret, secret.strip(), " ".join(words), *(line.strip() for line in secret.splitlines())}
    shown = {_UNSEEN.sub("", part) for part in whole}  # of a secret that holds a terminal command itself
    return whole | shown | {word for word in words if len(word) >= WORD_MINIMUM}


@functools.lru_cache(maxsize=64)
def shapes_of_bytes(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Give the same as bytes of UTF-8, read as Latin-1."""
    return tuple(shape.encode("utf-8", "surrogateescape").decode("latin-1") for shape in shapes(secrets))


def spans(text: str, hidden: tuple[str, ...], unseen: re.Pattern[str]) -> list[tuple[int, int]]:
    """Give where secrets stand, and where they would stand once all that nobody sees is taken out."""
    found = [span for shape in hidden for span in _found(text, shape)]
    if hidden and unseen.search(text):
        bare = torn.Bare(text, unseen)
        found += [
            (bare.place(start), bare.place(end - 1) + 1) for shape in hidden for start, end in _found(bare.text, shape)
        ]
    return found


def _without(text: str, found: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in _merged(found) if found else ():
        pieces += [text[at:start], MASK]
        at = end
    return "".join([*pieces, text[at:]])


def _found(text: str, shape: str) -> Iterator[tuple[int, int]]:
    at = text.find(shape)
    while at >= 0:
        yield at, at + len(shape)
        at = text.find(shape, at + len(shape))


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Give the spans in order, those that overlap as one."""
    start, end = -1, -1
    for first, last in sorted(spans):
        if first < end:
            end = max(end, last)
            continue
        if end >= 0:
            yield start, end
        start, end = first, last
    yield start, end
