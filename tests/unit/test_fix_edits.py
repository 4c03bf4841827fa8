from __future__ import annotations

import ast

import pytest

from local.static import fixes


def call(text: str) -> ast.Call:
    return next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))


def edited(text: str, edit: fixes.Edit | None) -> str:
    assert edit is not None
    after = fixes.apply(text, [edit])
    ast.parse(after)
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a=1, gone=2, b=3)\n", "f(a=1, b=3)\n"),
        ("f(a=1, gone=2)\n", "f(a=1)\n"),
        ("f(gone=2)\n", "f()\n"),
        ("f(\n    a=1,\n    gone=g(2,\n        3),\n    b=3,\n)\n", "f(\n    a=1,\n    b=3,\n)\n"),
        ("f(\n    a=1,\n    gone=2\n)\n", "f(\n    a=1,\n)\n"),
        ("f(a='ü€', gone='ü', b='😀')\n", "f(a='ü€', b='😀')\n"),
        ("f(\n    a=1, gone=2,\n)\n", "f(\n    a=1, \n)\n"),
    ],
)
def test_a_keyword_is_dropped_as_it_was_written(before: str, after: str) -> None:
    assert edited(before, fixes.drop_keyword(before, call(before), "gone")) == after


def test_a_keyword_that_is_not_there_cannot_be_dropped() -> None:
    assert fixes.drop_keyword("f(a=1)", call("f(a=1)"), "gone") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()\n", "f(new=N)\n"),
        ("f(a)\n", "f(a, new=N)\n"),
        ("f(a, b='ü')\n", "f(a, b='ü', new=N)\n"),
        ("f(\n    a=1,\n    b=2,\n)\n", "f(\n    a=1,\n    b=2,\n    new=N,\n)\n"),
        ("f(\n    a=1\n)\n", "f(\n    a=1,\n    new=N\n)\n"),
    ],
)
def test_a_keyword_is_passed_as_the_call_is_written(before: str, after: str) -> None:
    assert edited(before, fixes.pass_keyword(before, call(before), "new", "N")) == after


def test_an_attribute_is_renamed_in_its_place() -> None:
    text = "x = 'ü'; y = self.old(self.old)\n"
    node = call(text).func
    assert isinstance(node, ast.Attribute)
    assert fixes.apply(text, [fixes.rename_attribute(text, node, "renewed")]) == "x = 'ü'; y = self.renewed(self.old)\n"


@pytest.mark.parametrize(
    ("module", "value"),
    [
        ("VLLM_BLOCK_SIZE = 16\n", "VLLM_BLOCK_SIZE"),
        ("BLOCK_SIZE = 16\n", "BLOCK_SIZE"),
        ("A_BLOCK_SIZE = 1\nB_BLOCK_SIZE = 2\n", None),
        ("SIZE = 16\nMYBLOCK_SIZE = 3\n", None),
    ],
)
def test_a_constant_is_taken_only_where_there_is_one(module: str, value: str | None) -> None:
    tree = ast.parse(module + "class A:\n    def f(self): ...\n")
    assert fixes.constant_for(tree, "A.f", "block_size") == value


def test_a_parameter_of_that_name_comes_first() -> None:
    tree = ast.parse("BLOCK_SIZE = 1\ndef f(block_size): ...\n")
    assert fixes.constant_for(tree, "f", "block_size") == "block_size"


def test_edits_that_overlap_are_made_once() -> None:
    edits = [fixes.Edit(1, 3, "x"), fixes.Edit(2, 4, "y"), fixes.Edit(4, 5, ""), fixes.Edit(1, 3, "x")]
    assert fixes.apply("abcdef", edits) == "axdf"


def test_no_edit_makes_no_patch() -> None:
    assert fixes.patch({}, subject="s", why="w", applies_to="a") == ""


@pytest.mark.parametrize(
    ("text", "is_value"), [("16", True), ("'a'", True), ("None", False), ("Field()", False), ("(", False)]
)
def test_only_plain_values_are_carried_over(text: str, is_value: bool) -> None:  # noqa: FBT001 - a table
    assert fixes.is_value(text) is is_value
