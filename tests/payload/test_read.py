from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.streaming import Frame, Frames
from remote import wire
from remote.schema import ReadRequest
from tests.running import Lab, until

if TYPE_CHECKING:
    from remote.paths import Run


def frames_of(lab: Lab, run: str, **changes: Any) -> list[Frame]:
    """Read a stream to its end."""
    request = ReadRequest(workdir=lab.workdir, run=run, **changes)
    frames, found = Frames(), []
    with lab.host.stream("read", request, bundle=lab.bundle) as stream:
        while data := stream.read(20.0):
            found += frames.feed(data)
    return found


def body(frames: list[Frame], name: str) -> bytes:
    return b"".join(frame.body for frame in frames if frame.header.get("file") == name)


def test_a_run_is_read_to_its_very_end(lab: Lab) -> None:
    run = lab.start("for i in 1 2 3; do echo line $i; sleep 0.2; done; printf 'no end of line'")
    frames = frames_of(lab, run.id)
    assert body(frames, "log") == Path(run.log).read_bytes() == b"line 1\nline 2\nline 3\nno end of line"
    assert body(frames, "events") == Path(run.events).read_bytes()
    assert frames[-1].header["kind"] == "end"
    assert frames[-1].header["exit"]["phase"] == "done"
    assert json.loads(body(frames, "events").splitlines()[-1])["event"] == "ended"
    lab.ended(run)


def finished(lab: Lab, size: int) -> Run:
    run = lab.start(f"head -c {size} /dev/urandom")
    lab.ended(run)
    return run


def test_offsets_are_true_and_frames_are_small(lab: Lab) -> None:
    run = finished(lab, 1_000_000)
    log = Path(run.log).read_bytes()
    frames = frames_of(lab, run.id, offsets={"log": 17})
    at = 17
    for frame in frames:
        if frame.header.get("file") == "log":
            assert frame.header["offset"] == at
            assert len(frame.body) <= 256 * 1024
            at += len(frame.body)
    assert body(frames, "log") == log[17:]


def test_from_the_end_there_is_nothing_more(lab: Lab) -> None:
    run = finished(lab, 10)
    sizes = {"log": 10, "events": Path(run.events).stat().st_size}
    kinds = [frame.header["kind"] for frame in frames_of(lab, run.id, offsets=sizes)]
    assert kinds == ["beat", "end"]


@pytest.mark.parametrize("offsets", [{"log": 11}, {"events": 1 << 40}])
def test_offsets_beyond_the_end_are_an_error(lab: Lab, offsets: dict[str, int]) -> None:
    run = finished(lab, 10)
    end = frames_of(lab, run.id, offsets=offsets)[-1].header
    assert (end["kind"], end["exit"]) == ("end", None)
    assert "was to be read from byte" in end["error"]


@pytest.mark.parametrize("run", ["20200101-000000-abcd", "../..", "", "x\0y"])
def test_a_run_that_is_not_there_is_an_error(lab: Lab, run: str) -> None:
    (end,) = frames_of(lab, run)
    assert f"no run {run}" in end.header["error"]


def test_without_following_what_is_there_is_enough(lab: Lab) -> None:
    run = lab.start("echo now; sleep 60")
    lab.logged(run, "now")
    frames = frames_of(lab, run.id, follow=False)
    assert body(frames, "log") == b"now\n"
    assert frames[-1].header["exit"] is None
    lab.stop(run.id)


def test_a_quiet_run_still_beats(lab: Lab) -> None:
    run = lab.start("sleep 60")
    frames, beats, began = Frames(), 0, 0.0
    request = ReadRequest(workdir=lab.workdir, run=run.id, heartbeat=0.2)
    with lab.host.stream("read", request, bundle=lab.bundle) as stream:
        while beats < 4:
            began = began if beats else time.monotonic()
            beats += sum(frame.header["kind"] == "beat" for frame in frames.feed(stream.read(10.0)))
    assert time.monotonic() - began < 10
    lab.stop(run.id)


def test_a_lost_run_ends_the_stream_with_the_reason(lab: Lab) -> None:
    run = lab.start("echo last words; exec sleep 60")
    lab.logged(run, "last words")
    lab.kill_supervisor(run)
    frames = frames_of(lab, run.id)
    assert body(frames, "log") == b"last words\n"
    assert frames[-1].header["exit"] is None
    assert "was killed" in frames[-1].header["lost"]


def test_a_reader_that_goes_away_ends_the_reading(lab: Lab) -> None:
    run = lab.start("sleep 60")
    entry = Path(lab.workdir) / "bundles" / lab.bundle / "payload" / "remote" / "__main__.py"
    request = ReadRequest(workdir=lab.workdir, run=run.id, heartbeat=0.1)
    with subprocess.Popen(
        [lab.python, "-I", "-B", str(entry), "read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(wire.dumps(request).encode())
        process.stdin.close()
        assert b"FRAME" in process.stdout.readline()
        process.stdout.close()
        until(lambda: process.poll() is not None)
        assert process.returncode == 0
    lab.stop(run.id)
