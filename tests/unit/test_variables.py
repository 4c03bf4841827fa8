"""An exception's words, held against the job's environment."""

from __future__ import annotations

import pytest

from remote.code import variables

ENV = {"VLLM_CPU_OMP_THREADS_BIND": "99", "VLLM_CPU_KVCACHE_SPACE": "lots", "VLLM_PORT": "1", "TMPDIR": "/scratch/tmp"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("Failed to parse CPU string: 99", ["VLLM_CPU_OMP_THREADS_BIND"]),
        ("invalid literal for int() with base 10: 'lots'", ["VLLM_CPU_KVCACHE_SPACE"]),
        ("VLLM_PORT cannot be used", ["VLLM_PORT"]),
        ("[Errno 28] No space left on device: '/scratch/tmp'", ["TMPDIR"]),
        ("99 lots of VLLM_PORT in /scratch/tmp", ["VLLM_CPU_OMP_THREADS_BIND", "VLLM_CPU_KVCACHE_SPACE"]),
        ("prompt 1 has 990 tokens, 1.99 and x99 slots", []),
        ("it waits for tcp://99:1234", ["VLLM_CPU_OMP_THREADS_BIND"]),
        ("/99 is no such file, nor is x/99", []),
        ("no /scratch/tmp/x, no /old/scratch/tmp", []),
        ("", []),
    ],
)
def test_what_is_spoken_of_is_named(words: str, names: list[str]) -> None:
    said = variables.told(words, ENV)
    assert [name for name in ENV if f"`{name}`" in said] == names
    assert said == "" or said.startswith("; see `")


def test_values_are_no_patterns_and_stay_unsaid() -> None:
    assert variables.told("a.b", {"X": "a+b", "Y": "(", "Z": ""}) == ""
    assert variables.told("HF_TOKEN is refused", {"HF_TOKEN": "hf_abc"}) == "; see `HF_TOKEN` in the job's environment"
