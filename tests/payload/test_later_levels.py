"""Contract and inputs as the probe asks for them."""

from pathlib import Path

import pytest

from remote.gate import contract, levels
from remote.schema import Job


def _job(tmp_path: Path, **changes: object) -> Job:
    return Job(name="j", engine="command", python="p", workdir=str(tmp_path), output=str(tmp_path / "out"), **changes)


def test_both_levels_answer_in_order(tmp_path: Path) -> None:
    checks = tuple(levels.after_imports(_job(tmp_path), patched=False))
    assert [(check.id, check.status) for check in checks] == [("contract", "pass"), ("inputs", "pass")]


def test_a_level_is_looked_at_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(levels.inputs, "check", lambda *_, **__: looked.append("inputs"))
    assert next(levels.after_imports(_job(tmp_path), patched=False)).id == "contract"
    assert looked == []


def test_inputs_are_not_looked_at_when_the_contract_is_broken(tmp_path: Path) -> None:
    checks = tuple(levels.after_imports(_job(tmp_path, model=str(tmp_path)), patched=False))
    assert [(check.id, check.status) for check in checks] == [("contract", "fail")]
    assert checks[0].findings[0].rule == "model-config"


def test_a_fault_of_our_own_is_a_warning_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("heads")

    monkeypatch.setattr(contract.pairs, "table", broken)
    first, _second = levels.after_imports(_job(tmp_path), patched=False)
    assert (first.id, first.status) == ("contract", "warn")
    assert "fault of the gate itself" in first.findings[0].message


def test_installed_distributions_are_found_under_normalised_names() -> None:
    found = levels.installed()
    assert "pytest" in found
    assert all(name == name.lower() and "_" not in name for name in found)
