"""From exceptions, and from what workers print, to the line that is to blame."""

from __future__ import annotations

import importlib
import re
import sys
from typing import TYPE_CHECKING

import pytest

from remote.rehearsal import blame, hints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKER = "(Worker_TP{rank} pid={pid}) ERROR 11-30 17:28:31 [multiproc_executor.py:863] "
LIBRARY = "def schedule(size):\n    assert size < 16\n\n\ndef passed_on(text):\n    raise RuntimeError(text)\n"
GENERATOR = """\
import lib


def generate(size):
    lib.schedule(size)


def load(said):
    lib.passed_on(said)
"""
CAPTURE = "def forward(model):\n    return model.gone()\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in (("lib", LIBRARY), ("generator", GENERATOR), ("capture", CAPTURE)):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in ("lib", "generator", "capture"):
        sys.modules.pop(name, None)


def raised(call: str, *arguments: object) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is what the tests are about
        getattr(importlib.import_module("generator"), call)(*arguments)
    return caught.value  # type: ignore[no-any-return]


def told(
    folder: Path, *, rank: int = 0, pid: int = 7, words: str = "'Llama' object has no attribute 'gone'"
) -> list[str]:
    """Give a worker's traceback as vLLM's logger prints it."""
    lines = [
        "WorkerProc hit an exception.",
        "Traceback (most recent call last):",
        '  File "/site/vllm/v1/executor/multiproc_executor.py", line 861, in worker_busy_loop',
        "    output = func(*args, **kwargs)",
        "             ^^^^^^^^^^^^^^^^^^^^^",
        f'  File "{folder}/capture.py", line 2, in forward',
        "    return model.gone()",
        "           ^^^^^^^^^^",
        '  File "/site/torch/nn/modules/module.py", line 1962, in __getattr__',
        "    raise AttributeError(",
        f"AttributeError: {words}",
    ]
    return [WORKER.format(rank=rank, pid=pid) + line for line in lines]


def find(error: Exception, said: str = "") -> tuple[str | None, int | None, str]:
    found = blame.finding(error, said, ("generator", "capture"), "/overlay", during="in batch 1")
    assert found.rule == "rehearsal-crashed"
    assert found.text is None or found.column == len(found.text) - len(found.text.lstrip())
    return found.file, found.line, found.message


def test_the_innermost_gated_line_is_to_blame_and_the_raising_one_is_named(folder: Path) -> None:
    file, line, message = find(raised("generate", 16))
    assert (file, line) == ("generator.py", 5)
    assert message == "in batch 1: AssertionError (raised in lib.py:2: assert size < 16)"
    assert folder.exists()


def test_what_a_worker_tells_comes_before_what_was_passed_on(folder: Path) -> None:
    error = raised("load", "Worker failed with error 'x', please check the stack trace above for the root cause")
    file, line, message = find(error, "\n".join(["INFO something", *told(folder)]))
    assert (file, line) == ("capture.py", 2)
    assert message.startswith("in batch 1: AttributeError: 'Llama' object has no attribute 'gone' (raised in ")


def test_the_tracebacks_of_several_workers_are_told_apart(folder: Path) -> None:
    one, other = told(folder, rank=0, pid=7), told(folder, rank=1, pid=8)
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    assert len(list(blame.traces("\n".join(mixed)))) == 2
    error = raised("load", "WorkerProc initialization failed due to an exception in a background process.")
    assert find(error, "\n".join(mixed))[:2] == ("capture.py", 2)


def test_a_worker_that_never_was_in_gated_code_leaves_the_line_here(folder: Path) -> None:
    lines = [line for line in told(folder, words="State error") if "capture.py" not in line]
    file, line, message = find(raised("load", "Worker failed with error 'State error'"), "\n".join(lines))
    assert (file, line) == ("generator.py", 9)
    assert "AttributeError: State error" in message


def test_a_traceback_that_somebody_handled_is_nobody_s(folder: Path) -> None:
    assert find(raised("generate", 16), "\n".join(told(folder)))[:2] == ("generator.py", 5)


def test_a_chain_is_followed_to_the_gated_line(folder: Path) -> None:
    outside = KeyError("outside")
    outside.__cause__ = raised("generate", 16)
    file, line, message = find(outside)
    assert (file, line) == ("generator.py", 5)
    assert "AssertionError" in message
    assert folder.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback (most recent call last):",
        'Traceback (most recent call last):\n  File "x.py", line 3, in f',
        'File "x.py", line notanumber, in f\nKeyError',
        "\x1b[31mTraceback (most recent call last):\x1b[0m\nKeyError: 1",
        "ERROR 11-30 17:28:31 [a.py:1] " * 2000,
    ],
)
def test_torn_and_strange_text_gives_no_traceback(text: str) -> None:
    assert list(blame.traces(text)) == []


@pytest.mark.parametrize(
    "prefix", ["", "(Worker pid=9) ", WORKER.format(rank=3, pid=9), "ERROR 11-30 17:28:31 [x.py:1] "]
)
def test_whatever_stands_before_the_lines_is_taken_off(prefix: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "/a/b.py", line 3, in f', "    f()", "torch.X: no: way"]
    (trace,) = blame.traces("\n".join(prefix + line for line in lines))
    assert (trace.kind, trace.words) == ("X", "no: way")
    assert [(frame.file, frame.line) for frame in trace.frames] == [("/a/b.py", 3)]


def test_long_words_are_cut(folder: Path) -> None:
    message = find(raised("load", "x" * 10_000))[2]
    assert re.fullmatch(r"in batch 1: RuntimeError: x{500} \(raised in lib\.py:6\)", message)
    assert folder.exists()


def test_the_values_of_the_failing_line_are_traced_to_their_assignment(folder: Path) -> None:
    text = "def generate(replies):\n    states = replies\n    states = replies[0]\n    other = 1\n    if not states:\n"
    (folder / "generator.py").write_text(text + "        return other\n    states = 2\n")
    with pytest.raises(TypeError) as caught:
        importlib.import_module("generator").generate([Untrue()])
    file, line, message = find(caught.value)
    assert (file, line) == ("generator.py", 5)
    assert message.endswith("; line 3 has `states = replies[0]`")


class Untrue:
    def __bool__(self) -> bool:
        raise TypeError("Boolean value of a tensor is ambiguous")


@pytest.mark.parametrize("source", ["", "x = 1\nx\n", "def broken(:\n", "def f():\n    pass\n"])
def test_a_line_without_assignments_has_no_origins(source: str) -> None:
    assert hints.origins(source, 2) == []
