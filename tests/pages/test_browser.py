"""The report looked at in a real browser: nothing overflows, nothing runs, nothing is fetched, plots have a size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from local.story import ask, html
from local.story.page import page
from tests.pages import stories

if TYPE_CHECKING:
    from pathlib import Path

    from local.story.blocks import Page
    from remote.schema import Story
    from tests.pages.browser import Tab

WIDTHS = (320, 390, 1280)
OUTSIDE = """
[...document.querySelectorAll("body *")].filter(element => {
    const box = element.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 1 || box.left < -1) && !element.closest("pre, .scroll, svg");
}).map(element => element.tagName + " " + element.className)
"""
PLOTS = """
[...document.querySelectorAll("svg")].map(plot => {
    const box = plot.getBoundingClientRect(), drawn = [...plot.querySelectorAll("path, rect")];
    return [box.width, box.height, drawn.length, drawn.every(line => Number.isFinite(line.getBBox().width))];
})
"""
CLIPPED = """
[...document.querySelectorAll("svg text")].filter(text => {
    const box = text.getBoundingClientRect(), plot = text.closest("svg").getBoundingClientRect();
    return box.left < plot.left - 1 || box.right > plot.right + 1 || box.bottom > plot.bottom + 1;
}).map(text => text.textContent)
"""


def made(story: Story, *, host: str = "gpu01") -> Page:
    return page(ask.safe(story), host=host, usd_per_hour=36.0, gpus=8, titles={"0001": "Give it its block size"})


PAGES = {
    "whole": lambda: [made(stories.story())],
    "empty": lambda: [
        made(
            stories.story(
                events=(), vitals=(), excerpts=(), verdict=None, refused=(), request=None, exit=None, written=None,
                verified=None, loads=(),
            )
        )
    ],
    "hostile": lambda: [made(stories.hostile(), host=stories.HOSTILE[0])],
    "many": lambda: [made(stories.story(), host=f"gpu{number:02d}") for number in range(4)] + [made(stories.hostile())],
}  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_runs_nothing_and_fetches_nothing(tab: Tab, tmp_path: Path, name: str, width: int) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(PAGES[name]()), encoding="utf-8")
    tab.open(file.as_uri(), width=width, dark=width == 390)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate(OUTSIDE) == []
    assert (
        tab.evaluate("document.scripts.length + document.images.length + document.querySelectorAll('iframe').length")
        == 0
    )
    asked = [event["params"]["request"]["url"] for event in tab.told("Network.requestWillBeSent")]
    assert asked == [file.as_uri()]
    assert (
        tab.told(
            "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening"
        )
        == []
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_plots_have_a_size_and_their_words_are_in_them(tab: Tab, tmp_path: Path, width: int) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(PAGES["whole"]()), encoding="utf-8")
    tab.open(file.as_uri(), width=width)
    plots: list[list[Any]] = tab.evaluate(PLOTS)
    assert len(plots) == 7  # attempts, tokens per second, samples, three of the GPUs, the disk
    for wide, high, drawn, sane in plots:
        assert wide > width * 0.6
        assert high > 40
        assert drawn
        assert sane
    assert tab.evaluate(CLIPPED) == []


def test_the_style_sheet_is_let_in_by_the_policy_and_dark_is_dark(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(PAGES["whole"]()), encoding="utf-8")
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    tab.open(file.as_uri(), width=390)
    light = tab.evaluate(shade)
    tab.open(file.as_uri(), width=390, dark=True)
    assert light > 600
    assert tab.evaluate(shade) < 200


def test_hostile_words_are_shown_as_words(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render([made(replace(stories.hostile(), verdict=None), host="<i>gpu</i>")]), encoding="utf-8")
    tab.open(file.as_uri(), width=1280)
    assert tab.evaluate("document.title").startswith("<script>alert(document.title)</script> on <i>gpu</i>")
    shown = tab.evaluate("document.body.textContent")
    assert "</pre></style></script><img src=x onerror=alert(1)>" in shown
    assert "{{ 7 * 7 }}{% raw %}" in shown
    named = tab.evaluate("[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).map(a => a.name)")
    assert not [name for name in named if name.startswith("on") or name == "style"]


def test_it_prints_on_paper(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.render(PAGES["whole"]()), encoding="utf-8")
    tab.open(file.as_uri(), width=1280)
    paper = tab.ask("Page.printToPDF", printBackground=True)["data"]
    assert paper.startswith("JVBERi")  # %PDF-
    assert len(paper) > 20_000
