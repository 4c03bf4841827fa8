"""Pages as Markdown: the same blocks in the same order, for a pull request or a wiki; every word of a host is escaped.

Plots become the sentence that says what they show. Markup in a host's words stays words: punctuation that Markdown or
HTML would read is escaped, and code stands in a fence longer than any in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local.story.blocks import Chart, Code, Facts, Fault, Note, Table
from local.story.page import heading, overview

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from local.story.blocks import Block, Cell, Page

# What opens markup anywhere, an address that would become a link by itself, and what opens a list or a heading.
SPECIAL = re.compile(
    r"([\\`*_{}\[\]#|<>&~$^@]|:(?=//)|(?<=www)\.|^[-+=]|(?<=^\d)[.)](?=\s|$)|(?<=^\d\d)[.)](?=\s|$))", re.IGNORECASE
)
FENCE = re.compile(r"`+")


def render(pages: Sequence[Page]) -> str:
    """Give the document of one run, or of many below each other."""
    lines = [f"# {text(heading(pages))}", "", *_table(overview(pages)), ""] if len(pages) > 1 else []
    for page in pages:
        lines += _page(page, deeper="#" if len(pages) > 1 else "")
    return "\n".join(lines).rstrip("\n") + "\n"


def text(words: str) -> str:
    """Give words as one line that Markdown reads as nothing but words."""
    return SPECIAL.sub(r"\\\1", " ".join(words.split()))


def code(words: str) -> str:
    """Give words as one line of code, whatever backticks are in it."""
    inline = " ".join(words.split()).replace("|", "\N{BROKEN BAR}")  # a bar would end a table's cell even in code
    fence = "`" * (max(map(len, FENCE.findall(inline)), default=0) + 1)
    pad = " " if inline[:1] == "`" or inline[-1:] == "`" else ""
    return f"{fence}{pad}{inline}{pad}{fence}" if inline else ""


def _page(page: Page, *, deeper: str) -> Iterator[str]:
    yield from (f"{deeper}# {text(page.host)}: {text(page.outcome)}", "")
    yield from (f"{text(page.job)}, run {code(page.run)}. {text(page.lead)}".strip(), "")
    for tile in page.tiles:
        more = f" ({text(tile.more)})" if tile.more else ""
        yield f"- {text(tile.label)}: **{text(tile.value)}**{more}"
    yield ""
    for section in page.sections:
        yield from (f"{deeper}## {text(section.title)}", "")
        for block in section.blocks:
            yield from _block(block)
            yield ""
    yield from (f"As the host told it on {text(page.made)}\\.", "")


def _block(block: Block) -> Iterator[str]:
    match block:
        case Facts():
            yield from (f"- {text(label)}: {text(said)}" for label, said in block.rows)
        case Table():
            yield from _table(block)
        case Code():
            yield from _code(block)
        case Fault():
            yield from _fault(block)
        case Chart():
            yield f"{text(block.title)}: {text(block.said)}"
        case Note():
            yield f"> {text(block.text)}"


def _table(block: Table) -> Iterator[str]:
    if block.caption:
        yield from (f"**{text(block.caption)}**", "")
    yield _row([text(title) for title in block.titles])
    yield _row(["---:" if place in block.right else "---" for place in range(len(block.titles))])
    yield from (_row([_cell(cell) for cell in row]) for row in block.rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return f"**{text(cell.text)}**" if cell.tone in ("bad", "warn") else text(cell.text)


def _code(block: Code) -> Iterator[str]:
    yield from (f"{text(block.title)}:", "")
    yield from _fenced([f"{'>' if place == block.marked else ' '} {line}" for place, line in enumerate(block.lines)])


def _fault(block: Fault) -> Iterator[str]:
    yield f"**{text(block.severity)}** {code(block.rule)}: {text(block.message)}"
    if block.place:
        yield from ("", code(block.place))
    if block.source:
        yield from ("", *_fenced(block.source.split("\n")))
    for label, said in block.facts:
        yield from ("", f"{text(label)}: {code(said)}")
    if block.fix:
        yield from ("", *_fenced(block.fix, "diff"))


def _fenced(lines: Sequence[str], language: str = "") -> Iterator[str]:
    longest = max((len(run) for line in lines for run in FENCE.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{language}", *(" ".join(line.splitlines()) for line in lines), fence)
