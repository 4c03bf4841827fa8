"""What is fetched from whom: pure decisions on what the manifests say."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote.ranges import MOST
from remote.results.manifest import Book

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from remote.schema import ManifestEntry

    Standing = tuple[ManifestEntry, str]  # a sample that stands here, and the host that it is of

PER_STREAM = 16 << 20  # bytes for which a further stream to a host pays
_HASH = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[A-Za-z0-9_.]{0,64}")


@dataclass(frozen=True, slots=True)
class Holding:
    """What one place holds; `odd` counts lines of its manifest that say nothing sane."""

    name: str
    entries: Mapping[int, ManifestEntry]
    odd: int = 0


def holding(name: str, manifest: bytes) -> Holding:
    """Read a manifest that a host has sent: it is input, and only what is sane of it counts."""
    book = Book()
    for line in manifest.split(b"\n"):
        book.take(line)
    entries = {index: entry for index, entry in book.entries.items() if sane(entry)}
    return Holding(name, entries, len(book.entries) - len(entries))


def sane(entry: ManifestEntry) -> bool:
    """Tell whether a line can be gone by: a sample's own name, sizes and hashes that can be."""
    return (
        0 <= entry.index < MOST
        and entry.file == f"data_{entry.index}.pt"
        and 0 <= entry.size < 1 << 50
        and all(0 <= number < 1 << 40 for number in (entry.tokens, *entry.shape, *entry.layers))
        and all(_HASH.fullmatch(text) for text in (entry.sha256, entry.tokens_sha256))
        and all(_WORD.fullmatch(text) for text in (entry.dtype, entry.model))
    )


def mixed(holdings: Iterable[Holding]) -> list[str]:
    """Say why these samples must not lie in one folder; nothing where they may."""
    holdings = list(holdings)
    found = []
    for what, value in _SAME.items():
        who: dict[Any, Counter[str]] = defaultdict(Counter)
        for held in holdings:
            for entry in held.entries.values():
                if (is_ := value(entry)) not in ("", ()):
                    who[is_][held.name] += 1
        if len(who) > 1:
            found.append(f"they are of {len(who)} {what}: {_told(who)}")
    return found + _other_tokens(holdings)


def _shape(entry: ManifestEntry) -> tuple[object, ...]:
    return (*entry.shape[:1], *entry.shape[-1:], entry.dtype)


_SAME = {"models": lambda entry: entry.model, "sets of layers": lambda entry: entry.layers, "shapes or types": _shape}


def _told(who: Mapping[Any, Counter[str]]) -> str:
    """Give `abc… (3 on gpu01), def… (4 on gpu02)`."""
    return ", ".join(
        f"{_short(what)} ({', '.join(f'{count} on {name}' for name, count in names.items())})"
        for what, names in who.items()
    )


def _short(what: Any) -> str:
    return what[:12] if isinstance(what, str) else "×".join(map(str, what))


def _other_tokens(holdings: Sequence[Holding]) -> list[str]:
    """Say which indices stand for other tokens at another place: two datasets, or two states of one."""
    first: dict[int, tuple[str, str]] = {}
    clashes: list[str] = []
    for held in holdings:
        for index, entry in held.entries.items():
            name, tokens = first.setdefault(index, (held.name, entry.tokens_sha256))
            if tokens != entry.tokens_sha256:
                clashes.append(f"sample {index} has other tokens on {held.name} than on {name}")
    more = f" (and {len(clashes) - 1} more like it)" if len(clashes) > 1 else ""
    return [f"{clashes[0]}{more}"] if clashes else []


def chosen(holdings: Iterable[Holding], spans: Sequence[range] | None) -> set[int]:
    """Give the samples that are meant and that somebody has."""
    held = {index for one in holdings for index in one.entries}
    return held if spans is None else {index for index in held if any(index in span for span in spans)}


def nowhere(holdings: Iterable[Holding], spans: Sequence[range]) -> int:
    """Count the samples that were asked for by number and that nobody has."""
    return sum(map(len, spans)) - len(chosen(holdings, spans))


def deal(
    holdings: Iterable[Holding], missing: Collection[int], tried: Collection[tuple[int, str]] = ()
) -> dict[str, list[ManifestEntry]]:
    """Ask each missing sample of one place that has it and was not tried: of the one that has least to send so far."""
    holdings = list(holdings)
    load = {held.name: 0 for held in holdings}
    dealt: dict[str, list[ManifestEntry]] = {}
    for index in sorted(missing):
        able = [held for held in holdings if index in held.entries and (index, held.name) not in tried]
        if not able:
            continue
        best = min(able, key=lambda held: load[held.name])
        load[best.name] += best.entries[index].size
        dealt.setdefault(best.name, []).append(best.entries[index])
    return dealt


def streams(entries: Sequence[ManifestEntry], parallel: int) -> list[list[ManifestEntry]]:
    """Part a host's samples among its streams by size; few bytes are not worth many connections."""
    number = max(1, min(parallel, len(entries), sum(entry.size for entry in entries) // PER_STREAM + 1))
    parts: list[list[ManifestEntry]] = [[] for _ in range(number)]
    sizes = [0] * number
    for entry in entries:
        place = sizes.index(min(sizes))
        parts[place].append(entry)
        sizes[place] += entry.size
    return parts
