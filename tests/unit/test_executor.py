"""The executor: a pipeline per host side by side, the worst exit code, no traceback; through Fabric's own program."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from fabric.config import Config
from fabric.main import Fab
from invoke import Collection

from local.errors import GateRefused, HostKeyError, LinkLost, Unreachable, UsageError
from local.executor import Executor
from local.steps import OnHosts, OnLaptop
from local.tasks import gate as tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.session import Session
    from local.targets import Target

INVENTORY = """
[hosts.one]
[hosts.two]
groups = ["pair"]
[hosts.three]
groups = ["pair"]
[jobs.job]
engine = "command"
command = ["true"]
output = "/o"
secret_env = ["TEST_SECRET"]
"""


@pytest.fixture
def fab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run `fab WORDS` over tasks; gives the exit code."""
    file = tmp_path / "inventory.toml"
    file.write_text(INVENTORY, encoding="utf-8")
    monkeypatch.setenv("FABRIC_INVENTORY", str(file))
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(words: str, *tasks: Any) -> int:
        program = Fab(executor_class=Executor, config_class=Config, namespace=Collection(*tasks))
        try:
            program.run(["fab", *words.split()])
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run


def step(body: Callable[..., Any], **options: Any) -> OnHosts:
    return OnHosts(body, **options)


def test_every_host_goes_through_the_chain_and_shares_its_session(fab: Callable[..., int]) -> None:
    seen: list[tuple[str, Session]] = []

    def first(session: Session) -> None:
        seen.append(("first", session))

    def second(session: Session) -> None:
        seen.append(("second", session))

    assert fab("first second", step(first), step(second)) == 0
    assert {(name, session.name) for name, session in seen} == {
        (name, host) for name in ("first", "second") for host in ("one", "two", "three")
    }
    assert len({id(session) for _, session in seen}) == 3


def test_hosts_work_side_by_side(fab: Callable[..., int]) -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(session: Session) -> None:
        del session
        together.wait()

    assert fab("meet", step(meet)) == 0


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ({"one": GateRefused}, 3),
        ({"one": GateRefused, "two": Unreachable}, 3),
        ({"one": LinkLost, "two": Unreachable}, 4),
        ({"one": LinkLost}, 75),
        ({"one": GateRefused, "two": HostKeyError}, 6),
        ({"one": UsageError, "two": ValueError}, 1),
    ],
)
def test_a_host_that_fails_stops_and_the_worst_code_speaks(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str], raised: dict[str, type[Exception]], code: int
) -> None:
    reached: list[str] = []

    def check(session: Session) -> None:
        if kind := raised.get(session.name):
            raise kind("this went wrong")

    def go(session: Session) -> None:
        reached.append(session.name)

    assert fab("check go", step(check), step(go)) == code
    assert set(reached) == {"one", "two", "three"} - set(raised)
    output = capsys.readouterr()
    assert output.out == ""
    assert "Traceback" not in output.err
    assert output.err.count("this went wrong") == len(raised)
    for name in ("one", "two", "three"):
        mark = "✗" if name in raised else "✓"
        assert any(line.split()[:3] == [name, "check", mark] for line in output.err.splitlines())


def test_a_crash_is_one_line_and_a_file(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def crash(session: Session) -> None:
        raise ZeroDivisionError(session.name)

    assert fab("-H one crash", step(crash)) == 1
    (file,) = (tmp_path / "state" / "crashes").iterdir()
    assert "ZeroDivisionError: one" in file.read_text()
    error = capsys.readouterr().err
    assert str(file) in error
    assert "Traceback" not in error


def test_a_crash_is_shown_whole_when_asked(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUDENT_GATE_DEBUG", "1")

    def crash(session: Session) -> None:
        raise ZeroDivisionError(session.name)

    assert fab("-H one crash", step(crash)) == 1
    assert "Traceback" in capsys.readouterr().err


def test_lines_of_many_hosts_keep_their_name_and_never_mix(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(session: Session) -> None:
        for number in range(200):
            session.console.print(f"say {number} of {session.name}")
            session.out.write(f"write {number} ")
            session.out.write(f"of {session.name}\n")

    assert fab("talk", step(talk, brief=True)) == 0
    output = capsys.readouterr()
    for stream, word in ((output.err, "say"), (output.out, "write")):
        lines = stream.splitlines()
        assert len(lines) == 600
        for line in lines:
            name, _, said = line.partition("│")
            assert said.split()[0] == word
            assert said.split()[-1] == name.strip()


def test_the_gathering_comes_once_with_all_sessions_and_the_options(fab: Callable[..., int]) -> None:
    gathered: list[Any] = []

    def look(session: Session, *, deep: bool = False) -> str:
        return f"{session.name} {deep}"

    def gather(sessions: list[Session], **options: Any) -> None:
        gathered.append(({session.name: session.values["look"] for session in sessions}, options))

    assert fab("-H pair look --deep", step(look, gather=gather)) == 0
    assert gathered == [({"two": "two True", "three": "three True"}, {"deep": True})]


def test_secrets_are_masked_in_errors_and_output(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_SECRET", "hf_very_secret_value")

    def leak(session: Session) -> None:
        session.out.write(f"token {session.secrets['TEST_SECRET']}\n")
        raise GateRefused("refused hf_very_secret_value", remedy="unset hf_very_secret_value")

    assert fab("-H one leak", step(leak)) == 3
    output = capsys.readouterr()
    assert "very_secret" not in output.out + output.err
    assert output.out == "token ***\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-H one look --job nope", "no job 'nope'"),
        ("-H , look", "names no host"),
        ("-H -oProxyCommand=x look", "is no host"),
        ("look --inventory /nowhere.toml", "does not exist"),
        ("look --job job other --job else", "--job is given as else and as job"),
    ],
)
def test_usage_errors_are_code_2(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    def look(session: Session) -> None:
        raise AssertionError(session)

    def other(session: Session) -> None:
        raise AssertionError(session)

    assert fab(words, step(look), step(other)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_task_of_the_laptop_runs_once_and_needs_no_inventory(
    fab: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRIC_INVENTORY", "/nowhere.toml")
    calls: list[Any] = []

    def here(screen: Any) -> None:
        calls.append(screen)

    assert fab("here", OnLaptop(here)) == 0
    assert len(calls) == 1


def test_a_pipeline_whose_crash_cannot_be_kept_is_still_code_1(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "file"))

    def crash(session: Session) -> None:
        raise ZeroDivisionError(f"[/] {session.name}")

    assert fab("-H one crash", step(crash)) == 1
    error = capsys.readouterr().err
    assert "ZeroDivisionError: [/] one" in error
    assert "PRUDENT_GATE_DEBUG=1" in error
    assert "Traceback" not in error


def test_options_that_cannot_work_are_refused_before_any_host_is_reached(
    fab: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    def foresee(targets: list[Target], *, deep: bool) -> None:
        raise UsageError(f"not so deep with {[target.name for target in targets]}: {deep}")

    def look(session: Session, *, deep: bool = False) -> None:
        raise AssertionError(session, deep)

    assert fab("look --deep", step(look, foresee=foresee)) == 2
    assert "not so deep with ['one', 'two', 'three']: True" in capsys.readouterr().err


def test_a_gathering_that_fails_hides_no_host(fab: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    def look(session: Session) -> None:
        session.word = "looked at"

    def gather(sessions: list[Session]) -> None:
        raise UsageError(f"cannot be written for {len(sessions)}")

    assert fab("look", step(look, gather=gather)) == 2
    error = capsys.readouterr().err
    assert "cannot be written for 3" in error
    assert error.count("looked at") == 3


@pytest.mark.parametrize(("hosts", "sharers"), [("", 3), ("-H pair ", 2), ("-H one ", 1)])
def test_the_gate_is_told_how_many_hosts_share_the_dataset(
    fab: Callable[..., int], monkeypatch: pytest.MonkeyPatch, hosts: str, sharers: int
) -> None:
    told: list[int] = []

    def refuse(_host: Any, _job: Any, options: Any, **_: Any) -> None:
        told.append(options.sharers)
        raise GateRefused("asked for no more")

    def gate(session: Session) -> None:
        session._host = cast("Any", SimpleNamespace(link=None))
        session.__dict__["job"] = session.target.job
        tasks.preflight(session)

    monkeypatch.setattr("local.gate.preflight", refuse)
    assert fab(f"{hosts}gate", step(gate)) == 3
    assert told == [sharers] * sharers
