"""What the fuzzing has found, each as a fixed case."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from local import answers, inventory, series, surface
from local.errors import UsageError
from local.interpreter import too_old
from local.progress import Tally, after, remarkable
from local.streaming import BadStream, Frames
from local.summary import duration
from remote import wire
from remote.host import gpu, shared_memory
from remote.model import model_folder, safetensors_header
from remote.paths import Run
from remote.run import batch, events, household, logfile
from remote.schema import Gpu, Job, Samples, State

DEEP = b"[" * 100_000
JOB = Job(name="j", engine="command", python="/p", workdir="/w", output="/o", batch_size=4)


def test_a_key_with_a_line_end_is_told_as_an_unknown_key(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text('[hosts.one]\n"a\\nb" = 1\n', "utf-8")
    with pytest.raises(UsageError, match=r"unknown key 'a\\nb'"):
        inventory.load(file)


def test_a_diff_that_begins_with_its_second_line_is_none(tmp_path: Path) -> None:
    file = tmp_path / "0001-x.patch"
    file.write_text(
        "Subject: x\nApplies-To: vllm>=0.16\n\nWhy.\n---\n-- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n", "utf-8"
    )
    with pytest.raises(
        UsageError, match=r"not a unified diff: a `\+\+\+` line without a `---` line before it"
    ) as caught:
        series.load(file)
    assert caught.value.where == f"{file}:7"


def test_digits_of_other_scripts_are_no_numbers() -> None:
    assert gpu.parse("\N{SUPERSCRIPT TWO}, NVIDIA, GPU-1, 1, 1, 1").gpus == ()
    assert gpu.parse("0, NVIDIA, GPU-1, \N{SUPERSCRIPT TWO}, 1, 1").gpus == (
        Gpu(index=0, name="NVIDIA", uuid="GPU-1", memory_total=0, memory_used=1 << 20, driver="1"),
    )


@pytest.mark.parametrize("data", [DEEP, b'{"size": 1e999}', b'{"start": 1e999}', b'{"grace": 1e999}'])
def test_files_of_a_run_that_end_no_reader(tmp_path: Path, data: bytes) -> None:
    run = Run(PurePosixPath(tmp_path))
    for path in (run.batch, run.log_start, run.shared, run.stop):
        Path(path).write_bytes(data)
    assert batch.size(run, JOB) == 4
    assert logfile.start(run) == 0
    assert shared_memory.noted(run) is None
    assert household.wish(run) == household.GRACE


def test_numbers_without_end_in_models(tmp_path: Path) -> None:
    assert not safetensors_header.parse(b'{"a": {"data_offsets": [0, 1e999]}}', 10).whole
    (tmp_path / model_folder.INDEX).write_text('{"metadata": {"total_size": Infinity}, "weight_map": {}}')
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 4, "rope_scaling": {"factor": 1e999}}')
    found = model_folder.read(tmp_path, wait=lambda _: None)
    assert (found.index_total, found.config and found.config.max_positions) == (None, 4)


def test_half_a_character_in_an_event_is_written(tmp_path: Path) -> None:
    log = events.EventLog(tmp_path / "events", clock=lambda: 1.0)
    log.add("x", 1, {"cause": "\ud800"})
    assert json.loads((tmp_path / "events").read_bytes())["cause"] == "\ud800"


def test_numbers_that_no_float_holds_are_refused() -> None:
    text = json.dumps(wire.encode(Samples())).replace("0", "9" * 400, 1)
    with pytest.raises(wire.WireError):
        answers.loads(Samples, text, "samples")
    with pytest.raises(wire.WireError, match="of 400 digits"):
        wire.decode(State, {"schema": 1, "run": "r", "phase": "p", "attempt": 1, "pid": 1, "pid_started": 10**399})


@pytest.mark.parametrize("version", ["", "3", "three", "3.x", "\x1b[31m", "3.9.1"])
def test_a_version_that_is_none_is_too_old(version: str) -> None:
    assert too_old(version)


def test_strange_events_are_passed_over() -> None:
    for event in ({"event": []}, {"event": {}}, {"event": "hang", "action": []}, {"event": None}):
        assert after(Tally(), event).done == 0
        remarkable(event)
    assert duration(float("nan")) == duration(float("inf")) == "?"


def test_frames_before_the_damage_are_given() -> None:
    frames = Frames()
    (frame,) = frames.feed(b'\x1eFRAME {"kind":"end","size":0}\nlogout\n')
    assert frame.header["kind"] == "end"
    with pytest.raises(BadStream):
        frames.feed(b"")


@pytest.mark.parametrize("data", ["[[]]", "[]", "3", '{"fingerprint": []}', '{"fingerprint": "0"}'])
def test_a_memory_of_sources_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path))
    surface._memory("h", "j").write_text(data)
    with pytest.raises(UsageError, match="no sources of h's packages"):
        surface.remembered("h", "j")
