"""From the document that `nvidia-smi -q -x` prints to facts. Pure; names of elements as in nvsmi_device_v11 to v13.

A reading may be missing, "N/A", a failure ("GPU is lost") or a value, and drivers move readings about: whatever is not
told stays empty, and empty is no finding.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from remote.schema import Gpu, GpuFacts, GpuProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

LARGEST = 16 * 2**20  # eight B200 give 350 kB: what is much larger is not of nvidia-smi
MIB = 1024 * 1024
_NOTHING = {
    "", "N/A", "[N/A]", "None", "Not Supported", "Insufficient Permissions",
    "Requested functionality has been deprecated",
}  # fmt: skip
_FAILURES = ("GPU is lost", "GPU is inaccessible", "Unknown Error", "GPU requires reset")
_SLOWED = {
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "too hot",
    "hw_power_brake_slowdown": "power brake",
}
_PENDING = {
    "retired_pages/pending_retirement": "page retirement",
    "retired_pages/pending_blacklist": "page retirement",
    "remapped_rows/remapped_row_pending": "row remapping",
    "ecc_errors/channel_repair_pending": "channel repair",
    "ecc_errors/tpc_repair_pending": "TPC repair",
}
_FAILED = {
    "remapped_rows/remapped_row_failure": "row remapping failed",
    "ecc_errors/aggregate/sram_threshold_exceeded": "the SRAM error threshold is exceeded",
}


def parse(text: str) -> GpuFacts | None:
    """Read the document; None where the text is none (a message, or half a document)."""
    document = text[: LARGEST + 1]
    # An entity can blow up while it is parsed; nvidia-smi declares none.
    if len(document) > LARGEST or "<!ENTITY" in document:
        return None
    try:
        root = ET.fromstring(document.strip())  # noqa: S314 - bounded, and without entities
    except ET.ParseError:
        return None
    if root.tag != "nvidia_smi_log":
        return None
    driver = _said(root, "driver_version")
    gpus = tuple(_gpu(index, element, driver) for index, element in enumerate(root.iter("gpu")))
    return GpuFacts(
        gpus=gpus,
        error=None if gpus else "failed: nvidia-smi names no GPU",
        cuda=_said(root, "cuda_version") or None,
    )


def _gpu(index: int, element: Element, driver: str) -> Gpu:
    recovery = _said(element, "gpu_recovery_action") or _asked_for_reset(element)
    return Gpu(
        index=index,
        name=_said(element, "product_name"),
        memory_total=_mib(_said(element, "fb_memory_usage/total")),
        memory_used=_mib(_said(element, "fb_memory_usage/used")),
        driver=driver,
        uuid=_said(element, "uuid"),
        bus=_said(element, "pci/pci_bus_id") or element.get("id", ""),
        lost=_failure(element),
        recovery=recovery if recovery not in _FAILURES else "",
        compute_mode=_said(element, "compute_mode"),
        slowed=tuple(_slowed(element)),
        mig=_said(element, "mig_mode/current_mig") == "Enabled",
        mig_devices=len(element.findall("mig_devices/mig_device")),
        ecc_uncorrectable=_uncorrectable(element),
        repairs_pending=_yes(element, _PENDING),
        repairs_failed=_yes(element, _FAILED),
        fabric_state=_said(element, "fabric/state"),
        fabric_status=_said(element, "fabric/status"),
        fabric_health=_fabric_health(element),
        processes=tuple(_processes(element)),
    )


def _said(element: Element, path: str) -> str:
    """Give a reading, empty where it is not told."""
    text = (element.findtext(path) or "").strip()
    return "" if text in _NOTHING else text


def _failure(element: Element) -> str:
    """Tell the failure that stands in place of readings of a card that does not answer."""
    places = ("fb_memory_usage/total", "temperature/gpu_temp", "clocks/sm_clock", "pci/tx_util")
    said = [_said(element, place) for place in places]
    return next((failure for failure in _FAILURES for text in said if text == failure), "")


def _asked_for_reset(element: Element) -> str:
    """Read the older form of the recovery action."""
    if _said(element, "gpu_reset_status/reset_required") == "Yes":
        return "Reset"
    return "Drain and Reset" if _said(element, "gpu_reset_status/drain_and_reset_recommended") == "Yes" else ""


def _slowed(element: Element) -> Iterator[str]:
    for family in ("clocks_event_reason", "clocks_throttle_reason"):
        for name, words in _SLOWED.items():
            if _said(element, f"{family}s/{family}_{name}") == "Active":
                yield words


def _uncorrectable(element: Element) -> int:
    """Add up the uncorrectable errors since the driver was loaded; old drivers count double bits instead."""
    counts = [
        _number((child.text or "").strip()) for child in element.findall("ecc_errors/volatile/*") if _counts(child)
    ]
    return sum(counts) if counts else _number(_said(element, "ecc_errors/volatile/double_bit/total"))


def _counts(child: Element) -> bool:
    return "uncorrectable" in child.tag


def _yes(element: Element, places: dict[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words for path, words in places.items() if _said(element, path) == "Yes"))


def _fabric_health(element: Element) -> str:
    """Tell what is wrong with the links, empty for nothing: the summary, and what stands behind it."""
    summary, bandwidth = _said(element, "fabric/health/summary"), _said(element, "fabric/health/bandwidth")
    wrong = [f"health {summary}"] if summary not in {"", "Healthy"} and summary not in _FAILURES else []
    if bandwidth == "Degraded":
        wrong.append("bandwidth degraded")
    wrong += [
        name.replace("_", " ")
        for name in ("route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery")
        if _said(element, f"fabric/health/{name}") == "True"
    ]
    return ", ".join(wrong)


def _processes(element: Element) -> Iterator[GpuProcess]:
    for found in element.findall("processes/process_info"):
        pid = _number(_said(found, "pid"))
        if pid:
            yield GpuProcess(
                pid=pid,
                name=_said(found, "process_name")[:200],
                kind=_said(found, "type") or "C",
                memory=_mib(_said(found, "used_memory")),
            )


def _mib(text: str) -> int:
    return _number(text.partition(" ")[0]) * MIB


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,18}", text, re.ASCII) else 0
