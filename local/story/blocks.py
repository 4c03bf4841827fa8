"""What a page is made of, the same for HTML and Markdown: sections of blocks, plain text throughout.

No text here is markup of any kind: whoever renders a block escapes every word of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local.story.plots import Bars, Plot


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One word of a table with the tone it is said in: good, bad, warn, info or none."""

    text: str
    tone: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Labels with what is said under each."""

    rows: tuple[tuple[str, str], ...]
    kind: str = "facts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows under titles; `right` are the columns of numbers."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: tuple[int, ...] = ()
    caption: str = ""
    folded: bool = False
    kind: str = "table"


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A paragraph; `tone` as a cell's."""

    text: str
    tone: str = ""
    kind: str = "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """Lines as they are, with the deciding one marked; long ones are folded away."""

    title: str
    lines: tuple[str, ...]
    marked: int | None = None
    diff: bool = False
    folded: bool = False
    kind: str = "code"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A finding of the gate."""

    severity: str
    rule: str
    message: str
    place: str = ""
    source: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    fix: tuple[str, ...] = ()
    kind: str = "fault"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A plot or a timeline, with the words that say the same without a picture."""

    title: str
    said: str
    plot: Plot | None = None
    bars: Bars | None = None
    kind: str = "chart"


Block = Facts | Table | Note | Code | Fault | Chart


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading and what is said below it."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """One large number of the heading."""

    label: str
    value: str
    more: str = ""
    tone: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One run on one host."""

    host: str
    run: str
    job: str
    outcome: str
    tone: str
    lead: str
    made: str
    took: str = ""
    usd: float | None = None
    tiles: tuple[Tile, ...] = ()
    sections: tuple[Section, ...] = field(default=())
