"""From answers of hosts to rows, totals and documents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from local.errors import LinkLost, PrudentError, Unreachable
from local.monitor import documents
from local.monitor.rows import News, Row, Watched, row, totals
from local.monitor.watcher import LONGEST_DELAY, delay
from tests.unit import pulse_answers as answers

LAPTOP = 5_000.0  # the laptop's clock is far behind the host's
SKEW = answers.NOW - LAPTOP
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "monitor.schema.json").read_text())
HOST = Watched(name="gpu01", usd_per_hour=36.0)


def made(answer: Any, *, host: Watched = HOST, age: float = 0.0, error: PrudentError | None = None) -> Row:
    news = News(answer=answer, at=100.0, skew=SKEW, error=error)
    return row(host, news, monotonic=100.0 + age, clock=LAPTOP + age)


def test_a_working_host() -> None:
    found = made(answers.B200)
    assert (found.state, found.phase, found.samples.done, found.attempt) == ("live", "extracting", 3000, 1)
    assert found.tokens_per_second == pytest.approx(20_000)
    assert found.samples_per_second == pytest.approx(10)
    assert found.left == pytest.approx(2700)
    assert found.elapsed == pytest.approx(3600), "by the host's clock, whatever the laptop's"
    assert found.spent == pytest.approx(36.0)
    assert found.expected == pytest.approx(36.0 * (3600 + 2700) / 3600)
    assert found.line == "batch 12 of 99"


@pytest.mark.parametrize("when", [1e300, -1e300, 0.0, 1e-300, 1e12])
def test_moments_that_none_can_be_count_for_nothing(when: float) -> None:
    one, two, *_ = answers.B200.points
    strange = answers.of_run(answers.B200, started=when, last_seen=when)
    strange = replace(strange, now=when, points=(replace(one, time=when), replace(two, time=when * 2), one, two))
    found = made(strange)
    assert (found.elapsed, found.spent) == (None, None)
    assert all(speed is None or 0 <= speed < 1e9 for speed in found.past)
    json.dumps(documents.document([found], totals([found]), clock=1.0, interval=5.0), allow_nan=False)


def test_time_goes_on_between_two_pulses() -> None:
    found = made(answers.B200, age=5.0)
    assert (found.age, found.elapsed, found.gpus.age) == (5.0, pytest.approx(3605), 6.0)


@pytest.mark.parametrize(
    ("interval", "age", "state"), [(5.0, 14.0, "live"), (5.0, 16.0, "stale"), (1.0, 9.0, "live"), (1.0, 11.0, "stale")]
)
def test_news_grow_stale(interval: float, age: float, state: str) -> None:
    assert made(answers.B200, host=replace(HOST, interval=interval), age=age).state == state


@pytest.mark.parametrize("error", [LinkLost("the connection broke"), Unreachable("refuses connections")])
def test_a_host_that_cannot_be_reached_is_never_failed(error: PrudentError) -> None:
    found = made(answers.B200, age=40.0, error=error)
    assert (found.state, found.phase, found.failed, found.ended) == ("unreachable", "extracting", False, False)
    assert (found.age, found.error) == (40.0, error.message)
    never = row(HOST, News(error=error), monotonic=0.0, clock=0.0)
    assert (never.state, never.phase, never.age, never.ended) == ("unreachable", None, None, False)


def test_before_the_first_word() -> None:
    found = row(HOST, News(), monotonic=0.0, clock=0.0)
    assert (found.state, found.ended) == ("connecting", False)


def test_a_host_without_a_run() -> None:
    found = made(answers.NO_RUN)
    assert (found.state, found.run, found.phase, found.error, found.ended) == ("live", None, None, "", True)
    assert (found.spent, found.expected) == (None, None)
    named = made(answers.NO_RUN, host=replace(HOST, run="20200101-000000-0000"))
    assert named.error == "no run 20200101-000000-0000 here"


def test_while_it_loads_nobody_knows_the_end() -> None:
    found = made(answers.LOADING)
    assert (found.tokens_per_second, found.left, found.expected) == (None, None, None)
    assert found.spent == pytest.approx(36.0)


@pytest.mark.parametrize(("answer", "elapsed"), [(answers.DONE, 3540), (answers.FAILED, 3000)])
def test_what_has_ended_costs_no_more(answer: Any, elapsed: float) -> None:
    found = made(answer, age=5.0)
    assert found.ended
    assert found.elapsed == pytest.approx(elapsed)
    assert found.spent == found.expected == pytest.approx(36.0 * elapsed / 3600)


def test_no_price_is_no_cost() -> None:
    found = made(answers.B200, host=replace(HOST, usd_per_hour=None))
    assert (found.spent, found.expected) == (None, None)


def test_what_a_host_says_is_made_safe() -> None:
    said = "token hf_very_secret \x1b]0;title\x07\x1b[2J\u202e end\r"
    answer = answers.of_run(replace(answers.B200, line=said), cause="why hf_very_secret\nmore")
    found = made(answer, host=replace(HOST, secrets=("hf_very_secret",)))
    assert found.line == "token *** \N{REPLACEMENT CHARACTER} end"
    assert found.cause == "why *** more"


def test_samples_serve_where_no_tokens_are_counted() -> None:
    answer = answers.of_run(answers.B200, tokens=0, tokens_total=0)
    found = made(answer)
    assert (found.tokens_per_second, found.left) == (None, pytest.approx(2700))
    assert any(found.past)


# ---- totals and documents --------------------------------------------------------------------------------------


def rows(**more: Row) -> list[Row]:
    return [replace(made(answer), name=name) for name, answer in answers.ALL.items()] + list(more.values())


def test_totals() -> None:
    slow = made(answers.of_run(answers.B200, tokens=0))
    found = totals([made(answers.B200), slow, made(answers.NO_RUN), made(answers.DONE)])
    assert (found.hosts, found.states) == (4, {"extracting": 2, "no run": 1, "done": 1})
    assert (found.samples.done, found.samples.total) == (36_000, 90_000)
    assert found.tokens_per_second == pytest.approx(40_000)
    assert found.left == slow.left == pytest.approx(3000)
    assert found.spent == pytest.approx(36.0 * (3600 + 3600 + 3540) / 3600)
    assert found.expected == pytest.approx(36.0 * (6300 + 6600 + 3540) / 3600)


def test_a_total_without_one_of_its_parts_is_not_told() -> None:
    found = totals([made(answers.B200), made(answers.LOADING)])
    assert (found.left, found.expected) == (None, None)
    assert found.spent is not None
    assert totals([]).hosts == 0


def test_a_host_that_is_gone_adds_no_speed() -> None:
    gone = made(answers.B200, age=60.0, error=LinkLost("gone"))
    found = totals([made(answers.B200), gone])
    assert found.tokens_per_second == pytest.approx(20_000)
    assert found.states == {"extracting": 1, "unreachable": 1}


def test_the_document_is_as_its_schema_says() -> None:
    found = rows(
        gone=replace(made(answers.B200, age=60.0, error=LinkLost("gone")), name="gone"),
        never=row(replace(HOST, name="never"), News(error=Unreachable("no")), monotonic=0.0, clock=0.0),
        first=row(replace(HOST, name="first"), News(), monotonic=0.0, clock=0.0),
    )
    document = json.loads(json.dumps(documents.document(found, totals(found), clock=LAPTOP, interval=5.0)))
    jsonschema.validate(document, SCHEMA)
    assert set(document["hosts"]) == {*answers.ALL, "gone", "never", "first"}
    assert document["hosts"]["b200"]["usd_spent"] == 36.0
    assert len(document["hosts"]["b200"]["gpus"]) == 8
    assert document["hosts"]["gone"]["last_seen"] == LAPTOP - 60.0
    assert document["hosts"]["never"]["last_seen"] is None


def test_the_schema_refuses_what_is_not_told_in_it() -> None:
    document = documents.document([made(answers.B200)], totals([]), clock=LAPTOP, interval=5.0)
    document["hosts"]["gpu01"]["more"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


# ---- when to ask again -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took", "tries", "seconds"),
    [(0.2, 0, 4.8), (9.0, 0, 0.5), (0.2, 1, 5.0), (20.0, 2, 10.0), (0.2, 3, 20.0), (0.2, 5, LONGEST_DELAY),
     (0.2, 10_000, LONGEST_DELAY)],
)  # fmt: skip
def test_delays_grow_and_end(took: float, tries: int, seconds: float) -> None:
    assert delay(5.0, took, tries, jitter=0.0) == pytest.approx(seconds)
    assert seconds <= delay(5.0, took, tries, jitter=1.0) <= 1.25 * seconds + 1e-9
