"""Verb `facts`: what the host is. Imports nothing of what is installed; well under a second on a real environment."""

from __future__ import annotations

import hashlib
import os
import platform
import pwd
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from remote.engines.defaults import gate_of
from remote.environment import session
from remote.gate import fingerprint
from remote.host import commands, cuda, disk, folders, gpu, network, packages
from remote.model import model_config
from remote.schema import GpuFacts, HostFacts, PythonFacts, SourceFile

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from remote.host.packages import Installed
    from remote.schema import CudaHome, Disk, FactsRequest, Job

_SYSTEMD = "/run/systemd/system"  # there where systemd is what booted
_LOGIND_CONF = ("/etc/systemd/logind.conf", "/run/systemd/logind.conf", "/usr/lib/systemd/logind.conf")
_KILL = re.compile(r"^\s*KillUserProcesses\s*=\s*(\w+)", re.MULTILINE)
_SPARED = re.compile(r"^\s*KillExcludeUsers\s*=([^#\n]*)", re.MULTILINE)


def answer(request: FactsRequest) -> HostFacts:
    """Give the facts of this host, for a job where one is named."""
    job = request.job
    found = _installed(job, request.sources)
    versions, records = packages.distributions(found.path)
    cuda_home = _cuda_home(job)
    graphics = _graphics(job)
    basis = fingerprint.basis(job, found, (versions, records), graphics, cuda_home)
    return HostFacts(
        hostname=platform.node(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        now=time.time(),
        boot_id=disk.boot_id(),
        python=_python(),
        cpus=disk.cpus(),
        memory_total=disk.memory_total(),
        shm_free=disk.shm_free(),
        shm_total=disk.shm_total(),
        limits=disk.limits(),
        cuda_home=cuda_home,
        torch=cuda.torch(found.locate("torch/version.py"), look=job is None or job.device != "cpu"),
        gpu=graphics,
        distributions=versions,
        records=packages.digest(versions, records),
        disks=_disks(job),
        model_exists=_exists(job.model) if job else None,
        dataset_exists=_exists(job.dataset) if job else None,
        sources=tuple(_source(found, path, request.held) for path in request.sources),
        kill_user_processes=kill_user_processes(user=_user()),
        fingerprint=fingerprint.of(basis, job, request.bundle),
        basis=basis,
        architectures=_architectures(job),
        elsewhere=packages.elsewhere(found, sorted(found.packages)),
        network=network.troubles(job.env) if job else {},
    )


def kill_user_processes(
    *, systemd: str = _SYSTEMD, files: tuple[str, ...] = _LOGIND_CONF, user: str | None = None
) -> bool | None:
    """Tell whether logind ends this user's processes at logout; None where there is no systemd, or nobody says.

    Lingering does not spare what a session started: only `KillExcludeUsers` does, which has root in it by default.
    """
    if not Path(systemd).is_dir():
        return None
    said = commands.run(["loginctl", "show-session", "--property=KillUserProcesses"], limit=3)
    written = [_text(file) for name in files for file in _drop_ins_first(name)]
    texts = [said.out, *written] if said.code == 0 else written
    values = [found[-1] for text in texts if (found := _KILL.findall(text))]
    spared = next((found[-1].split() for text in written if (found := _SPARED.findall(text))), ["root"])
    return values[0].lower() in {"yes", "true", "1", "on"} and user not in spared if values else None


def _drop_ins_first(name: str) -> tuple[Path, ...]:
    return (*sorted(Path(f"{name}.d").glob("*.conf"), reverse=True), Path(name))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _installed(job: Job | None, sources: Iterable[str]) -> Installed:
    """Find packages as the job's Python would; without a job, as this one does."""
    gate = gate_of(job) if job else None
    modules = (*gate.modules, *(symbol.split(":")[0] for symbol in gate.symbols)) if gate else ()
    names = {packages.top_level(name) for name in (*sources, *modules)} | {"torch"}
    try:
        return packages.installed(job.python if job else sys.executable, job.env if job else {}, names)
    except packages.PackagesUnknown:
        return packages.here()


def _graphics(job: Job | None) -> GpuFacts:
    """Ask for the GPUs, unless the job wants none: a hung driver is no business of its."""
    if job is None:
        return gpu.gpus()
    return GpuFacts() if job.device == "cpu" else gpu.gpus(libraries=job.env.get("LD_LIBRARY_PATH"))


def _cuda_home(job: Job | None) -> CudaHome:
    """Look at the CUDA of the job's own environment, which takes nothing of the kind from the session."""
    if job is None:
        return cuda.cuda_home(os.environ.get("CUDA_HOME"))
    return cuda.cuda_home(job.env.get("CUDA_HOME"), cuda.search_path(job.python, job.env, os.environ.get("PATH")))


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def _python() -> PythonFacts:
    return PythonFacts(executable=sys.executable, version=platform.python_version(), prefix=sys.prefix)


def _disks(job: Job | None) -> dict[str, Disk]:
    tried: dict[int, str] = {}
    places = {"output": job.output, "workdir": job.workdir} if job else {}
    found = {name: disk.disk(path, tried) for name, path in places.items()}
    return found | folders.found(session(job.env)) if job else found


def _architectures(job: Job | None) -> tuple[str, ...]:
    """Give the architectures of the job's model, those of a wrapped text model too; none where it cannot be read."""
    if job is None or not job.model:
        return ()
    try:
        config = model_config.read(Path(job.model).expanduser())
    except (model_config.ConfigError, ValueError):
        return ()
    return tuple(dict.fromkeys((*config.architectures, *config.text_architectures)))


def _exists(path: str) -> bool | None:
    """Tell whether a path of the job is there; None for a name that is no path (a model of the hub)."""
    return disk.exists(path) if path.startswith(("/", "~/", "./", "../")) else None


def _source(found: Installed, path: str, held: Container[str]) -> SourceFile:
    location = found.locate(path)
    if location is None:
        return SourceFile(path=path)
    try:
        data = location.read_bytes()
        text, digest = data.decode(), hashlib.sha256(data).hexdigest()
    except (OSError, UnicodeDecodeError):
        return SourceFile(path=path, location=str(location))
    return SourceFile(path=path, location=str(location), text=None if digest in held else text, sha256=digest)
