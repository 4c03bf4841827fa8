"""Pages without a browser: the same words in HTML and Markdown, nothing of a host's read as markup, no secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from local.story import ask, html, markdown, measure, plots
from local.story.page import page
from remote import verify
from remote.schema import Check, Excerpt, Samples, Story, Verified
from tests.pages import stories

TAGS = {
    "html", "head", "meta", "link", "title", "style", "body", "main", "article", "div", "h1", "h2", "h3", "p", "span",
    "b", "nav", "a", "section", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "details",
    "summary", "figure", "figcaption", "svg", "text", "line", "path", "rect", "circle", "footer",
}  # fmt: skip
MARKDOWN = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["progress", "phase", "attempt", "attempt-ended", "retry", "hang", "plan", "ended"])
KEYS = ("time", "attempt", "tokens", "done", "phase", "class", "cause", "root_line")
EVENTS = st.lists(
    st.fixed_dictionaries({"event": NAMES}, optional=dict.fromkeys(KEYS, JSON | st.integers(0, 9))), max_size=12
)
VITALS = st.lists(st.fixed_dictionaries({"time": JSON}, optional={"gpus": JSON, "disk_free": JSON}), max_size=6)


class Reader(HTMLParser):
    """Collects tags, attributes and the ids of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


def made(story: Story, **changes: Any) -> Any:
    given: dict[str, Any] = {"host": "gpu01", "usd_per_hour": 36.0, "gpus": 8, "titles": {}}
    return page(ask.safe(story), **{**given, **changes})


def test_the_heading_and_the_cost_say_what_happened() -> None:
    text = markdown.render([made(stories.story())])
    assert text.startswith("# gpu01: done\n")
    assert "2,000 of 2,000 samples, every one verified" in text
    assert "3 faults found before the load: about 54 min × 8 GPUs (\\$32.48)" in text
    assert "\\$87.00" in text
    assert "Verified on 2026-09-21 16:40:00 UTC: 2000 of 2000 samples valid, 0 missing, 0 damaged" in text
    assert "attempt 1: starting 8.0 s, loading 9 min 51 s" in text


def test_a_check_that_could_not_be_done_is_no_check_of_nothing() -> None:
    unable = verify.unverified("verify-crashed", "verify-child ended with status 1 and no answer")
    text = markdown.render([made(stories.story(verified=Verified(time=1790008800.0, answer=unable)))])
    assert "Could not be verified on 2026-09-21 16:40:00 UTC" in text
    assert "verify-child ended with status 1" in text
    assert "0 of 0" not in text


@pytest.mark.parametrize("render", [html.render, markdown.render], ids=["html", "markdown"])
def test_both_forms_hold_every_section_and_every_fault(render: Any) -> None:
    text = render([made(stories.story())]).replace("\\", "")
    for words in (
        "The gate", "Versions and patches", "Timeline", "Throughput", "GPUs and disk", "Outputs", "Cost",
        "The log around failures", "The job", "port-taken", "hang", "CUDA_HOME, HF_TOKEN", "kv_cache_utils",
    ):  # fmt: skip
        assert words in text
    assert "/usr/local/cuda-12.8" not in text  # a value of the environment


def test_many_runs_have_a_table_and_what_they_cost_in_all_on_top() -> None:
    pages = [made(stories.story(), host=f"gpu{number:02d}") for number in range(3)]
    text = markdown.render([*pages, made(stories.story(), host="free", usd_per_hour=None)])
    assert text.startswith("# 4 runs, \\$261.00\n\n| host | run |")
    assert "| gpu01 | 20260921-131320-abcd | done | 2 h 25 min | \\$87.00 | 2,000 of 2,000 samples" in text
    assert "| free | 20260921-131320-abcd | done | 2 h 25 min | – |" in text
    page_ = html.render(pages)
    assert "<h1>3 runs, $261.00</h1>" in page_
    assert '<a href="#run-2">gpu01</a>' in page_
    assert 'id="run-2"' in page_


def test_a_run_that_failed_says_why_first() -> None:
    base = stories.story()
    assert base.exit is not None
    ended = replace(
        base.exit, phase="failed", code=1, cause="gpu-memory", kind="fatal", root_line="boom", advice="Do x."
    )
    status = replace(base.status, phase="failed", cause="gpu-memory", samples=Samples(total=9, done=3, failed=2))
    text = markdown.render([made(replace(base, exit=ended, status=status))])
    assert text.index("## How it ended") < text.index("## The gate")
    assert "3 of 9 samples, 2 failed, gpu-memory" in text
    assert "boom" in text
    assert "Do x." in text


@pytest.mark.parametrize("pages", [1, 3])
def test_hostile_words_make_no_markup_in_html(pages: int) -> None:
    text = html.render([made(stories.hostile(), host=stories.HOSTILE[2])] * pages)
    reader = Reader()
    reader.feed(text)
    assert reader.tags <= TAGS
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("style", "src", "srcdoc")]
    assert {value for name, value in reader.attributes if name == "href"} - {"data:,"} == {
        value for name, value in reader.attributes if name == "href" and str(value).startswith("#")
    }
    assert all(ord(character) >= 32 or character == "\n" for character in text)
    assert "\u202e" not in text
    assert "49" not in text.partition("{{")[0]  # no template in a host's words is run


def test_hostile_words_make_no_markup_in_markdown() -> None:
    tokens = MARKDOWN.parse(markdown.render([made(stories.hostile(), host=stories.HOSTILE[0])]))
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "hr", "code_block"}
    headings = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]
    assert "heading" not in headings


@pytest.mark.parametrize(
    "words", [*stories.HOSTILE, "1. one", "12) x", "- x", "+ x", "= x", "www.example.org", "a\\", "~~~"]
)
def test_words_and_code_come_out_of_markdown_as_they_went_in(words: str) -> None:
    plain = " ".join(words.split())
    for written in (markdown.text(words), markdown.code(words)):
        tokens = MARKDOWN.parse(f"- {written}")
        inline = [child for token in tokens for child in token.children or []]
        assert {child.type for child in inline} <= {"text", "code_inline", "text_special"}
        read = "".join(child.content for child in inline)
        assert read.replace("\N{BROKEN BAR}", "|") == plain


def test_secrets_and_control_characters_are_in_neither_form() -> None:
    told = replace(stories.story(), faults=("token hf_very_secret here \x1b[2J",))
    safe = ask.safe(told, ["hf_very_secret"])
    text = json.dumps(safe.faults)
    assert text == json.dumps(["token *** here "])
    assert ask.safe(safe) == safe


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("hf_very\x1b[1m_secret\x1b[0m!", "***!"),
        ("hf_very\x00_secret!", "***!"),
        ("cut: hf_very_se…", "cut: ***…"),
        ("hf_very\r_secret", "***"),
    ],
)
def test_no_colours_and_no_cut_bring_a_secret_onto_a_page(said: str, shown: str) -> None:
    told = replace(stories.story(), faults=(said,), excerpts=(Excerpt(why="w", lines=(said,), offset=0),))
    safe = ask.safe(told, ["hf_very_secret"])
    assert (safe.faults, safe.excerpts[0].lines) == ((shown,), (shown,))


@given(EVENTS, VITALS)
@settings(deadline=None, max_examples=150)
def test_whatever_events_and_measurements_say_there_is_a_page(events: list[Any], vitals: list[Any]) -> None:
    told = stories.story(events=tuple(events), vitals=tuple(vitals), verdict=None, refused=())
    shown = page(told, host="h", usd_per_hour=None, gpus=None, titles={})
    text = html.render([shown]) + markdown.render([shown])
    assert "nan" not in "".join(part.partition('"')[0] for part in text.split(' d="')[1:])


@given(
    st.sampled_from(
        ["reach", "host", "patch", "static", "import", "signature", "contract", "inputs", "rehearsal", "?"]
    ),
    st.dictionaries(
        st.sampled_from(
            ["patches", "without", "versions", "gpus", "time", "output", "calls", "model", "thin", "modules"]
        ),
        JSON | st.dictionaries(st.text(max_size=5), JSON, max_size=3),
        max_size=4,
    ),
)
@settings(deadline=None, max_examples=200)
def test_whatever_facts_a_verdict_holds_there_is_a_page(level: str, facts: dict[str, Any]) -> None:
    told = stories.story(verdict=stories.verdict(checks=(Check(id=level, status="pass", facts=facts),)), loads=())
    shown = page(told, host="h", usd_per_hour=1.0, gpus=None, titles={})
    assert html.render([shown])
    assert markdown.render([shown])


def test_rates_are_of_one_attempt_and_a_new_one_breaks_the_line() -> None:
    points = measure.rate(stories.events(), stories.START, "tokens")
    breaks = [place for place, point in enumerate(points) if point is None]
    assert len(breaks) == 1
    assert all(point is None or 100 < point[1] < 2000 for point in points)
    average = measure.average(stories.events(), "tokens")
    assert average is not None
    assert 500 < average < 1000


def test_attempts_have_their_phases_and_the_wait_before_a_retry_is_no_part_of_one() -> None:
    first, second, third = measure.attempts(stories.events(), stories.START, stories.START + 9000)
    assert [span.phase for span in first.spans] == ["starting", "loading"]
    assert (second.start, second.end, second.done) == (606.0, 5402.0, 995)
    assert [span.phase for span in third.spans] == ["starting", "loading", "extracting", "verifying"]
    assert third.ended is not None


@pytest.mark.parametrize("end", [0.0, 0.4, 1.0, 59.0, 3600.0, 86400.0 * 9, 1e9])
@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 7.0, 99.0, 12345.0, 9e14])
def test_axes_have_a_few_ticks_within_the_plot(end: float, value: float) -> None:
    made_ = plots.plot([((0.0, 0.0), (end, value))], end=end)
    assert made_ is not None
    assert 1 <= len(made_.x) <= 8
    assert 2 <= len(made_.y) <= 8
    assert all(made_.left <= tick.at <= made_.right for tick in made_.x)
    assert all(made_.top <= tick.at <= made_.bottom for tick in made_.y)
    assert len({tick.label for tick in made_.y}) == len(made_.y)


def test_nothing_measured_is_no_plot() -> None:
    assert plots.plot([(), (None, None)], end=9.0) is None
    assert plots.bars((), end=9.0) is None
