"""The warm gate: what is remembered, what of it is believed, and what is asked again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from local import bundle, gate, memory
from local.levels import FIRST, LEVELS
from tests.unit.test_levels import GIB, disk, facts, job, mend

if TYPE_CHECKING:
    from pathlib import Path

    from remote.schema import (
        Check,
        RecallRequest,
    )
from tests.unit.gate.scripted import BROKEN, PROVEN, SERIES, FakeHost, Run, ids


def test_a_warm_gate_asks_and_proves_nothing(run: Run, watched: list[Check]) -> None:
    host = FakeHost()
    cold = run(host)
    host.said.clear()
    warm = run(host)
    assert host.said == ["reach and recall"]
    assert warm.cached
    assert warm.passed
    assert ids(watched) == list(LEVELS)
    assert warm.verdict.fingerprint == cold.verdict.fingerprint
    assert [check.facts.get("cached", False) for check in watched] == [level not in FIRST for level in LEVELS]
    assert watched[-1].facts["bound"] == 38
    assert warm.verdict.checks[2].facts["patches"] == {"0001": "applies", "0002": "applies"}


def test_a_laptop_without_memory_asks_step_by_step_and_then_knows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    run(host)
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path))
    host.said.clear()
    assert run(host).cached
    assert run(host).cached
    assert host.said == ["reach", "facts", "verdict", "reach and recall"]


PLANNED = {"samples": 1000, "tokens": 1, "size": 400 * GIB, "largest": GIB, "held": 0, "files": 0}


@pytest.mark.parametrize(
    ("left", "planned", "sharers", "cached"),
    [
        ({"free": 401 * GIB}, PLANNED, 1, True),
        ({"free": 400 * GIB}, PLANNED, 1, False),
        ({"free": 101 * GIB}, PLANNED, 4, True),
        ({"free": 100 * GIB}, PLANNED, 4, False),
        ({"free": 100 * GIB}, PLANNED | {"held": 301 * GIB, "files": 700}, 1, True),
        ({"inodes_free": 5000}, PLANNED | {"samples": 5000}, 1, True),
        ({"inodes_free": 4999}, PLANNED | {"samples": 5000}, 1, False),
        ({"inodes_free": 0}, PLANNED, 1, True),
        ({"free": 900 * GIB}, {"size": 1}, 1, False),
        ({"free": 900 * GIB}, PLANNED | {"size": "much"}, 1, False),
        ({"free": 6 * GIB}, None, 1, True),
    ],
)
def test_a_pass_is_not_believed_where_the_disk_has_filled_since(
    run: Run, left: dict[str, int], planned: dict[str, Any] | None, sharers: int, *, cached: bool
) -> None:
    told = {"output": planned} if planned else {}
    proven = tuple(replace(check, facts=told) if check.id == "inputs" else check for check in PROVEN)
    host = FakeHost(proven=proven)
    assert not run(host).cached
    host.facts = replace(
        host.facts, disks=host.facts.disks | {"output": disk("/data/out", **{"inodes_free": 10**6, **left})}
    )
    host.said.clear()
    again = run(host, sharers=sharers)
    assert (again.cached, "levels" in host.said) == (cached, not cached)


def spoil(text: str) -> str:
    return text.replace("1\\n", "9\\n")


@pytest.mark.parametrize(
    "spoilt", [spoil, lambda _: "", lambda text: text[:-9], lambda _: "[]", lambda _: '{"home": 1}']
)
def test_a_damaged_memory_is_none(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: Any) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path))
    host = FakeHost()
    run(host)
    (hint,) = (tmp_path / "gates").iterdir()
    before = hint.read_text()
    hint.write_text(spoilt(before))
    assert hint.read_text() != before
    host.said.clear()
    assert run(host).cached
    assert host.said == ["reach", "facts", "verdict"]


def test_the_memory_is_its_owners_and_holds_no_value_of_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path))
    run(FakeHost(), job(env={"PASSWORD": "open-sesame"}))
    (hint,) = (tmp_path / "gates").iterdir()
    assert hint.stat().st_mode & 0o077 == 0
    assert "open-sesame" not in hint.read_text()


def test_another_job_of_the_name_is_asked_about_step_by_step(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.said.clear()
    assert not run(host, job(layers=(1,))).cached
    assert host.said[:3] == ["reach", "facts", "verdict"]
    assert host.asked == [None, None]


def test_another_payload_is_asked_about_step_by_step(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    run(host)
    monkeypatch.setattr(bundle, "_payload", lambda: {"payload/remote/__main__.py": b"new"})
    host.said.clear()
    assert not run(host).cached
    assert host.said[:3] == ["reach", "facts", "verdict"]


def test_another_bundle_than_the_one_asked_about_is_asked_about_itself(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    first = run(host)
    edited = (SERIES[0], mend("0002", "speculators==0.3.0", "2\n", "4\n"))
    monkeypatch.setattr(gate, "load_series", lambda: edited)
    host.said.clear()
    outcome = run(host)
    assert host.said[:2] == ["reach and recall", "verdict"], "the facts are good, the verdict is another bundle's"
    assert (outcome.cached, outcome.passed) == (False, True)
    assert outcome.bundle != first.bundle
    assert outcome.verdict.changed == ("patched p/x.py changed",)


def test_an_edit_in_place_travels_and_is_decided_anew(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.source = "z\n"
    host.said.clear()
    outcome = run(host)
    assert host.said == ["reach and recall"]
    assert (outcome.verdict.level, outcome.verdict.verdict, outcome.cached) == ("patch", "fail", False)


def test_a_bundle_that_is_gone_from_the_host_is_brought_again(run: Run) -> None:
    host = FakeHost()
    first = run(host)
    host.bundles.clear()
    host.said.clear()
    again = run(host)
    assert host.said == ["reach and recall", "facts", "verdict"]
    assert again.cached
    assert first.bundle in host.bundles


@pytest.mark.parametrize("answer", ["", "{}", "[1]", '{"schema": 2}', "\x00"])
def test_an_answer_that_cannot_be_understood_is_asked_for_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    host = FakeHost()
    run(host)
    monkeypatch.setattr(FakeHost, "on_recall", lambda *_: answer)
    host.said.clear()
    assert run(host).cached
    assert host.said == ["reach and recall", "facts", "verdict"]


def test_a_text_that_we_do_not_hold_after_all_is_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    run(host)
    honest = FakeHost.on_recall

    def other(self: FakeHost, question: RecallRequest | None) -> str | None:
        said = honest(self, question)
        return said and said.replace(memory.digest_of("1\n"), "0" * 64)

    monkeypatch.setattr(FakeHost, "on_recall", other)
    host.said.clear()
    assert run(host).cached
    assert host.said == ["reach and recall", "facts", "verdict"]


def test_fresh_ignores_what_is_remembered(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.said.clear()
    host.said.clear()
    assert not run(host, fresh=True).cached
    assert host.said == ["reach and recall", "levels", "verdict store"], "facts and sources come in the first breath"


def test_a_fresh_failure_takes_back_the_pass(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.proven = (BROKEN,)
    assert run(host, fresh=True).verdict.verdict == "fail"
    host.proven = PROVEN
    again = run(host)
    assert not again.cached
    assert again.passed


def test_a_remembered_pass_does_not_outweigh_what_is_seen_now(run: Run) -> None:
    host = FakeHost()
    run(host)
    host.facts = facts(model_exists=False)
    outcome = run(host)
    assert (outcome.verdict.verdict, outcome.verdict.level, outcome.cached) == ("fail", "host", False)


def test_a_remembered_pass_of_fewer_levels_is_none(run: Run) -> None:
    host = FakeHost()
    outcome = run(host)
    shorter = replace(outcome.verdict, checks=outcome.verdict.checks[:-1])
    host.verdicts[shorter.fingerprint] = shorter
    assert not run(host).cached
