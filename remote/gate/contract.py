"""Level `contract`: what signatures cannot say. Runs in the process that has imported the job's modules.

Constants have sane values, the pair of releases is known, the model's class has what the capture code asks of it, and
the job's numbers fit the model's. No weight is loaded.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.code import constants, pairs
from remote.gate import program
from remote.model import architecture, capture, geometry, model_config
from remote.model.architecture import Code, Unresolved
from remote.schema import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from remote.schema import GateSpec, Job

_REQUIREMENT = re.compile(r"vllm(?:-cpu)?\s*\(?([<>=!~][^;)]*)")


def check(
    job: Job,
    gate: GateSpec,
    *,
    distributions: Mapping[str, str],
    patched: bool,
    registered: Callable[[str], type | None] | None = None,
) -> Check:
    """Judge a job whose gated modules have been imported; `patched` says whether the overlay patches any of them."""
    began = time.monotonic()
    facts: dict[str, Any] = {}
    modules = [module for name in gate.modules if (module := _imported(name)) is not None]
    findings = [
        *_pair(gate, distributions, facts, patched=patched),
        *_constants(job, gate, modules, facts),
        *_model(job, modules, registered, facts),
        *(program.findings(job.command) if job.engine == "command" else ()),
    ]
    severities = {finding.severity for finding in findings}
    status = "fail" if "error" in severities else "warn" if severities else "pass"
    seconds = time.monotonic() - began
    return Check(id="contract", status=status, seconds=seconds, facts=facts, findings=tuple(findings))


def _pair(
    gate: GateSpec, distributions: Mapping[str, str], facts: dict[str, Any], *, patched: bool
) -> tuple[Finding, ...]:
    known = pairs.table()
    pair = pairs.installed(distributions, known)
    if pair is None:
        return ()
    row = pairs.row(pair, known, patched=patched, modules=gate.modules)
    facts["pair"] = {
        "speculators": pair.speculators,
        "vllm": pair.vllm,
        "patched": patched,
        "known": row["verdict"] if row else "unknown",
    }
    return pairs.judge(pair, known, patched=patched, modules=gate.modules, declared=_declared())


def _constants(job: Job, gate: GateSpec, modules: Sequence[ModuleType], facts: dict[str, Any]) -> list[Finding]:
    values, findings = constants.expected(gate.constants)
    found = list(findings)
    for module in modules:
        found += constants.sane(module, job)
        config = getattr(module, constants.CACHE_CONFIG, None)
        if config is not None:
            found += constants.cache_config(module, config)
        named = (constants.constant(module, name) for name in constants.SANE)
        values |= {f"{one.module}:{one.name}": one.value for one in named if one is not None}
    facts["constants"] = values
    return found


def _model(
    job: Job,
    modules: Sequence[ModuleType],
    registered: Callable[[str], type | None] | None,
    facts: dict[str, Any],
) -> list[Finding]:
    """Hold the model's configuration and class against job and capture code; a missing model is told by `inputs`."""
    if not job.model:
        return []
    file = str(Path(job.model) / "config.json")
    try:
        config = model_config.read(job.model)
    except model_config.ConfigError as error:
        return [Finding(rule="model-config", file=file, line=error.line, message=f"{error}.")]
    found = list(geometry.judge(job, config, file))
    code = [read for module in modules if (read := _code(module)) is not None]
    if not code or not config.architectures:
        return found
    try:
        target = architecture.resolve(config, registered or architecture.registry())
    except Unresolved as error:
        return [*found, Finding(rule="architecture", file=file, message=f"{error}.")]
    facts["model"] = architecture.facts(target, code)
    return [*found, *(finding for one in code for finding in architecture.hold(target, one))]


def _code(module: ModuleType) -> Code | None:
    """Give a module's capture code; None where it has none."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return None
    captures = capture.read(source)
    file = inspect.getsourcefile(module) or module.__name__
    return Code(module=module.__name__, file=file, captures=captures, names=vars(module)) if captures else None


def _imported(name: str) -> ModuleType | None:
    """Give a module that the import level has imported; None for one that failed there, and was told there."""
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 - the import level has told it with all that there is to tell
        return None


def _declared() -> str | None:
    """Give the range of vLLM that the installed speculators asks for."""
    try:
        requirements = importlib.metadata.requires("speculators") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (_REQUIREMENT.match(requirement) for requirement in requirements)
    return next((match[1].strip() for match in found if match), None)
