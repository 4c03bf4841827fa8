"""Documents as `nvidia-smi -q -x` prints them, made of one fake card each, and fake programs that print them."""

from __future__ import annotations

import shlex
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA = Path(__file__).parent / "data"
HEAD = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{dtd}.dtd">\n'
MIG_DEVICE = (
    "<mig_device><index>{0}</index><gpu_instance_id>{0}</gpu_instance_id><compute_instance_id>0</compute_instance_id>"
    "<ecc_error_count><volatile_count><sram_uncorrectable>0</sram_uncorrectable></volatile_count></ecc_error_count>"
    "<fb_memory_usage><total>20096 MiB</total><used>12 MiB</used><free>20083 MiB</free></fb_memory_usage></mig_device>"
)


def process(pid: int, name: str, mib: int | None, kind: str = "C") -> str:
    """Give one `<process_info>`; of another container's neither name nor memory is told."""
    return (
        "<process_info><gpu_instance_id>N/A</gpu_instance_id><compute_instance_id>N/A</compute_instance_id>"
        f"<pid>{pid}</pid><type>{kind}</type><process_name>{name}</process_name>"
        f"<used_memory>{'N/A' if mib is None else f'{mib} MiB'}</used_memory></process_info>"
    )


@dataclass(frozen=True)
class Machine:
    """A host's cards: `wrong` is card number → path of an element → its text, or its content (<…)."""

    card: str = "b200"
    count: int = 8
    driver: str = "580.105.08"
    cuda: str = "13.0"
    capability: str = "10.0"
    dtd: int = 13
    wrong: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def xml(self) -> str:
        """Give the whole document."""
        root = ET.Element("nvidia_smi_log")
        for tag, text in (
            ("timestamp", "Mon Nov 30 09:00:00 2026"),
            ("driver_version", self.driver),
            ("cuda_version", self.cuda),
            ("attached_gpus", str(self.count)),
        ):
            ET.SubElement(root, tag).text = text
        for index in range(self.count):
            root.append(self._card(index))
        return HEAD.format(dtd=self.dtd) + ET.tostring(root, encoding="unicode") + "\n"

    def capabilities(self) -> str:
        """Give the rows of the second question."""
        return "".join(f"{index}, {self.capability}\n" for index in range(self.count))

    def _card(self, index: int) -> ET.Element:
        card = ET.fromstring((DATA / f"fake-nvidia-smi-{self.card}.xml").read_text())  # noqa: S314 - ours
        bus = f"00000000:{0x1B + 0x10 * index:02X}:00.0"
        card.set("id", bus)
        changes = {"pci/pci_bus_id": bus, "minor_number": str(index), **self.wrong.get(index, {})}
        changes.setdefault("uuid", f"{card.findtext('uuid')[:-1]}{index}")  # type: ignore[index]
        for path, text in changes.items():
            element = card.find(path)
            assert element is not None, path
            element[:] = list(ET.fromstring(f"<x>{text}</x>")) if text.startswith("<") else []  # noqa: S314 - ours
            element.text = "" if text.startswith("<") else text
        return card


def program(folder: Path, body: str, name: str = "nvidia-smi") -> str:
    """Put a shell program into a folder."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def smi(folder: Path, machine: Machine) -> str:
    """Put a fake nvidia-smi into a folder that answers the two questions of ours and no other."""
    document, rows = folder / "document.xml", folder / "rows.csv"
    document.write_text(machine.xml())
    rows.write_text(machine.capabilities())
    return program(
        folder,
        f'case "$*" in\n"-q -x") exec cat {shlex.quote(str(document))};;\n'
        f"--query-gpu=index,compute_cap*) exec cat {shlex.quote(str(rows))};;\nesac\necho unexpected: $* >&2; exit 2",
    )


def neighbours(folder: Path, *, log: str = "", manager: str | None = None, version: str = "") -> None:
    """Put fakes of the other programs that are asked beside nvidia-smi: the kernel's log and the fabric manager."""
    (folder / "log.txt").write_text(log)
    program(folder, f"exec cat {shlex.quote(str(folder / 'log.txt'))}", "dmesg")
    state = f"LoadState=loaded\nActiveState={manager}" if manager else "LoadState=not-found\nActiveState=inactive"
    program(folder, f"printf '%s\\n' {shlex.quote(state)}", "systemctl")
    program(folder, f"echo 'Fabric Manager version is : {version}'", "nv-fabricmanager")
