"""What the level `host` makes of the facts of GPU machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from local.levels import host
from local.levels.host import cuda, gpus, xids
from local.levels.host.words import release
from remote.schema import CudaHome, FabricManager, Gpu, GpuFacts, GpuProcess, HostFacts, TorchFacts, Xid
from tests.unit.test_levels import CUDA, EIGHT, GIB, facts, gpu, job

ONE = job(device="cuda", tensor_parallel=1)
DAY = 86400.0
LOST = Xid(code=79, bus="0000:1b:00", count=1, text="NVRM: Xid (PCI:0000:1b:00): 79", age=60.0)
MANAGER = FabricManager(state="failed", version="580.65")


def card(**changes: Any) -> Gpu:
    return replace(gpu(0), bus="00000000:1B:00.0", capability="10.0", **changes)


def machine(*cards: Gpu, **changes: Any) -> HostFacts:
    told = {name: changes.pop(name) for name in ("error", "cuda", "xids", "fabric_manager") if name in changes}
    return facts(**CUDA | {"gpu": GpuFacts(gpus=cards, **told)} | changes)


def torch(cuda_release: str | None, *archs: str) -> TorchFacts:
    return TorchFacts(version="2.10.0", cuda=cuda_release, archs=archs)


def home(nvcc: str | None, **changes: Any) -> CudaHome:
    return CudaHome(path="/cuda", exists=True, nvcc=nvcc, **changes)


def rules(found: HostFacts, wanted: Any = ONE) -> dict[str, str]:
    return {finding.rule: finding.severity for finding in host.decide(found, wanted).findings}


def message(found: HostFacts, wanted: Any = ONE) -> str:
    (finding,) = host.decide(found, wanted).findings
    return finding.message


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"mig": True}, {"gpu-mig": "error"}),
        ({"mig": True, "mig_devices": 2}, {"gpu-mig": "warning"}),
        ({"compute_mode": "Prohibited"}, {"gpu-compute-mode": "error"}),
        ({"compute_mode": "Exclusive_Process"}, {}),
        ({"lost": "GPU is lost"}, {"gpu-lost": "error"}),
        ({"recovery": "Reset"}, {"gpu-recovery": "error"}),
        ({"ecc_uncorrectable": 1}, {"gpu-ecc": "error"}),
        ({"repairs_failed": ("row remapping failed",)}, {"gpu-memory-failed": "error"}),
        ({"repairs_pending": ("row remapping",)}, {"gpu-memory-pending": "warning"}),
        ({"slowed": ("too hot",)}, {"gpu-slowed": "warning"}),
        ({"fabric_state": "Completed", "fabric_status": "Success"}, {}),
        ({"fabric_state": "Not Started"}, {"fabric-not-ready": "error"}),
        ({"fabric_state": "Unknown Error"}, {}),
        ({"fabric_state": "Completed", "fabric_status": "Insufficient Resources"}, {"fabric-not-ready": "error"}),
        ({"fabric_state": "Completed", "fabric_health": "bandwidth degraded"}, {"fabric-unhealthy": "warning"}),
        ({"memory_used": 3 * GIB}, {"gpu-shared": "warning"}),
        ({"memory_used": GIB}, {}),
        ({"memory_used": GIB, "processes": (GpuProcess(pid=7, name="python3"),)}, {"gpu-shared": "warning"}),
        ({"memory_used": GIB, "processes": (GpuProcess(pid=7, name="Xorg", kind="G"),)}, {}),
    ],
)
def test_one_card(changes: dict[str, Any], expected: dict[str, str]) -> None:
    assert rules(machine(card(**changes))) == expected


def test_a_card_that_the_job_does_not_take_is_not_judged() -> None:
    broken = replace(card(ecc_uncorrectable=9, lost="GPU is lost"), index=1, bus="00000000:2B:00.0", uuid="GPU-broken")
    assert rules(machine(card(), broken)) == {}
    by_name = replace(ONE, env={"CUDA_VISIBLE_DEVICES": "GPU-br"})
    assert set(rules(machine(card(), broken), by_name)) == {"gpu-ecc", "gpu-lost"}


def test_a_slice_named_by_the_job_is_a_card() -> None:
    named = replace(ONE, env={"CUDA_VISIBLE_DEVICES": "MIG-5f1c2a7e"})
    assert rules(machine(card(mig=True, mig_devices=2)), named) == {"gpu-mig": "warning"}
    assert rules(machine(card()), named) == {"gpu-count": "error"}


def test_two_ranks_cannot_share_an_exclusive_card() -> None:
    two = replace(ONE, tensor_parallel=2)
    told = rules(machine(card(compute_mode="Exclusive_Process"), replace(card(), index=1)), two)
    assert told == {"gpu-compute-mode": "warning"}


def test_many_processes_are_not_all_named() -> None:
    many = tuple(GpuProcess(pid=pid, name=f"p{pid}", user="bob", memory=GIB) for pid in range(10, 19))
    told = message(machine(card(memory_used=170 * GIB, processes=many)))
    assert "process 10 `p10` (bob, 1.0 GiB)" in told
    assert "and 5 more" in told
    assert "p18" not in told


def test_cards_that_are_free_are_offered() -> None:
    busy = card(memory_used=170 * GIB)
    spare = [replace(card(), index=number) for number in (1, 2)]
    ill = replace(card(lost="GPU is lost"), index=3)
    assert "take one that is free (GPUs 1, 2) by CUDA_VISIBLE_DEVICES" in message(machine(busy, *spare, ill))
    assert "CUDA_VISIBLE_DEVICES" not in message(machine(busy, replace(busy, index=1)))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("hung: no answer from nvidia-smi in 20 s", "reboot"),
        ("not installed: there is no nvidia-smi to run", "--gpus all"),
        ("failed: Failed to initialize NVML: Driver/library version mismatch (exit 18)", "reboot the host"),
        ("failed: No devices were found (exit 6)", "lspci"),
        ("failed: Unable to determine the device handle for GPU1: GPU is lost (exit 15)", "reboot the host"),
        ("failed: something new (exit 3)", "see that the driver is loaded"),
    ],
)
def test_no_answer_has_a_remedy(error: str, words: str) -> None:
    assert rules(machine(error=error)) == {"gpu-unknown": "error"}
    assert words in message(machine(error=error))
    assert error in message(machine(error=error))


def test_every_remedy_is_for_a_message_of_its_own() -> None:
    assert all(not any(mark in other for other in gpus.REMEDIES if other != mark) for mark in gpus.REMEDIES)


# ---- the kernel's log and the fabric manager -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("xid", "expected"),
    [
        (LOST, {"gpu-xid": "error"}),
        (replace(LOST, age=None), {"gpu-xid": "error"}),
        (replace(LOST, age=2 * DAY), {"gpu-xid": "warning"}),
        (replace(LOST, code=31), {"gpu-xid-noted": "note"}),
        (replace(LOST, code=154), {"gpu-xid-noted": "note"}),
        (replace(LOST, bus="0000:2b:00"), {}),
        (replace(LOST, bus=""), {}),
        (replace(LOST, bus="zz:1b:00"), {}),
    ],
)
def test_messages_of_the_driver(xid: Xid, expected: dict[str, str]) -> None:
    assert rules(machine(card(), xids=(xid,))) == expected


@pytest.mark.parametrize("code", sorted(xids.FATAL))
def test_every_fatal_message_fails_the_gate_and_says_what_it_is(code: int) -> None:
    told = message(machine(card(), xids=(replace(LOST, code=code, count=3),)))
    assert f"Xid {code} ×3: {xids.FATAL[code]}, the last 60 seconds ago" in told


def test_an_old_message_of_a_card_that_is_still_unwell_is_no_past() -> None:
    told = rules(machine(card(recovery="Reset"), xids=(replace(LOST, age=9 * DAY),)))
    assert told == {"gpu-recovery": "error", "gpu-xid": "error"}


@pytest.mark.parametrize(("manager", "words"), [(MANAGER, "state is failed"), (None, "no fabric manager is seen here")])
def test_a_fabric_that_is_not_ready_tells_of_its_manager(manager: FabricManager | None, words: str) -> None:
    assert words in message(machine(card(fabric_state="In Progress"), fabric_manager=manager))


def test_a_manager_matters_only_where_there_is_a_fabric() -> None:
    assert rules(machine(card(), fabric_manager=MANAGER)) == {}
    assert rules(machine(card(fabric_state="Completed"), fabric_manager=MANAGER)) == {"fabric-manager": "error"}
    idle = FabricManager(state="inactive")
    assert rules(machine(card(fabric_state="Completed"), fabric_manager=idle)) == {}


# ---- CUDA ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "built", "expected"),
    [
        ("12.8", "12.8", {}),
        ("13.0", "12.8", {}),
        ("12.8", "12.9", {"driver-old-torch": "warning"}),
        ("12.8", "13.0", {"driver-old-torch": "error"}),
        ("11.4", "12.1", {"driver-old-torch": "error"}),
        ("13.10", "13.2", {}),
        (None, "12.8", {}),
        ("12.8", None, {"torch-build": "error"}),
    ],
)
def test_driver_and_torch(runs: str | None, built: str | None, expected: dict[str, str]) -> None:
    found = machine(replace(card(), driver="580.65.06"), cuda=runs, torch=torch(built), cuda_home=CudaHome())
    assert rules(found) == expected


@pytest.mark.parametrize(
    ("driver", "runs"),
    [
        ("580.65.06", (13, 0)),
        ("575.57.08", (12, 9)),
        ("570.133.20", (12, 8)),
        ("570.25", (12, 6)),
        ("535.161.08", (12, 2)),
        ("999.1", (13, 2)),
        ("390.1", ()),
        ("", ()),
        ("garbage", ()),
    ],
)
def test_the_driver_tells_its_cuda_where_nvidia_smi_does_not(driver: str, runs: tuple[int, ...]) -> None:
    assert cuda.runnable(machine(replace(card(), driver=driver))) == runs


@pytest.mark.parametrize(
    ("archs", "capability", "runs"),
    [
        ("sm_80 sm_90 sm_100", "10.0", True),
        ("sm_80 sm_90 sm_100", "10.3", True),
        ("sm_80 sm_90", "10.0", False),
        ("sm_80 sm_90 compute_90", "10.0", True),
        ("sm_80 sm_86", "8.9", True),
        ("sm_86", "8.0", False),
        ("sm_90a", "9.0", True),
        ("sm_100a", "10.3", False),
        ("sm_100f", "10.3", True),
        ("compute_120", "10.0", False),
        ("sm_x nonsense", "9.0", False),
    ],
)
def test_architectures(archs: str, capability: str, runs: bool) -> None:  # noqa: FBT001 - parametrised
    assert cuda.built_for(archs.split(), capability) is runs


def test_a_torch_without_code_for_the_card_is_told() -> None:
    found = machine(card(), torch=torch("12.4", "sm_80", "sm_90"), cuda_home=CudaHome())
    assert rules(found) == {"torch-arch": "error"}
    assert "compute capability 10.0), it was built for sm_80 sm_90" in message(found)
    assert "the first CUDA for this card is 12.8" in message(found)
    assert rules(machine(replace(card(), capability=""), torch=torch("12.4", "sm_80"), cuda_home=CudaHome())) == {}
    assert rules(machine(card(), torch=torch("12.8"), cuda_home=CudaHome())) == {}


@pytest.mark.parametrize(
    ("toolkit", "expected"),
    [
        (home("12.8"), {}),
        (home("12.9"), {"driver-old-toolkit": "warning"}),
        (home("13.0"), {"driver-old-toolkit": "error", "cuda-home-torch": "warning"}),
        (home("12.4"), {"cuda-home-arch": "warning"}),
        (home("11.8"), {"cuda-home-torch": "warning", "cuda-home-arch": "warning"}),
        (home(None), {"cuda-home-nvcc": "warning"}),
        (home("12.8", first_nvcc="/env/bin/nvcc", first_release="12.6"), {"cuda-home-path": "warning"}),
        (home("12.8", first_nvcc="/cuda/bin/nvcc", first_release="12.8"), {}),
        (CudaHome(first_nvcc="/usr/bin/nvcc", first_release="12.0"), {"cuda-home-arch": "warning"}),
        (CudaHome(path="/gone"), {"cuda-home-missing": "error"}),
        (CudaHome(), {}),
    ],
)
def test_the_toolkit(toolkit: CudaHome, expected: dict[str, str]) -> None:
    found = machine(card(), cuda="12.8", torch=torch("12.8", "sm_100"), cuda_home=toolkit)
    assert rules(found) == expected


def test_a_cpu_job_has_none_of_it() -> None:
    found = machine(card(lost="GPU is lost"), cuda="11.0", torch=torch(None), cuda_home=home("13.0"), error="hung")
    assert rules(replace(found, distributions=facts().distributions), job()) == {}


def test_what_to_do_about_an_old_driver_fits_what_needs_it() -> None:
    found = machine(card(), cuda="12.8", torch=torch("13.0"), cuda_home=CudaHome())
    assert "update the driver to 580.65.06 or later, or install a build for CUDA 12" in message(found)
    found = machine(card(), cuda="12.8", torch=None, cuda_home=home("13.0"))
    assert "or name as CUDA_HOME a toolkit of CUDA 12" in message(found)
    found = machine(card(), cuda="12.8", torch=None, cuda_home=home("12.9"))
    assert "needs 12.9 for all it does" in message(found)
    assert "575.51.03" in message(found)


def test_the_table_is_in_order_and_names_its_source() -> None:
    table = cuda.table()
    assert "Release Notes" in table["source"]
    drivers = [(release(key), release(oldest)) for key, oldest in table["drivers"].items()]
    assert drivers == sorted(drivers)
    assert [driver for _, driver in drivers] == sorted(driver for _, driver in drivers)
    for compiler in table["compilers"].values():
        assert release(compiler["first"])


# ---- the machine -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "free", "expected"),
    [
        (64 * 2**20, 64 * 2**20, {"shm-small": "error"}),
        (0, 0, {"shm-small": "error"}),
        (16 * GIB, 32 * 2**20, {"shm-small": "error"}),
        (16 * GIB, 7 * GIB, {"shm-small": "warning"}),
        (16 * GIB, 8 * GIB, {}),
    ],
)
def test_shared_memory(total: int, free: int, expected: dict[str, str]) -> None:
    found = facts(**CUDA, shm_total=total, shm_free=free)
    assert rules(found, EIGHT) == expected
    alone = {"shm-small": "warning"} if free < 256 * 2**20 else {}
    assert rules(found, replace(EIGHT, tensor_parallel=1)) == alone
    assert rules(found, replace(EIGHT, tensor_parallel=1, engine="command")) == {}
    if expected:
        assert "--shm-size" in message(found, EIGHT)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, {}),
        ({"nofile": 1024, "nofile_hard": 1048576, "nproc": -1, "memlock": 8 * 2**20}, {}),
        ({"nofile": 256, "nofile_hard": 4096}, {"limit-files": "warning"}),
        ({"nofile": 64, "nofile_hard": 4096}, {"limit-files": "error"}),
        ({"nofile": 65, "nofile_hard": 4096}, {"limit-files": "warning"}),
        ({"nproc": 1000, "nproc_hard": -1}, {"limit-processes": "warning"}),
        ({"memlock": 65536}, {"limit-locked": "note"}),
        ({"fsize": -1, "as": -1, "cpu": -1}, {}),
        ({"fsize": 8 * 2**30}, {}),
        ({"fsize": 2**20}, {"limit-file-size": "warning"}),
        ({"as": 64 * 2**30}, {"limit-memory": "warning"}),
        ({"cpu": 3600}, {"limit-cpu": "warning"}),
    ],
)
def test_limits(limits: dict[str, int], expected: dict[str, str]) -> None:
    assert rules(facts(**CUDA, limits=limits), EIGHT) == expected


def test_the_facts_of_the_level_name_the_three_cudas() -> None:
    found = machine(card(), cuda="12.8", torch=torch("12.8"), xids=())
    told = host.decide(found, ONE).facts
    assert told["cuda"] == {"driver": "12.8", "torch": "12.8", "toolkit": "12.8"}
    assert told["kernel_log"] is True
    assert host.decide(machine(card()), ONE).facts["kernel_log"] is False
