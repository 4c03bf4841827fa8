"""Strange inputs: hostile words and values, damaged copies of valid documents."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = (
    "",
    " ",
    "-",
    "--help",
    "-oProxyCommand=touch canary",
    "$(touch canary)",
    "`touch canary`",
    "; touch canary",
    "| touch canary",
    "&& touch canary",
    "'",
    '"',
    "'\"'",
    "\\",
    "\n",
    "\r",
    "\n\n",
    "a\nb",
    "\0",
    "\t",
    "%h",
    "%p%r%%",
    "%s",
    "%n%x%",
    "${HOME}",
    "$HOME",
    "~",
    "~root",
    "*",
    "?[a-z]",
    "!!",
    "{a,b}",
    "../../etc/passwd",
    "/dev/zero",
    "\N{PILE OF POO}",
    "\ud800",
    "\udfff\ud800",
    "a" * 4096,
    "é" * 2048,
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp",
    "\N{ZERO WIDTH SPACE}",
    "\N{LINE SEPARATOR}",
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x07",
    "\x1b]8;;http:\x1b\\x\x1b]8;;\x1b\\",
    "\x1bP1$r\x1b\\",
    "\x9b31m",
    "\x9d0;t\x9c",
    "\x08\x08\x08",
    "\x7f",
    "\x07",
    "[bold red]x[/]",
    "[/]",
    "[link=x]y",
    "[",
    "]",
    "\\[",
    "nan",
    "inf",
    "1e999",
    "None",
    "{}",
    "[]",
    "{attempt}",
    "{0}",
    "\x1ePRUDENT-GATE 1 ",
    "\x1eFRAME {}\n",
    "²",
    "\N{ARABIC-INDIC DIGIT ONE}",
    "1_0",
    "0x10",
    "+5",
    "-1",
    "9" * 400,
)
NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400, 0.5, -0.0, 1e-300, 1e300)

words = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40), st.text(st.characters(), max_size=12))
numbers = st.one_of(st.sampled_from(NUMBERS), st.integers(), st.floats())
deep = st.integers(1, 3000).map(lambda depth: _deep(min(depth, 200)))


def _deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
anything = st.one_of(values, values, values, deep)


def damaged(*documents: Any) -> st.SearchStrategy[Any]:
    """Give copies of JSON values in which one to three values are replaced, removed, doubled or wrapped."""
    return st.sampled_from(documents).flatmap(_damaged)


@st.composite
def _damaged(draw: st.DrawFn, document: Any) -> Any:
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(changed))
        if not places:
            return draw(anything)
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        act = draw(st.sampled_from(("replace", "replace", "replace", "remove", "wrap", "rename")))
        if act == "remove":
            del holder[key]
        elif act == "wrap":
            holder[key] = [holder[key]]
        elif act == "rename" and isinstance(holder, dict):
            holder[draw(words)] = holder.pop(key)
        else:
            holder[key] = draw(anything)
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    found = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, item in found:
        yield value, key
        yield from _places(item)


def cut(*texts: bytes) -> st.SearchStrategy[bytes]:
    """Give copies of bytes with pieces cut out, doubled, or others put in; now and then bytes of no origin at all."""
    return st.one_of(_cut(texts), _cut(texts), _cut(texts), st.binary(max_size=200))


@st.composite
def _cut(draw: st.DrawFn, texts: tuple[bytes, ...]) -> bytes:
    data = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        upto = min(len(data), at + draw(st.one_of(st.integers(0, 8), st.integers(0, 300))))
        put = draw(st.one_of(st.just(b""), st.binary(max_size=8), words.map(_bytes), st.just(data[at:upto] * 2)))
        data = data[:at] + put + data[upto:]
    return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
