"""What the keys do, and which host is looked at while hosts come and go."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, cast

import pytest
from rich.console import Console

from local.monitor.live import LiveScreen, plain
from local.monitor.rows import News, Row, Watched, row
from tests.unit import pulse_answers as answers

if TYPE_CHECKING:
    from local.monitor.room import Room


class Hosts:
    """A room of hosts that have no link: nothing is asked."""

    note = ""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.changed = threading.Event()
        self.watchers = [Unlinked()] * 9

    def rows(self) -> list[Row]:
        return [row(Watched(name=name), News(answer=answers.B200), monotonic=0.0, clock=0.0) for name in self.names]


class Unlinked:
    session = None
    news = News()


def screen(hosts: Hosts, log: str | None = None) -> LiveScreen:
    return LiveScreen(cast("Room", hosts), Console(file=io.StringIO()), log=log)


def looked_at(made: LiveScreen) -> tuple[str, bool]:
    rows = made._rows()
    view = made.view(rows, 20)
    assert view.chosen is not None
    return rows[view.chosen].name, view.log is not None


@pytest.mark.parametrize(
    ("keys", "name", "log"),
    [
        ([], "a", False), (["down"], "b", False), (["j", "j", "j", "j", "j"], "c", False), (["up"], "a", False),
        (["page-down", "k"], "b", False), (["page-down", "page-up"], "a", False), (["2"], "b", True),
        (["9"], "a", False), (["0"], "a", False), (["3", "escape"], "c", False), (["enter"], "a", True),
        (["enter", "down"], "b", True), (["x"], "a", False), (["²"], "a", False),
    ],
)  # fmt: skip
def test_keys(keys: list[str], name: str, *, log: bool) -> None:
    made = screen(Hosts("a", "b", "c"))
    for key in keys:
        made.press(key, 3)
    assert looked_at(made) == (name, log)


def test_the_log_of_the_command_line_is_open_at_once() -> None:
    assert looked_at(screen(Hosts("a", "b"), log="b")) == ("b", True)


def test_who_is_looked_at_stays_while_hosts_come_and_go() -> None:
    hosts = Hosts("b", "c")
    made = screen(hosts)
    made.press("2", 2)
    assert looked_at(made) == ("c", True)
    hosts.names = ["a", "b", "c", "d"]
    assert looked_at(made) == ("c", True)
    hosts.names = ["a"]
    assert looked_at(made) == ("a", True)
    hosts.names = []
    assert made._rows() == []
    made.press("down", 0)
    hosts.names = ["a"]
    assert looked_at(made) == ("a", True)


def test_a_host_without_a_link_says_why_there_is_no_log() -> None:
    made = screen(Hosts("a"), log="a")
    assert made.view(made._rows(), 20).log == ("── a: connecting",)


@pytest.mark.parametrize(("encoding", "ascii_only"), [("utf-8", False), ("ascii", True), ("iso8859-1", True)])
def test_what_a_terminal_can_show(encoding: str, *, ascii_only: bool) -> None:
    assert plain(Console(file=io.TextIOWrapper(io.BytesIO(), encoding=encoding))) == ascii_only
