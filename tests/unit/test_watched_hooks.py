"""The hooks of `monitor`: what changes under its eyes is told once, what had ended before is history."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import Denied, LinkLost
from local.hooks import table
from local.hooks.watched import WatchedHooks
from local.links.settings import SshSettings
from local.monitor.rows import News
from local.targets import Target
from remote.schema import Job, PulseAnswer, RunStatus, Samples

if TYPE_CHECKING:
    from pathlib import Path

NOTE = "echo $PRUDENT_GATE_OCCASION $PRUDENT_GATE_RUN $PRUDENT_GATE_CAUSE $PRUDENT_GATE_REACHABLE >> {}"


class Watch:
    """A watch over one host whose news we make up."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **hooks: Any) -> None:
        monkeypatch.setenv("PRUDENT_GATE_STATE", str(folder / "state"))
        self.file = folder / "told"
        hook = table.HookTable(laptop=NOTE.format(self.file))
        every = dict.fromkeys(table.OCCASIONS, hook)
        job = Job(name="j", engine="command", python="python3", workdir="~/w", output="~/out")
        target = Target(
            name="gpu", ssh=SshSettings(name="gpu", address="192.0.2.1"), job=job, gpus=None, usd_per_hour=None,
            hooks=table.HooksTable(**{**every, "unreachable_after": "60s", **hooks}),
        )  # fmt: skip
        self.now = 0.0
        self.hooks = WatchedHooks(target, lambda _: SimpleNamespace(secrets={}), clock=lambda: self.now)  # type: ignore[arg-type, return-value]

    def saw(self, *looks: tuple[str, str] | tuple[str, str, str] | None) -> list[str]:
        """Take looks (run, phase, cause); gives what was told by then."""
        for look in looks:
            run = None
            if look is not None:
                name, phase, cause = (*look, "")[:3]
                run = RunStatus(run=name, phase=phase, cause=cause or None, samples=Samples(total=3, done=1))
            self.hooks.saw(News(answer=PulseAnswer(now=0.0, took=0.0, run=run)))
        self.hooks.finish(wait=True)
        return self.file.read_text().splitlines() if self.file.exists() else []


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(tmp_path, monkeypatch)


def test_an_end_under_our_eyes_is_told_once(watch: Watch) -> None:
    assert watch.saw(("r", "extracting"), ("r", "done"), ("r", "done")) == ["on_done r"]
    assert [line for _, line in watch.hooks.said] == ["hook on_done 1 (laptop): done"]


def test_what_had_ended_before_is_history(watch: Watch) -> None:
    assert watch.saw(("r", "done"), ("r", "done")) == []


def test_a_run_that_came_and_ended_between_two_looks_is_told(watch: Watch) -> None:
    assert watch.saw(("r", "done"), ("s", "failed", "code")) == ["on_failed s code"]


@pytest.mark.parametrize(("phase", "told"), [("lost", ["on_failed r"]), ("stopped", []), ("retrying", [])])
def test_other_ends(watch: Watch, phase: str, told: list[str]) -> None:
    assert watch.saw(("r", "extracting"), ("r", phase)) == told


def test_two_who_watch_tell_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Watch(tmp_path, monkeypatch), Watch(tmp_path, monkeypatch)
    first.saw(("r", "extracting"), ("r", "failed", "x"))
    assert second.saw(("r", "extracting"), ("r", "failed", "x")) == ["on_failed r x"]


def test_a_hang_is_told_each_time(watch: Watch) -> None:
    told = watch.saw(("r", "loading"), ("r", "loading", "hangs: no line"), ("r", "loading", "hangs: no line"))
    assert told == ["on_hang r hangs: no line"]
    assert len(watch.saw(("r", "loading"), ("r", "loading", "hangs: no line"))) == 2


def test_silence_and_its_end(watch: Watch) -> None:
    watch.saw(("r", "loading"))
    for now, error in ((30.0, LinkLost("x")), (61.0, LinkLost("x")), (62.0, LinkLost("x")), (300.0, LinkLost("x"))):
        watch.now = now
        watch.hooks.saw(News(error=error))
    watch.hooks.finish(wait=True)
    assert watch.saw(("r", "loading")) == ["on_unreachable r 0", "on_unreachable r 1"]


def test_a_host_that_lets_nobody_in_counts_as_unreachable(watch: Watch) -> None:
    watch.now = 61.0
    watch.hooks.saw(News(error=Denied("no key")))
    assert watch.saw(None) == ["on_unreachable 0", "on_unreachable 1"]
