"""The screen as text: from documents alone, for any width and height."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from local import tables
from local.errors import LinkLost
from local.monitor import cells, display
from local.monitor.rows import News, Row, Watched, row, totals
from remote.schema import RunStatus, Samples
from tests.unit import pulse_answers as answers

if TYPE_CHECKING:
    from rich.style import Style


def made(name: str, answer: object = answers.B200, *, age: float = 0.0, lost: bool = False) -> Row:
    error = LinkLost("the host has not answered for 10 s") if lost else None
    news = News(answer=answer, at=100.0, error=error)  # type: ignore[arg-type]
    return row(Watched(name=name, usd_per_hour=36.0), news, monotonic=100.0 + age, clock=answers.NOW + age)


def every() -> list[Row]:
    return [*(made(name, answer) for name, answer in answers.ALL.items()), made("gone", age=130.0, lost=True)]


def text(renderable: RenderableType, width: int, *, height: int = 50) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(renderable)
    return [line.rstrip() for line in captured.get().splitlines()]


def screen(rows: list[Row], *, width: int = 160, height: int = 50, **view: object) -> list[str]:
    shown = display.screen(rows, totals(rows), display.View(keys=display.KEYS, **view), width=width, height=height)  # type: ignore[arg-type]
    return text(shown, width, height=height)


def line_of(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.split()[:1] == [name])


def test_a_wide_screen_tells_all() -> None:
    lines = screen([made("gpu01")], width=180)
    assert lines[0].split() == [
        "host", "phase", "samples", "tokens/s", "last", "10", "min", "left", "GPUs", "memory", "°C", "disk", "left",
        "load", "cost", "at", "the", "end", "news",
    ]  # fmt: skip
    assert line_of(lines, "gpu01").split() == [
        "gpu01", "extracting", "3000/30000", "20,000", *["█" * 15], "45", "min", "████▁███", "12-99%", "157/179G", "61",
        "900.0", "GiB", "9.5/192", "$36.00", "$63.00", "0", "s", "ago",
    ]  # fmt: skip
    assert "gpu01  batch 12 of 99" in lines
    assert (
        "1 host: 1 extracting · 3,000/30,000 samples · 20,000 tokens/s · 45 min 00 s left · $36.00 so far" in lines[-2]
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 250])
@pytest.mark.parametrize("height", [8, 24, 50])
def test_nothing_is_wider_or_higher_than_the_terminal(width: int, height: int) -> None:
    for view in ({}, {"chosen": 3}, {"chosen": 9, "log": tuple("a line of a log " * 20 for _ in range(99))}):
        lines = screen(every(), width=width, height=height, **view)
        assert all(cell_len(line) <= width for line in lines), view
        assert len(lines) <= max(height, 12), view


def test_eighty_columns_have_what_matters() -> None:
    lines = screen([made("gpu01")], width=80)
    words = line_of(lines, "gpu01")
    for part in ("extracting", "3000/30000", "20,000", "45 min", "████▁███ 12-99%", "0 s ago"):
        assert part in words
    assert "at the end" in " ".join(lines[-3:])


def test_the_least_of_terminals_has_host_and_phase() -> None:
    assert line_of(screen([made("gpu01")], width=20), "gpu01").split()[:2] == ["gpu01", "extracting"]


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ("mig", ".. MIG"), ("no-gpu", "none"), ("hung-smi", "no answer"), ("lost-card", "███████✗ 97%"),
        ("no-run", "no run"), ("loading", "loading"), ("failed", "failed"), ("done", "30000/30000"),
    ],
)  # fmt: skip
def test_each_kind_of_host(answer: str, part: str) -> None:
    assert part in line_of(screen([made("gpu01", answers.ALL[answer])]), "gpu01")


def test_what_hosts_have_to_say() -> None:
    lines = screen(every())
    said = {line.split()[0]: line for line in lines[12:-3]}
    assert "ValueError: layer 99 of 61" in said["failed"]
    assert "GPU 7: GPU requires reset" in said["lost-card"]
    assert "unreachable, last seen 2 min ago: the host has not answered for 10 s" in said["gone"]
    assert "no answer from nvidia-smi for 40 s" in said["hung-smi"]
    assert "no-run" not in said


def style_of(found: Row) -> Style:
    table = display.table([found], 200)
    return Console().get_style(table.rows[0].style or "")


def test_old_news_are_dimmed_and_dated() -> None:
    stale, gone = made("gpu01", age=40.0), made("gpu01", age=130.0, lost=True)
    assert (stale.state, gone.state) == ("stale", "unreachable")
    assert line_of(screen([stale]), "gpu01").endswith("40 s ago")
    assert line_of(screen([gone]), "gpu01").endswith("2 min ago")
    assert style_of(stale).dim
    assert style_of(gone).dim
    assert not style_of(made("gpu01")).dim
    assert "extracting" in line_of(screen([gone]), "gpu01"), "unreachable says nothing about the run"
    assert "gpu01  no answer for 40 s" in screen([stale])
    never = made("gpu01", None, lost=True)
    assert any(line.startswith("gpu01  never reached: the host has not") for line in screen([never]))


def test_the_worst_card_is_highlighted() -> None:
    hot = replace(answers.B200.gpus, gpus=answers.cards([97, 98, 10], temperature=90))
    assert [span.style for span in cells.gpus(made("a"), plain=False).spans][4] == "bold yellow"
    found = made("a", replace(answers.B200, gpus=hot))
    assert [span.style for span in cells.gpus(found, plain=False).spans][:3] == ["bold red"] * 3
    assert cells.temperature(found).style == "red"
    idle = made("a", answers.LOADING)
    assert "yellow" not in {span.style for span in cells.gpus(idle, plain=False).spans}


def test_a_reading_of_long_ago_says_so() -> None:
    old = replace(answers.B200.gpus, age=100.0, pending=95.0)
    assert "1 min old" in cells.gpus(made("a", replace(answers.B200, gpus=old)), plain=False).plain


def test_a_terminal_without_more_than_ascii() -> None:
    rows = [made("gpu01"), made("b", answers.LOST_CARD)]
    shown = text(display.table(rows, 200, plain=True), 200)
    (shown[1] + shown[2].replace("–", "-")).encode("ascii")


@pytest.mark.parametrize(
    ("count", "chosen", "space", "first", "shown"),
    [(5, 0, 10, 0, 5), (64, 0, 20, 0, 19), (64, 63, 20, 45, 19), (64, 30, 20, 21, 19), (64, None, 20, 0, 19),
     (3, 2, 1, 2, 1)],
)  # fmt: skip
def test_the_chosen_one_is_always_in_sight(count: int, chosen: int | None, space: int, first: int, shown: int) -> None:
    assert display.window(count, chosen, space) == (first, shown)


def test_more_hosts_than_lines() -> None:
    lines = screen([made(f"gpu{number:02}") for number in range(64)], height=24, chosen=40)
    assert len(lines) <= 24
    assert line_of(lines, "gpu40")
    assert any("more" in line for line in lines)
    assert "64 hosts: 64 extracting" in lines[-2]


def test_the_log_of_the_chosen_one() -> None:
    log = tuple(f"line {number}" for number in range(100))
    lines = screen([made("gpu01"), made("gpu02")], height=24, chosen=1, log=log)
    assert len(lines) <= 24
    assert "line 99" in lines
    assert "line 50" not in lines
    assert line_of(lines, "gpu02")


def test_markup_in_what_a_host_says_is_text() -> None:
    lines = screen([made("gpu01", replace(answers.B200, line="[bold]x[/] [link=evil]y"))])
    assert "gpu01  [bold]x[/] [link=evil]y" in lines


def test_a_snapshot_ends_with_the_totals() -> None:
    lines = text(display.snapshot(every(), totals(every()), 200), 200)
    assert lines[-1].startswith("10 hosts: 5 extracting")
    assert line_of(lines, "gone")


@pytest.mark.parametrize(
    ("samples", "shown", "together"),
    [
        (Samples(), "–", ""),
        (Samples(done=5), "5", "5 samples"),
        (Samples(done=5, total=9, failed=1), "5/9 1✗", "5/9 samples"),
        (Samples(total=1000), "0/1000", "0/1,000 samples"),
    ],
)
def test_a_job_that_tells_no_progress_has_none_of_none(samples: Samples, shown: str, together: str) -> None:
    one = replace(made("gpu01"), samples=samples)
    assert cells.samples(one).plain == shown
    told = [part for part in cells.totals(totals([one]), 500)[0].plain.split(" · ") if part.endswith("samples")]
    assert told == [together] * bool(together)
    run = RunStatus(run="20260101-000000-abcd", phase="extracting", samples=samples)
    column = next(column for column in tables.runs([("gpu01", run)], {}).columns if column.header == "samples")
    assert str(next(iter(column.cells))).partition(" ")[0] == shown.partition(" ")[0]
