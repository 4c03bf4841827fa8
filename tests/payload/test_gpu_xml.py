"""From what `nvidia-smi -q -x` prints to facts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remote.host import gpu_xml
from tests.payload.gpu_fakes import MIG_DEVICE, Machine, process

if TYPE_CHECKING:
    from remote.schema import Gpu, GpuFacts

MIB = 1024 * 1024


def facts(machine: Machine) -> GpuFacts:
    found = gpu_xml.parse(machine.xml())
    assert found is not None
    return found


def card(machine: Machine, **wrong: str) -> Gpu:
    """Give card 1 of two, with readings changed; `__` stands for `/`."""
    changes = {path.replace("__", "/"): text for path, text in wrong.items()}
    return facts(Machine(card=machine.card, count=2, wrong={1: changes})).gpus[1]


def test_eight_b200_are_read() -> None:
    found = facts(Machine())
    assert (found.error, found.cuda) == (None, "13.0")
    assert [one.index for one in found.gpus] == list(range(8))
    assert {one.name for one in found.gpus} == {"NVIDIA B200"}
    assert {one.driver for one in found.gpus} == {"580.105.08"}
    assert len({one.uuid for one in found.gpus}) == len({one.bus for one in found.gpus}) == 8
    first = found.gpus[0]
    assert (first.memory_total, first.memory_used) == (183359 * MIB, 0)
    assert (first.fabric_state, first.fabric_status, first.fabric_health) == ("Completed", "Success", "")
    assert (first.ecc_uncorrectable, first.repairs_pending, first.repairs_failed) == (0, (), ())
    assert (first.lost, first.recovery, first.slowed, first.mig, first.processes) == ("", "", (), False, ())
    assert first.compute_mode == "Default"


def test_eight_h200_of_an_older_driver_are_read() -> None:
    found = facts(Machine(card="h200", driver="550.90.07", cuda="12.4", dtd=12))
    assert found.cuda == "12.4"
    assert found.gpus[7].memory_total == 143771 * MIB
    assert found.gpus[7].memory_used == MIB
    assert found.gpus[7].recovery == ""


def test_a_partitioned_card_is_told() -> None:
    devices = "".join(MIG_DEVICE.format(number) for number in range(3))
    told = card(Machine(), mig_mode__current_mig="Enabled", mig_devices=devices)
    assert (told.mig, told.mig_devices, told.memory_total) == (True, 3, 183359 * MIB)


@pytest.mark.parametrize(
    ("path", "text", "name", "value"),
    [
        ("ecc_errors__volatile__dram_uncorrectable", "5", "ecc_uncorrectable", 5),
        ("ecc_errors__volatile__sram_uncorrectable_parity", "2", "ecc_uncorrectable", 2),
        ("ecc_errors__volatile", "<sram_uncorrectable>1</sram_uncorrectable>", "ecc_uncorrectable", 1),
        ("ecc_errors__volatile", "<double_bit><total>4</total></double_bit>", "ecc_uncorrectable", 4),
        ("ecc_errors__volatile__dram_uncorrectable", "N/A", "ecc_uncorrectable", 0),
        ("ecc_errors__aggregate__sram_threshold_exceeded", "Yes", "repairs_failed", None),
        ("remapped_rows__remapped_row_failure", "Yes", "repairs_failed", None),
        ("remapped_rows__remapped_row_pending", "Yes", "repairs_pending", ("row remapping",)),
        ("retired_pages__pending_retirement", "Yes", "repairs_pending", ("page retirement",)),
        ("retired_pages__pending_blacklist", "Yes", "repairs_pending", ("page retirement",)),
        ("ecc_errors__tpc_repair_pending", "Yes", "repairs_pending", ("TPC repair",)),
        ("gpu_recovery_action", "Reset", "recovery", "Reset"),
        ("gpu_recovery_action", "N/A", "recovery", ""),
        ("compute_mode", "Prohibited", "compute_mode", "Prohibited"),
        ("clocks_event_reasons__clocks_event_reason_hw_thermal_slowdown", "Active", "slowed", ("too hot",)),
        ("fb_memory_usage__total", "GPU is lost", "lost", "GPU is lost"),
        ("fabric__state", "Not Started", "fabric_state", "Not Started"),
        ("fabric__state", "N/A", "fabric_state", ""),
        ("fabric__health__summary", "Unhealthy", "fabric_health", "health Unhealthy"),
        ("fabric__health__route_unhealthy", "True", "fabric_health", "route unhealthy"),
        ("fabric__health__bandwidth", "Degraded", "fabric_health", "bandwidth degraded"),
    ],
)
def test_one_reading_makes_one_fact(path: str, text: str, name: str, value: object) -> None:
    told = getattr(card(Machine(), **{path: text}), name)
    assert told if value is None else told == value


def test_an_older_driver_asks_for_a_reset_in_its_own_way() -> None:
    assert card(Machine(card="h200"), gpu_reset_status__reset_required="Yes").recovery == "Reset"


def test_processes_are_told_with_what_is_known_of_them() -> None:
    told = card(
        Machine(), processes=process(4242, "/opt/env/bin/python3", 161243) + process(7, "Xorg", None, "G")
    ).processes
    assert [(one.pid, one.name, one.kind, one.memory) for one in told] == [
        (4242, "/opt/env/bin/python3", "C", 161243 * MIB),
        (7, "Xorg", "G", 0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        Machine().xml()[:5000],
        "<other/>",
        "<nvidia_smi_log>&a;</nvidia_smi_log>",
        '<!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log>&a;</nvidia_smi_log>',
        "\x00\xff",
        "<nvidia_smi_log>" + " " * gpu_xml.LARGEST + "</nvidia_smi_log>",
    ],
    ids=["empty", "message", "half", "other", "unknown-entity", "entity", "bytes", "huge"],
)
def test_what_is_no_document_is_none(text: str) -> None:
    assert gpu_xml.parse(text) is None


def test_a_document_without_cards_says_so() -> None:
    found = gpu_xml.parse(Machine(count=0).xml())
    assert found is not None
    assert found.error == "failed: nvidia-smi names no GPU"


@pytest.mark.parametrize(
    "gone", ["fabric", "ecc_errors", "processes", "fb_memory_usage", "pci", "uuid", "product_name"]
)
def test_a_document_that_lacks_readings_is_still_read(gone: str) -> None:
    root = ET.fromstring(Machine(count=1).xml())  # noqa: S314 - ours
    card = root.find("gpu")
    assert card is not None
    card.remove(next(iter(card.findall(gone))))
    found = gpu_xml.parse(ET.tostring(root, encoding="unicode"))
    assert found is not None
    assert len(found.gpus) == 1
    assert found.gpus[0].ecc_uncorrectable == 0


@pytest.mark.parametrize("value", ["-1 MiB", "٣ MiB", "9" * 400 + " MiB", "lots", ""])
def test_hostile_numbers_are_none(value: str) -> None:
    assert card(Machine(), fb_memory_usage__used=value).memory_used == 0


ONE_CARD = Machine(count=1).xml()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(ONE_CARD)), st.integers(0, 80), st.text(max_size=20))
def test_no_damage_is_a_crash(at: int, length: int, text: str) -> None:
    found = gpu_xml.parse(ONE_CARD[:at] + text + ONE_CARD[at + length :])
    assert found is None or all(one.memory_total >= 0 and one.ecc_uncorrectable >= 0 for one in found.gpus)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_no_text_is_a_crash(text: str) -> None:
    assert gpu_xml.parse(text) is None
