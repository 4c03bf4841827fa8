"""How many inputs each part of the fuzzing gets, and the proof that it got them."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

LEAST = 20_000
TIMES = float(os.environ.get("FUZZ_N", "1"))  # below 1 for a quick look
PARTS: dict[str, int] = {}  # part → inputs, filled while the test modules are imported


def fuzzed(inputs: int, strategy: SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test that calls its body with so many inputs, and fails when it did not get them.

    The body takes the test's `tmp_path` first; a folder per test is enough for what is written over and over.
    """

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        name = body.__name__.removeprefix("test_")
        assert name not in PARTS, f"{name} is there twice"
        PARTS[name] = inputs

        @functools.wraps(body)
        def test(tmp_path: Any) -> None:
            seen, wanted = 0, max(1, int(inputs * TIMES))

            @settings(
                max_examples=wanted,
                deadline=None,
                database=None,
                derandomize=TIMES == 1,
                suppress_health_check=list(HealthCheck),
            )
            @given(strategy)
            def each(value: Any) -> None:
                nonlocal seen
                seen += 1
                body(tmp_path, value)

            each()
            assert seen >= wanted, f"{name}: {seen} inputs of {wanted}"

        del test.__wrapped__  # type: ignore[attr-defined]  # pytest would read the body's parameters
        return test

    return decorate
