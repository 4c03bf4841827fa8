from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import stat
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from remote import files, launch, locks, wire
from remote.host import processes
from remote.paths import Output
from remote.run import runs
from tests.running import Lab, until

if TYPE_CHECKING:
    from remote.paths import Run

GO = 'until [ -e "$GO" ]; do sleep 0.05; done'


def waiting(lab: Lab) -> dict[str, Any]:
    """Give the changes that make a job wait for `go(lab)`."""
    return {"env": {"GO": str(lab.root / "go")}}


def go(lab: Lab) -> None:
    (lab.root / "go").touch()


def mode(path: Any) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_a_run_starts_detached_and_ends_by_itself(lab: Lab) -> None:
    run = lab.start(f"echo hello; {GO}; echo bye", **waiting(lab))
    state = lab.state(run)
    supervisor = processes.read(state.pid)
    assert supervisor is not None
    assert supervisor.session == supervisor.group == supervisor.pid
    assert supervisor.session != os.getsid(0)
    for number in (0, 1, 2):
        target = Path(f"/proc/{state.pid}/fd/{number}").readlink()
        assert str(target) in ("/dev/null", str(run.supervisor_log))
    assert mode(run.root) == 0o700
    assert all(mode(path) == 0o600 for path in (run.job, run.state, run.log, run.events, run.supervisor_log))
    go(lab)
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.attempts, ended.left_running) == ("done", 0, 1, ())
    assert Path(run.log).read_text() == "hello\nbye\n"
    assert Path(run.supervisor_log).read_text() == ""


def test_many_launches_at_once_are_one_run(lab: Lab) -> None:
    job = lab.job(GO, **waiting(lab))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: lab.launch(job), range(8)))
    assert sorted(answer.outcome for answer in answers) == ["attached"] * 7 + ["started"]
    assert len({answer.run for answer in answers}) == 1
    assert len(runs.folders(lab.workdir)) == 1
    go(lab)
    assert lab.ended(runs.folders(lab.workdir)[0]).phase == "done"


@pytest.mark.parametrize(
    ("newest", "now", "least", "most"),
    [
        (None, 0.0, "19700101-000000-0000", "19700101-000000-ffff"),
        ("20261201-031249-1234", 1796094770.0, "20261201-031250-0000", "20261201-031250-ffff"),  # the second after
        ("20261201-031249-1234", 1796094769.0, "20261201-031249-1235", "20261201-031249-1334"),  # the same second
        ("20261201-031249-1234", 0.0, "20261201-031249-1235", "20261201-031249-1334"),  # the clock was set back
        ("20261231-235959-ffff", 0.0, "20270101-000000-0000", "20270101-000000-ffff"),  # no number is left
        ("20261299-999999-ffff", 0.0, "20270313-044040-0000", "20270313-044040-ffff"),  # nobody's time
    ],
)
def test_a_later_run_sorts_later_whatever_the_clock_says(newest: str | None, now: float, least: str, most: str) -> None:
    for _ in range(50):
        given = runs.next_id(newest, now)
        assert runs.RUN_ID.fullmatch(given)
        assert least <= given <= most


def test_runs_of_many_outputs_begun_at_once_each_have_a_folder(lab: Lab) -> None:
    jobs = [dataclasses.replace(lab.job("true"), output=f"{lab.output}-{number}") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        started = [str(answer.run) for answer in pool.map(lab.launch, jobs)]
    assert len({*started}) == len(runs.folders(lab.workdir)) == 8
    for run in started:
        assert lab.ended(lab.run(run)).phase == "done"


def test_nobody_is_attached_to_a_run_whose_start_may_still_fail(lab: Lab) -> None:
    """A supervisor is killed between its first state and its first attempt: its launch removes what there is."""
    first = lab.start("sleep 60")
    state = lab.state(first)
    os.kill(state.pid, signal.SIGSTOP)
    files.replace(first.state, wire.dumps(dataclasses.replace(state, attempt=0)).encode())
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lab.launch, lab.job("true"))
        assert not wait([asked], timeout=1.0).done
        lab.kill_supervisor(first)
        shutil.rmtree(first.root, ignore_errors=True)  # the launch that waits tidies in it, too
        answer = asked.result()
    assert (answer.outcome, answer.run in (None, first.id)) == ("started", False)
    assert lab.ended(lab.run(answer.run or "")).phase == "done"


def test_the_output_folder_is_free_again_after_the_end(lab: Lab) -> None:
    first, second = lab.start("true"), None
    lab.ended(first)
    second = lab.start("true")
    assert second.id != first.id
    lab.ended(second)


def test_a_lock_that_is_just_being_let_go_is_waited_for(lab: Lab) -> None:
    ended = lab.start("true")
    lab.ended(ended)
    lock = locks.take(Output(PurePosixPath(lab.output)))
    assert lock is not None
    release = threading.Timer(1.5, os.close, (lock,))
    release.start()
    answer = lab.launch(lab.job("true"))
    release.join()
    assert answer.outcome == "started"
    assert answer.run != ended.id
    lab.ended(lab.run(answer.run or ""))


def test_a_lock_of_somebody_else_is_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SIGNING", 0.3)
    lab.output.mkdir()
    lock = locks.take(Output(PurePosixPath(lab.output)))
    assert lock is not None
    answer = launch.answer(lab.request(lab.job("true")))
    os.close(lock)
    assert answer.outcome == "refused"
    assert "does not say which run it is" in answer.message


def test_a_second_workdir_is_told_who_has_the_output(lab: Lab, tmp_path: Path) -> None:
    run = lab.start(GO, **waiting(lab))
    other = Lab(tmp_path / "other")
    answer = other.launch(other.job("true", output=str(lab.output)))
    assert answer.outcome == "refused"
    assert run.id in answer.message
    assert lab.workdir in answer.message
    go(lab)
    lab.ended(run)
    assert other.clean_up() == []


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"python": "/nonexistent/python3"}, "no such Python: /nonexistent/python3"),
    ({"output": "relative/out"}, "absolute path"),
    ({"output": ""}, "absolute path"),
    ({"output": "/proc/prudent-gate/out"}, "/proc/prudent-gate/out cannot be made"),
    ({"output": "{root}/file"}, "no folder"),
    ({"output": "{root}/file/below"}, "no folder"),
    ({"command": ()}, "needs a command"),
    ({"command": ("/nonexistent/script", "x")}, "cannot start /nonexistent/script"),
    ({"command": ("{root}/file",)}, "Permission denied"),
    ({"progress": "("}, "not a regular expression"),
    ({"progress": "done"}, "needs a group"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_what_cannot_start_is_refused_with_the_reason_and_leaves_nothing(
    lab: Lab, changes: dict[str, Any], message: str
) -> None:
    (lab.root / "file").touch(mode=0o600)
    root = str(lab.root)
    filled = {
        name: tuple(word.format(root=root) for word in value) if isinstance(value, tuple) else value.format(root=root)
        for name, value in changes.items()
    }
    answer = lab.launch(lab.job("true", **filled))
    assert (answer.outcome, answer.run) == ("refused", None)
    assert message in answer.message
    assert "\n" not in answer.message
    assert runs.folders(lab.workdir) == []


def test_a_bundle_that_is_gone_is_refused(lab: Lab) -> None:
    answer = lab.launch(lab.job("true"), bundle="0" * 64)
    assert answer.outcome == "refused"
    assert "run preflight again" in answer.message


def test_a_refused_start_lets_go_of_the_output(lab: Lab) -> None:
    assert lab.launch(lab.job("true", command=("/nonexistent",))).outcome == "refused"
    lab.ended(lab.start("true"))


def test_secrets_reach_the_job_and_no_file(lab: Lab) -> None:
    secret = "hf_very_secret"
    answer = lab.launch(
        lab.job(f'[ "$HF_TOKEN" = {secret[:9]}"ecret" ] && echo same; {GO}', **waiting(lab)),
        secrets={"HF_TOKEN": secret},
    )
    run = lab.run(answer.run or "")
    lab.logged(run, "same")
    held = [path for path in Path(run.root).rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert held == []
    commands = Path(f"/proc/{lab.state(run).pid}/cmdline").read_bytes()
    assert secret.encode() not in commands
    go(lab)
    assert lab.ended(run).phase == "done"


def test_leftovers_of_a_lost_run_are_ended_before_the_next_start(lab: Lab) -> None:
    lost = lab.start(
        "trap '' TERM; setsid sleep 60 & env -i setsid /bin/sleep 61 & echo up; while :; do sleep 0.1; done"
    )
    lab.logged(lost, "up")
    lab.kill_supervisor(lost)
    assert len(processes.of_run(lost)) >= 3
    run = lab.start("true")
    assert processes.of_run(lost) == []
    assert lab.ended(run).phase == "done"
    assert runs.look(lost).lost is not None


def test_the_job_on_the_host_can_be_read_back(lab: Lab) -> None:
    run = lab.start("true")
    lab.ended(run)
    request = json.loads(Path(run.job).read_text())
    assert request["schema"] == 1
    assert request["job"]["command"] == ["bash", "-c", "true"]
    assert request["secrets"] == {}


def attempt_pid(run: Run) -> int:
    events = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return int(next(event["pid"] for event in events if event["event"] == "attempt"))


def test_nothing_of_ours_is_inherited_but_the_log(lab: Lab) -> None:
    run = lab.start(f"ls -l /proc/$$/fd | sed 's/.* //' ; echo listed; {GO}", **waiting(lab))
    log = lab.logged(run, "listed")
    assert ".prudent-gate.lock" not in log
    assert "events" not in log
    open_files = {str(entry.readlink()) for entry in Path(f"/proc/{attempt_pid(run)}/fd").iterdir()}
    assert {name for name in open_files if not name.startswith("pipe:")} <= {"/dev/null", str(run.log)}
    go(lab)
    until(lambda: runs.look(run).exit)
    lab.ended(run)
