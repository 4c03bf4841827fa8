"""What contract and inputs saw, in a few words."""

import pytest

from local import telling
from remote.schema import Check


@pytest.mark.parametrize(
    ("level", "facts", "says"),
    [
        ("contract", {}, ""),
        ("contract", {"pair": {"known": "unknown"}, "model": "nonsense"}, "an unknown pair"),
        (
            "contract",
            {"pair": {"known": "good"}, "model": {"class": "a.b.Kimi", "captured": ["a.Inner"], "layer": ["a.Layer"]}},
            "Kimi → Inner → Layer, a pair that is known to be good",
        ),
        ("inputs", {"model": {}}, ""),
        (
            "inputs",
            {
                "output": {"samples": 2000, "size": 142_709_200, "free": 75 * 10**9},
                "lengths": {"shortest": 28, "longest": 255},
                "time": {"load": 90.0, "extract": 7200.0, "usd": 72.9, "assumed": True},
            },
            "2000 samples of 28 to 255 tokens, 0.14 GB of 75 free, about 90 s to load, 120 min to extract, $72.90",
        ),
        ("inputs", {"time": {"load": None, "extract": None, "usd": None}}, ""),
    ],
)
def test_levels_in_a_few_words(level: str, facts: dict[str, object], says: str) -> None:
    assert telling.of_check(Check(id=level, status="pass", facts=facts)) == says
