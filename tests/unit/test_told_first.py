"""What can be known from the command line and the files is told before any host is asked: code 2, no connection."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from fabric.config import Config
from fabric.main import Fab

import fabfile
from local.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

INVENTORY = """
[hosts.one]
address = "127.0.0.1"
port = {port}
ssh_config = "none"
[hosts.two]
address = "localhost"
port = {port}
ssh_config = "none"
[jobs.script]
engine = "command"
command = ["true"]
output = "/data/out"
[jobs.told]
engine = "speculators"
model = "/data/model"
dataset = "/data/train.jsonl"
output = "/data/states"
hooks = {{ on_done = {{ notify = "A_CHAT_THAT_NOBODY_SET" }} }}
"""


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[socket.socket]:
    """Listen where the hosts are said to be, with an inventory that says so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        (tmp_path / "inventory.toml").write_text(INVENTORY.format(port=listener.getsockname()[1]))
        yield listener


@pytest.fixture
def fab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    monkeypatch.setenv("FABRIC_INVENTORY", str(tmp_path / "inventory.toml"))
    for name in ("STATE", "CACHE"):
        monkeypatch.setenv(f"PRUDENT_GATE_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(words: str) -> int:
        program = Fab(executor_class=Executor, config_class=Config, namespace=fabfile.namespace)
        with pytest.raises(SystemExit) as end:
            program.run(["fab", *words.split()])
        return int(end.value.code or 0)

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("preflight --job script --until sttic", "no level 'sttic'"),
        ("status preflight --job script --until sttic", "no level 'sttic'"),
        ("preflight --job script --without 9999", "no patch '9999' in the series"),
        ("preflight --job script --without ,", "names no patch"),
        ("preflight --job script --without 0003 --no-patches", "exclude each other"),
        ("preflight --job script --report /nowhere/report.json", "the report cannot be written"),
        ("preflight --inventory=", "--inventory: names no file"),
        ("preflight --job nope", "no job 'nope'"),
        ("preflight", "has 2 jobs: script, told"),
        ("preflight extract --job script --dry-run", "there is no plan to show"),
        ("preflight extract --job told --patience soon", "expected a duration"),
        ("preflight extract --job told", "A_CHAT_THAT_NOBODY_SET"),
        ("preflight extract verify --job script", "engine 'command' writes outputs of its own form"),
        ("status --run latest", "'latest' is no run"),
        ("logs --run 20200101", "'20200101' is no run"),
        ("logs --patience soon", "expected a duration"),
        ("stop --run ../x", "'../x' is no run"),
        ("report --run x", "'x' is no run"),
        ("report --html /nowhere/x.html", "the report cannot be written"),
        ("fetch --run x", "'x' is no run"),
        ("fetch --samples --indices 5-1", "--indices"),
        ("fetch --to /etc/passwd/x", "/etc/passwd is no folder"),
        ("clean --keep few", "expected a whole number"),
        ("monitor --once --run x", "'x' is no run"),
        ("monitor --log three", "'three' is not among the hosts"),
        ("monitor --interval 0", "a duration of at least a second"),
        ("check --job script --without 9999", "no patch '9999' in the series"),
        ("check --job script --without 0003 --no-patches", "exclude each other"),
        ("check --job script --suggest /nowhere/x.patch", "the suggested patch cannot be written"),
        ("-S / status", "-S: / is no file"),
        ("-t 0 status", "0 s to connect in are too few"),
        ("-t -5 status", "-5 s to connect in are too few"),
        ("-H one,@ status", "'@' is no host"),
    ],
)
def test_a_mistake_is_told_before_any_host_is_asked(
    fab: Callable[[str], int], ear: socket.socket, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    assert fab(words) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("error") == 1
    assert shown.out == ""
    with pytest.raises(BlockingIOError):
        ear.accept()


def test_the_ear_hears(fab: Callable[[str], int], ear: socket.socket) -> None:
    assert fab("-H one -t 1 status --run 20200101-000000-0000") == 4
    ear.accept()[0].close()
