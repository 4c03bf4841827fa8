"""Words reach a shell as they are, whatever they hold."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.host import _bootstrap_source
from local.links.base import Command

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(WORDS)
def test_any_words(words: list[str]) -> None:
    command = Command(("printf", "%s\\0", "-", *words))
    said = subprocess.run(["/bin/sh", "-c", str(command)], capture_output=True, check=True)
    assert said.stdout.decode().split("\0")[1:-1] == words


def test_the_bootstrap_is_one_line_that_no_shell_interprets() -> None:
    source = _bootstrap_source()
    assert source.isascii()
    assert source.isprintable()
    assert not set(source.replace("'", "")) & set('"!$`\\\n#~*?&|<>^%{}[]')
    assert len(source) < 8192


@pytest.mark.parametrize("words", [("a",), ("a b", "c'd")])
def test_a_command_prints_as_it_is_sent(words: tuple[str, ...]) -> None:
    assert str(Command(words)) in {"a", """'a b' 'c'"'"'d'"""}
