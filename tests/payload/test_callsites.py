"""What the sites of a source mean, held against a library of our own: true findings, and no false ones."""

from __future__ import annotations

import importlib
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.code import callsites, signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from remote.code.signatures import Bound

LIBRARY = """
import abc, contextlib, dataclasses, enum, functools, typing
from typing import Optional

class Kind(enum.Enum):
    GOOD = 1

@dataclasses.dataclass
class Config:
    size: int
    deep: bool = False
    inner: "Optional[Inner]" = None

class Inner:
    def act(self, x): ...

class Base(abc.ABC):
    def __init__(self, config, *, block_size): self.config = config; self.late = None
    def schedule(self, limit=1) -> Config: ...
    @property
    def inner(self) -> Inner: ...
    @functools.cached_property
    def cached(self) -> "Inner": ...
    @classmethod
    def build(cls, config) -> "typing.Self": ...
    @staticmethod
    def check(a, b): ...
    @functools.lru_cache
    def memo(self, a): ...

class Scheduler(Base):
    def extra(self, a, *, b=1): ...
    def __call__(self, one): ...

class StandIn(type(abc)):
    pass

stand_in = StandIn("stand_in")

class Open:
    def __new__(cls, one=1):
        return cls() if one else cls(1)
    def seen(self): return self.__secret, Open.__secret, super().unknown

class Lazy:
    def __getattr__(self, name): return name

class Pair(typing.NamedTuple):
    left: int
    right: int = 0

def make(a, *, b) -> Scheduler: ...
def maybe(a) -> "Scheduler | None": ...
def either(a) -> "Scheduler | Config": ...
def plain(a): ...
def total(*args, **kwargs): ...
async def later(a) -> Scheduler: ...
@contextlib.contextmanager
def opened(path): yield path
"""


@pytest.fixture
def bind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Bound]]:
    """Give a function that binds the sites of a source as the module `user_code`."""
    (tmp_path / "library_x").mkdir()
    (tmp_path / "library_x" / "__init__.py").write_text(LIBRARY)
    (tmp_path / "library_x" / "broken.py").write_text("import library_vanished\n")
    (tmp_path / "library_x" / "sub.py").write_text("def deep(a): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(source: str) -> Bound:
        (tmp_path / "user_code.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        importlib.import_module("user_code")
        return signatures.bind(("user_code",), "/nowhere/overlay")

    yield run
    for name in ("user_code", "library_x", "library_x.sub"):
        sys.modules.pop(name, None)


HEAD = """
import library_x
from library_x import Config, Kind, Lazy, Pair, Scheduler, either, later, make, maybe, opened, plain, total
"""


def told(bound: Bound) -> list[tuple[str, str]]:
    return [(finding.rule, (finding.text or "")[finding.column : finding.end_column]) for finding in bound.findings]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("plain()", [("missing-argument", "plain")]),
        ("plain(1, 2)", [("too-many-arguments", "2")]),
        ("plain(1, x=2)", [("unexpected-argument", "x")]),
        ("library_x.plain()", [("missing-argument", "plain")]),
        ("import library_x as lx; lx.plain()", [("missing-argument", "plain")]),
        ("import library_x.sub; library_x.sub.deep()", [("missing-argument", "deep")]),
        ("from library_x.sub import deep as d; d()", [("missing-argument", "d")]),
        ("Scheduler(1)", [("missing-argument", "Scheduler")]),
        ("Config(1, wide=2)", [("unexpected-argument", "wide")]),
        ("Pair()", [("missing-argument", "Pair")]),
        ("s = Scheduler(1, block_size=2); s.schedule(1, 2)", [("too-many-arguments", "2")]),
        ("s = Scheduler(1, block_size=2); s.extra(1, c=2)", [("unexpected-argument", "c")]),
        ("Scheduler(1, block_size=2).extra()", [("missing-argument", "extra")]),
        ("s = Scheduler(1, block_size=2); s.gone()", [("missing-attribute", "gone")]),
        ("s = Scheduler(1, block_size=2); s()", [("missing-argument", "s")]),
        ("s = Scheduler(1, block_size=2); s.memo()", [("missing-argument", "memo")]),
        ("make(1, b=2).extra(1, c=3)", [("unexpected-argument", "c")]),
        ("maybe(1).extra(1, c=3)", [("unexpected-argument", "c")]),
        ("(s := make(1, b=2)).extra(c=3)", [("missing-argument", "extra"), ("unexpected-argument", "c")]),
        ("Scheduler.build()", [("missing-argument", "build")]),
        ("Scheduler.check(1)", [("missing-argument", "check")]),
        ("Scheduler.schedule()", [("missing-argument", "schedule")]),
        ("s = Scheduler(1, block_size=2); s.check(1)", [("missing-argument", "check")]),
        ("s = Scheduler(1, block_size=2); s.inner.act()", [("missing-argument", "act")]),
        ("s = Scheduler(1, block_size=2); s.cached.act()", [("missing-argument", "act")]),
        ("s = Scheduler(1, block_size=2); s.schedule().inner.act()", [("missing-argument", "act")]),
        ("Kind.BAD", [("missing-attribute", "BAD")]),
        ("library_x.gone", [("missing-attribute", "gone")]),
        ("library_x.gone.further.still", [("missing-attribute", "gone")]),
        ("from library_x import vanished", [("missing-attribute", "vanished")]),
        ("from library_vanished import x, y", [("missing-module", "x"), ("missing-module", "y")]),
        ("import library_vanished.sub as s; s.x", [("missing-module", "library_vanished.sub as s")]),
        ("import library_x.vanished", [("missing-module", "library_x.vanished")]),
        ("[plain(1, 2) for x in ()]", [("too-many-arguments", "2")]),
        ("(lambda: plain())()", [("missing-argument", "plain")]),
        ("opened()", [("missing-argument", "opened")]),
        ("plain(*(), x=1)", [("unexpected-argument", "x")]),
        ("x = None\n    x = Scheduler(1, block_size=2)\n    x.gone()", [("missing-attribute", "gone")]),
        ("é = 'ünï'; plain(é, ü=é)", [("unexpected-argument", "ü")]),
        ("\f\n    plain(1, 2)", [("too-many-arguments", "2")]),
    ],
)
def test_what_would_fail_is_found(bind: Callable[[str], Bound], body: str, expected: list[tuple[str, str]]) -> None:
    assert told(bind(f"{HEAD}\ndef run():\n    {body}\n")) == expected


@pytest.mark.parametrize(
    "body",
    [
        "plain(1)",
        "plain(a=1)",
        "plain(*[1, 2, 3])",
        "plain(**{'a': 1})",
        "make(**{})",
        "total(1, 2, x=3)",
        "import ctypes, os; ctypes.WinDLL; os.startfile",
        "from library_x import broken",
        "import typing\n    a: typing.Any = other\n    a.b",
        "class Sub(Exception): pass\n    raise Sub(1, 2, 3)",
        "Scheduler(1, block_size=2).schedule()",
        "s = Scheduler(1, block_size=2); s.config.anything(1); s.late.anything()",
        "s = Scheduler(1, block_size=2); s.config",
        "either(1).extra(1, 2, 3)",
        "Lazy().anything",
        "Lazy().anything(1)",
        "Kind.GOOD; Kind['BAD']; Kind(1)",
        "unknown_thing = object(); unknown_thing.x",
        "s = Scheduler(1, block_size=2)\n    s = other()\n    s.gone()",
        "s = Scheduler(1, block_size=2)\n    for s in (): s.gone()",
        "for plain in (): plain(1, 2, 3)",
        "with opened(1) as plain: plain(1, 2, 3)",
        "try:\n        plain()\n    except TypeError:\n        pass",
        "try:\n        from library_x import gone\n    except (ValueError, ImportError):\n        gone = None",
        "s = Scheduler(1, block_size=2)\n    if hasattr(s, 'gone'):\n        s.gone(1)",
        "s = Scheduler(1, block_size=2)\n    s.gone if hasattr(s, 'gone') else None",
        "if library_x.__name__ > 'version': plain()",
        "s = make(1, b=2)\n    if isinstance(s, Lazy):\n        s.anything(1)",
        "class Local(Scheduler):\n        def f(self): self.gone(); super().gone()",
        "def plain(): ...\n    plain()",
        "plain = total\n    plain(1, 2, 3)",
        "import inspect\n    if 'c' in inspect.signature(plain).parameters: plain(1, c=2)",
        "[plain(1, 2) for plain in ()]",
        "later(1).x",
        "s, t = Scheduler(1, block_size=2), 1\n    s.extra(1)",
        "del library_x.anything",
        "library_x.anything = 1",
        "global plain",
    ],
)
def test_what_may_well_work_is_left_alone(bind: Callable[[str], Bound], body: str) -> None:
    assert told(bind(f"{HEAD}\ndef run(other=None):\n    {body}\n")) == []


CLASS = """
{head}
class Mine(Scheduler):
    kept: Config
    def __init__(self, given: Scheduler, either: "Config | None" = None, *, loose=None):
        super().__init__(1, block_size=2)
        self.engine = Scheduler(1, block_size=2)
        self.given = given
        self.loose = loose
        self.twice = Scheduler(1, block_size=2)
        self.noted: Config = either
        self.nothing = None
    def again(self):
        self.twice = Config(1)
        self.nothing = Config(1)
    @classmethod
    def built(cls): return cls(1)
    @staticmethod
    def apart(self): self.anything(1)
    def go(self):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.engine.extra()", [("missing-argument", "extra")]),
        ("self.engine.gone", [("missing-attribute", "gone")]),
        ("self.nothing.gone", [("missing-attribute", "gone")]),
        ("self.again(1)", [("too-many-arguments", "1")]),
        ("self.extra()", [("missing-argument", "extra")]),
        ("super().extra()", [("missing-argument", "extra")]),
        ("super().__init__(1)", [("missing-argument", "__init__")]),
        ("self.built(1)", [("too-many-arguments", "1")]),
        ("self.given.extra()", [("missing-argument", "extra")]),
        ("Mine()", [("missing-argument", "Mine")]),
        ("(lambda: self.engine.extra())()", [("missing-argument", "extra")]),
        ("def inner():\n            self.engine.extra()", [("missing-argument", "extra")]),
        ("self.loose.anything(1)", []),
        ("self.twice.anything(1)", []),
        ("self.gone(1)", []),
        ("self.engine.schedule(limit=1).size", []),
        ("self.noted.size", []),
        ("self.kept.size", []),
        ("setattr(self, 'x', 1); self.x.y()", []),
    ],
)
def test_objects_whose_class_is_known_from_an_assignment(
    bind: Callable[[str], Bound], body: str, expected: list[tuple[str, str]]
) -> None:
    assert told(bind(CLASS.format(head=HEAD, body=body))) == expected


def test_what_only_an_annotation_says_is_a_warning(bind: Callable[[str], Bound]) -> None:
    bound = bind(f"{HEAD}\ndef run(s: Scheduler, t: Scheduler = None):\n    s.gone()\n    t.extra()\n")
    assert [finding.severity for finding in bound.findings] == ["warning", "warning"]


def test_what_a_stand_in_does_not_have_is_a_warning(bind: Callable[[str], Bound]) -> None:
    bound = bind(f"{HEAD}\ndef run():\n    library_x.stand_in.gone\n")
    assert [finding.severity for finding in bound.findings] == ["warning"]


def test_an_object_that_resists_is_counted(bind: Callable[[str], Bound], monkeypatch: pytest.MonkeyPatch) -> None:
    def resists(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("remote.code.signatures.references.describe", resists)
    bound = bind(f"{HEAD}\ndef run():\n    plain()\n")
    assert dict(bound.skipped) == {"OSError when touched": 1}


def test_the_modules_own_classes_are_open(bind: Callable[[str], Bound]) -> None:
    bound = bind(LIBRARY)
    assert bound.findings == []
    assert bound.calls


def test_what_ran_at_import_needs_no_proof(bind: Callable[[str], Bound]) -> None:
    bound = bind(f"{HEAD}\ntry:\n    plain()\nexcept Exception:\n    pass\nx = plain(1)\n")
    assert (bound.findings, bound.calls) == ([], 0)


def test_what_was_not_bound_is_counted_with_its_reason(bind: Callable[[str], Bound]) -> None:
    bound = bind(f"{HEAD}\nimport json, zlib\ndef run(x):\n    len(x)\n    json.dumps(x)\n    x.y()\n    plain(1)\n")
    assert bound.calls == 1
    assert dict(bound.skipped) == {"standard library": 2, "callee not known": 1}


def test_a_relative_import_is_followed() -> None:
    sites = callsites.find("from ..a import b\ndef f():\n    b()\n", "p.q.r")
    assert "Module(name='p.a')" in str(sites.calls[0].callee)
    inside = callsites.find("from .a import b\ndef f():\n    b()\n", "p.q", package=True)
    assert "Module(name='p.q.a')" in str(inside.calls[0].callee)
    beyond = callsites.find("from ....a import b\ndef f():\n    b()\n", "p.q")
    assert beyond.calls[0].callee is None


@given(st.text(max_size=200))
def test_any_text_that_parses_is_walked(source: str) -> None:
    try:
        sites = callsites.find(source, "m")
    except (SyntaxError, ValueError):
        return
    assert all(1 <= site.place.line <= len(sites.lines) for site in sites.calls)
