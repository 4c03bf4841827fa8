from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from remote import files
from remote.host import processes
from remote.paths import Run
from remote.run import household, runs
from remote.schema import Retry, Samples
from tests.running import Lab, until

# Each attempt appends a line to this file: a script can tell how often it was started.
COUNT = "echo x >> ../../../count; n=$(wc -l < ../../../count)"


def events(run: Run, name: str | None = None) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return [event for event in found if name in (None, event["event"])]


def test_a_transient_failure_is_tried_again(lab: Lab) -> None:
    run = lab.start(f"{COUNT}; [ $n = 3 ] && exit 0; echo 'OSError: [Errno 98] Address already in use'; exit 1")
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.attempts) == ("done", 0, 3)
    assert [event["attempt"] for event in events(run, "retry")] == [2, 3]
    assert {event["class"] for event in events(run, "attempt-ended")} == {"transient", "done"}
    assert [event["n"] for event in events(run)] == list(range(1, len(events(run)) + 1))


def test_a_fatal_failure_is_not(lab: Lab) -> None:
    run = lab.start("echo 'RuntimeError: Error 802: system not yet initialized'; exit 1")
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.attempts, ended.cause) == ("failed", 1, 1, "fabric-manager")
    assert ended.root_line == "RuntimeError: Error 802: system not yet initialized"


def test_an_unknown_failure_gets_one_more_try(lab: Lab) -> None:
    ended = lab.ended(lab.start("echo whatever; exit 3"))
    assert (ended.phase, ended.code, ended.attempts, ended.cause) == ("failed", 3, 2, "unknown")


def test_progress_gives_the_budget_back(lab: Lab) -> None:
    script = f"{COUNT}; echo done $n/4; [ $n = 4 ] && exit 0; echo 'Address already in use'; exit 1"
    ended = lab.ended(lab.start(script, retry=Retry(transient=1, backoff=0.05)))
    assert (ended.phase, ended.attempts, ended.samples) == ("done", 4, Samples(total=4, done=4))


def test_without_progress_the_budget_ends(lab: Lab) -> None:
    ended = lab.ended(lab.start("echo 'Address already in use'; exit 1", retry=Retry(transient=1, backoff=0.05)))
    assert (ended.phase, ended.attempts, ended.cause) == ("failed", 2, "port-taken")


def test_what_was_said_before_progress_is_not_why_it_fails_later(lab: Lab) -> None:
    go = lab.root / "go"
    said = "echo '429 Client Error: Too Many Requests'; echo done 1/2"
    script = f"{said}; until [ -e {go} ]; do sleep 0.05; done; echo done 2/2; exit 9"
    run = lab.start(script, retry=Retry(transient=0))
    until(lambda: lab.state(run).samples.done == 1, "a look at what was said")
    go.touch()
    assert lab.ended(run).cause == "unknown"


def test_some_failed_samples_are_a_failure_that_is_not_tried_again(lab: Lab) -> None:
    event = '{"event":"progress","done":3,"failed":1,"total":4,"tokens":12}'
    run = lab.start(f"echo '{event}' >> $PRUDENT_GATE_EVENTS; exit 10", progress=None)
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.attempts, ended.cause) == ("failed", 10, 1, "samples-failed")
    assert ended.samples == Samples(total=4, done=3, failed=1)
    assert ended.root_line == "1 of 4 samples failed, all others are done"


@pytest.mark.parametrize(
    ("script", "retry", "waiting"),
    [
        ("sleep 60", Retry(transient=1, start_line=3.0, backoff=0.05), "nothing was said"),
        ("echo up; sleep 60", Retry(transient=1, progress_line=0.5, backoff=0.05), "no line of log"),
        ("echo done 1/9; while :; do echo chatter; sleep 0.1; done",
         Retry(transient=1, progress_line=0.7, backoff=0.05), "no progress"),
    ],
)  # fmt: skip
def test_a_hang_is_told_ended_and_tried_again(lab: Lab, script: str, retry: Retry, waiting: str) -> None:
    run = lab.start(f"{COUNT}; [ $n = 2 ] && exit 0; {script}", retry=retry)
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts) == ("done", 2)
    (hang,) = events(run, "hang")
    assert waiting in hang["waiting"]
    assert events(run, "attempt-ended")[0]["cause"] == "hang"


def test_a_sample_file_full_of_nonsense_events_harms_nothing(lab: Lab) -> None:
    nonsense = b'\xff\n{}\n[]\n{"event":1}\n{"event":"progress","done":-1,"n":7}\nhalf'
    (lab.root / "nonsense").write_bytes(nonsense)
    run = lab.start(f"cat {lab.root}/nonsense >> $PRUDENT_GATE_EVENTS; sleep 0.3")
    assert lab.ended(run).phase == "done"
    assert [event["n"] for event in events(run)] == list(range(1, len(events(run)) + 1))
    assert runs.look(run).state is not None


def test_leftovers_of_an_attempt_are_ended_before_the_next(lab: Lab) -> None:
    script = f"{COUNT}; (setsid sleep 60 &) ; (env -i /usr/bin/setsid /bin/sleep 60 >/dev/null 2>&1 &); sleep 0.2;"
    run = lab.start(f"{script} [ $n = 2 ] && exit 0; echo 'Address already in use'; exit 1")
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts, ended.left_running) == ("done", 2, ())
    assert processes.of_run(run) == []


def test_the_supervisor_passes_sigterm_on_as_a_stop(lab: Lab) -> None:
    run = lab.start("echo up; sleep 60")
    lab.logged(run, "up")
    os.kill(lab.state(run).pid, signal.SIGTERM)
    ended = lab.ended(run)
    assert (ended.phase, ended.code) == ("stopped", 143)
    (told,) = events(run, "stopping")
    assert told["by"].startswith(f"SIGTERM from pid {os.getpid()} (")


def test_a_killed_supervisor_takes_the_attempt_along(lab: Lab) -> None:
    run = lab.start("echo up; exec sleep 60")
    lab.logged(run, "up")
    lab.kill_supervisor(run)
    until(lambda: not processes.of_run(run), "the end of the attempt")
    (status,) = lab.status(run.id)
    assert status.phase == "lost"
    assert "was killed" in (status.cause or "")


def test_the_state_beats(lab: Lab) -> None:
    run = lab.start("sleep 60")
    beats = [lab.state(run).heartbeat]

    def two_in_time() -> bool:
        beats.append(lab.state(run).heartbeat)
        return 0 < beats[-1] - beats[-2] < 5.5

    until(two_in_time, "two beats in time")
    lab.stop(run.id)


@pytest.mark.parametrize(
    ("data", "grace"),
    [(b'{"grace": 3}', 3.0), (b'{"grace": -5}', 0.0), (b"", 20.0), (b"[]", 20.0),
     (b'{"grace": "x"}', 20.0), (b"\xff", 20.0)],
)  # fmt: skip
def test_a_wish_stands_whatever_the_file_holds(tmp_path: Path, data: bytes, grace: float) -> None:
    run = Run(PurePosixPath(tmp_path))
    assert household.wish(run) is None
    Path(run.stop).write_bytes(data)
    assert household.wish(run) == grace


def test_a_host_that_cannot_open_files_has_not_wished_for_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(path: Any) -> bytes:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), os.fspath(path))

    monkeypatch.setattr(files, "read", refuses)
    run = Run(PurePosixPath(tmp_path))
    assert household.wish(run) is None
    Path(run.stop).touch()
    assert household.wish(run) == household.GRACE


@pytest.mark.parametrize(("progress", "phase"), [(None, "extracting"), (r"done (\d+)", "loading")])
def test_a_script_that_tells_nothing_has_a_phase_all_the_same(lab: Lab, progress: str | None, phase: str) -> None:
    run = lab.start("echo up; sleep 60", progress=progress)
    until(lambda: lab.state(run).phase == phase)
    assert [event["phase"] for event in events(run, "phase")] == [phase]
    lab.stop(run.id)
    lab.ended(run)
