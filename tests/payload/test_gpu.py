"""What nvidia-smi says, and the ways in which it says nothing."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from remote.host import gpu
from tests.payload import gpu_fakes

DATA = Path(__file__).parent / "data"


def recorded(name: str) -> str:
    return (DATA / f"nvidia-smi-{name}.txt").read_text()


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
    facts = gpu.gpus(program=gpu_fakes.program(tmp_path, "exec sleep 600"), limit=0.3)
    assert (facts.error or "").startswith("hung")
    assert time.monotonic() - started < 10


def test_a_program_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "smi").write_text("not executable")
    assert (gpu.gpus(program=str(tmp_path / "smi")).error or "").startswith("failed")


def test_half_a_document_is_followed_by_the_rows(tmp_path: Path) -> None:
    (tmp_path / "half.xml").write_text(gpu_fakes.Machine().xml()[:9000])
    rows = DATA / "nvidia-smi-8xB200.txt"
    first = f'test "$1" = -q && exec cat {tmp_path}/half.xml'
    body = f'{first}\ntest "$1" = "--query-gpu={",".join(gpu.FIELDS)}" && cat {rows}'
    facts = gpu.gpus(program=gpu_fakes.program(tmp_path, body))
    assert len(facts.gpus) == 8
    assert (facts.error, facts.cuda, facts.xids) == (None, None, None)


def test_a_message_instead_of_the_document_is_the_answer(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    body = f'echo "$1" >> {asked}; cat {DATA}/nvidia-smi-mismatch.txt; exit 18'
    facts = gpu.gpus(program=gpu_fakes.program(tmp_path, body))
    assert "Driver/library version mismatch" in (facts.error or "")
    assert sorted(asked.read_text().split()) == ["--query-gpu=index,compute_cap", "-q"]


def test_a_document_with_a_failure_is_both(tmp_path: Path) -> None:
    (tmp_path / "document.xml").write_text(gpu_fakes.Machine(count=1).xml())
    body = f"cat {tmp_path}/document.xml; echo Unable to determine the device handle for GPU1 >&2; exit 15"
    facts = gpu.gpus(program=gpu_fakes.program(tmp_path, body))
    assert [card.index for card in facts.gpus] == [0]
    assert facts.error == "failed: Unable to determine the device handle for GPU1 (exit 15)"


@pytest.mark.parametrize("rows", ["0, 9.0\n1, 10.0\n", "0, 9.0\n1, 10.0\nx, 1\n2, [N/A]\n3\n"])
def test_capabilities_are_asked_apart(tmp_path: Path, rows: str) -> None:
    (tmp_path / "rows").write_text(rows)
    assert gpu.capabilities(gpu_fakes.program(tmp_path, f"cat {tmp_path}/rows")) == {0: "9.0", 1: "10.0"}


def test_an_older_driver_knows_no_capabilities(tmp_path: Path) -> None:
    body = "echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2"
    assert gpu.capabilities(gpu_fakes.program(tmp_path, body)) == {}


def test_a_process_is_told_with_its_user(tmp_path: Path) -> None:
    mine = gpu_fakes.process(os.getpid(), "python3", 900) + gpu_fakes.process(2**22 + 7, "gone", 1)
    machine = gpu_fakes.Machine(count=1, wrong={0: {"processes": mine}})
    first, gone = gpu.gpus(program=gpu_fakes.smi(tmp_path, machine)).gpus[0].processes
    assert (first.user, gone.user) == (pwd.getpwuid(os.getuid()).pw_name, "")


def test_nvidia_smi_sees_the_libraries_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "document.xml").write_text(gpu_fakes.Machine(count=1).xml().replace(">13.0<", ">compat<"))
    body = f'cat {tmp_path}/document.xml | sed "s|>compat<|>$LD_LIBRARY_PATH<|"'
    program = gpu_fakes.program(tmp_path, body)
    assert gpu.gpus(program=program, libraries="/usr/local/cuda/compat").cuda == "/usr/local/cuda/compat"
