"""Who is let in, and with which key: files of every kind, certificates, an agent; and what is said when nobody is."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
import pytest

from local.errors import Denied
from local.links import passphrases
from local.links.base import Command
from local.links.hops import Resolved
from local.links.identities import look
from local.links.passphrases import Keyring, Locked
from local.links.ssh import SshLink, open_link
from local.links.userkeys import UserKeys
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]

TRUE = Command(("true",))
ROOT = Path(__file__).parents[2]
CERTIFIED = "TrustedUserCAKeys {folder}/user_ca.pub\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that trusts an authority, and lets six keys be tried."""
    folder = tmp_path_factory.mktemp("keys")
    keys.key(folder / "user_ca", "-t", "ed25519")
    with sshd.running(folder, more=CERTIFIED.format(folder=folder) + "MaxAuthTries 6\n") as running:
        yield running


@pytest.fixture
def sock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with keys.agent(tmp_path / "agent") as running:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(running))
        yield running


@pytest.fixture(autouse=True)
def _no_agent_but_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def link(server: Server, tmp_path: Path) -> Iterator[Callable[..., SshLink]]:
    """Make links under lines of ssh_config."""
    made: list[SshLink] = []

    def make(config: str = "", **changes: object) -> SshLink:
        file = tmp_path / "config"
        file.write_text(f"Host *\n UserKnownHostsFile none\n{config}")
        settings = server.settings(**{"identity_file": None, **changes})
        made.append(open_link(settings, ssh_config=str(file), pin_file=tmp_path / "pins"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def allow(server: Server, *public: Path) -> None:
    """Let further keys in."""
    with (server.folder / "authorized_keys").open("a") as file:
        file.writelines(f"{path}.pub" and Path(f"{path}.pub").read_text() for path in public)


KINDS = {
    "ed25519": ("-t", "ed25519"),
    "rsa": ("-t", "rsa", "-b", "2048"),
    "ecdsa": ("-t", "ecdsa"),
    "ecdsa-521": ("-t", "ecdsa", "-b", "521"),
    "rsa-pem": ("-t", "rsa", "-b", "2048", "-m", "PEM"),
    "ecdsa-pem": ("-t", "ecdsa", "-m", "PEM"),
    "rsa-pkcs8": ("-t", "rsa", "-b", "2048", "-m", "PKCS8"),
    "ecdsa-pkcs8": ("-t", "ecdsa", "-m", "PKCS8"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_key_files_of_every_kind(server: Server, link: Callable[..., SshLink], tmp_path: Path, kind: str) -> None:
    key = keys.key(tmp_path / "key", *KINDS[kind])
    allow(server, key)
    assert link(identity_file=str(key)).run(TRUE).code == 0


@pytest.mark.parametrize("kind", KINDS)
def test_locked_keys_of_every_kind_open_by_their_passphrase(tmp_path: Path, kind: str) -> None:
    key = look(keys.key(tmp_path / "key", *KINDS[kind], passphrase="correct horse"))
    answers = iter(["wrong", "correct horse"])
    keyring = Keyring(ask=lambda _: next(answers), terminal=lambda: True)
    opened = keyring.key(key, batch=False)
    assert opened.asbytes() == look(tmp_path / "key").public
    assert keyring.key(key, batch=False) is opened


def test_the_configured_key_goes_before_eight_wrong_ones_of_the_agent(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path
) -> None:
    keys.add(sock, *(keys.key(tmp_path / f"wrong{number}", "-t", "ed25519") for number in range(8)))
    assert link(identity_file=str(server.identity)).run(TRUE).code == 0
    assert link(f" IdentityFile {server.identity}\n").run(TRUE).code == 0


def test_too_many_wrong_keys_are_counted_and_named(link: Callable[..., SshLink], tmp_path: Path, sock: Path) -> None:
    wrong = [keys.key(tmp_path / f"wrong{number}", "-t", "ed25519") for number in range(8)]
    keys.add(sock, *wrong)
    with pytest.raises(Denied, match="Too many authentication failures") as caught:
        link().run(TRUE)
    told = str(caught.value)
    assert [keys.fingerprint(key) in told for key in wrong] == [True] * 6 + [False] * 2
    assert "(agent: wrong0)" in told
    assert "IdentitiesOnly yes" in told
    assert caught.value.exit_code == 4


def test_identities_only_and_an_agent_that_holds_the_named_key(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path
) -> None:
    keys.add(sock, *(keys.key(tmp_path / f"wrong{number}", "-t", "ed25519") for number in range(8)), server.identity)
    public = tmp_path / "only.pub"
    shutil.copy(f"{server.identity}.pub", public)
    assert link(f" IdentitiesOnly yes\n IdentityFile {public}\n").run(TRUE).code == 0
    assert link(" IdentitiesOnly yes\n", identity_file=str(public)).run(TRUE).code == 0
    with pytest.raises(Denied, match="no key was offered"):
        link(f" IdentitiesOnly yes\n IdentityFile {tmp_path}/nowhere\n").run(TRUE)


def test_a_public_key_that_no_agent_holds(server: Server, link: Callable[..., SshLink]) -> None:
    with pytest.raises(Denied, match=r"user_key\.pub \(a public key, and no agent holds the private one\)"):
        link(identity_file=f"{server.identity}.pub").run(TRUE)


@pytest.mark.parametrize("value", ["{sock}", "$OTHER_SOCK", "${{OTHER_SOCK}}"])
def test_the_agent_that_ssh_config_names(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with keys.agent(tmp_path / "other") as sock:
        keys.add(sock, server.identity)
        monkeypatch.setenv("OTHER_SOCK", str(sock))
        assert link(f" IdentityAgent {value.format(sock=sock)}\n").run(TRUE).code == 0


def test_no_agent_where_ssh_config_says_none(server: Server, link: Callable[..., SshLink], sock: Path) -> None:
    keys.add(sock, server.identity)
    assert link().run(TRUE).code == 0
    with pytest.raises(Denied, match="no key was offered"):
        link(" IdentityAgent none\n").run(TRUE)


def test_an_agent_that_is_gone_holds_nothing(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    assert link(identity_file=str(server.identity)).run(TRUE).code == 0


def certify(server: Server, key: Path, *options: str) -> Path:
    words = ["ssh-keygen", "-q", "-s", server.folder / "user_ca", "-I", "id", "-n", server.user, *options, f"{key}.pub"]
    subprocess.run(words, check=True, capture_output=True)
    return key.with_name(f"{key.name}-cert.pub")


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("where", ["beside", "named"])
def test_certificates_of_users(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, kind: str, where: str
) -> None:
    key = keys.key(tmp_path / "key", *KINDS[kind])
    certificate = certify(server, key)
    config = ""
    if where == "named":
        certificate = certificate.rename(tmp_path / "elsewhere.pub")
        config = f" CertificateFile {certificate}\n"
    assert link(config, identity_file=str(key)).run(TRUE).code == 0


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_certificates_with_keys_that_an_agent_holds(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path, kind: str
) -> None:
    key = keys.key(tmp_path / "key", *KINDS[kind])
    keys.add(sock, key)
    certificate = certify(server, key)
    key.unlink()
    assert link(" IdentitiesOnly yes\n", identity_file=str(key)).run(TRUE).code == 0
    certificate.unlink()
    with pytest.raises(Denied):
        link(identity_file=str(key)).run(TRUE)


def test_certificates_that_an_agent_holds(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path
) -> None:
    key = keys.key(tmp_path / "key", "-t", "ed25519")
    certify(server, key)
    keys.add(sock, key)
    for file in tmp_path.glob("key*"):
        file.unlink()
    assert link().run(TRUE).code == 0


def test_a_broken_certificate_does_not_spoil_its_key(
    server: Server, link: Callable[..., SshLink], tmp_path: Path
) -> None:
    key = Path(shutil.copy(server.identity, tmp_path / "key"))
    (tmp_path / "key-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")
    assert link(identity_file=str(key)).run(TRUE).code == 0


def test_an_expired_certificate_is_named(server: Server, link: Callable[..., SshLink], tmp_path: Path) -> None:
    key = keys.key(tmp_path / "key", "-t", "ed25519")
    certificate = certify(server, key, "-V", "-2d:-1d")
    with pytest.raises(Denied) as caught:
        link(identity_file=str(key)).run(TRUE)
    assert f"ssh-ed25519-cert-v01@openssh.com {keys.fingerprint(key)} ({certificate})" in str(caught.value)


def security_key(path: Path) -> Path:
    """Write the file of a security key as ssh-keygen does: without the device it is good for nothing."""

    def field(value: bytes) -> bytes:
        return len(value).to_bytes(4) + value

    public = field(b"sk-ssh-ed25519@openssh.com") + field(bytes(32)) + field(b"ssh:")
    body = b"openssh-key-v1\0" + field(b"none") + field(b"none") + field(b"") + (1).to_bytes(4) + field(public)
    text = base64.b64encode(body + field(bytes(64))).decode()
    path.touch(0o600)
    path.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n")
    return path


def readable(path: Path) -> Path:
    keys.key(path, "-t", "ed25519").chmod(0o640)
    return path


def written(content: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.touch(0o600)
        path.write_bytes(content)
        return path

    return write


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def locked(kind: str) -> Callable[[Path], Path]:
    return lambda path: keys.key(path, *KINDS[kind], passphrase="secret")


TORN = b"-----BEGIN %b PRIVATE KEY-----\nAAAA\n-----END %b PRIVATE KEY-----\n"
UNUSABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda path: path, "does not exist"),
    "readable by others": (readable, r"others may read it, which ssh refuses too: chmod 600 .*key"),
    "a security key": (security_key, "a security key: it works through ssh-agent only"),
    "a folder": (folder, "Is a directory"),
    "empty": (written(b""), "not a usable key"),
    "garbage": (written(b"\xff\xfe\0"), "not a usable key"),
    "a torn key": (written(TORN % (b"OPENSSH", b"OPENSSH")), "not a usable key"),
    "a torn PEM": (written(TORN % (b"RSA", b"RSA")), "not a usable key"),
    "locked": (locked("ed25519"), "needs its passphrase: load it into ssh-agent"),
    "locked PEM": (locked("rsa-pem"), "needs its passphrase: load it into ssh-agent"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_keys_that_cannot_be_used_are_named_with_the_reason(
    link: Callable[..., SshLink], tmp_path: Path, case: str
) -> None:
    make, why = UNUSABLE[case]
    key = make(tmp_path / "key")
    with pytest.raises(Denied, match=rf"not usable: {key} \({why}"):
        link(" IdentityFile none\n", identity_file=str(key)).run(TRUE)


@pytest.mark.parametrize("case", UNUSABLE)
def test_keys_that_cannot_be_used_do_not_hold_the_others_up(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, case: str
) -> None:
    key = UNUSABLE[case][0](tmp_path / "key")
    assert link(f" IdentityFile {server.identity}\n", identity_file=str(key)).run(TRUE).code == 0


def test_an_accepted_type_that_ssh_config_leaves_out(server: Server, link: Callable[..., SshLink]) -> None:
    with pytest.raises(Denied, match="PubkeyAcceptedAlgorithms leaves ssh-ed25519 out"):
        link(" PubkeyAcceptedAlgorithms rsa-sha2-512\n", identity_file=str(server.identity)).run(TRUE)


def test_rsa_signs_as_ssh_config_says(server: Server, link: Callable[..., SshLink], tmp_path: Path) -> None:
    key = keys.key(tmp_path / "key", *KINDS["rsa"])
    allow(server, key)
    made = link(" PubkeyAcceptedAlgorithms rsa-sha2-256\n", identity_file=str(key))
    assert made.run(TRUE).code == 0
    with pytest.raises(Denied, match="has only 2048 bits"):
        link(" RequiredRSASize 3072\n", identity_file=str(key)).run(TRUE)


@pytest.mark.parametrize("option", ["PubkeyAuthentication no", "PreferredAuthentications password"])
def test_keys_that_ssh_config_forbids(server: Server, link: Callable[..., SshLink], option: str) -> None:
    with pytest.raises(Denied, match="ssh_config forbids keys"):
        link(f" {option}\n", identity_file=str(server.identity)).run(TRUE)


@pytest.fixture
def other_server(tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    running = []

    def start(more: str) -> Server:
        (tmp_path / "sshd").mkdir()
        running.append(sshd.running(tmp_path / "sshd", more=more))
        return running[-1].__enter__()

    yield start
    for context in running:
        context.__exit__(None, None, None)


def test_a_server_that_takes_passwords_only(other_server: Callable[[str], Server]) -> None:
    server = other_server("Match all\n PubkeyAuthentication no\n PasswordAuthentication yes\n")
    with pytest.raises(Denied, match=r"the server takes password[\s\S]*takes no keys, only password"):
        server.link().run(TRUE)


def test_a_server_that_wants_a_second_step(other_server: Callable[[str], Server]) -> None:
    server = other_server("HostbasedAuthentication yes\nAuthenticationMethods publickey,hostbased\n")
    with pytest.raises(Denied, match="took a key and wants hostbased besides"):
        server.link().run(TRUE)


def test_a_server_that_wants_two_keys(other_server: Callable[[str], Server], tmp_path: Path) -> None:
    server = other_server("AuthenticationMethods publickey,publickey\n")
    second = keys.key(tmp_path / "second", "-t", "ed25519")
    allow(server, second)
    config = tmp_path / "config"
    config.write_text(f"Host *\n UserKnownHostsFile none\n IdentityFile {second}\n")
    made = open_link(server.settings(), ssh_config=str(config), pin_file=tmp_path / "pins")
    assert made.run(TRUE).code == 0
    made.close()


def test_a_banner_belongs_to_the_account(other_server: Callable[[str], Server], tmp_path: Path) -> None:
    (tmp_path / "banner").write_text("Keys are handed out by the front desk.\n")
    server = other_server(f"Banner {tmp_path}/banner\n")
    with pytest.raises(Denied, match="it says: Keys are handed out by the front desk"):
        server.link(identity_file=str(keys.key(tmp_path / "wrong", "-t", "ed25519"))).run(TRUE)


def test_an_agent_is_not_forwarded_even_where_ssh_config_asks_for_it(
    server: Server, link: Callable[..., SshLink], sock: Path
) -> None:
    keys.add(sock, server.identity)
    made = link(" ForwardAgent yes\n")
    assert made.run(Command(("sh", "-c", 'echo "<$SSH_AUTH_SOCK>"'))).stdout == b"<>\n"
    assert any("ForwardAgent yes is not honoured" in note for note in made.notices)


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


def test_a_busy_server_is_waited_for(other_server: Callable[[str], Server]) -> None:
    server = other_server("LoginGraceTime 2\nMaxStartups 1\n")
    with socket.create_connection(("127.0.0.1", server.port)):  # takes the one place there is, for two seconds
        made = server.link()
        assert made.run(TRUE).code == 0
        made.close()


class _Open(paramiko.ServerInterface):
    """Knows by other means who comes."""

    def check_auth_none(self, username: str) -> int:  # noqa: ARG002
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"


def test_a_server_that_asks_for_no_key(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = server.link(
            port=listener.getsockname()[1], identity_file=str(tmp_path / "missing"), pin_file=tmp_path / "pins"
        )
        errors: list[Exception] = []

        def connect() -> None:
            try:
                made.reconnect()
            except Exception as error:  # noqa: BLE001 - told by the test
                errors.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        near, _ = listener.accept()
        transport = paramiko.Transport(near)
        transport.add_server_key(paramiko.ECDSAKey.generate())
        transport.start_server(server=_Open())
        thread.join(20)
        made.close()
        transport.close()
        transport.join(5)
        assert errors == []


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
