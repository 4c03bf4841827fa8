"""The laptop's half of hooks: what the file may say, when something is told, and how a command or a service is."""

from __future__ import annotations

import http.server
import json
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from local.errors import UsageError
from local.hooks import doing, notes, table
from local.hooks.outage import Outage
from local.inventory import load
from local.targets import resolve
from remote.run import occasions
from remote.schema import Exit, Hooks, Samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = """
{defaults}
[hosts.gpu]
[jobs.j]
engine = "command"
command = ["true"]
output = "/out"
{hooks}
"""


def written(tmp_path: Path, hooks: str, defaults: str = "") -> Path:
    path = tmp_path / "inventory.toml"
    path.write_text(FILE.format(hooks=hooks, defaults=defaults))
    return path


def test_one_thing_or_several_on_each_occasion(tmp_path: Path) -> None:
    hooks = """[jobs.j.hooks]
    on_done = { host = "shutdown" }
    on_failed = [{ laptop = "say no" }, { notify = "CHAT" }, { host = "a" }, { host = "b" }]
    on_unreachable = { notify = "CHAT" }
    unreachable_after = "90s"
    """
    (target,) = resolve(load(written(tmp_path, hooks)), None, None)
    assert table.on_host(target.hooks) == Hooks(on_done=("shutdown",), on_failed=("a", "b"))
    assert [hook.laptop or hook.notify for hook in table.on_laptop(target.hooks, "on_failed")] == ["say no", "CHAT"]
    assert table.on_laptop(target.hooks, "on_done") == ()
    assert table.on_laptop(target.hooks, "on_hang") == ()


def test_without_hooks_there_are_none(tmp_path: Path) -> None:
    (target,) = resolve(load(written(tmp_path, "")), None, None)
    assert target.hooks is None
    assert table.on_host(target.hooks) == Hooks()


def test_an_occasion_of_its_own_takes_the_place_of_the_defaults(tmp_path: Path) -> None:
    defaults = '[defaults.hooks]\non_done = { host = "a" }\non_failed = { host = "b" }'
    (target,) = resolve(load(written(tmp_path, '[jobs.j.hooks]\non_done = { host = "c" }', defaults)), None, None)
    assert table.on_host(target.hooks) == Hooks(on_done=("c",), on_failed=("b",))


@pytest.mark.parametrize(
    ("hooks", "where", "said"),
    [
        ("on_done = {}", "jobs.j.hooks.on_done", "found nothing"),
        ('on_done = { host = "a", notify = "B" }', "jobs.j.hooks.on_done", "found host and notify"),
        (
            'on_done = [{ host = "a" }, { laptop = "a", host = "b" }]',
            "jobs.j.hooks.on_done[1]",
            "found host and laptop",
        ),
        ('on_unreachable = { host = "a" }', "jobs.j.hooks.on_unreachable.host", "can be told nothing"),
        ('on_failed = { notify = "json://me:pass77word@chat/" }', "jobs.j.hooks.on_failed.notify", "found a URL"),
        ('on_failed = { notify = "a b" }', "jobs.j.hooks.on_failed.notify", "'a b'"),
        ('on_done = { host = "a\\u0000" }', "jobs.j.hooks.on_done.host", "NUL"),
        ('on_don = { host = "a" }', "jobs.j.hooks", "unknown key 'on_don'"),
        ('on_done = { hots = "a" }', "jobs.j.hooks.on_done", "unknown key 'hots'"),
        ('on_done = [{ hots = "a" }]', "jobs.j.hooks.on_done", "unknown key 'hots'"),
        ('on_done = "shutdown"', "jobs.j.hooks.on_done", "expected a table or a list"),
        ('on_done = { host = "" }', "jobs.j.hooks.on_done", "length"),
        ('unreachable_after = "soon"', "jobs.j.hooks.unreachable_after", "expected a duration"),
    ],
)
def test_what_nobody_could_do_is_refused(tmp_path: Path, hooks: str, where: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(written(tmp_path, f"[jobs.j.hooks]\n{hooks}"))
    assert where in caught.value.where
    assert said in caught.value.message
    assert "pass77word" not in str(caught.value)
    assert caught.value.remedy


def test_what_is_known_is_told_and_nothing_else() -> None:
    ended = Exit(
        phase="failed",
        code=1,
        ended=0.0,
        attempts=2,
        cause="x\0y",
        root_line="l" * 9000,
        samples=Samples(total=3, done=1),
    )
    told = occasions.variables("on_failed", run="r", **occasions.of_exit(ended))
    assert told["PRUDENT_GATE_CAUSE"] == "xy"
    assert len(told["PRUDENT_GATE_ROOT_LINE"]) == occasions.LONGEST
    assert (told["PRUDENT_GATE_KIND"], told["PRUDENT_GATE_SAMPLES_DONE"]) == ("", "1")


@pytest.mark.parametrize(
    ("phase", "occasion"), [("done", "on_done"), ("failed", "on_failed"), ("lost", "on_failed"), ("stopped", None)]
)
def test_which_end_is_which_occasion(phase: str, occasion: str | None) -> None:
    assert occasions.at_end(phase) == occasion


def test_an_outage_is_told_once_and_its_end_once() -> None:
    outage = Outage(10.0, 100.0)
    assert [outage.silent(now) for now in (105.0, 109.9, 110.0, 111.0, 500.0)] == [None, None, 10.0, None, None]
    assert (outage.heard(130.0), outage.heard(131.0)) == (30.0, None)
    assert [outage.silent(now) for now in (140.0, 141.0)] == [None, 10.0]


def test_a_note_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path))
    assert [notes.first("h", "r", "on_done") for _ in range(3)] == [True, False, False]
    assert notes.first("../h", "r", "on_done")
    assert notes.first("h", "r2", "on_done")
    found = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(found) == 3
    assert {path.parents[2] for path in found} == {tmp_path / "hooks"}


def test_where_no_note_can_be_made_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path))
    (tmp_path / "hooks").write_text("in the way")
    assert notes.first("h", "r", "on_done")


@pytest.mark.parametrize(
    ("text", "wrong", "words"),
    [
        ('echo "$PRUDENT_GATE_RUN"; echo oh >&2', "", "$(touch x)\noh\n"),
        ("exit 7", "exit code 7", ""),
        ('echo a; touch "$MARK"; exec sleep 71', "was ended: it took more than 0.5 s", "a\n"),
        ('sleep 72 & echo b; touch "$MARK"; wait', "was ended: it took more than 0.5 s", "b\n"),
        ("kill -9 $$", "exit code -9", ""),
    ],
)
def test_a_command_on_the_laptop(
    text: str, wrong: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "said"
    clock = SimpleNamespace(monotonic=lambda: float(mark.exists()), sleep=time.sleep)  # late once it has said its words
    monkeypatch.setattr(doing, "time", clock)
    variables = {"PRUDENT_GATE_RUN": "$(touch x)", "MARK": str(mark)}
    assert doing.command(text, variables, lambda: False, 0.5) == (wrong, words)


def test_a_command_nobody_waits_for_any_more_is_ended() -> None:
    began = time.monotonic()
    assert doing.command("exec sleep 73", {}, lambda: True) == ("was ended: interrupted", "")
    assert time.monotonic() - began < 20


class Inbox(http.server.BaseHTTPRequestHandler):
    """Takes what is posted."""

    taken: list[Any]
    code = 200

    def do_POST(self) -> None:
        self.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.code)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def inbox() -> Iterator[tuple[str, type[Inbox]]]:
    """Give the apprise URL of a service of our own, and what it has taken."""
    handler = type("Own", (Inbox,), {"taken": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"json://127.0.0.1:{server.server_port}/hooks", handler
        server.shutdown()
        thread.join()


def test_a_notification_is_taken(inbox: tuple[str, type[Inbox]]) -> None:
    url, handler = inbox
    assert doing.notify(url, "on_failed", "j on gpu: failed", "run: r") == ""
    (message,) = handler.taken
    assert (message["title"], message["message"], message["type"]) == ("j on gpu: failed", "run: r", "failure")


def test_words_of_a_host_are_no_markup_in_a_notification(inbox: tuple[str, type[Inbox]]) -> None:
    url, handler = inbox
    body = 'root_line: <img src="//192.0.2.1/x"> <script>x</script> [click](//192.0.2.1)'
    assert doing.notify(f"{url}?format=html", "on_failed", "t", body) == ""
    assert doing.notify(url, "on_failed", "t", body) == ""
    as_html, as_text = (message["message"] for message in handler.taken)
    assert "<img" not in as_html
    assert "<script" not in as_html
    assert "&lt;img" in as_html
    assert as_text == body


def test_a_notification_that_is_not_taken_is_told_without_its_url(inbox: tuple[str, type[Inbox]]) -> None:
    url, handler = inbox
    handler.code = 500
    assert doing.notify(url, "on_done", "t", "b") == "was not taken by the service"


@pytest.mark.parametrize(
    ("url", "said"), [(None, "is not set"), ("", "is not set"), ("nonsense://x", "none that apprise")]
)
def test_what_could_not_be_sent_is_refused_before(monkeypatch: pytest.MonkeyPatch, url: str | None, said: str) -> None:
    monkeypatch.delenv("CHAT", raising=False)
    if url is not None:
        monkeypatch.setenv("CHAT", url)
    with pytest.raises(UsageError, match=said) as caught:
        doing.ready(table.HookTable(notify="CHAT"))
    assert "nonsense" not in str(caught.value)


def test_without_apprise_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT", "json://127.0.0.1:9/")
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    with pytest.raises(UsageError, match="not installed") as caught:
        doing.ready(table.HookTable(notify="CHAT"))
    assert "[notify]" in caught.value.remedy
