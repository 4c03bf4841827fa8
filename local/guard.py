"""Consoles for text that others wrote: whatever is printed on them, only rich's own commands reach the terminal.

The rooms clean what they print where they print it; this stands behind them, so that a forgotten place is a blemish and
no hole. Secrets are masked last, in what is about to be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console, RenderHook
from rich.control import Control
from rich.measure import Measurement
from rich.segment import Segment

from local.masks import MaskedText
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Collection

    from rich.console import ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult


def console(file: TextIO, secrets: Collection[str] = (), **options: Any) -> Console:
    """Give a console that lets no command of a host through, no word for an emoji, and none of the secrets."""
    made = Console(file=cast("TextIO", MaskedText(file, secrets)), highlight=False, emoji=False, **options)
    made.push_render_hook(_Guard())
    return made


class _Guard(RenderHook):
    """Has everything that is printed rendered through `_Clean`."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [each if isinstance(each, Control) else _Clean(each) for each in renderables]


class _Clean:
    """What is rendered, without control characters; commands of rich's own are segments of another kind."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(clean(segment.text, lines=True), segment.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._renderable)
