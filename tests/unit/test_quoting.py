"""Words reach a shell as they are, whatever they hold."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from local.host import _bootstrap_source
from local.links.base import Command

SHELLS = [name for name in ("sh", "bash", "dash", "zsh", "fish", "ksh", "tcsh") if shutil.which(name)]
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=40, deadline=None)
@given(words=WORDS)
@example(words=["=ls", "A=b", "%self", "a\\", "\\'", "'\\''", "-", "", "~root", "!!", "a\nb", "$(x)", "`x`", "%h"])
def test_any_words(shell: str, words: list[str]) -> None:
    command = Command((shutil.which("printf") or "printf", "%s\\0", "-", *words))
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    said = subprocess.run([shell, "-c", str(command)], capture_output=True, check=True, env=env)
    assert said.stdout.decode().split("\0")[1:-1] == words


@pytest.mark.parametrize("word", ["A=b", "=ls", "%self", "a\\", "^", "#", "~"])
def test_a_word_in_front_is_never_read_as_anything_else(word: str) -> None:
    assert not str(Command((word,))).startswith(word)


def test_the_bootstrap_is_one_line_that_no_shell_interprets() -> None:
    source = _bootstrap_source()
    assert source.isascii()
    assert source.isprintable()
    assert not set(source.replace("'", "")) & set('"!$`\\\n#~*?&|<>^%{}[]')
    assert len(source) < 8192


@pytest.mark.parametrize("words", [("a",), ("a b", "c'd")])
def test_a_command_prints_as_it_is_sent(words: tuple[str, ...]) -> None:
    assert str(Command(words)) in {"a", """'a b' 'c'"'"'d'"""}
