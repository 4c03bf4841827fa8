"""The Python of the tests' hosts: what the gate sees there does not depend on this checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote import facts
from remote.schema import FactsRequest, Job
from tests import hostpython

TESTS = Path(__file__).parents[1]


def test_nothing_is_installed_there(tmp_path: Path) -> None:
    job = Job(
        name="j", engine="command", device="cpu", python=hostpython.python(), workdir=str(tmp_path / "work"),
        output=str(tmp_path / "out"),
    )  # fmt: skip
    found = facts.answer(FactsRequest(job=job))
    assert found.distributions == {}
    assert str(TESTS.parent) not in str(found.elsewhere)
    assert "python" in found.basis


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_inventory_names_the_environment_of_the_tests(path: Path) -> None:
    assert 'python = "{' + 'sys.executable}"' not in path.read_text(encoding="utf-8")
