"""Runs over a real SSH server whose connections do not last."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local import extract
from local.errors import GateRefused, GaveUp
from local.follow import follow
from local.runs import latest, stop
from remote.host import processes
from tests.running import Lab
from tests.ssh import sshd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.paths import Run
    from remote.schema import Exit
    from tests.ssh.proxy import Proxy
    from tests.ssh.servers import Server

# It goes on when somebody has heard what it said, however slow they are: a part of it is always still to come.
TALK = """for i in $(seq 1 1500); do
    echo "line $i grüße $RANDOM"
    [ $((i % 50)) = 0 ] && echo done $i/1500
    [ $((i % 300)) = 0 ] && until [ -e "heard $i" ]; do sleep 0.02; done
done"""


@pytest.fixture
def lab(tmp_path: Path, sshd_server: Server, proxy: Proxy) -> Iterator[Lab]:
    """Give a host behind a proxy that can cut, stall and resume."""
    made = Lab(tmp_path, python=sys.executable, link=sshd_server.link(port=proxy.port, pin_file=tmp_path / "pins"))
    yield made
    proxy.resume()
    left = made.clean_up()
    assert not left, f"left running: {left}"


class Watcher:
    """Collects, and does something each time so many more bytes of log have come."""

    def __init__(self, every: int, act: Any, run: Run | None = None) -> None:
        self.log = b""
        self.events: list[dict[str, Any]] = []
        self.link: list[str] = []
        self.acts = 0
        self._every = every
        self._act = act
        self._run = run  # it is told what was heard

    def on_log(self, data: bytes) -> None:
        self.log += data
        if len(self.log) > self._every * (self.acts + 1):
            self.acts += 1
            self._act()
        for line in range(300, 1501, 300) if self._run else ():
            if f"done {line}/".encode() in self.log:
                Path(self._run.root, f"heard {line}").touch()

    def follow(self, lab: Lab, run: str, **more: Any) -> Exit | None:
        more = {"on_link": self.link.append, **more}
        return follow(
            lab.host, bundle=lab.bundle, workdir=lab.workdir, run=run,
            on_log=self.on_log, on_event=self.events.append, **more,
        )  # fmt: skip


def kill_sessions(server: Server) -> None:
    for session in sshd.sessions(server):
        session.kill()


@pytest.mark.parametrize("fault", ["network cut", "server's child killed"])
def test_the_log_is_whole_over_cuts(lab: Lab, proxy: Proxy, sshd_server: Server, fault: str) -> None:
    if fault != "network cut" and sshd_server.kind != "sshd":
        pytest.skip("no sshd here")
    run = lab.start(TALK)
    watcher = Watcher(5000, proxy.cut if fault == "network cut" else lambda: kill_sessions(sshd_server), run)
    ended = watcher.follow(lab, run.id)
    assert ended is not None
    assert (ended.phase, ended.samples.done) == ("done", 1500)
    assert watcher.acts >= 4
    assert watcher.log == Path(run.log).read_bytes()
    assert [event["n"] for event in watcher.events] == list(range(1, len(watcher.events) + 1))
    assert watcher.events[-1]["event"] == "ended"
    assert sum("the link is back" in said for said in watcher.link) >= 2
    lab.ended(run)


def test_a_start_survives_its_connection(lab: Lab, sshd_server: Server, proxy: Proxy) -> None:
    answer = extract.start(
        lab.host, lab.job("sleep 1; echo still here"), bundle=lab.bundle, fingerprint="f", secrets={}
    )
    if sshd_server.kind == "sshd":
        kill_sessions(sshd_server)
    proxy.cut()
    lab.host.link.close()
    run = lab.run(answer.run or "")
    assert lab.ended(run).phase == "done"
    assert Path(run.log).read_text() == "still here\n"


def test_a_second_start_attaches_and_stop_ends_the_tree(lab: Lab, sshd_server: Server, tmp_path: Path) -> None:
    job = lab.job("setsid bash -c 'sleep 60 & sleep 60' & env -i setsid /bin/sleep 60 & echo up; sleep 60")
    first = extract.start(lab.host, job, bundle=lab.bundle, fingerprint="f", secrets={})
    other = Lab(tmp_path, link=sshd_server.link(pin_file=tmp_path / "other-pins"))
    second = extract.start(other.host, job, bundle=lab.bundle, fingerprint="f", secrets={})
    assert (first.outcome, second.outcome) == ("started", "attached")
    assert first.run == second.run
    run = lab.run(first.run or "")
    lab.logged(run, "up")
    assert latest(other.host, bundle=lab.bundle).run == run.id
    answer = stop(other.host, bundle=lab.bundle, grace=1.0)
    assert (answer.outcome, answer.left) == ("stopped", ())
    assert processes.of_run(run) == []
    other.host.link.close()
    lab.ended(run)


def test_a_link_that_falls_silent_is_noticed_and_made_anew(lab: Lab, proxy: Proxy) -> None:
    run = lab.start(TALK)
    watcher = Watcher(10_000, proxy.stall, run)
    began: list[float] = []

    def on_link(message: str) -> None:
        watcher.link.append(message)
        if "is lost" in message:
            began.append(time.monotonic())
            proxy.cut()
            proxy.resume()

    ended = watcher.follow(lab, run.id, on_link=on_link, silence=1.0)
    assert ended is not None
    assert began
    assert watcher.log == Path(run.log).read_bytes()
    lab.ended(run)


def test_patience_ends_while_the_run_goes_on(lab: Lab, proxy: Proxy) -> None:
    run = lab.start("echo up; sleep 60")
    lab.logged(run, "up")
    threading.Timer(0.5, proxy.stall).start()
    with pytest.raises(GaveUp) as caught:
        Watcher(1 << 40, None).follow(lab, run.id, silence=1.0, patience=0.5)
    assert run.id in caught.value.remedy
    proxy.cut()
    proxy.resume()
    assert lab.state(run).phase == "loading"
    assert processes.of_run(run)
    lab.host.link.reconnect()
    assert lab.stop(run.id).outcome == "stopped"


def test_a_killed_supervisor_is_told_as_lost(lab: Lab) -> None:
    run = lab.start("echo up; exec sleep 60")
    lab.logged(run, "up")
    os.kill(lab.state(run).pid, signal.SIGKILL)
    watcher = Watcher(1 << 40, None)
    assert watcher.follow(lab, run.id) is None
    assert "was killed" in watcher.link[-1]
    assert latest(lab.host, bundle=lab.bundle).phase == "lost"


def test_a_refusal_says_why(lab: Lab) -> None:
    job = lab.job("true", output="/proc/nowhere/out")
    with pytest.raises(GateRefused, match="/proc/nowhere/out cannot be made"):
        extract.start(lab.host, job, bundle=lab.bundle, fingerprint="f", secrets={})
