"""Each way in which a GPU machine is unfit: from the bytes that it prints, by the payload, to what the gate says.

Nothing here is a capture of a real machine: the documents are made after the format, and the programs are fakes.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from local.levels import host
from remote import schema
from remote.host import gpu_xml, kernel_log
from tests.payload import gpu_fakes
from tests.payload.gpu_fakes import MIG_DEVICE, Machine

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Stage

    from remote.schema import Check, HostFacts, Job

GIB = 2**30
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FAULT = "NVRM: Xid (PCI:0000:2b:00): 31, pid=79749, name=python3, Ch 0000000a. MMU Fault"
OTHER = gpu_fakes.process(4242, "/home/bob/env/bin/python3", 161243)
SLICES = "".join(MIG_DEVICE.format(number) for number in range(7))
FABRIC = {number: {"fabric/state": "In Progress", "fabric/status": "N/A"} for number in range(8)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A machine and what the gate says of it: rules with their severities, and words of the first message."""

    name: str
    machine: Machine
    rules: dict[str, str]
    words: tuple[str, ...] = ()
    log: str = ""
    manager: str | None = "active"
    version: str = "580.105.08"
    torch: schema.TorchFacts = dataclasses.field(
        default_factory=lambda: schema.TorchFacts(
            version="2.10.0+cu128", cuda="12.8", archs=("sm_80", "sm_90", "sm_100", "sm_120")
        )
    )
    home: schema.CudaHome = dataclasses.field(
        default_factory=lambda: schema.CudaHome(path="/usr/local/cuda-12.8", exists=True, nvcc="12.8")
    )


CU130 = schema.TorchFacts(version="2.10.0+cu130", cuda="13.0", archs=("sm_80", "sm_90", "sm_100"))
CASES = [
    Case("8×B200", Machine(), {}),
    Case("8×H200", Machine(card="h200", driver="570.133.20", cuda="12.8", capability="9.0", dtd=12), {}),
    Case(
        "a MIG card",
        Machine(wrong={3: {"mig_mode/current_mig": "Enabled", "mig_devices": SLICES}}),
        {"gpu-mig": "error"},
        ("GPU 3 (NVIDIA B200, 00000000:4B:00.0)", "7 slices", "nvidia-smi -i 3 -mig 0"),
    ),
    Case(
        "ECC errors",
        Machine(
            wrong={5: {"ecc_errors/volatile/dram_uncorrectable": "5", "remapped_rows/remapped_row_pending": "Yes"}}
        ),
        {"gpu-ecc": "error", "gpu-memory-pending": "warning"},
        ("GPU 5", "5 uncorrectable memory errors", "nvidia-smi --gpu-reset -i 5"),
    ),
    Case(
        "memory beyond repair",
        Machine(wrong={0: {"remapped_rows/remapped_row_failure": "Yes"}}),
        {"gpu-memory-failed": "error"},
        ("row remapping failed", "CUDA_VISIBLE_DEVICES"),
    ),
    Case(
        "a dead fabric manager",
        Machine(wrong=FABRIC),
        {"fabric-not-ready": "error"},
        ("GPUs 0, 1, 2, 3, 4, 5, 6, 7", "In Progress", "error 802", "state is failed", "systemctl restart"),
        manager="failed",
    ),
    Case(
        "a fabric manager of another driver",
        Machine(wrong=FABRIC),
        {"fabric-not-ready": "error"},
        ("the fabric manager is 570.133.20, the driver 580.105.08",),
        manager="failed",
        version="570.133.20",
    ),
    Case(
        "a fabric manager that died later",
        Machine(),
        {"fabric-manager": "error"},
        ("has failed since", "systemctl restart"),
        manager="failed",
    ),
    Case(
        "busy with someone else's process",
        Machine(wrong={2: {"processes": OTHER, "fb_memory_usage/used": "161247 MiB"}}),
        {"gpu-busy": "error"},
        ("GPU 2", "21.6 GiB free", "process 4242 `/home/bob/env/bin/python3`", "157.5 GiB", "end what holds it"),
    ),
    Case(
        "memory that no process holds",
        Machine(wrong={2: {"fb_memory_usage/used": "161247 MiB"}}),
        {"gpu-busy": "error"},
        ("no process is shown", "another container", "fuser -v /dev/nvidia*"),
    ),
    Case(
        "a driver older than torch",
        Machine(driver="570.133.20", cuda="12.8"),
        {"driver-old-torch": "error"},
        ("driver 570.133.20 runs CUDA up to 12.8", "torch 2.10.0+cu130", "580.65.06"),
        torch=CU130,
        home=schema.CudaHome(),
        version="570.133.20",
    ),
    Case(
        "a driver older than the toolkit",
        Machine(driver="570.133.20", cuda="12.8"),
        {"driver-old-toolkit": "error", "cuda-home-torch": "warning"},
        ("driver 570.133.20", "/usr/local/cuda-13.0", "580.65.06"),
        home=schema.CudaHome(path="/usr/local/cuda-13.0", exists=True, nvcc="13.0"),
        version="570.133.20",
    ),
    Case(
        "a card that fell off the bus",
        Machine(wrong={2: {"gpu_recovery_action": "Reboot", "fb_memory_usage/total": "GPU is lost"}}),
        {"gpu-lost": "error", "gpu-recovery": "error", "gpu-xid": "error", "gpu-xid-noted": "note"},
        ("GPU 2", "does not answer", "reboot"),
        log=f"[ 100.0] {LOST}\n[ 90.0] {FAULT}\n",
    ),
]


def job(**changes: Any) -> schema.Job:
    plain = schema.Job(
        name="kimi",
        engine="speculators",
        python="/env/bin/python",
        workdir="/root/work",
        output="/data/out",
        device="cuda",
        tensor_parallel=8,
    )
    return dataclasses.replace(plain, **changes)


def decided(facts: HostFacts, wanted: Job, rules: dict[str, str]) -> Check:
    check = host.decide(facts, wanted)
    assert {finding.rule: finding.severity for finding in check.findings} == rules
    assert len(check.findings) == len(rules)
    return check


def named(case: Case) -> str:
    return case.name.replace(" ", "-")


@pytest.mark.parametrize("case", CASES, ids=named)
def test_from_bytes_to_findings(case: Case) -> None:
    cards = gpu_xml.parse(case.machine.xml())
    assert cards is not None
    told = dataclasses.replace(
        cards,
        gpus=tuple(dataclasses.replace(card, capability=case.machine.capability) for card in cards.gpus),
        xids=kernel_log.parse(case.log, 200.0),
        fabric_manager=schema.FabricManager(state=case.manager, version=case.version) if case.manager else None,
    )
    facts = schema.HostFacts(
        hostname="gpu01",
        system="Linux",
        now=0.0,
        boot_id="b",
        python=schema.PythonFacts(executable="/env/bin/python", version="3.12.3", prefix="/env"),
        cpus=8,
        memory_total=GIB,
        shm_free=64 * GIB,
        shm_total=64 * GIB,
        cuda_home=case.home,
        torch=case.torch,
        gpu=told,
        distributions={"vllm": "0.16.0", "speculators": "0.3.0"},
        records="r",
    )
    check = decided(facts, job(), case.rules)
    failed = "error" in case.rules.values()
    assert check.status == ("fail" if failed else "pass")
    for word in case.words:
        assert word in check.findings[0].message


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_verb_on_a_machine_with_such_cards(stage: Stage, tmp_path: Path, case: Case) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    gpu_fakes.smi(programs, case.machine)
    gpu_fakes.neighbours(programs, log=case.log, manager=case.manager, version=case.version)
    wanted = stage.job(device="cuda", tensor_parallel=8)
    facts = asked(stage, programs, wanted)
    assert [card.capability for card in facts.gpu.gpus] == [case.machine.capability] * 8
    told = dataclasses.replace(
        facts, torch=case.torch, cuda_home=case.home, shm_free=64 * GIB, shm_total=64 * GIB, limits={}
    )
    told = dataclasses.replace(told, kill_user_processes=None)
    decided(told, dataclasses.replace(wanted, engine="command"), case.rules)


def asked(stage: Stage, programs: Path, wanted: Job) -> HostFacts:
    request = schema.FactsRequest(job=wanted)
    path = f"{programs}:{os.environ['PATH']}"
    return stage.call(stage.push(None), "facts", request, schema.HostFacts, PATH=path)


def test_a_hung_nvidia_smi_is_left_behind_and_told(stage: Stage, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    gpu_fakes.program(programs, "exec sleep 600")
    started = time.monotonic()
    facts = asked(stage, programs, stage.job(device="cuda", tensor_parallel=8))
    assert time.monotonic() - started < 60
    (finding,) = [one for one in host.decide(facts, job(engine="command")).findings if one.rule == "gpu-unknown"]
    assert "hung: no answer from nvidia-smi in 20 s" in finding.message
    assert "state D" in finding.message
    assert "reboot" in finding.message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mismatch", ("Driver/library version mismatch", "reboot the host")),
        ("no-devices", ("No devices were found", "--gpus all")),
        ("no-driver", ("couldn't communicate", "modprobe nvidia")),
    ],
)
def test_an_nvidia_smi_that_fails_is_told_with_the_remedy(
    stage: Stage, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    gpu_fakes.program(tmp_path, f"cat {gpu_fakes.DATA}/nvidia-smi-{name}.txt; exit 9")
    facts = asked(stage, tmp_path, stage.job(device="cuda"))
    (finding,) = [one for one in host.decide(facts, job(engine="command")).findings if one.rule == "gpu-unknown"]
    assert [word for word in words if word not in finding.message] == []


def test_a_cpu_job_asks_no_gpu(stage: Stage, tmp_path: Path) -> None:
    gpu_fakes.program(tmp_path, f"touch {tmp_path}/asked; exec sleep 600")
    facts = asked(stage, tmp_path, stage.job(device="cpu"))
    assert facts.gpu == schema.GpuFacts()
    assert not (tmp_path / "asked").exists()
