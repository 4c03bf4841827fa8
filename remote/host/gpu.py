"""The GPUs of the host, as `nvidia-smi` tells them: not installed, hung and failed are told apart.

One call for the whole document; where that is not to be had, the few fields that every driver gives as rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from remote.host import commands, gpu_services, gpu_xml, kernel_log
from remote.schema import Gpu, GpuFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS = ("index", "name", "uuid", "memory.total", "memory.used", "driver_version")
LIMIT = 20.0  # without persistence mode the driver wakes eight cards for every call
MIB = 1024 * 1024
_DIGITS = re.compile(r"[0-9]{1,18}")  # other scripts have digits too, and `int` refuses some of them


def gpus(*, program: str = "nvidia-smi", limit: float = LIMIT, libraries: str | None = None) -> GpuFacts:
    """Ask nvidia-smi for the GPUs and their health, and the machine for what nvidia-smi does not know.

    `libraries` is the job's LD_LIBRARY_PATH: a compatibility package found there runs newer CUDA than the driver.
    """
    env = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None
    with ThreadPoolExecutor(1) as beside:  # side by side the two wake the cards once
        known = beside.submit(capabilities, program, limit)
        said = commands.run([program, "-q", "-x"], limit=limit, env=env)
    if said.code is None:
        return GpuFacts(error=said.trouble + _stuck(program) if said.trouble.startswith("hung") else said.trouble)
    facts = gpu_xml.parse(said.out)
    if facts is None:
        return _rows(program, limit) if said.out.lstrip().startswith("<") else parse(said.out, said.code or 1, said.err)
    if said.code != 0:
        rest = " ".join(said.err.split()) or "nvidia-smi said no more"
        facts = dataclasses.replace(facts, error=facts.error or f"failed: {rest} (exit {said.code})")
    return _whole(facts, known.result()) if facts.gpus else facts


def parse(out: str, code: int = 0, err: str = "") -> GpuFacts:
    """Read the rows that nvidia-smi printed; lines that are no rows become the error."""
    found, rest = [], []
    for line in filter(None, (line.strip() for line in out.splitlines())):
        gpu = _gpu(line)
        if gpu is None:
            rest.append(line)
        else:
            found.append(gpu)
    rest += [line.strip() for line in err.splitlines() if line.strip()]
    if code == 0 and not rest:
        return GpuFacts(gpus=tuple(found), error=None if found else "failed: nvidia-smi names no GPU")
    return GpuFacts(gpus=tuple(found), error=f"failed: {' '.join(rest) or 'nvidia-smi said nothing'} (exit {code})")


def capabilities(program: str = "nvidia-smi", limit: float = LIMIT) -> dict[int, str]:
    """Give the compute capability of each GPU: the document lacks it, and older drivers do not know the field."""
    said = commands.run([program, "--query-gpu=index,compute_cap", "--format=csv,noheader,nounits"], limit=limit)
    rows = [line.partition(", ")[::2] for line in said.out.splitlines()] if said.code == 0 else []
    return {
        int(index): capability.strip()
        for index, capability in rows
        if _DIGITS.fullmatch(index) and capability.strip().replace(".", "", 1).isdigit()
    }


def _whole(facts: GpuFacts, known: Mapping[int, str]) -> GpuFacts:
    """Add what the document does not hold."""
    cards = tuple(
        dataclasses.replace(
            card,
            capability=known.get(card.index, ""),
            processes=tuple(dataclasses.replace(one, user=_owner(one.pid)) for one in card.processes),
        )
        for card in facts.gpus
    )
    return dataclasses.replace(
        facts,
        gpus=cards,
        xids=kernel_log.xids(),
        fabric_manager=gpu_services.fabric_manager() if any(card.fabric_state for card in cards) else None,
    )


def _rows(program: str, limit: float) -> GpuFacts:
    said = commands.run([program, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"], limit=limit)
    return GpuFacts(error=said.trouble) if said.code is None else parse(said.out, said.code, said.err)


def _stuck(program: str) -> str:
    """Count the processes of that name that wait inside the driver: no signal ends them."""
    name, count = Path(program).name, 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            before, _, after = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")
            count += before.partition("(")[2] == name[:15] and after.split()[0] == "D"
    return f"; {count} of its processes stuck in the driver (state D)" if count else ""


def _owner(pid: int) -> str:
    try:
        user = os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - a path of the kernel
    except OSError:  # gone, or of another container
        return ""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _gpu(line: str) -> Gpu | None:
    """Read one row, or None: a name may hold anything, the fields around it may not."""
    index, _, rest = line.partition(", ")
    parts = rest.rsplit(", ", 4)
    if not _DIGITS.fullmatch(index) or len(parts) != len(FIELDS) - 1:
        return None
    name, uuid, total, used, driver = parts
    return Gpu(index=int(index), name=name, uuid=uuid, memory_total=_mib(total), memory_used=_mib(used), driver=driver)


def _mib(text: str) -> int:
    """Give bytes; `[N/A]` (memory shared with the processor) is 0."""
    return int(text) * MIB if _DIGITS.fullmatch(text) else 0
