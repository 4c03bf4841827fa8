"""The driver's messages in the kernel's log, and the state of the fabric manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remote.host import gpu_services, kernel_log
from tests.payload import gpu_fakes

if TYPE_CHECKING:
    from pathlib import Path

LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FAULT = (
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=79749, name=python3, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS"
)
LOADING = "[  100.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_messages_are_counted_by_code_and_card() -> None:
    text = f"{LOADING}\n[  200.5] {FAULT}\n[  300.0] {LOST}\n[  400.5] {FAULT} again\n[ 9.0] usb 1-1: new device\n"
    told = {xid.code: xid for xid in kernel_log.parse(text, 1000.0)}
    assert set(told) == {31, 79}
    assert (told[31].count, told[31].bus, told[31].age) == (2, "0000:3b:00", 599.5)
    assert told[31].text.endswith("again")
    assert (told[79].count, told[79].age) == (1, 700.0)
    assert told[79].text == LOST


def test_what_was_before_the_driver_was_loaded_is_over() -> None:
    assert kernel_log.parse(f"[ 1.0] {LOST}\n{LOADING}\n", 1000.0) == ()


@pytest.mark.parametrize(
    ("line", "code", "bus", "age"),
    [
        (f"[ 12.000001] host01 kernel: {LOST}", 79, "0000:3b:00", 88.0),
        ("NVRM: Xid (0000:01:00): 13, 0005 00000000", 13, "0000:01:00", None),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 31, pid=7", 31, "0000:01:00", None),
        (
            "[Mon Nov 30 09:00:00 2026] NVRM: Xid (PCI:0000:06:00): 119, Timeout waiting for RPC",
            119,
            "0000:06:00",
            None,
        ),
    ],
)
def test_forms_of_the_line(line: str, code: int, bus: str, age: float | None) -> None:
    (xid,) = kernel_log.parse(line, 100.000001)
    assert (xid.code, xid.bus, xid.age) == (code, bus, age)


@pytest.mark.parametrize(
    "line", ["NVRM: Xid (PCI:): 79", "NVRM: Xid (PCI:0000:06:00): lots", "NVRM: Xid", "Xid 79", "\x00", "[" * 999]
)
def test_what_is_no_message_is_none(line: str) -> None:
    assert kernel_log.parse(line, 1.0) == ()


def test_a_flood_stays_small() -> None:
    flood = "\n".join(f"NVRM: Xid (PCI:0000:{n % 256:02x}:00): {n % 999}, {'x' * 900}" for n in range(5000))
    told = kernel_log.parse(flood, 1.0)
    assert len(told) == kernel_log.MOST
    assert max(len(xid.text) for xid in told) <= 300


def test_the_journal_is_asked_where_the_buffer_may_not_be_read(path: Path) -> None:
    gpu_fakes.program(path, "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1", "dmesg")
    gpu_fakes.program(path, f'echo "[ 5.0] host01 kernel: {LOST}"', "journalctl")
    assert [xid.code for xid in kernel_log.xids() or ()] == [79]
    gpu_fakes.program(path, "exit 1", "journalctl")
    assert kernel_log.xids() is None


def test_an_empty_log_is_a_log(path: Path) -> None:
    gpu_fakes.neighbours(path)
    assert kernel_log.xids() == ()


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("LoadState=loaded\nActiveState=active\n", "active"),
        ("ActiveState=failed\nLoadState=loaded\n", "failed"),
        ("LoadState=not-found\nActiveState=inactive\n", None),
        ("System has not been booted with systemd", None),
        ("", None),
    ],
)
def test_the_fabric_manager_has_a_state_where_it_is_installed(text: str, state: str | None) -> None:
    assert gpu_services.parse(text) == state


def test_the_fabric_manager_tells_its_version(path: Path) -> None:
    gpu_fakes.neighbours(path, manager="failed", version="570.133.20")
    told = gpu_services.fabric_manager()
    assert told is not None
    assert (told.state, told.version) == ("failed", "570.133.20")
    gpu_fakes.neighbours(path)
    assert gpu_services.fabric_manager() is None
