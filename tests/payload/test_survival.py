"""What the supervisor does about failures: own patterns, bad hosts, hangs that are only told, its own death."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remote import status
from remote.host import gpu_holders, memory_kills, processes
from remote.run import endings, runs
from remote.schema import Pattern, Retry, State
from tests.running import until

if TYPE_CHECKING:
    from remote.paths import Run
    from tests.running import Lab

COUNT = "echo x >> ../../../count; n=$(wc -l < ../../../count)"
ECC = "echo 'RuntimeError: CUDA error: uncorrectable ECC error encountered'; exit 1"


def events(run: Run, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return [event for event in found if event["event"] == name]


def test_the_jobs_own_pattern_decides_what_is_tried_again(lab: Lab) -> None:
    own = (Pattern(match="gateway .* rests", kind="transient", cause="gateway", advice="It wakes up."),)
    script = f"{COUNT}; [ $n = 3 ] && exit 0; echo 'ModuleNotFoundError: gateway 7 rests'; exit 1"
    run = lab.start(script, retry=Retry(backoff=0.05, patterns=own))
    assert (lab.ended(run).phase, lab.ended(run).attempts) == ("done", 3)
    told = events(run, "attempt-ended")[0]
    assert (told["class"], told["cause"], told["advice"]) == ("transient", "gateway", "It wakes up.")
    assert told["root_line"] == "ModuleNotFoundError: gateway 7 rests"


@pytest.mark.parametrize(
    ("retry", "said"),
    [
        (Retry(patterns=(Pattern(match="(", kind="fatal"),)), "retry.patterns[0].match: not a regular expression"),
        (Retry(patterns=(Pattern(match="x", kind="odd"),)), "retry.patterns[0].kind: expected one of transient"),
        (Retry(hang="wait"), "retry.hang: expected restart or report, found 'wait'"),
    ],
)
def test_a_policy_that_is_none_is_refused_before_anything_starts(lab: Lab, retry: Retry, said: str) -> None:
    answer = lab.launch(lab.job("true", retry=retry))
    assert answer.outcome == "refused"
    assert said in answer.message
    assert runs.folders(lab.workdir) == []


def test_a_second_memory_error_of_a_gpu_means_a_bad_host_whatever_was_done_between(lab: Lab) -> None:
    run = lab.start(f"{COUNT}; echo done $n/9; sleep 0.5; {ECC}")
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts, ended.cause, ended.kind) == ("failed", 2, "gpu-ecc", "node-fatal")
    assert [event["class"] for event in events(run, "attempt-ended")] == ["transient", "node-fatal"]
    assert "bad GPU" in ended.advice


def test_a_race_for_the_triton_cache_gives_the_next_attempt_a_cache_of_its_own(lab: Lab) -> None:
    race = "FileNotFoundError: No such file or directory: '/h/.triton/cache/ab'"
    run = lab.start(f'{COUNT}; echo "cache ${{TRITON_CACHE_DIR:-shared}}"; [ $n = 2 ] && exit 0; echo "{race}"; exit 1')
    assert lab.ended(run).phase == "done"
    assert [line for line in Path(run.log).read_text().splitlines() if line.startswith("cache")] == [
        "cache shared", f"cache {run.root}/triton",
    ]  # fmt: skip


def test_who_asks_us_to_stay_away_for_a_while_is_heard(lab: Lab) -> None:
    script = f"{COUNT}; [ $n = 2 ] && exit 0; echo '429 Client Error: Too Many Requests. Retry after 2 seconds'; exit 1"
    run = lab.start(script)
    lab.ended(run)
    (retry,) = events(run, "retry")
    assert 2.0 <= retry["delay"] < 2.2


def test_a_hang_that_is_only_to_be_reported_is_told_once_and_so_is_its_end(lab: Lab) -> None:
    script = "echo done 1/3; while ! [ -e ../../../go ]; do sleep 0.05; done; echo done 2/3; sleep 0.6; echo done 3/3"
    run = lab.start(script, retry=Retry(progress_line=0.5, hang="report"))
    until(lambda: "hangs: no progress" in (lab.state(run).cause or ""))
    (shown,) = lab.status(run.id)
    assert (shown.phase, shown.cause) == ("extracting", "hangs: no progress for 0 s")
    (lab.root / "go").touch()
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts) == ("done", 1)
    hangs = events(run, "hang")
    assert {event["action"] for event in hangs} == {"report"}
    assert 1 <= len(events(run, "hang-over")) <= len(hangs) <= 2


def test_an_attempt_that_goes_well_does_not_bear_the_cause_of_the_one_before(lab: Lab) -> None:
    run = lab.start(f"{COUNT}; [ $n = 2 ] && {{ echo done 1/2; sleep 60; }}; echo 'Address already in use'; exit 1")
    until(lambda: (lab.state(run).attempt, lab.state(run).phase) == (2, "extracting"))
    assert lab.status(run.id)[0].cause is None
    lab.stop(run.id)
    lab.ended(run)


def test_a_hang_is_restarted_unless_it_is_said_otherwise(lab: Lab) -> None:
    run = lab.start(f"{COUNT}; [ $n = 2 ] && exit 0; sleep 60", retry=Retry(start_line=0.4, backoff=0.05))
    assert lab.ended(run).attempts == 2
    assert [event["action"] for event in events(run, "hang")] == ["restart"]


STATE = State(
    run="r", phase="extracting", attempt=1, pid=77, pid_started=1.0, boot_id="b", started=1.0, heartbeat=1.0,
    output="/o", memory_kills=4,
)  # fmt: skip


@pytest.mark.parametrize(
    ("boot", "kills", "by_kernel", "said"),
    [
        ("b", 4, 0, "its supervisor (pid 77) was killed"),
        ("b", 5, 1, "was killed by the kernel: the host ran out of memory"),
        ("b", 5, 0, "perhaps by the kernel: since it was last heard of, 1 process of this host was killed for memory"),
        ("b", 7, 0, "3 processes of this host were killed for memory"),
        ("c", 9, 1, "the host was rebooted while the run went on"),
    ],
)
def test_the_supervisors_death_has_a_reason_as_far_as_it_can_be_known(
    boot: str, kills: int, by_kernel: int, said: str
) -> None:
    reason = runs.lost_reason(STATE, boot, kills=kills, by_kernel=bool(by_kernel))
    assert said in reason
    assert ("perhaps" in reason) == ("perhaps" in said or "processes" in said)


def test_the_count_that_a_death_is_held_against_is_in_the_state(lab: Lab) -> None:
    run = lab.start("sleep 60")
    assert lab.state(run).memory_kills == processes.out_of_memory_kills()
    lab.kill_supervisor(run)
    path = Path(run.state)
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "memory_kills": state["memory_kills"] - 2}))
    assert "perhaps by the kernel: since it was last heard of, 2 processes" in (lab.status(run.id)[0].cause or "")


@pytest.mark.parametrize(
    ("record", "pids"),
    [
        (b"3,1,2,-;Out of memory: Killed process 4711 (python3) total-vm:9kB", {4711}),
        (b"3,1,2,-;Memory cgroup out of memory: Killed process 12 (VLLM::Worker) anon-rss:1kB", {12}),
        (b"6,1,2,-;usb 1-1: new device", set()),
        (b"", set()),
    ],
)
def test_the_kernels_word_on_whom_it_killed(record: bytes, pids: set[int]) -> None:
    assert memory_kills.of(record) == pids


def test_the_kernel_did_not_kill_this_process() -> None:
    assert not memory_kills.killed(os.getpid())


def test_processes_that_cannot_be_ended_are_a_matter_of_the_host() -> None:
    failure = endings.stuck((os.getpid(),))
    assert (failure.kind, failure.cause) == ("node-fatal", "cannot-be-ended")
    assert f"(pid {os.getpid()}, state R)" in (failure.root_line or "")
    assert "reboot" in failure.advice


NVIDIA = """#!/bin/bash
[ "$1" = --query-compute-apps=pid ] || exit 9
echo 'Warning: persistence mode is disabled'
echo '[N/A]'
for pid in $(cat "$(dirname "$0")/holders" 2>/dev/null); do echo "$pid"; done
if [ -e "$(dirname "$0")/lost" ]; then cat "$(dirname "$0")/lost"; exit 15; fi
"""


@pytest.fixture
def smi(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an nvidia-smi first on the path that says who holds GPU memory; gives the file with the pids."""
    folder = lab.root / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(NVIDIA)
    (folder / "nvidia-smi").chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "holders"


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_gpu_that_still_counts_the_dead_is_told_when_a_run_is_stopped(lab: Lab, smi: Path, device: str) -> None:
    run = lab.start("echo pid $$; while :; do sleep 0.1; done", device=device)
    pid = int(lab.logged(run, "pid").split()[1])
    until(lambda: lab.state(run).heartbeat > lab.state(run).started + 3)  # the supervisor has seen it
    smi.write_text(f"1 {pid} 999999999")
    answer = lab.stop(run.id, grace=0.2)
    assert (answer.outcome, answer.left) == ("stopped", ())
    held = (pid,) if device == "cuda" else ()
    assert lab.ended(run).gpu_held == held
    assert (f"({pid})" in answer.message) == bool(held)


def test_gpu_memory_that_is_let_go_after_a_moment_is_none(smi: Path) -> None:
    smi.write_text("41 42")
    assert gpu_holders.held({42, 43}, patience=0.0) == (42,)
    assert gpu_holders.held({43}, patience=0.0) == ()
    assert gpu_holders.held((), patience=0.0) == ()
    assert gpu_holders.parse("x\n12\n\n[N/A]\n 13 \n") == {12, 13}


def test_a_card_off_the_bus_does_not_hide_who_holds_the_others(smi: Path) -> None:
    lost = (
        "Unable to determine the device handle for GPU0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU"
    )
    smi.with_name("lost").write_text(f"{lost}\n")
    smi.write_text("42")
    assert gpu_holders.held({42, 43}, patience=0.0) == (42,)


def test_the_clock_of_the_wall_has_no_say_in_hangs_and_budgets(lab: Lab) -> None:
    """A heartbeat from the future, or from long ago, is no death: the process and its start decide."""
    run = lab.start("sleep 60")
    state = lab.state(run)
    back = "has not been heard of since the host's clock was set back"
    for shift, told in ((-86_400.0, "has not been heard of for 864"), (86_400.0, back), (1.0, "")):
        moved = dataclasses.replace(state, heartbeat=state.heartbeat + shift)
        snapshot = dataclasses.replace(runs.look(run), state=moved)
        assert snapshot.active
        phase, cause = status.judge(snapshot, now=state.heartbeat)
        assert phase == state.phase
        assert (told in (cause or "")) if told else cause is None
    lab.stop(run.id)
    lab.ended(run)
