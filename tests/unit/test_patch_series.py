from __future__ import annotations

import pytest

from local import patches

SERIES = patches.load_series()
NUMBERS = [patch.number for patch in SERIES]


def chosen(vllm: str) -> list[str]:
    return [patch.number for patch in patches.select(SERIES, {"speculators": "0.3.0", "vllm": vllm})]


def test_the_series_is_numbered_without_holes() -> None:
    assert [f"{number:04}" for number in range(1, len(SERIES) + 1)] == NUMBERS


@pytest.mark.parametrize("patch", SERIES, ids=NUMBERS)
def test_every_patch_says_why(patch: patches.Patch) -> None:
    assert len(patch.why) > 80
    assert {need.name for need in patch.applies_to} == {"speculators", "vllm"}
    assert patch.title[0].isupper()
    assert not patch.title.endswith(".")


@pytest.mark.parametrize(
    ("vllm", "left_out"), [("0.16.0", ["0009"]), ("0.16.0rc2", ["0009"]), ("0.16.1.dev12+gabc", []), ("0.17.0", [])]
)
def test_the_ninth_is_for_builds_after_0_16_0(vllm: str, left_out: list[str]) -> None:
    assert [number for number in NUMBERS if number not in chosen(vllm)] == left_out


@pytest.mark.parametrize("vllm", ["0.11.0", "0.15.1", "0.18.0"])
def test_nothing_is_for_releases_that_it_was_not_made_on(vllm: str) -> None:
    assert chosen(vllm) == []
