from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local import saved
from remote.schema import Check, Finding

MISSING = Finding(
    rule="missing-argument", message="Scheduler requires 'block_size', which is not given", file="a.py", line=3,
    callee="vllm.Scheduler", signature="(config, block_size: int)",
)  # fmt: skip


def check(level: str, *findings: Finding) -> Check:
    return Check(id=level, status="fail", findings=findings)


def test_the_same_fault_in_many_places_is_one() -> None:
    assert saved.faults([check("static", *(replace(MISSING, line=n, file=f"{n}.py") for n in range(9)))]) == 1


def test_different_callees_and_different_words_are_different_faults() -> None:
    other = replace(MISSING, callee="vllm.Request")
    words = replace(MISSING, message="Scheduler requires 'x', which is not given")
    plain = replace(MISSING, callee=None, rule="undefined-name", message="no name 'y'")
    assert saved.faults([check("static", MISSING, other, words, plain)]) == 4


def test_a_fault_that_two_gates_found_is_one() -> None:
    assert saved.faults([check("static", MISSING), check("static", MISSING)]) == 1


@pytest.mark.parametrize(
    ("level", "rule"),
    [
        ("reach", "python-too-old"), ("host", "gpu-count"), ("patch", "patch-broken"), ("import", "module-not-found"),
        ("static", "unresolved-import"), ("static", "value-type"), ("signature", "missing-module"),
        ("contract", "max-model-len"), ("inputs", "dataset-line"), ("inputs", "tokenizer-missing"),
        ("rehearsal", "rehearsal-timeout"), ("rehearsal", "rehearsal-no-reference"), ("a new level", "x"),
    ],
)  # fmt: skip
def test_what_would_have_cost_no_load_does_not_count(level: str, rule: str) -> None:
    assert saved.faults([check(level, replace(MISSING, rule=rule))]) == 0


@pytest.mark.parametrize(
    ("level", "rule"),
    [
        ("static", "missing-argument"), ("static", "unresolved-attribute"), ("signature", "unexpected-argument"),
        ("contract", "model-attribute"), ("contract", "constant-differs"), ("inputs", "output-space"),
        ("inputs", "model-shard-damaged"), ("rehearsal", "rehearsal-fault"), ("rehearsal", "rehearsal-wrong-states"),
    ],
)  # fmt: skip
def test_what_would_have_died_after_the_load_counts(level: str, rule: str) -> None:
    assert saved.faults([check(level, replace(MISSING, rule=rule))]) == 1


@pytest.mark.parametrize(
    ("callee", "count"),
    [
        ("vllm.config.scheduler:SchedulerConfig", 0), ("vllm.config.VllmConfig", 0), ("vllm.config", 0),
        ("transformers.AutoConfig.from_pretrained", 0), ("vllm.configuration.X", 1), ("vllm.v1.request:Request", 1),
    ],
)  # fmt: skip
def test_what_describes_the_engine_fails_before_the_load(callee: str, count: int) -> None:
    assert saved.faults([check("static", replace(MISSING, callee=callee))]) == count


@pytest.mark.parametrize("severity", ["warning", "note", ""])
def test_what_is_no_error_does_not_count(severity: str) -> None:
    assert saved.faults([check("static", replace(MISSING, severity=severity))]) == 0


def test_the_words() -> None:
    made = saved.reckon(3, load=1080.0, gpus=8, usd_per_hour=36.0)
    assert str(made) == "3 faults found before the load: about 54 min × 8 GPUs ($32.40)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"faults": 1, "load": None, "gpus": 8, "usd_per_hour": 36.0}, "1 fault found before the load"),
        ({"faults": 1, "load": 50.0}, "1 fault found before the load: about 50 s"),
        ({"faults": 1, "load": 60.0, "gpus": 1}, "1 fault found before the load: about 60 s × 1 GPU"),
        ({"faults": 9, "load": 1080.0}, "9 faults found before the load: about 2.7 h"),
        (
            {"faults": 2, "load": 1080.0, "assumed": True, "usd_per_hour": 1.0},
            "2 faults found before the load: about 36 min ($0.60), if a load takes as long as it does elsewhere",
        ),
    ],
)
def test_the_words_without_what_is_not_known(given: dict[str, object], said: str) -> None:
    faults = given.pop("faults")
    assert str(saved.reckon(faults, **{"load": None, **given})) == said  # type: ignore[arg-type]


def test_no_fault_saves_nothing() -> None:
    assert saved.reckon(0, load=1080.0, gpus=8, usd_per_hour=36.0) is None


@given(st.lists(st.builds(Finding, rule=st.text(), message=st.text(), severity=st.just("error")), max_size=8))
def test_there_are_never_more_faults_than_findings(findings: list[Finding]) -> None:
    assert saved.faults([check("signature", *findings)]) <= len(findings)
