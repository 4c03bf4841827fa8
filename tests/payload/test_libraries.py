"""Compiled modules whose loss their package passes over."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from remote.code import libraries

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("libnuma.so.1: cannot open shared object file: No such file or directory",
         ["libnuma.so.1 is not on this host", "apt-get install libnuma1", "LD_LIBRARY_PATH"]),
        ("/opt/x/libodd.so.7: cannot open shared object file: No such file or directory",
         ["libodd.so.7 is not on this host", "install what holds it"]),
        ("/site/vllm/_C.abi3.so: undefined symbol: _ZN3c106detail14torchCheckFail",
         ["_ZN3c106detail14torchCheckFail is not in the libraries", "another release of torch"]),
    ],
)  # fmt: skip
def test_what_keeps_a_module_from_loading_is_told_with_its_remedy(said: str, words: list[str]) -> None:
    finding = libraries.told("vllm._C", said)
    assert finding is not None
    assert (finding.rule, finding.severity, finding.callee) == ("compiled-module", "error", "vllm._C")
    assert all(word in finding.message for word in words), finding.message


@pytest.mark.parametrize("said", ["", "No module named 'vllm._C'", "cannot import name 'x' from 'vllm'"])
def test_other_reasons_are_the_packages_own(said: str) -> None:
    assert libraries.told("vllm._C", said) is None


def test_only_what_is_there_of_what_was_imported_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_engine").mkdir()
    (tmp_path / "made_engine" / "__init__.py").write_text("")
    (tmp_path / "made_engine" / "_C.py").write_text(
        "raise ImportError('libmade.so.2: cannot open shared object file: No such file or directory')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(libraries, "HIDDEN", {"made_engine": ("made_engine._C", "made_engine._moe_C")})
    assert libraries.hidden(()) == []
    assert libraries.hidden({"made_engine"}) == ["made_engine._C"]
    finding = libraries.load("made_engine._C")
    assert finding is not None
    assert "libmade.so.2" in finding.message
    sys.modules.pop("made_engine", None)


def test_a_module_that_loads_is_no_finding() -> None:
    assert libraries.load("json.decoder") is None
