"""The static level on the real releases: their sources alone, from the package index, then from the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local import checktask, matrix, patches
from local.levels import static
from local.static import fixes as static_fixes
from local.static import releases
from remote.schema import Job

if TYPE_CHECKING:
    from local.static.tree import Surface
    from remote.schema import Check, Finding

pytestmark = pytest.mark.index

SERIES = patches.load_series()
GENERATOR = "speculators/data_generation/vllm_hidden_states_generator.py"
WORKER = "speculators/data_generation/custom_worker.py"
JOB = Job(name="j", engine="speculators", python="/p", workdir="/w", output="/o")


def sources(speculators: str, vllm: str) -> Surface:
    parts = [releases.fetch("speculators", speculators), releases.fetch("vllm", vllm), *releases.helpers()]
    return releases.surface(parts)


def static_check(surface: Surface, *, without: tuple[str, ...] = (), everything: bool = False) -> Check:
    checks = checktask.check(JOB, surface, without=without, everything=everything).checks
    assert [check.id for check in checks] == ["patch", "static"]
    return checks[1]


def errors(check: Check) -> list[Finding]:
    return [finding for finding in check.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("vllm", "number", "rule", "file", "text"),
    [
        ("0.16.0", "0001", "missing-argument", GENERATOR, "scheduler_config=SchedulerConfig("),
        ("0.16.0", "0003", "unknown-argument", GENERATOR, "kv_cache_specs=kv_cache_spec,"),
        ("0.16.0", "0004", "missing-argument", GENERATOR, "self.scheduler = Scheduler("),
        ("0.16.0", "0005", "model-attribute", WORKER, "else self.get_input_embeddings(input_ids)"),
        ("0.17.0", "0009", "unknown-argument", GENERATOR, "eos_token_id=self.tokenizer.eos_token_id,"),
    ],
)
def test_with_one_patch_left_out_its_fault_is_found_at_its_line(
    vllm: str, number: str, rule: str, file: str, text: str
) -> None:
    check = static_check(sources("0.3.0", vllm), without=(number,))
    assert check.status == "fail"
    (finding,) = errors(check)
    assert (finding.rule, finding.file) == (rule, file)
    assert finding.text is not None
    assert finding.text.strip() == text
    assert finding.signature is not None


@pytest.mark.parametrize(
    ("number", "rule", "text"),
    [
        ("0006", "changed-default", "cache_config = CacheConfig("),
        ("0007", "changed-return", "[0]"),
        ("0008", "changed-return", "self.executor.execute_model(scheduler_output)"),
    ],
)
def test_what_only_the_rehearsal_can_prove_is_warned_of_at_its_line(number: str, rule: str, text: str) -> None:
    check = static_check(sources("0.3.0", "0.16.0"), without=(number,))
    assert check.status == "warn"
    assert any(finding.rule == rule and text in (finding.text or "") for finding in check.findings)


@pytest.mark.parametrize("vllm", ["0.16.0", "0.17.0"])
def test_the_whole_series_leaves_no_finding(vllm: str) -> None:
    check = static_check(sources("0.3.0", vllm))
    assert (check.status, check.findings) == ("pass", ())


def test_the_release_that_it_was_written_for_has_no_finding() -> None:
    assert static.decide(JOB, sources("0.3.0", "0.11.0"), {}).check.findings == ()


@pytest.mark.parametrize("vllm", ["0.12.0", "0.13.0", "0.14.0", "0.15.0", "0.16.0"])
def test_a_pair_that_works_by_itself_has_no_finding(vllm: str) -> None:
    check = static.decide(JOB, sources("0.4.0", vllm), {}).check
    assert (check.status, check.findings) == ("pass", ())


def test_the_same_library_is_refused_on_the_next_release() -> None:
    check = static.decide(JOB, sources("0.4.0", "0.17.0"), {}).check
    assert [(finding.rule, finding.callee) for finding in errors(check)] == [
        ("unknown-argument", "vllm.v1.request:Request")
    ]


def test_every_dismissal_is_shown_with_its_reason() -> None:
    check = static_check(sources("0.3.0", "0.16.0"), everything=True)
    assert check.status == "pass"
    assert {finding.severity for finding in check.findings} == {"note"}
    assert sum(check.facts["dismissed"].values()) == len(check.findings) > 3
    assert any("provides it" in finding.message for finding in check.findings)


def test_the_suggested_patch_mends_what_it_says() -> None:
    surface = sources("0.3.0", "0.16.0")
    bare = static.decide(JOB, surface, {})
    text = bare.examination.suggest(subject="Try", why="Because the sources say so.", applies_to="speculators==0.3.0")
    assert text.count("--- a/") == 2
    problems = [problem for problem in bare.examination.standing if problem.edit is not None]
    mended = {}
    for file in (GENERATOR, WORKER):
        edits = [problem.edit for problem in problems if problem.file == file and problem.edit is not None]
        mended[file] = static_fixes.apply(surface.reads(file) or "", edits)
    left = errors(static.decide(JOB, surface, mended).check)
    assert [finding.message for finding in left] == ["No argument provided for required parameter `is_encoder_decoder`"]


def test_the_matrix_tells_which_vllm_fits() -> None:
    rows = list(matrix.matrix(JOB, "vllm", ("0.11.0", "0.15.0", "0.16.0"), under=matrix.base({"speculators": "0.3.0"})))
    assert [(row.version, row.bare.verdict, row.patched.verdict) for row in rows] == [
        ("0.11.0", "fits", "fits"),
        ("0.15.0", "no", "no"),
        ("0.16.0", "no", "fits"),
    ]


def test_the_matrix_tells_which_speculators_fits() -> None:
    rows = list(matrix.matrix(JOB, "speculators", ("0.3.0", "0.4.0", "0.5.0"), under=matrix.base({"vllm": "0.16.0"})))
    assert [(row.version, row.fits) for row in rows] == [("0.3.0", True), ("0.4.0", True), ("0.5.0", False)]
    assert {finding.rule for finding in rows[2].bare.errors} == {"missing-module"}


def test_a_release_that_does_not_exist_is_a_row_with_its_trouble() -> None:
    (row,) = matrix.matrix(JOB, "speculators", ("0.3.99",), under=matrix.base({"vllm": "0.16.0"}))
    assert row.trouble is not None
    assert not row.fits
