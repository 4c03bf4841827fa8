"""Passphrases: asked for at the terminal once for all hosts, last for keys that nobody named."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from local.links import passphrases
from local.links.hops import Resolved
from local.links.identities import look
from local.links.passphrases import Keyring, Locked
from local.links.userkeys import UserKeys
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh
from tests.ssh.userkeys.making import ROOT, allow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]


def test_one_question_serves_all_hosts(tmp_path: Path) -> None:
    key = look(keys.key(tmp_path / "key", "-t", "ed25519", passphrase="secret"))
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return "secret"

    keyring = Keyring(ask=ask, terminal=lambda: True)
    threads = [threading.Thread(target=keyring.key, args=(key,), kwargs={"batch": False}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == [f"Passphrase for {tmp_path}/key: "]


@pytest.mark.parametrize(
    ("answers", "why", "questions"),
    [(["no"] * 5, "the passphrase was wrong 3 times", 3), ([""], "no passphrase was given", 1)],
)
def test_a_key_that_stays_locked_is_asked_for_no_more(
    tmp_path: Path, answers: list[str], why: str, questions: int
) -> None:
    key = look(keys.key(tmp_path / "key", "-t", "ed25519", passphrase="secret"))
    left = list(answers)
    keyring = Keyring(ask=lambda _: left.pop(0), terminal=lambda: True)
    for _ in range(2):
        with pytest.raises(Locked, match=why):
            keyring.key(key, batch=False)
    assert len(answers) - len(left) == questions


def test_nobody_is_asked_under_batch_mode(tmp_path: Path) -> None:
    key = look(keys.key(tmp_path / "key", "-t", "ed25519", passphrase="secret"))
    keyring = Keyring(ask=lambda _: pytest.fail("asked"), terminal=lambda: True)
    with pytest.raises(Locked, match="BatchMode forbids"):
        keyring.key(key, batch=True)


def at_a_terminal(server: Server, key: Path, answers: list[str]) -> tuple[int, str]:
    """Connect to a host twice, as two hosts, by a program at a terminal."""
    program = f"""
import sys
from pathlib import Path
from local.links.base import Command
from local.links.settings import SshSettings
from local.links.ssh import open_link
for name in ("one", "two"):
    settings = SshSettings(
        name=name, address="127.0.0.1", port={server.port}, user={server.user!r}, identity_file={str(key)!r}
    )
    link = open_link(settings, ssh_config="none", pin_file=Path({str(key.parent / "pins")!r}))
    try:
        print(name, link.run(Command(("echo", "in"))).stdout.decode(), flush=True)
    except Exception as error:
        print(error)
        sys.exit(4)
    finally:
        link.close()
"""
    environment = {"PATH": os.environ["PATH"], "HOME": str(key.parent), "PYTHONPATH": str(ROOT)}
    return keys.at_a_terminal(
        [sys.executable, "-c", program], answers, environment=environment, question="Passphrase for"
    )


def test_a_passphrase_is_asked_for_at_the_terminal_once(server: Server, tmp_path: Path) -> None:
    key = keys.key(tmp_path / "key", "-t", "ed25519", passphrase="sesame opens")
    allow(server, key)
    code, shown = at_a_terminal(server, key, ["no, wrong", "sesame opens"])
    assert code == 0, shown
    assert shown.count("Passphrase for") == 2
    assert "one in" in shown
    assert "two in" in shown
    assert "sesame" not in shown  # no echo


def test_a_terminal_without_an_answer(server: Server, tmp_path: Path) -> None:
    key = keys.key(tmp_path / "key", "-t", "ed25519", passphrase="sesame opens")
    code, shown = at_a_terminal(server, key, [""])
    assert code == 4
    assert "no passphrase was given" in shown


def test_standard_input_that_is_no_terminal_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:  # noqa: PTH123 - as a terminal is
        monkeypatch.setattr(sys, "stdin", nothing)
        assert not passphrases.terminal()
    monkeypatch.setattr(sys, "stdin", None)
    assert not passphrases.terminal()


def test_locked_keys_that_nobody_named_are_asked_for_last(server: Server, tmp_path: Path) -> None:
    locked = keys.key(tmp_path / "locked", "-t", "ed25519", passphrase="secret")
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return "secret"

    hop = Resolved(host="gpu01", user="root", identities=(locked, server.identity), agent="")
    offers = UserKeys(hop, Keyring(ask=ask, terminal=lambda: True))._offers({})
    assert next(offers).source == str(server.identity)
    assert asked == []
    assert next(offers).source == str(locked)
    named = UserKeys(replace(hop, own_key=locked), Keyring(ask=ask, terminal=lambda: True))._offers({})
    assert next(named).source == str(locked)
    assert len(asked) == 2
