"""The level `inputs` on real folders, datasets and file systems; only the tokenizer is left to the stack's tests."""

import json
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from remote import facts
from remote.gate import inputs, lengths, tokenizer_check
from remote.gate.estimate import Output, Room
from remote.gate.inputs import Dataset
from remote.gate.lengths import Lengths
from remote.gate.tokenizer_check import ANSWER, QUESTION, TokenizerFacts
from remote.prompts.tokens import Tokens
from remote.schema import FactsRequest, Job
from tests import hostpython


def _job(tmp_path: Path, **changes: object) -> Job:
    values: dict[str, object] = {"dataset": str(tmp_path / "data.jsonl"), "model": "", "output": str(tmp_path / "out")}
    given = {"engine": "speculators", **values, **changes}
    return Job(name="j", python="python3", workdir=str(tmp_path), **given)


def _tokens(index: int, ids: list[int], mask: list[int] | None = None, problem: str | None = None) -> Tokens:
    mask = [1] * len(ids) if mask is None else mask
    return Tokens(index, f"data.jsonl:{index + 1}", array("i", ids), bytes(mask), problem)


def _rules(found) -> list[tuple[str, str]]:  # noqa: ANN001 - findings
    return [(finding.rule, finding.severity) for finding in found]


# ---- datasets --------------------------------------------------------------------------------------------------


def test_every_bad_line_is_told_at_once_with_its_number(tmp_path: Path) -> None:
    good = json.dumps({"conversations": [{"from": "human", "value": "a"}]})
    lines = [good, "{", good, "", "[]", '{"input_ids": [1], "loss_mask": [1, 1]}']
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    check = inputs.check(_job(tmp_path))
    assert check.status == "pass"  # the first sample can be read, and there is no model to tokenise for
    found = inputs.dataset_findings(str(tmp_path / "data.jsonl"), Dataset(error="some"))
    assert [finding.line for finding in found] == [2, 5, 6]
    assert {finding.rule for finding in found} == {"dataset-line"}
    assert found[0].file == str(tmp_path / "data.jsonl")


@pytest.mark.parametrize(
    ("content", "line"),
    [("", None), ("\n\n", None), ("{", 1), ("\xff", 1), ('{"text": "x"}', 1), ('{"conversations": []}', 1)],
)
def test_a_dataset_that_begins_badly_fails_the_level(tmp_path: Path, content: str, line: int | None) -> None:
    (tmp_path / "data.jsonl").write_bytes(content.encode("latin-1"))
    check = inputs.check(_job(tmp_path))
    assert check.status == "fail"
    assert [finding.line for finding in check.findings] == [line]


@pytest.mark.parametrize("make", [lambda _path: None, lambda path: path.mkdir()])
def test_no_dataset_is_a_finding(tmp_path: Path, make) -> None:  # noqa: ANN001 - a function of the path
    make(tmp_path / "data.jsonl.parquet")
    check = inputs.check(_job(tmp_path, dataset=str(tmp_path / "nowhere.jsonl")))
    assert _rules(check.findings) == [("dataset-unreadable", "error")]
    assert "nowhere.jsonl" in check.findings[0].message


def test_a_missing_model_is_told_beside_a_bad_dataset(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text("{")
    check = inputs.check(_job(tmp_path, model=str(tmp_path / "model")))
    assert [finding.rule for finding in check.findings] == ["model-missing", "dataset-line"]


def test_a_users_own_program_reads_its_dataset_itself(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text("no JSON at all")
    assert inputs.check(_job(tmp_path, engine="command")).status == "pass"
    (tmp_path / "data.jsonl").unlink()
    assert _rules(inputs.check(_job(tmp_path, engine="command")).findings) == [("dataset-unreadable", "error")]


def test_another_dataset_asks_for_another_verdict(tmp_path: Path) -> None:
    def named() -> str:
        return facts.answer(FactsRequest(job=replace(_job(tmp_path), python=hostpython.python()))).fingerprint

    (tmp_path / "data.jsonl").write_text("{}")
    before = named()
    assert named() == before
    (tmp_path / "data.jsonl").write_text("{}\n{}")
    assert named() != before


# ---- lengths ---------------------------------------------------------------------------------------------------


def _measured(samples: list[Tokens], longest: int = 4) -> Lengths:
    return lengths.measure(samples, longest, budget=60.0)


def test_lengths_are_told_as_they_will_be_extracted() -> None:
    told = _measured([_tokens(n, [1] * length) for n, length in enumerate([1, 2, 3, 4, 5])]).facts()
    assert told["tokens"] == 1 + 2 + 3 + 4 + 4
    assert (told["shortest"], told["median"], told["longest"]) == (1, 3, 4)
    assert (told["truncated"], told["seen"], told["complete"]) == (1, 5, True)


def test_a_sample_that_just_fits_is_not_truncated() -> None:
    assert lengths.judge(_measured([_tokens(0, [1] * 4)]), file="data.jsonl") == ()


def test_truncated_samples_are_a_warning_that_names_them() -> None:
    found = lengths.judge(_measured([_tokens(n, [1] * 5) for n in range(5)]), file="data.jsonl")
    assert _rules(found) == [("dataset-truncated", "warning")]
    assert "5 of 5" in found[0].message
    assert "data.jsonl:1, data.jsonl:2, data.jsonl:3 and 2 more" in found[0].message


def test_a_mask_that_is_empty_only_after_the_cut_is_seen() -> None:
    found = lengths.judge(_measured([_tokens(0, [1] * 5, [0, 0, 0, 0, 1]), _tokens(1, [1])]), file="f")
    assert ("dataset-empty-loss-mask", "warning") in _rules(found)


def test_no_mask_in_any_sample_is_an_error() -> None:
    found = lengths.judge(_measured([_tokens(n, [1], [0]) for n in range(3)]), file="f")
    assert _rules(found) == [("dataset-empty-loss-mask", "error")]


@pytest.mark.parametrize(
    ("problem", "others", "severity"),
    [("has token 9, but the model's vocabulary ends at 8", 3, "error"), ("gives no tokens", 3, "warning"),
     ("gives no tokens", 0, "error")],
)  # fmt: skip
def test_samples_that_cannot_be_extracted(problem: str, others: int, severity: str) -> None:
    samples = [_tokens(0, [], problem=problem), *(_tokens(n, [1]) for n in range(1, others + 1))]
    found = lengths.judge(_measured(samples), file="f")
    assert _rules(found) == [("dataset-unusable-samples", severity)]
    assert problem in found[0].message


def test_measuring_stops_when_its_time_is_over() -> None:
    ticks = iter(range(100))
    seen = lengths.measure((_tokens(n, [1]) for n in range(50)), 4, budget=9.5, clock=lambda: float(next(ticks)))
    assert not seen.complete
    assert len(seen.lengths) == 10


# ---- tokenizer -------------------------------------------------------------------------------------------------

GOOD = TokenizerFacts(name="Fast", size=10, offsets=True, rendered=f"<u>{QUESTION}<a>{ANSWER}")


@pytest.mark.parametrize(
    ("facts", "rules"),
    [
        (GOOD, []),
        (TokenizerFacts(load_error="OSError: no"), [("tokenizer-broken", "error")]),
        (TokenizerFacts(name="Slow", size=9, rendered=GOOD.rendered), [("tokenizer-without-offsets", "error")]),
        (replace(GOOD, rendered=None, render_error="TemplateError: x"), [("chat-template-broken", "error")]),
        (replace(GOOD, rendered=QUESTION), [("chat-template-drops-turns", "error")]),
        (replace(GOOD, size=99), [("tokenizer-larger-than-model", "warning")]),
    ],
)
def test_tokenizers(facts: TokenizerFacts, rules: list[tuple[str, str]]) -> None:
    assert _rules(tokenizer_check.judge(facts, file="m", vocabulary=10, conversations=True)) == rules


def test_ready_tokens_need_no_template() -> None:
    slow = TokenizerFacts(name="Slow", size=9)
    assert tokenizer_check.judge(slow, file="m", vocabulary=10, conversations=False) == ()


# ---- room ------------------------------------------------------------------------------------------------------


def test_room_is_that_of_the_outputs_own_file_system(tmp_path: Path) -> None:
    room = inputs.room_of(str(tmp_path / "not" / "there" / "yet"))
    assert room.free > 0
    assert (room.held, room.files) == (0, 0)


def test_what_an_earlier_run_wrote_counts(tmp_path: Path) -> None:
    (tmp_path / "data_0.pt").write_bytes(b"x" * 1000)
    (tmp_path / "manifest.jsonl").write_bytes(b"x" * 5000)
    room = inputs.room_of(str(tmp_path))
    assert (room.held, room.files) == (1000, 1)


def test_an_output_that_does_not_fit_names_numbers_and_remedy() -> None:
    planned = Output(samples=30_000, tokens=10**9, size=35 * 10**12, largest=10**9)
    (finding,) = inputs.space_findings(planned, Room(free=2 * 10**12, inodes_free=10**9), "/data/out")
    assert (finding.rule, finding.severity, finding.file) == ("output-space", "error", "/data/out")
    assert "35.0 TB" in finding.message
    assert "2.0 TB free" in finding.message


@pytest.mark.parametrize(
    ("free", "sharers", "rule", "severity"),
    [
        (2 * 10**12, 8, "output-space", "error"),  # a share of 4.4 TB does not fit either
        (6 * 10**12, 8, "output-space-shared", "warning"),
        (6 * 10**12, 1, "output-space", "error"),
        (36 * 10**12, 8, "output-space", "warning"),  # all of it fits, only just
    ],
)
def test_of_several_hosts_each_needs_room_for_its_share(free: int, sharers: int, rule: str, severity: str) -> None:
    planned = Output(samples=30_000, tokens=10**9, size=35 * 10**12, largest=10**9)
    (finding,) = inputs.space_findings(planned, Room(free=free, inodes_free=10**9), "/data/out", sharers)
    assert (finding.rule, finding.severity) == (rule, severity)
    assert ("dealt to 8 hosts" in finding.message) == (rule == "output-space-shared")
