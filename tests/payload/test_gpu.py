"""What nvidia-smi says, and the ways in which it says nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from remote import gpu

DATA = Path(__file__).parent / "data"


def recorded(name: str) -> str:
    return (DATA / f"nvidia-smi-{name}.txt").read_text()


def program(folder: Path, body: str, name: str = "smi") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_eight_cards_are_read() -> None:
    facts = gpu.parse(recorded("8xB200"))
    assert facts.error is None
    assert [card.index for card in facts.gpus] == list(range(8))
    assert {card.name for card in facts.gpus} == {"NVIDIA B200"}
    assert facts.gpus[3].memory_used == 161243 * 1024 * 1024
    assert facts.gpus[0].memory_total == 183359 * 1024 * 1024
    assert facts.gpus[7].uuid.endswith("1e07")
    assert facts.gpus[0].driver == "570.133.20"


def test_memory_shared_with_the_processor_is_no_error() -> None:
    facts = gpu.parse(recorded("shared-memory"))
    assert facts.error is None
    assert facts.gpus[0].memory_total == 0


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("mismatch", 18, "Driver/library version mismatch"),
        ("no-driver", 9, "couldn't communicate with the NVIDIA driver"),
        ("no-devices", 6, "No devices were found"),
    ],
)
def test_a_failure_is_told_in_its_own_words(name: str, code: int, words: str) -> None:
    facts = gpu.parse(recorded(name), code)
    assert facts.gpus == ()
    assert facts.error is not None
    assert facts.error.startswith("failed: ")
    assert words in facts.error
    assert f"(exit {code})" in facts.error


def test_a_lost_card_is_told_beside_the_others() -> None:
    facts = gpu.parse(recorded("lost"), 15)
    assert [card.index for card in facts.gpus] == [0]
    assert "GPU is lost" in (facts.error or "")


@pytest.mark.parametrize("out", ["", "\n \n", "garbage, with, commas\n", "x, a, b, c, d, e\n", "\x00\xff"])
def test_what_is_no_row_is_no_card(out: str) -> None:
    facts = gpu.parse(out)
    assert facts.gpus == ()
    assert facts.error


def test_a_name_may_hold_commas() -> None:
    (card,) = gpu.parse("0, Odd, very, odd, GPU-1, 10, 1, 570.1").gpus
    assert card.name == "Odd, very, odd"


def test_not_installed_is_told() -> None:
    facts = gpu.gpus(program="/nonexistent/nvidia-smi")
    assert facts.gpus == ()
    assert (facts.error or "").startswith("not installed")


def test_a_hung_one_is_left_behind_in_time(tmp_path: Path) -> None:
    started = time.monotonic()
    facts = gpu.gpus(program=program(tmp_path, "exec sleep 600"), limit=0.3)
    assert (facts.error or "").startswith("hung")
    assert time.monotonic() - started < 10


def test_a_program_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "smi").write_text("not executable")
    assert (gpu.gpus(program=str(tmp_path / "smi")).error or "").startswith("failed")


def test_a_real_program_is_asked_for_the_right_fields(tmp_path: Path) -> None:
    body = f'test "$1" = "--query-gpu={",".join(gpu.FIELDS)}" && cat {DATA / "nvidia-smi-8xB200.txt"}'
    assert len(gpu.gpus(program=program(tmp_path, body)).gpus) == 8


def test_cuda_home_tells_what_nvcc_is(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", 'echo "Cuda compilation tools, release 12.8, V12.8.61"', "nvcc")
    assert gpu.cuda_home(str(tmp_path)).nvcc == "12.8"
    assert gpu.cuda_home(str(tmp_path)).exists


@pytest.mark.parametrize("path", [None, ""])
def test_no_cuda_home_is_no_error(path: str | None) -> None:
    assert gpu.cuda_home(path).path is None


def test_a_cuda_home_that_is_not_there_is_told() -> None:
    told = gpu.cuda_home("/nonexistent/cuda")
    assert (told.path, told.exists, told.nvcc) == ("/nonexistent/cuda", False, None)
