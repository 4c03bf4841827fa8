"""From what nvidia-smi and stat say to readings. The rows are made by hand after nvidia-smi's format."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from remote.host import readings
from remote.host.asking import Heard
from remote.schema import GpuReading

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
B200 = "".join(f"{index}, NVIDIA B200, 9{index}, 161243, 183359, 6{index}, Disabled\n" for index in range(8))


def heard(text: str | None, **more: object) -> Heard:
    return Heard(text=text, at=100.0, **more)  # type: ignore[arg-type]


def test_eight_cards() -> None:
    found = readings.gpus(heard(B200), now=103.0)
    assert (len(found.gpus), found.error, found.age, found.pending) == (8, None, 3.0, None)
    assert found.gpus[3] == GpuReading(
        index=3, name="NVIDIA B200", utilisation=93, memory_used=161243 * MIB, memory_total=183359 * MIB, temperature=63
    )


def test_a_card_cut_by_mig_tells_no_utilisation() -> None:
    (card,) = readings.gpus(heard("0, NVIDIA A100-SXM4-80GB, [N/A], 12000, 81920, 41, Enabled\n")).gpus
    assert (card.mig, card.utilisation, card.temperature, card.trouble) == (True, None, 41, "")


@pytest.mark.parametrize(
    ("values", "trouble"),
    [
        ("[GPU requires reset], [GPU requires reset], [GPU requires reset], [GPU requires reset], Disabled",
         "GPU requires reset"),
        ("[Unknown Error], 4, 183359, 30, Disabled", "Unknown Error"),
        ("ERR!, 4, 183359, ERR!, [N/A]", "ERR!"),
        ("[Not Supported], [N/A], [N/A], 30, [N/A]", ""),
        ("97, [N/A], [N/A], 30, [N/A]", ""),
    ],
)  # fmt: skip
def test_a_card_that_tells_something_else(values: str, trouble: str) -> None:
    (card,) = readings.gpus(heard(f"0, NVIDIA B200, {values}\n")).gpus
    assert card.trouble == trouble


def test_a_name_may_hold_anything() -> None:
    (card,) = readings.gpus(heard("0, NVIDIA, [N/A], the B200, 5, 1, 2, 3, Disabled")).gpus
    assert (card.name, card.utilisation, card.temperature) == ("NVIDIA, [N/A], the B200", 5, 3)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            heard("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"),
            "failed: NVIDIA-SMI",
        ),
        (heard(""), "hung: nvidia-smi was ended without an answer"),
        (Heard(error="not installed: there is no nvidia-smi to run"), "not installed"),
        (Heard(pending=90.0), "no answer from nvidia-smi for 10 s"),
        (heard(B200 + "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost\n"), "failed: Unable"),
        (heard("x" * 10000), "failed: xxx"),
    ],
)
def test_what_is_no_row_is_the_error(answer: Heard, error: str) -> None:
    found = readings.gpus(answer, now=100.0)
    assert (found.error or "").startswith(error)
    assert len(found.error or "") < 400


def test_nothing_asked_is_no_error() -> None:
    assert readings.gpus(Heard(), now=1.0).error is None


def test_the_last_answer_is_told_with_its_age_while_the_next_one_hangs() -> None:
    found = readings.gpus(heard(B200, pending=110.0), now=160.0)
    assert (len(found.gpus), found.age, found.pending) == (8, 60.0, 50.0)


@pytest.mark.parametrize("below", ["", "/not/yet/there", '/it\'s a "name"; $(touch x) -n'])
def test_the_room_is_that_of_the_nearest_folder(tmp_path: Path, below: str) -> None:
    path = f"{tmp_path}{below}"
    words = readings.disk_question(str(tmp_path), path)._words
    said = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    left = readings.disk(path, heard(said.stdout), now=101.0)
    assert left.free is not None
    assert left.total is not None
    assert 0 < left.free <= left.total
    assert left.age == 1.0


@pytest.mark.parametrize("text", [None, "", "1 2", "a b c", "stat: cannot read file system information\n", "-1 2 3"])
def test_a_room_that_is_not_told(text: str | None) -> None:
    left = readings.disk("/o", heard(text), now=101.0)
    assert (left.free, left.total) == (None, None)
