"""A pattern of the user's that takes for ever: it is interrupted, told, and the run goes on."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remote import bounded
from remote.run.retries import Signs
from remote.schema import Pattern, Retry

if TYPE_CHECKING:
    from remote.paths import Run
    from tests.running import Lab

ENDLESS = [(r"(a+)+$", "a" * 60 + "b"), (r".*.*.*.*.*=x", "y" * 2000), (r"(?:a|a)*$", "a" * 60 + "b")]


def events(run: Run, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return [event for event in found if event["event"] == name]


@pytest.mark.parametrize(("pattern", "text"), ENDLESS)
def test_a_match_that_takes_for_ever_is_interrupted(pattern: str, text: str) -> None:
    began = time.process_time()
    with pytest.raises(bounded.Overrun), bounded.within(0.1):
        re.search(pattern, text)
    assert time.process_time() - began < 5.0


def test_what_is_quick_is_let_be_and_nothing_stays_armed() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with bounded.within(5.0):
        assert re.search("b", "abc")
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) == before


def test_time_that_is_slept_does_not_count() -> None:
    with bounded.within(0.05):
        time.sleep(0.2)


def test_other_threads_are_not_bounded() -> None:
    done: list[bool] = []

    def work() -> None:
        with bounded.within(0.0001):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_progress_pattern_without_end_holds_nobody_up_and_is_given_up(lab: Lab) -> None:
    line = "a" * 60 + "b"
    script = f"for i in 1 2 3 4 5 6 7 8; do echo {line}; sleep 0.1; done; echo the end"
    run = lab.start(script, progress=r"(a+)+$", retry=Retry(progress_line=20.0))
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts) == ("done", 1)
    (told,) = events(run, "pattern-given-up")
    assert (told["pattern"], told["line"]) == (r"(a+)+$", line)


def test_once_progress_cannot_be_seen_any_word_is_a_sign_of_life() -> None:
    signs = Signs(0.0)
    signs.progressed(1.0)
    signs.said(5.0)
    assert signs.last == 1.0
    signs.blind = True
    signs.said(6.0)
    assert signs.last == 6.0


def test_own_patterns_without_end_are_left_out_and_told(lab: Lab) -> None:
    own = (Pattern(match=r"(a+)+$", kind="transient", cause="own"),)
    script = f"echo {'a' * 60}b; echo \"ModuleNotFoundError: No module named 'x'\"; exit 1"
    run = lab.start(script, retry=Retry(patterns=own))
    with contextlib.suppress(AssertionError):  # it computes for a while: twice our patience on a busy machine
        lab.ended(run)
    ended = lab.ended(run)
    assert (ended.phase, ended.cause, ended.attempts) == ("failed", "import", 1)
    assert "retry.patterns took more than" in ended.advice
