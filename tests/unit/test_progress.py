from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from local.progress import Progress, Tally, after, duration, remarkable, summary


def fed(*events: dict[str, Any]) -> Tally:
    tally = Tally()
    for event in events:
        tally = after(tally, event)
    return tally


def progress(time: float, done: int, tokens: int = 0, failed: int = 0) -> dict[str, Any]:
    return {"event": "progress", "time": time, "done": done, "failed": failed, "total": 64, "tokens": tokens}


PLAN = {"event": "plan", "time": 100.0, "total": 64, "done": 4, "tokens_total": 6400, "tokens_done": 400}


def test_events_become_counts_speed_and_time_left() -> None:
    tally = fed({"event": "attempt", "attempt": 1}, PLAN, progress(110.0, 14, 1400))
    assert (tally.phase, tally.total, tally.done, tally.tokens) == ("extracting", 64, 14, 1400)
    assert tally.speed == pytest.approx(1.0)
    assert tally.token_speed == pytest.approx(100.0)
    assert tally.left == pytest.approx(50.0)
    assert summary(tally) == "extracting · 14/64 samples · 100 tokens/s · 50 s left"


def test_samples_found_on_disk_after_a_retry_are_no_speed() -> None:
    tally = fed(
        PLAN, progress(110.0, 14, 1400), {"event": "attempt", "attempt": 2}, {**PLAN, "time": 200.0, "done": 60}
    )
    assert tally.speed == pytest.approx(1.0)
    assert tally.attempt == 2
    assert "attempt 2" in summary(tally)


def test_events_that_are_heard_in_the_same_moment_make_no_speed_of_their_own() -> None:
    """The supervisor reads what has come since it looked last: two steps may bear nearly the same time."""
    tally = Tally()
    for event in (PLAN, progress(110.0, 14, 1400), progress(120.0, 24, 2400), progress(120.0001, 34, 3400)):
        tally = after(tally, event)
    assert (tally.done, tally.token_speed, tally.left) == (34, 100.0, 30.0)
    assert after(tally, progress(130.0, 44, 4400)).token_speed == pytest.approx(130.0)  # 200 in ten seconds, averaged


def test_the_load_is_no_part_of_the_speed() -> None:
    tally = Tally()
    for event in (PLAN, {"event": "phase", "phase": "extracting", "time": 1200.0}, progress(1210.0, 14, 1400)):
        tally = after(tally, event)
    assert (tally.token_speed, tally.left) == (100.0, 50.0)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"event": "progress"},
        {"event": "progress", "done": "many", "total": -1, "tokens": None, "time": "noon"},
        {"event": "progress", "done": True, "time": 1},
        {"event": "plan", "total": 1.5},
        {"event": "attempt", "attempt": []},
        {"event": 7},
        {"event": "ended"},
    ],
)
def test_nonsense_changes_no_counts(event: dict[str, Any]) -> None:
    before = fed(PLAN, progress(110.0, 14, 1400))
    tally = after(before, event)
    assert (tally.total, tally.done, tally.failed, tally.tokens) == (64, 14, 0, 1400)
    assert summary(tally)


def test_a_clock_that_goes_back_is_no_speed() -> None:
    assert fed(progress(200.0, 1), progress(100.0, 9)).speed == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3599, "59 min 59 s"), (7500, "2 h 05 min")]
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_without_a_terminal_phases_and_the_log_are_plain_lines() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, width=200), "gpu01") as shown:
        shown.on_event({"event": "attempt", "attempt": 1, "pid": 5})
        shown.on_log(b"[bold]not markup[/] gr" + "ü".encode()[:1])
        shown.on_log("ü".encode()[1:] + b"n\n\x1b[31mred\n")
        shown.on_event(progress(1.0, 3))
        shown.on_event({"event": "attempt-ended", "attempt": 1, "class": "transient", "cause": "port-taken",
                        "root_line": "EADDRINUSE", "advice": "Wait."})  # fmt: skip
    assert out.getvalue().splitlines() == [
        "[bold]not markup[/] grün",
        "red",
        "extracting · 3/64 samples",
        "attempt 1 failed, transient, port-taken: EADDRINUSE (Wait.)",
    ]


def test_on_a_terminal_a_bar_is_drawn_and_taken_away() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, force_interactive=True, color_system=None)
    with Progress(console, "[::1]:22") as shown:
        shown.on_event(progress(1.0, 3))
        shown._bars.refresh()
    assert "[::1]:22" in out.getvalue()
    assert "3/64 samples" in out.getvalue()


@pytest.mark.parametrize("event", [{"event": "progress"}, {"event": "attempt-ended", "class": "done"}, {}])
def test_ordinary_events_are_not_told(event: dict[str, Any]) -> None:
    assert remarkable(event) is None


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"event": "hang", "attempt": 2, "waiting": "no progress for 900 s", "action": "restart"},
         "attempt 2 hangs: no progress for 900 s"),
        ({"event": "hang", "attempt": 2, "waiting": "no progress for 900 s", "action": "report"},
         "attempt 2 hangs: no progress for 900 s; it is left alone, as the job wishes"),
        ({"event": "hang-over", "attempt": 2}, "attempt 2 goes on"),
        ({"event": "batch-halved", "size": 4}, "memory ran out on a batch: going on with 4 samples at once"),
    ],
)  # fmt: skip
def test_what_must_not_be_missed_is_a_sentence(event: dict[str, Any], said: str) -> None:
    assert remarkable(event) == said
