"""What the level `host` makes of where processes meet, and of the folders that libraries write to untold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.levels import host
from tests.unit.test_levels import CUDA, EIGHT, disk, facts, job

if TYPE_CHECKING:
    from remote.schema import Job

MIB = 2**20
GONE = "Network is unreachable"


def judged(wanted: Job, **changes: Any) -> dict[str, str]:
    base = CUDA if wanted.device == "cuda" else {}
    found = host.decide(facts(**base | changes), wanted).findings
    return {finding.rule: finding.severity for finding in found}


def own(**changes: Any) -> Job:
    return job(engine="command", **changes)


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        ("VLLM_LOOPBACK_IP", job(), {"address-unreachable": "error"}),
        ("VLLM_LOOPBACK_IP", EIGHT, {"address-unreachable": "error"}),
        ("VLLM_LOOPBACK_IP", own(), {"address-unreachable": "warning"}),
        ("VLLM_HOST_IP", job(), {}),
        ("VLLM_HOST_IP", own(), {"address-unreachable": "warning"}),
        ("GLOO_SOCKET_IFNAME", job(), {"interface-missing": "error"}),
        ("GLOO_SOCKET_IFNAME", EIGHT, {"interface-missing": "error"}),
        ("GLOO_SOCKET_IFNAME", own(), {"interface-missing": "warning"}),
        ("NCCL_SOCKET_IFNAME", job(), {}),
        ("NCCL_SOCKET_IFNAME", EIGHT, {"interface-missing": "error"}),
        ("loopback", job(), {"loopback-missing": "error"}),
        ("loopback", own(), {}),
    ],
)
def test_where_processes_are_to_meet_is_judged_by_who_goes_there(
    name: str, wanted: Job, expected: dict[str, str]
) -> None:
    assert judged(wanted, network={name: GONE}) == expected


def test_the_variable_its_value_and_the_reason_are_told() -> None:
    wanted = job(env={"VLLM_LOOPBACK_IP": "198.51.100.7"})
    (finding,) = host.decide(facts(network={"VLLM_LOOPBACK_IP": GONE}), wanted).findings
    for part in ("VLLM_LOOPBACK_IP is 198.51.100.7", GONE, "leave it out of `env`"):
        assert part in finding.message


USED = disk("/scratch", exists=True)
READ_ONLY = disk("/scratch", exists=True, writable=False)
USUAL = disk("/tmp", exists=True)


@pytest.mark.parametrize(
    ("disks", "expected"),
    [
        ({"temporary": USED}, {}),
        ({"temporary": READ_ONLY}, {"temporary-not-writable": "error"}),
        ({"temporary": disk("/scratch")}, {"temporary-not-writable": "error"}),
        ({"temporary": READ_ONLY, "instead": USUAL}, {"temporary-not-writable": "warning"}),
        ({"temporary": disk("/scratch", exists=True, free=MIB)}, {"temporary-full": "error"}),
        ({"temporary": disk("/scratch", exists=True, free=100 * MIB)}, {"temporary-full": "warning"}),
        ({"temporary": disk("/scratch", exists=True, inodes_free=3)}, {"temporary-full": "error"}),
        ({"temporary": disk("/scratch", exists=True, inodes_free=0)}, {}),  # some count none and say 0
        (
            {"temporary": READ_ONLY, "instead": disk("/tmp", exists=True, free=MIB)},
            {"temporary-not-writable": "warning", "temporary-full": "error"},
        ),
        ({"home": disk("/home/me", exists=True)}, {}),
        ({"home": disk("/home/me")}, {}),  # it can be made
        ({"home": disk("/home/me", exists=True, writable=False)}, {"home-not-writable": "warning"}),
        ({"home": disk("/home/me", exists=True, free=100 * MIB)}, {"home-full": "warning"}),
    ],
)
def test_folders_that_libraries_write_to_untold(disks: dict[str, Any], expected: dict[str, str]) -> None:
    assert judged(job(), disks=disks) == expected


def test_a_job_whose_caches_are_elsewhere_needs_no_home() -> None:
    elsewhere = job(env={"XDG_CACHE_HOME": "/scratch/cache", "HF_HOME": "/scratch/hf"})
    assert judged(elsewhere, disks={"home": disk("/home/me", exists=True, writable=False)}) == {}
