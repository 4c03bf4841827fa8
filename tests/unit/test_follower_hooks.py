"""The hooks of whoever follows: what is seen of a run, and told at most once."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import GaveUp, JobFailed, LinkLost
from local.hooks import table
from local.hooks.follower import FollowerHooks
from local.links.settings import SshSettings
from local.targets import Target
from local.tasks import extract
from remote.schema import Exit, Job
from tests.running import until

if TYPE_CHECKING:
    from pathlib import Path

NOTE = "echo $PRUDENT_GATE_OCCASION $PRUDENT_GATE_PHASE $PRUDENT_GATE_CAUSE $PRUDENT_GATE_REACHABLE >> {}"


class Follower:
    """A follower whose clock is ours, and what its hooks have noted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, run: str = "r") -> None:
        monkeypatch.setenv("PRUDENT_GATE_STATE", str(folder / "state"))
        self.file = folder / "told"
        hook = table.HookTable(laptop=NOTE.format(self.file))
        hooks = table.HooksTable(
            on_done=hook, on_failed=hook, on_hang=hook, on_unreachable=hook, unreachable_after="60s"
        )
        job = Job(name="j", engine="command", python="python3", workdir="~/w", output="~/out")
        ssh = SshSettings(name="gpu", address="192.0.2.1")
        target = Target(name="gpu", ssh=ssh, job=job, gpus=None, usd_per_hour=None, hooks=hooks)
        reached = SimpleNamespace(now=time.time() + 1000.0, asked=time.time())  # the host's clock is ahead
        self.now = 0.0
        session: Any = SimpleNamespace(
            target=target, name="gpu", job=SimpleNamespace(name="j", output="/out"), secrets={},
            host=SimpleNamespace(reached=reached), console=SimpleNamespace(print=lambda *_, **__: None),
            interrupted=SimpleNamespace(is_set=lambda: False),
        )  # fmt: skip
        self.hooks = FollowerHooks(session, run, clock=lambda: self.now)

    @property
    def told(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []


def ended(phase: str, cause: str | None = None) -> Exit:
    return Exit(phase=phase, code=0, ended=0.0, attempts=1, cause=cause)


@pytest.mark.parametrize(
    ("how", "error", "told"),
    [
        (ended("done"), None, ["on_done done"]),
        (ended("failed", "hang"), JobFailed("x"), ["on_failed failed hang"]),
        (ended("done"), JobFailed("2 missing"), ["on_failed failed verify"]),
        (None, JobFailed("lost"), ["on_failed lost lost"]),
        (ended("stopped"), JobFailed("stopped"), []),
        (None, GaveUp("no link"), []),
        (ended("done"), KeyboardInterrupt(), []),
    ],
)
def test_each_end_is_told_for_what_it_is_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Exit | None, error: BaseException | None, told: list[str]
) -> None:
    for _ in range(2):
        follower = Follower(tmp_path, monkeypatch)
        follower.hooks.ended = how
        follower.hooks.__exit__(type(error) if error else None, error, None)
    assert follower.told == told


def test_silence_is_told_once_and_so_is_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(tmp_path, monkeypatch)
    with pytest.raises(GaveUp), follower.hooks:
        for now in (30.0, 61.0, 62.0, 200.0):
            follower.now = now
            follower.hooks.on_beat()
        until(lambda: follower.told == ["on_unreachable 0"])
        follower.hooks.on_heard()
        until(lambda: follower.told == ["on_unreachable 0", "on_unreachable 1"])
        raise GaveUp("no link")


def test_a_hang_is_told_once_unless_it_is_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host_now = time.time() + 1000.0
    for _ in range(2):
        follower = Follower(tmp_path, monkeypatch)
        with follower.hooks:
            follower.hooks.ended = ended("stopped")
            for number, age in ((3, 700.0), (7, 5.0)):
                follower.hooks.on_event({"event": "hang", "n": number, "time": host_now - age, "waiting": "a line"})
            follower.hooks.on_event({"event": "hang"})
    assert follower.told == ["on_hang hang"]


def test_what_the_run_verified_is_kept_for_when_the_host_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(tmp_path, monkeypatch)
    follower.hooks.on_event({"event": "verified", "total": 3})
    assert follower.hooks.proven is None
    counts = {"total": 3, "valid": 3, "missing": 0, "damaged": 0, "tokens": 9, "size": 100}
    follower.hooks.on_event({"event": "verified", **counts})
    assert follower.hooks.proven is not None
    assert follower.hooks.proven.valid == 3


def test_of_a_host_that_its_hook_has_ended_the_runs_own_word_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise LinkLost("the connection broke")

    monkeypatch.setattr(extract.runs, "verify", gone)
    follower = Follower(tmp_path, monkeypatch)
    session: Any = follower.hooks._session
    session.alone = False
    with pytest.raises(LinkLost):
        extract._verified(session, "b", None, follower.hooks)
    counts = {"total": 3, "valid": 2, "missing": 1, "damaged": 0, "tokens": 9, "size": 100}
    follower.hooks.on_event({"event": "verified", **counts})
    said = extract._verified(session, "b", None, follower.hooks)
    assert (said.missing, said.ranges) == (1, "")
    follower.hooks.on_event({"event": "verified", **counts, "valid": 3, "missing": 0})
    assert extract._verified(session, "b", None, follower.hooks).ranges == "0-2"
    assert extract._verified(session, "b", "0-9", follower.hooks, "4-6").ranges == "4-6"
