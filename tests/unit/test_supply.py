"""What is installed: ranges with a reason each, one version of each package, and the hashes of its files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints"
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
TABLE = tomllib.loads(PROJECT)["project"]
DIRECT = [Requirement(text) for text in (*TABLE["dependencies"], *TABLE["optional-dependencies"]["dev"])]
LISTS = ("controller", "stack-cpu")
ENTRY = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(
        re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (CONSTRAINTS / f"{name}.txt").read_text("utf-8"), re.MULTILINE)
    )


@pytest.mark.parametrize("need", DIRECT, ids=str)
def test_each_direct_dependency_has_a_range_a_reason_and_a_pin_in_it(need: Requirement) -> None:
    operators = {one.operator for one in need.specifier}
    assert {">=", "<"} <= operators
    assert re.search(rf'^ +"{re.escape(need.name)}[^"]*", +# \S+', PROJECT, re.MULTILINE), "say what it is for"
    assert need.specifier.contains(pins("controller")[canonicalize_name(need.name)])


@pytest.mark.parametrize("name", LISTS)
def test_every_pin_has_its_hashes_and_nothing_else_is_installed(name: str) -> None:
    hashed = (CONSTRAINTS / f"{name}.hashes.txt").read_text("utf-8")
    entries = {canonicalize_name(found): version for found, version, _ in ENTRY.findall(hashed)}
    assert entries == {canonicalize_name(found): version for found, version in pins(name).items()}, "run .ci/pins"
    assert len(entries) == len(re.findall("^[^ #\n]", hashed, re.MULTILINE)), "a line that no test has read"
    assert "://" not in hashed


def test_what_builds_this_project_is_pinned_as_well() -> None:
    """Built in isolation, it would be whatever the index has today."""
    (need,) = map(Requirement, tomllib.loads(PROJECT)["build-system"]["requires"])
    assert need.specifier.contains(pins("controller")[need.name])
    lines = (ROOT / ".ci" / "setup").read_text("utf-8").replace("\\\n", " ").splitlines()
    installs = [line for line in lines if "pip install" in line]
    assert installs
    assert all("--require-hashes" in line or "--no-build-isolation" in line for line in installs)
    assert "--require-hashes" in (ROOT / ".ci" / "stack").read_text("utf-8")


def test_what_the_stack_wants_of_the_system_is_asked_for_before_it_is_fetched() -> None:
    """Who may not install packages would else hear of it after 3 GB."""
    lines = (ROOT / ".ci" / "stack").read_text("utf-8").splitlines()
    asked = next(at for at, line in enumerate(lines) if ".ci/apt" in line)
    fetched = next(at for at, line in enumerate(lines) if "pip install" in line)
    assert asked < fetched
