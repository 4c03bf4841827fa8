"""Driver, torch and toolkit held against each other and against the cards. Pure; the releases are a data file."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.levels.host.words import cards, release
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.schema import CudaHome, Gpu, HostFacts, Job, TorchFacts

_INSTEAD = {"torch": "install a build for", "toolkit": "name as CUDA_HOME a toolkit of"}
_DATA = Path(__file__).with_name("cuda-releases.json")


@functools.cache
def table() -> dict[str, Any]:
    """Give the table of CUDA's releases."""
    data: dict[str, Any] = json.loads(_DATA.read_text("utf-8"))
    return data


def findings(facts: HostFacts, job: Job, seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Judge CUDA on the host; for a CPU job only that a CUDA_HOME that it names is there."""
    yield from _home(facts.cuda_home, job)
    if job.device == "cuda":
        runs, driver = runnable(facts), next((gpu.driver for gpu in seen if gpu.driver), "")
        if facts.torch:
            yield from _torch(facts.torch, runs, driver)
            yield from _archs(facts.torch, seen)
        yield from _toolkit(facts.cuda_home, runs, driver)
        yield from _nvcc(facts.cuda_home, facts.torch, seen)


def runnable(facts: HostFacts) -> tuple[int, ...]:
    """Give the newest CUDA that the driver runs: as nvidia-smi says, else by the driver's release; empty: unknown."""
    if facts.gpu.cuda:
        return release(facts.gpu.cuda)[:2]
    driver = release(next((gpu.driver for gpu in facts.gpu.gpus if gpu.driver), ""))
    fits = [release(cuda) for cuda, oldest in table()["drivers"].items() if release(oldest) <= driver]
    return max(fits, default=()) if driver else ()


def built_for(archs: Iterable[str], capability: str) -> bool:
    """Tell whether code for these architectures runs on a card: a binary within its major, PTX on all later ones."""
    major, minor = (*release(capability), 0, 0)[:2]
    return any(_runs(arch, major, minor) for arch in archs)


def _runs(arch: str, major: int, minor: int) -> bool:
    kind, _, number = arch.partition("_")
    exact = number.endswith("a")
    digits = number.rstrip("af")
    if not digits.isdigit():
        return False
    own = divmod(int(digits), 10)
    if exact:
        return own == (major, minor)
    if kind == "compute":
        return own <= (major, minor)
    return own[0] == major and own[1] <= minor


def _torch(torch: TorchFacts, runs: tuple[int, ...], driver: str) -> Iterator[Finding]:
    wanted = release(torch.cuda)[:2]
    if torch.cuda is None:
        yield Finding(
            rule="torch-build",
            message=f"torch {torch.version} is a build without CUDA, the job asks for CUDA: install the CUDA build, or "
            'set `device = "cpu"`',
        )
    elif runs and wanted > runs:
        yield _too_old("torch", f"torch {torch.version} (CUDA {torch.cuda})", wanted, runs, driver)


def _too_old(what: str, named: str, wanted: tuple[int, ...], runs: tuple[int, ...], driver: str) -> Finding:
    """Word a driver that is older than what is to run on it: of an older major it refuses, else it runs with limits."""
    refuses = wanted[0] > runs[0]
    key = ".".join(map(str, wanted))
    data = table()
    needs = data["families"].get(str(wanted[0])) if refuses else data["drivers"].get(key)
    return Finding(
        rule=f"driver-old-{what}",
        severity="error" if refuses else "warning",
        message=f"driver {driver or '?'} runs CUDA up to {runs[0]}.{runs[-1]}, {named} needs "
        + (f"{wanted[0]}.x: it will not start" if refuses else f"{key} for all it does: PTX of it does not load")
        + f"; update the driver to {needs or 'a newer one'} or later, or {_INSTEAD[what]} CUDA {runs[0]}",
    )


def _archs(torch: TorchFacts, seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    foreign = [gpu for gpu in seen if gpu.capability and torch.archs and not built_for(torch.archs, gpu.capability)]
    if foreign:
        yield Finding(
            rule="torch-arch",
            message=f"torch {torch.version} has no code for {cards(foreign)} (compute capability "
            f"{foreign[0].capability}), it was built for {' '.join(torch.archs)}: install a torch that is "
            f"(`no kernel image is available` otherwise){_hint(foreign[0])}",
        )


def _hint(gpu: Gpu) -> str:
    first = table()["compilers"].get(gpu.capability, {}).get("first")
    return f"; the first CUDA for this card is {first}" if first else ""


def _home(home: CudaHome, job: Job) -> Iterator[Finding]:
    if home.path and not home.exists:
        yield Finding(
            rule="cuda-home-missing",
            severity="error" if job.device == "cuda" else "warning",
            message=f"CUDA_HOME is {home.path}, which does not exist: kernels that are compiled at start will fail; "
            "correct it under `env` in the inventory",
        )
    elif home.path and home.nvcc is None and job.device == "cuda":
        yield Finding(
            rule="cuda-home-nvcc",
            severity="warning",
            message=f"{home.path} (CUDA_HOME) has no nvcc that runs: kernels that are compiled at start will fail",
        )


def _toolkit(home: CudaHome, runs: tuple[int, ...], driver: str) -> Iterator[Finding]:
    wanted = release(home.nvcc)[:2]
    if home.path and wanted and runs and wanted > runs:
        yield _too_old("toolkit", f"what {home.path} (CUDA_HOME, CUDA {home.nvcc}) compiles", wanted, runs, driver)


def _nvcc(home: CudaHome, torch: TorchFacts | None, seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    own, first = release(home.nvcc)[:2], release(home.first_release)[:2]
    if home.path and own and first and own != first:
        yield Finding(
            rule="cuda-home-path",
            severity="warning",
            message=f"CUDA_HOME is {home.path} (CUDA {home.nvcc}), but {home.first_nvcc} (CUDA {home.first_release}) "
            "comes first on the job's PATH: some kernels are compiled by one, some by the other; make them the same",
        )
    compiler = own or first
    wanted = release(torch.cuda)[:2] if torch else ()
    if compiler and wanted and compiler[0] != wanted[0]:
        yield Finding(
            rule="cuda-home-torch",
            severity="warning",
            message=f"nvcc is of CUDA {compiler[0]}.{compiler[-1]}, torch of CUDA {torch.cuda if torch else ''}: torch "
            "refuses to compile extensions with another major; name a toolkit of torch's as CUDA_HOME under `env`",
        )
    yield from _compiles(compiler, seen)


def _compiles(compiler: tuple[int, ...], seen: tuple[Gpu, ...]) -> Iterator[Finding]:
    for gpu in seen[:1]:
        known = table()["compilers"].get(gpu.capability)
        if not known or not compiler:
            return
        late = compiler[0] > known.get("last_major", compiler[0])
        if compiler < release(known["first"]) or late:
            bound = f"up to CUDA {known['last_major']}" if late else f"from CUDA {known['first']} on"
            yield Finding(
                rule="cuda-home-arch",
                severity="warning",
                message=f"nvcc of CUDA {compiler[0]}.{compiler[-1]} does not compile for {gpu.name} (compute "
                f"capability {gpu.capability}; that is {bound}): kernels that are compiled at start will fail; name "
                "another toolkit as CUDA_HOME under `env`",
            )
