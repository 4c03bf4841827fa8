from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from local import render
from local.signatures import brief
from local.text import clean
from remote.schema import Check, Finding, Verdict

FINDING = Finding(
    rule="call-signature",
    message="Scheduler() needs `block_size`",
    file="speculators/data_generation/generator.py",
    line=123,
    column=17,
    end_column=26,
    text="    scheduler = (Scheduler(",
    callee="vllm.v1.core.sched.scheduler:Scheduler",
    signature="(self, vllm_config, *, block_size)",
    fix="-        a\n+        b\n",
)
IMPORTED = {
    "modules": {"a": {"overlay": True}, "b": {"overlay": True}, "c": {"overlay": False}},
    "workers": {"a": {"overlay": True}, "b": {"overlay": True}},
}
ESCAPES = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x1b]52;c;cm0gLXJm\x1b\\",
    "\x1bP+q\x1b\\",
    "\x1bc",
    "\x9b2J",
    "over\rwritten",
    "a\x08b\x7f\x00",
    "\u202ereversed\u202c",
    "\u2066isolate\u2069",
    "zero\u200bwidth",
    "line\u2028separator",
    "half \ud800 pair",
    "\x1b]8;;http://192.0.2.1\x1b\\link\x1b]8;;\x1b\\",
    "\x1b",
    "\x1b]52;c;never ends",
]


def shown(call: Any, *arguments: Any, width: int = 80, host: str = "") -> str:
    file = io.StringIO()
    call(Console(file=file, width=width, force_terminal=False), host, *arguments)
    return file.getvalue()


def rows(call: Any, *arguments: Any, width: int = 80, host: str = "") -> list[str]:
    return shown(call, *arguments, width=width, host=host).splitlines()


@pytest.mark.parametrize("text", ESCAPES)
def test_clean_leaves_nothing_that_a_terminal_obeys(text: str) -> None:
    for kept in (clean(text), clean(text, lines=True)):
        assert kept.isprintable() or kept == ""
        assert "\x1b" not in kept
        kept.encode()


def test_clean_takes_commands_whole_and_keeps_what_is_text() -> None:
    assert clean("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain") == "red and plain"
    assert clean("\x1b]8;;http://192.0.2.1\x1b\\link\x1b]8;;\x1b\\") == "link"
    assert clean("Ünïcödé 模型 ✓") == "Ünïcödé 模型 ✓"
    assert clean("a\tb\r\nc\nd") == "a    b c d"
    assert clean("a\r\nb\nc", lines=True) == "a\nb\nc"
    assert "rest stays" in clean("\x1b]52;c;never ends, the rest stays")


@pytest.mark.parametrize("text", ESCAPES)
def test_nothing_of_a_host_reaches_the_terminal_raw(text: str) -> None:
    finding = Finding(
        rule=text, message=text, file=text, line=1, column=0, text=text, callee=text, signature=text, fix=text
    )
    check = Check(
        id=text, status="fail", findings=(finding,), facts={"parameters": {text: text}, "patches": {text: text}}
    )
    printed = shown(render.print_check, check, host=text)
    printed += shown(render.print_check, replace(check, id="patch"), host=text)
    verdict = Verdict(
        fingerprint=text, bundle=text, verdict=text, level=text, decided=0.0, checks=(check,), changed=(text,)
    )
    printed += shown(render.print_verdict, verdict, host=text)
    assert all(line.isprintable() for line in printed.splitlines())


def test_markup_is_text() -> None:
    text = "[bold]x[/bold] [/] [link=http://192.0.2.1]y[/link] :smile:"
    finding = replace(FINDING, message=text, text=text, signature=text, fix=text)
    assert shown(render.print_finding, finding, width=200).count(text) == 4


def test_a_finding_reads_like_a_compilers() -> None:
    assert rows(render.print_finding, FINDING) == [
        "error[call-signature]: Scheduler() needs `block_size`",
        "   --> speculators/data_generation/generator.py:123:18",
        "    |",
        "123 |     scheduler = (Scheduler(",
        "    |                  ^^^^^^^^^",
        "    |",
        "    = callee: vllm.v1.core.sched.scheduler:Scheduler",
        "    = found: (self, vllm_config, *, block_size)",
        "    = fix:",
        "      -        a",
        "      +        b",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "column", "end", "mark"),
    [
        ("\tx = f()", 5, 6, "            ^"),
        ("模型 = f()", 5, 8, "           ^^^"),
        ("x = f()", 4, None, "        ^^^"),
        ("x = f()", 4, 2, "        ^^^"),
        ("x", 50, 60, "     ^"),
        ("x", -3, 1, "    ^"),
        ("", 0, 0, "    ^"),
    ],
)
def test_the_mark_stands_under_what_it_means(text: str, column: int, end: int | None, mark: str) -> None:
    finding = Finding(rule="r", message="m", file="x.py", line=7, text=text, column=column, end_column=end)
    marked = next(row for row in rows(render.print_finding, finding) if "^" in row)
    assert marked == "  | "[:4] + mark[4:]


def test_a_finding_of_a_few_words_needs_no_place() -> None:
    assert rows(render.print_finding, Finding(rule="gpu-count", message="too few", severity="warning")) == [
        "warning[gpu-count]: too few",
        "",
    ]


def test_source_lines_stay_whole_and_messages_wrap() -> None:
    long = replace(FINDING, text="x" * 150, column=0, end_column=150, message="word " * 40, signature="name, " * 40)
    printed = rows(render.print_finding, long)
    assert f"123 | {'x' * 150}" in printed
    assert f"    | {'^' * 150}" in printed
    wrapped = [row for row in printed if "x" not in row and "^" not in row]
    assert max(len(row) for row in wrapped) <= 80
    assert sum(row.count("word") for row in printed) == 40
    assert sum(row.count("name,") for row in printed) == 40


def test_checks_say_what_they_saw() -> None:
    cases = [
        (Check(id="reach", status="pass", facts={"python": "3.12.3", "user": "root", "clock_skew": 0.2}), "3.12.3"),
        (Check(id="host", status="pass", facts={"gpus": ["B200"] * 8, "versions": {"vllm": "0.16.0"}}), "8×B200"),
        (Check(id="host", status="pass", facts={"gpus": [], "device": "cpu"}), "CPU"),
        (Check(id="patch", status="pass", facts={"patches": {"0001": "applies", "0002": "applies"}}), "2 applied"),
        (Check(id="patch", status="pass", facts={"patches": {}, "no_patches": True}), "left out, as asked"),
        (Check(id="patch", status="pass", facts={"patches": {"1": "upstream"}, "without": ["0003"]}), "without 0003"),
        (
            Check(id="signature", status="pass", seconds=0.12, facts={"calls": {"bound": 38}, "names": 1}),
            "0.1 s  38 call sites bound, 1 name found",
        ),
        (Check(id="unheard-of", status="skip"), "- unheard-of"),
        (Check(id="import", status="pass", facts=IMPORTED), "3 modules, 2 from the overlay, in spawned workers too"),
        (Check(id="signature", status="skip", facts={"reason": "nothing imported"}), "skipped: nothing imported"),
    ]
    for check, words in cases:
        assert words in shown(render.print_check, check)


@pytest.mark.parametrize(("status", "mark"), [("pass", "✓"), ("fail", "✗"), ("warn", "!"), ("skip", "-")])
def test_the_mark_tells_the_status(status: str, mark: str) -> None:
    assert rows(render.print_check, Check(id="reach", status=status))[0].startswith(f"{mark} reach")


def test_parameter_lists_are_printed() -> None:
    symbols = {
        "vllm.v1.request:Request.__init__": "(self, request_id, prompt_token_ids)",
        "vllm.v1.core.kv_cache_utils:get_kv_cache_config_from_groups": "(vllm_config, kv_cache_groups)",
    }
    printed = shown(render.print_check, Check(id="signature", status="pass", facts={"parameters": symbols}), width=120)
    for name, signature in symbols.items():
        assert name + signature in printed


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("()", "()"),
        (
            "(self, a: int, /, b: 'list[A, B]' = None, *, c: str = 'x, y=(') -> int",
            "(self, a, /, b=None, *, c='x, y=(')",
        ),
        ("(a: dict[str, tuple[int, int]] = {}, **kw: Any)", "(a={}, **kw)"),
        ("(a: Callable[[int], str] = <function f>, *args)", "(a=<function f>, *args)"),
        (f"(a={'x' * 40}, b)", "(a=…, b)"),
        ("(a: str = 'it\\'s, ok')", "(a='it\\'s, ok')"),
        ("no signature", "no signature"),
        ("(never closed: int", "(never closed: int"),
        ("", ""),
    ],
)
def test_parameter_lists_are_told_by_names_and_defaults(signature: str, expected: str) -> None:
    assert brief(signature) == expected


def test_strange_facts_do_not_stop_the_rendering() -> None:
    strange: dict[str, Any] = {
        "parameters": [1], "modules": 3, "workers": {1: 2}, "calls": "x", "names": "x",
        "gpus": None, "versions": None, "patches": None,
        "clock_skew": "x", "output_free": "x", "without": None, "cached": 1,
    }  # fmt: skip
    for level in ("reach", "host", "patch", "import", "signature"):
        assert level in shown(render.print_check, Check(id=level, status="pass", facts=strange))


def test_every_line_of_many_hosts_tells_its_host_or_belongs_below_it() -> None:
    check = Check(id="signature", status="fail", findings=(FINDING,))
    printed = rows(render.print_check, check, host="gpu01")
    assert printed[0].startswith("gpu01  ✗ signature")
    assert all(row.startswith("       ") or not row for row in printed[1:])


def test_verdicts() -> None:
    failed = Check(id="signature", status="fail", seconds=0.5, findings=(FINDING, replace(FINDING, severity="warning")))
    verdict = Verdict(
        fingerprint="f", bundle="0123456789abcdef", verdict="fail", level="signature", decided=0.0, checks=(failed,)
    )
    assert rows(render.print_verdict, verdict) == ["FAIL at level signature: 1 error, 0.5 s  bundle 0123456789ab"]
    cached = Check(id="signature", status="pass", seconds=20.0, facts={"cached": True})
    passed = replace(verdict, verdict="pass", checks=(cached,), changed=("vllm 0.16.0 → 0.16.1", "torch 2.9 → 2.10"))
    printed = rows(render.print_verdict, passed, host="gpu01")
    assert printed[0] == "gpu01  PASS up to level signature, 0.0 s  bundle 0123456789ab"
    assert printed[1].strip() == "since the last pass: vllm 0.16.0 → 0.16.1, torch 2.9 → 2.10"


def test_colours_on_a_terminal_are_ours_alone() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system="standard")
    render.print_check(console, "h", Check(id="reach", status="fail", findings=(FINDING,)))
    assert "\x1b[1;31m✗" in file.getvalue()
