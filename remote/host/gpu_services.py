"""The services beside the driver that a GPU machine needs: the fabric manager, where there are NVSwitches."""

from __future__ import annotations

import re

from remote.host import commands
from remote.schema import FabricManager

LIMIT = 3.0
UNIT = "nvidia-fabricmanager.service"
_VERSION = re.compile(r"version is\s*:\s*([\d.]+)")


def fabric_manager() -> FabricManager | None:
    """Ask systemd; None where there is no systemd, or no such service (it may run in another container)."""
    said = commands.run(["systemctl", "show", UNIT, "--property=LoadState,ActiveState"], limit=LIMIT)
    state = parse(said.out) if said.code == 0 else None
    return FabricManager(state=state, version=_version()) if state else None


def parse(text: str) -> str | None:
    """Give the service's state, or None where it is not installed."""
    values = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    return values.get("ActiveState") or None if values.get("LoadState") == "loaded" else None


def _version() -> str:
    said = commands.run(["nv-fabricmanager", "--version"], limit=LIMIT)
    found = _VERSION.search(said.out + said.err)
    return found[1] if found else ""
