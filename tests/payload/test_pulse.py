"""The verb `pulse` on real runs, through the bundle: complete, bounded, quick, and never held up by what hangs."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from remote import pulse
from remote.schema import PulseAnswer, PulseRequest
from tests.payload.gpu_fakes import program
from tests.running import Lab, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.paths import Run

ROWS = "0, NVIDIA B200, 97, 161243, 183359, 61, Disabled"
HANG = f"{10_000 + os.getpid()}.0"  # seconds: no other process of the tests sleeps as long


def ask(lab: Lab, **changes: object) -> PulseAnswer:
    request = PulseRequest(workdir=lab.workdir, output=str(lab.output), **changes)  # type: ignore[arg-type]
    return lab.host.call("pulse", request, PulseAnswer, bundle=lab.bundle, deadline=20)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder, first on the PATH of the host, for a fake nvidia-smi; what hangs there is ended."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield folder
    for process in sleepers():
        process.send_signal(signal.SIGKILL)


def sleepers() -> list[psutil.Process]:
    """Give the fakes of this process that hang: a sleep of a length that nobody else sleeps."""
    return [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", HANG]]


def test_a_host_without_a_run_tells_of_itself(lab: Lab, smi: Path) -> None:
    program(smi, f"echo '{ROWS}'")
    found = ask(lab)
    assert (found.run, found.line, found.points, found.events_bytes) == (None, "", (), 0)
    assert [(card.index, card.utilisation) for card in found.gpus.gpus] == [(0, 97)]
    assert found.disk is not None
    assert found.disk.path == str(lab.output)
    assert (found.disk.free or 0) > 0
    assert abs(found.now - time.time()) < 60
    assert found.cpus == os.cpu_count()


def test_a_run_is_told_with_its_last_line_and_how_far_it_came(lab: Lab, smi: Path) -> None:
    program(smi, f"echo '{ROWS}'")
    run = lab.start("for i in 1 2 3; do echo done $i/9; sleep 0.1; done; echo the last; sleep 600")
    lab.logged(run, "the last")
    until(lambda: lab.state(run).samples.done == 3)
    found = until(lambda: (answer := ask(lab)) and answer.line == "the last" and answer)
    assert found.run is not None
    assert (found.run.run, found.run.samples.done, found.run.samples.total) == (run.id, 3, 9)
    assert found.points[-1].samples == 3
    assert found.points[-1].attempt == 1
    assert found.events_bytes == Path(run.events).stat().st_size
    lab.stop(run.id)
    assert ask(lab, run=run.id).run is not None
    assert ask(lab, run="20200101-000000-0000").run is None


def test_a_host_without_cards_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("sh", "stat"):
        (empty / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(empty))
    found = ask(lab)
    assert found.gpus.error == "not installed: there is no nvidia-smi to run"
    assert found.disk is not None
    assert found.disk.free is not None


def test_a_hung_nvidia_smi_holds_nobody_up_and_is_not_asked_again(lab: Lab, smi: Path) -> None:
    program(smi, f"echo '{ROWS}'")
    assert ask(lab).gpus.gpus
    program(smi, f"exec sleep {HANG}")
    until(lambda: ask(lab).gpus.pending is not None)
    answers = [ask(lab) for _ in range(4)]
    assert len(sleepers()) == 1
    for found in answers:
        assert found.took < 5
        assert [card.utilisation for card in found.gpus.gpus] == [97], "the last answer stands"
        assert found.gpus.pending is not None
        assert found.gpus.age is not None
        assert found.disk is not None
        assert found.disk.pending is None
    sleepers()[0].kill()
    program(smi, "echo '0, NVIDIA B200, 12, 1, 183359, 30, Disabled'")
    until(lambda: [card.utilisation for card in ask(lab).gpus.gpus] == [12])


def test_many_watchers_share_one_question(lab: Lab, smi: Path) -> None:
    """Several laptops at once: one program, and each gets an answer."""
    count = smi / "count"
    program(smi, f"echo x >>{count}; sleep 0.2; echo '{ROWS}'")
    request = PulseRequest(workdir=lab.workdir)
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(lab.host.call, "pulse", request, PulseAnswer, bundle=lab.bundle, deadline=20) for _ in range(4)
        ]
        answers = [one.result() for one in asked]
    assert all(found.gpus.gpus or found.gpus.pending is not None for found in answers)
    assert len(count.read_text().split()) < 4


# ---- pure parts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (b"", ""),
        (b"one\ntwo\n", "two"),
        (b"one\ntwo\n\n \n", "two"),
        (b"one\r\ntwo\r\n", "two"),
        (b"start\n 10%|#   |\r 20%|##  |\r 30%|### |", " 20%|##  |"),
        (b"start\n\xff\xfe\n", "\ufffd\ufffd"),
        ("é".encode() * 20_000 + b"\nend\n", "end"),
        (b"\0" * 100 + b"\nend", "\0" * 100),
        (b"no end yet", "no end yet"),
        (b"token hf_half", "token hf_half"),
    ],
)
def test_the_last_whole_line(lab: Lab, log: bytes, line: str) -> None:
    run = lab_run(lab)
    Path(run.log).write_bytes(log)
    assert pulse.last_line(run) == line


@pytest.mark.parametrize("changed", [0, 2**33], ids=["long ago", "before the clock was set back"])
def test_a_line_that_its_writer_leaves_without_end_is_shown_at_last(lab: Lab, changed: int) -> None:
    run = lab_run(lab)
    Path(run.log).write_bytes(b"one\nnow it waits")
    os.utime(run.log, (changed, changed))
    assert pulse.last_line(run) == "now it waits"


def test_a_line_longer_than_what_is_read_loses_its_first_word(lab: Lab) -> None:
    run = lab_run(lab)
    Path(run.log).write_bytes(b"x" * 40_000 + b" tail end\n")
    assert pulse.last_line(run) == "tail end"


def test_what_is_not_kept_of_a_log_is_not_shown(lab: Lab) -> None:
    run = lab_run(lab)
    Path(run.log).write_bytes(b"\0" * 4096 + b"half-a-word kept\n")
    Path(run.log_start).write_text('{"start": 4096}')
    assert pulse.last_line(run) == "kept"


def lab_run(lab: Lab) -> Run:
    folder = Path(lab.workdir) / "runs" / "20260101-000000-abcd"
    folder.mkdir(parents=True)
    return lab.run(folder.name)


def lines(*documents: object) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def progress(moment: float, done: int, tokens: int, attempt: int = 1) -> dict[str, object]:
    return {"time": moment, "attempt": attempt, "event": "progress", "done": done, "tokens": tokens}


def test_points_come_from_both_files_in_order() -> None:
    notes = lines(
        {"time": 100.0, "attempt": 1, "phase": "loading", "samples": 0, "tokens": 0},
        {"time": 500.0, "attempt": 1, "phase": "extracting", "samples": 1, "tokens": 10},
    )
    events = lines(
        {"time": 400.0, "attempt": 1, "event": "phase", "phase": "extracting"},
        progress(690.0, 2, 20), progress(691.0, 3, 30), progress(705.0, 4, 40),
    )  # fmt: skip
    found = pulse.points(notes, events, now=710.0)
    assert [(point.time, point.samples, point.tokens) for point in found] == [
        (400.0, 0, 0), (500.0, 1, 10), (691.0, 3, 30), (705.0, 4, 40),
    ]  # fmt: skip


def test_points_are_few_however_long_the_run() -> None:
    events = lines(*(progress(float(moment), moment, moment) for moment in range(10_000)))
    found = pulse.points(b"", events, now=9_999.0)
    assert 50 <= len(found) <= 63
    assert found[-1].samples == 9_999
    assert found[0].time < 9_999 - pulse.SPAN <= found[1].time


@pytest.mark.parametrize(
    "junk",
    [b"", b"\n\n", b"{", b"[]\n1\nnull\n", b"\xff\xfe\n", b"[" * 100_000, lines({"event": "progress"}),
     lines(progress("then", 1, 1)), lines(progress(1.0, "many", 1)), lines({**progress(1.0, 1, 1), "time": True}),
     lines(progress(1.0, 1, 1, attempt=None))],  # type: ignore[arg-type]
)  # fmt: skip
def test_junk_makes_no_points(junk: bytes) -> None:
    assert pulse.points(junk, junk, now=10.0) == ()


def test_a_point_of_a_clock_that_was_ahead_is_left_out() -> None:
    assert pulse.points(b"", lines(progress(50.0, 1, 1), progress(1e9, 2, 2)), now=60.0)[-1].samples == 1
