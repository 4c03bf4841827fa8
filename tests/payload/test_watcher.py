"""Who asks a host: a real payload behind a link that can be made to fail; one question at a time, whatever comes."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import HostKeyError, LinkLost, PayloadCrashed
from local.links.base import Answer
from local.links.fake import FakeLink
from local.links.here import HereLink
from local.links.settings import SshSettings
from local.monitor.watcher import Watcher, quiet_session
from local.session import Session
from local.targets import Target
from remote.schema import Job
from tests.running import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from local.links.base import Command


class Counting(FakeLink):
    """Counts how many commands run at once."""

    def __init__(self, home: Path) -> None:
        super().__init__(behind=HereLink(home))
        self.now = self.most = 0
        self.pulses = 0

    def run(self, command: Command, **options: Any) -> Answer:
        self.now += 1
        self.most = max(self.most, self.now)
        self.pulses += command.words[-1] == "pulse"
        try:
            return super().run(command, **options)
        finally:
            self.now -= 1


class Bench:
    """A watcher, the link that it has, and how often a session was opened for it."""

    def __init__(self, folder: Path) -> None:
        self.link = Counting(folder)
        self.opened = 0
        self.raised: list[Exception] = []
        job = Job(
            name="j", engine="command", python=sys.executable, workdir=str(folder / "work"), output=str(folder / "out")
        )
        ssh = SshSettings(name="gpu01", address="192.0.2.1")
        target = Target(name="gpu01", ssh=ssh, job=job, gpus=None, usd_per_hour=None)
        self.changed = threading.Event()
        self.watcher = Watcher(target, interval=0.05, changed=self.changed, open_session=self._open)

    def _open(self, target: Target) -> Session:
        self.opened += 1
        quiet = quiet_session(target)
        return Session(target, quiet.console, quiet.out, alone=True, connect=self._connect)

    def _connect(self, settings: SshSettings, **_: Any) -> FakeLink:
        del settings
        if self.raised:
            raise self.raised.pop(0)
        return self.link

    def seen(self, condition: Callable[[], Any]) -> None:
        until(condition, f"news as wanted, not {self.watcher.news}")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    made.watcher.start()
    yield made
    made.watcher.leave()
    made.watcher.join(20)
    made.link.close()
    assert not made.watcher.is_alive()


def test_it_asks_again_and_again_one_at_a_time(bench: Bench) -> None:
    bench.seen(lambda: bench.link.pulses >= 4)
    news = bench.watcher.news
    assert news.answer is not None
    assert (news.error, news.tries) == (None, 0)
    assert abs(news.skew) < 5
    assert bench.link.most == 1
    assert bench.opened == 1
    assert bench.changed.is_set()


def test_a_link_that_falls_silent_and_comes_back(bench: Bench) -> None:
    bench.seen(lambda: bench.watcher.news.answer)
    answer = bench.watcher.news.answer
    bench.link.silent = True
    bench.seen(lambda: bench.watcher.news.error)
    news = bench.watcher.news
    assert isinstance(news.error, LinkLost)
    assert news.tries >= 1
    assert news.answer is not None, "what was known stays known"
    assert answer is not None
    assert news.at <= time.monotonic()
    bench.link.silent = False
    bench.seen(lambda: bench.watcher.news.error is None)
    assert bench.watcher.news.tries == 0
    assert bench.opened == 1


def test_a_host_that_was_set_up_anew_is_reached_anew(bench: Bench, tmp_path: Path) -> None:
    bench.seen(lambda: bench.watcher.news.answer)
    shutil.rmtree(tmp_path / "work", ignore_errors=True)  # a pulse may be writing down what it asked
    bench.seen(lambda: bench.opened == 2 and bench.watcher.news.error is None)
    assert (tmp_path / "work" / "bundles").is_dir()


def test_an_answer_that_is_none_is_told(bench: Bench) -> None:
    bench.seen(lambda: bench.watcher.news.answer)
    bench.link.replies.append(Answer(0, b"noise", b""))
    bench.seen(lambda: isinstance(bench.watcher.news.error, PayloadCrashed) or bench.opened == 2)
    bench.seen(lambda: bench.watcher.news.error is None)


@pytest.mark.parametrize("error", [HostKeyError("has changed"), ZeroDivisionError("ours"), OSError(5, "disk")])
def test_whatever_goes_wrong_the_watch_goes_on(tmp_path: Path, error: Exception) -> None:
    made = Bench(tmp_path)
    made.raised = [error]
    made.watcher.start()
    try:
        made.seen(lambda: made.watcher.news.error or made.watcher.news.answer)
        made.seen(lambda: made.watcher.news.answer and made.watcher.news.error is None)
        assert made.opened == 2
    finally:
        made.watcher.leave()
        made.watcher.join(20)
        made.link.close()


def test_hooks_that_fail_end_no_watch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(news: Any) -> None:
        raise ZeroDivisionError(news)

    monkeypatch.setattr(bench.watcher.hooks, "saw", fail)
    before = bench.link.pulses
    bench.seen(lambda: bench.link.pulses >= before + 3)
    assert "could not be told" in bench.watcher.hooks.said[0][1]
