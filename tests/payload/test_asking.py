"""A program that may never answer is asked once at a time, whoever asks, and nobody waits for it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from remote.host.asking import Question
from tests.payload.gpu_fakes import program
from tests.running import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def reaped(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Question]:
    """Give a question whose program, a fake, says nothing and sleeps."""
    question = Question(tmp_path / "asked", "hung", [program(tmp_path, "exec sleep 600", "fake-hung")])
    yield question
    for name in tmp_path.glob("pid*"):
        pid = int(name.read_text())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        reaped(pid)


def asked(question: Question, folder: Path) -> int:
    pid = question.ask()
    assert pid is not None
    (folder / f"pid{pid}").write_text(str(pid))
    return pid


def test_an_answer_comes_with_its_time(tmp_path: Path) -> None:
    question = Question(tmp_path / "asked", "q", ["sh", "-c", "echo out; echo err >&2"])
    before = time.time()
    pid = question.ask()
    assert pid is not None
    question.wait(time.monotonic() + 20)
    heard = question.heard()
    reaped(pid)
    assert (heard.text, heard.pending, heard.error) == ("out\nerr\n", None, None)
    assert before - 1 <= heard.at <= time.time() + 1


def test_while_it_hangs_no_second_one_is_started(hung: Question, tmp_path: Path) -> None:
    began = time.time()
    pid = asked(hung, tmp_path)
    assert [hung.ask() for _ in range(5)] == [None] * 5
    assert not hung.idle()
    late = time.monotonic()
    hung.wait(late + 0.1)
    assert time.monotonic() - late < 5
    heard = hung.heard()
    assert (heard.text, heard.error) == (None, None)
    assert heard.pending is not None
    assert began - 1 <= heard.pending <= time.time()
    os.kill(pid, signal.SIGKILL)
    until(hung.idle)


def test_the_last_answer_stands_while_the_next_one_hangs(tmp_path: Path, hung: Question) -> None:
    answering = Question(tmp_path / "asked", "hung", ["echo", "before"])
    pid = answering.ask()
    assert pid is not None
    until(answering.idle)
    reaped(pid)
    asked(hung, tmp_path)
    heard = hung.heard()
    assert heard.text == "before\n"
    assert heard.pending is not None


def test_what_it_started_holds_the_question_too(tmp_path: Path) -> None:
    note = tmp_path / "pid-of-sleeper"
    question = Question(tmp_path / "asked", "q", ["sh", "-c", f"sleep 600 & echo $! >{note}.new; mv {note}.new {note}"])
    pid = question.ask()
    assert pid is not None
    reaped(pid)
    assert not question.idle()
    os.kill(int(until(lambda: note.exists() and note.read_text())), signal.SIGKILL)
    until(question.idle)


def test_a_program_that_hangs_is_ended_by_its_own_alarm(tmp_path: Path) -> None:
    question = Question(tmp_path / "asked", "q", ["sleep", "600"], limit=1)
    pid = question.ask()
    assert pid is not None
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGALRM
    assert question.idle()
    assert question.heard().text == ""


def test_a_fresh_answer_is_not_asked_for_again(tmp_path: Path) -> None:
    question = Question(tmp_path / "asked", "q", ["echo", "yes"])
    pid = question.ask(fresh=60)
    assert pid is not None
    until(question.idle)
    reaped(pid)
    assert question.ask(fresh=60) is None
    again = question.ask(fresh=0)
    assert again is not None
    reaped(again)


def test_an_answer_of_before_the_clock_was_set_back_is_not_fresh(tmp_path: Path) -> None:
    question = Question(tmp_path / "asked", "q", ["echo", "yes"])
    pid = question.ask()
    assert pid is not None
    until(question.idle)
    reaped(pid)
    ahead = time.time() + 3600
    os.utime(tmp_path / "asked" / "q.answer", (ahead, ahead))
    again = question.ask(fresh=60)
    assert again is not None
    reaped(again)
    until(question.idle)
    assert question.ask(fresh=60) is None


@pytest.mark.parametrize(("words", "said"), [(["no-such-program"], "not installed"), (["/etc/passwd"], "failed")])
def test_a_program_that_cannot_be_started_is_told(tmp_path: Path, words: list[str], said: str) -> None:
    question = Question(tmp_path / "asked", "q", words)
    assert question.ask() is None
    heard = question.heard()
    assert heard.text is None
    assert (heard.error or "").startswith(said)
    assert question.idle()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    question = Question(tmp_path / "file" / "asked", "q", ["echo"])
    assert question.ask() is None
    assert (question.heard().error or "").startswith("failed")
