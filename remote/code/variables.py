"""Which variables of the job's environment an exception speaks of, by name or by a value that it quotes. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST = 2
BEFORE = r"(?<![\w.-])(?<![^/]/)(?<!^/)"  # no part of another word or path; an address may stand behind `tcp://`
SHORTEST = 2  # characters of a value that is looked for: a single digit stands in too many words


def told(words: str, env: Mapping[str, str]) -> str:
    """Give a clause on the variables that the words may come from; nothing where there are none.

    A library says what it could not read, hardly ever where it had it from. Values are not shown: they may be secret.
    """
    found = [f"`{name}`" for name in _spoken_of(words, env)][:MOST]
    return f"; see {' and '.join(found)} in the job's environment" if found else ""


def _spoken_of(words: str, env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        wanted = [name] + ([value.strip()] if len(value.strip()) >= SHORTEST else [])
        if any(re.search(rf"{BEFORE}{re.escape(one)}(?![\w/-])", words) for one in wanted):
            yield name
