from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from remote import stop
from remote.host import processes
from remote.run import runs
from remote.schema import Retry, StopRequest
from tests.running import until

if TYPE_CHECKING:
    import pytest

    from tests.running import Lab

# A tree as a distributed job makes it: deaf ones, ones that left the session, ones that lost their environment.
TREE = (
    "(trap '' TERM; setsid sleep 60) & setsid bash -c 'sleep 60 & sleep 60' & "
    "env -i setsid /bin/sleep 60 & (setsid setsid sleep 60 &) ; sleep 0.1; echo up; wait"
)


def test_stop_ends_the_whole_tree(lab: Lab) -> None:
    run = lab.start(TREE)
    lab.logged(run, "up")
    until(lambda: len(processes.of_run(run)) >= 6, "the whole tree")
    answer = lab.stop(grace=0.5)
    assert (answer.outcome, answer.run, answer.left) == ("stopped", run.id, ())
    assert processes.of_run(run) == []
    ended = lab.ended(run)
    assert (ended.phase, ended.cause, ended.left_running) == ("stopped", None, ())


def test_what_is_asked_to_end_may_finish_its_batch(lab: Lab) -> None:
    script = "trap 'sleep 0.7; echo written; exit 143' TERM\necho up\nwhile :; do sleep 0.05 & wait; done"
    run = lab.start(script)
    lab.logged(run, "up")
    assert lab.stop(run.id, grace=10.0).outcome == "stopped"
    assert Path(run.log).read_text() == "up\nwritten\n"
    assert lab.ended(run).code == 143


def test_the_grace_is_not_waited_for_in_vain(lab: Lab) -> None:
    run = lab.start("trap '' TERM; echo up; while :; do sleep 0.05; done")
    lab.logged(run, "up")
    assert lab.stop(run.id, grace=0.5).outcome == "stopped"
    ended = lab.ended(run)
    assert ended.code == 137
    told = map(json.loads, Path(run.events).read_text().splitlines())
    (asked,) = [event["time"] for event in told if event["event"] == "stopping"]
    assert ended.ended - asked < 6.0


def test_stop_between_two_attempts(lab: Lab) -> None:
    run = lab.start("echo 'Address already in use'; exit 1", retry=Retry(backoff=60.0))
    until(lambda: lab.state(run).phase == "retrying")
    assert lab.stop(run.id).outcome == "stopped"
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts, ended.code) == ("stopped", 1, 1)


def test_a_wish_that_cannot_be_written_is_told_by_a_signal(lab: Lab) -> None:
    run = lab.start("echo up; sleep 60")
    lab.logged(run, "up")
    Path(run.stop).mkdir()  # nothing can take its place
    (Path(run.stop) / "x").touch()
    assert lab.stop(run.id).outcome == "stopped"
    assert lab.ended(run).phase == "stopped"


def test_nothing_running_not_found_and_already_ended(lab: Lab) -> None:
    assert lab.stop().outcome == "nothing-running"
    run = lab.start("true")
    lab.ended(run)
    assert lab.stop().outcome == "nothing-running"
    assert lab.stop(run.id).outcome == "already-ended"
    for name in ("20200101-000000-abcd", "../../etc", "", "\0", "a" * 5000):
        answer = lab.stop(name)
        assert (answer.outcome, answer.run) == ("not-found", name)


def test_a_run_whose_supervisor_is_gone_is_ended_by_stop_itself(lab: Lab) -> None:
    run = lab.start(TREE)
    lab.logged(run, "up")
    lab.kill_supervisor(run)
    assert processes.of_run(run)
    answer = lab.stop(grace=0.5)
    assert (answer.outcome, answer.left) == ("stopped", ())
    assert "was killed" in answer.message
    assert processes.of_run(run) == []
    assert lab.status(run.id)[0].phase == "stopped"


def test_a_supervisor_that_does_not_react_is_taken_over(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop, "PATIENCE", 0.5)
    run = lab.start(TREE)
    lab.logged(run, "up")
    pid = lab.state(run).pid
    os.kill(pid, signal.SIGSTOP)
    answer = stop.answer(StopRequest(workdir=lab.workdir, run=run.id, grace=0.1))
    assert (answer.outcome, answer.left) == ("stopped", ())
    assert "did not react" in answer.message
    assert processes.of_run(run) == []
    until(lambda: processes.read(pid) is None or not processes.alive(pid, lab.state(run).pid_started))
    assert runs.look(run).exit is not None


def test_an_engine_of_ours_is_asked_alone_so_that_its_workers_can_finish(lab: Lab) -> None:
    python = lab.root / "python"  # stands for the environment's Python: says how it is called, then works as an engine
    python.write_text(
        "#!/bin/bash\n"
        'echo "called: $*, run $(basename "$PRUDENT_GATE_RUN"), attempt $PRUDENT_GATE_ATTEMPT"\n'
        "bash -c \"trap 'echo worker asked' TERM; while :; do sleep 0.1; done\" & worker=$!\n"
        "trap 'sleep 0.3; echo batch written; kill -9 $worker; exit 143' TERM\n"
        "echo up; while :; do sleep 0.1 & wait $!; done\n"
    )
    python.chmod(0o700)
    run = lab.start("", engine="speculators", python=str(python), command=(), progress=None)
    lab.logged(run, "up")
    assert lab.stop(run.id, grace=10.0).outcome == "stopped"
    log = Path(run.log).read_text()
    assert f"called: -m remote attempt, run {run.id}, attempt 1\n" in log
    assert "batch written" in log
    assert "worker asked" not in log
    assert lab.ended(run).code == 143
