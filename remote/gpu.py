"""The GPUs of the host, as `nvidia-smi` tells them: not installed, hung and failed are told apart."""

from __future__ import annotations

import re
from pathlib import Path

from remote import commands
from remote.schema import CudaHome, Gpu, GpuFacts

FIELDS = ("index", "name", "uuid", "memory.total", "memory.used", "driver_version")
LIMIT = 10.0
MIB = 1024 * 1024
_RELEASE = re.compile(r"release ([\d.]+)")


def gpus(*, program: str = "nvidia-smi", limit: float = LIMIT) -> GpuFacts:
    """Ask nvidia-smi for the GPUs."""
    said = commands.run(
        [program, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"],
        limit=limit,
    )
    if said.code is None:
        return GpuFacts(error=said.trouble)
    return parse(said.out, said.code, said.err)


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


def cuda_home(path: str | None) -> CudaHome:
    """Tell what stands at CUDA_HOME, and which release its nvcc is."""
    if not path:
        return CudaHome()
    said = commands.run([f"{path}/bin/nvcc", "--version"], limit=LIMIT)
    release = _RELEASE.search(said.out) if said.code == 0 else None
    return CudaHome(path=path, exists=Path(path).is_dir(), nvcc=release[1] if release else None)


def _gpu(line: str) -> Gpu | None:
    """Read one row, or None: a name may hold anything, the fields around it may not."""
    index, _, rest = line.partition(", ")
    parts = rest.rsplit(", ", 4)
    if not index.isdigit() or len(parts) != len(FIELDS) - 1:
        return None
    name, uuid, total, used, driver = parts
    return Gpu(index=int(index), name=name, uuid=uuid, memory_total=_mib(total), memory_used=_mib(used), driver=driver)


def _mib(text: str) -> int:
    """Give bytes; `[N/A]` (memory shared with the processor) is 0."""
    return int(text) * MIB if text.isdigit() else 0
