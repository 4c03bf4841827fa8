"""Where the job's processes are to meet: addresses and interfaces that its environment names. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.schema import HostFacts, Job

OWN = "command"  # the engine that runs a program of the user's: what that program asks of the network nobody knows
REMEDY = "leave it out of `env` in the inventory"


def findings(facts: HostFacts, job: Job) -> Iterator[Finding]:
    """Judge what was tried on the host for the variables that the job's engine goes by."""
    for name, told in facts.network.items():
        if name == "loopback":
            yield from _loopback(told, job)
        elif name.endswith("_IP"):
            yield from _address(name, told, job)
        else:
            yield from _interface(name, told, job)


def _loopback(told: str, job: Job) -> Iterator[Finding]:
    if job.engine != OWN:
        yield Finding(
            rule="loopback-missing",
            message=f"vLLM's processes meet on the loopback interface, and none reaches another one there ({told}): "
            "bring it up (`ip link set lo up`), or name another address of this host as VLLM_LOOPBACK_IP under `env`",
        )


def _address(name: str, told: str, job: Job) -> Iterator[Finding]:
    """Judge an address; VLLM_HOST_IP is for vLLM alone or on many hosts: our engine's workers do not ask for it."""
    if name == "VLLM_HOST_IP" and job.engine != OWN:
        return
    yield Finding(
        rule="address-unreachable",
        severity=_severity(job),
        message=f"{name} is {job.env.get(name)}, where vLLM's processes are to meet, and on this host none reaches "
        f"another one there ({told}): the load would wait for half an hour, without a word; {REMEDY}, or name an "
        "address of this host's own",
    )


def _interface(name: str, told: str, job: Job) -> Iterator[Finding]:
    """Judge an interface; NCCL has nothing to do for one card."""
    if name.startswith("NCCL") and (job.device != "cuda" or job.tensor_parallel < 2):  # noqa: PLR2004 - as above
        return
    yield Finding(
        rule="interface-missing",
        severity=_severity(job),
        message=f"{name} is {job.env.get(name)}, and {told}: {name.partition('_')[0]} ends the load there; {REMEDY}, "
        "or name one that has an address (`ip -brief address`)",
    )


def _severity(job: Job) -> str:
    return "warning" if job.engine == OWN else "error"
