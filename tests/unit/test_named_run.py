from __future__ import annotations

import pytest

from local.tasks.named import is_named

ID = "20260101-000000-abcd"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["report"], False),
        (["report", ID], True),
        (["-H", "gpu01", "report", ID, "--html", "x"], True),
        (["report", "--html", "x.html", ID], True),
        (["report", "--run", ID], False),
        (["logs", "--run", ID, "report"], False),
        (["report", "logs", "--run", ID], False),
        (["report", "latest"], False),
        (["report", f"{ID}x"], False),
        (["stop", ID], False),
        ([], False),
    ],
)
def test_a_run_is_named_where_its_id_stands_by_itself(words: list[str], named: bool) -> None:  # noqa: FBT001
    assert is_named(words, "report") is named
