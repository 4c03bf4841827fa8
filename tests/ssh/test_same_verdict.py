"""The same situation put to the real `ssh` and to us: no host is let in that `ssh` keeps out.

Each row is the text of a known_hosts file and lines of an ssh_config; `{host}` is the name as known_hosts writes it,
`{right}` the host's key, `{wrong}` another of the same type, `{rsa}` one of another type.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from local.errors import PrudentError
from local.links.base import Command
from local.links.ssh import open_link
from tests.ssh import sshd
from tests.ssh.servers import make_key, needs_openssh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]

STRICT = "StrictHostKeyChecking yes"
NEW = "StrictHostKeyChecking accept-new"
OFF = "StrictHostKeyChecking no"
AS_GPU01 = f"{STRICT}\nHostKeyAlias gpu01"
# what stands in known_hosts, what in ssh_config, and whether we let the host in; `ssh` is asked
ROWS = {
    "nothing known": ("", STRICT, False),
    "nothing known, new ones accepted": ("", NEW, True),
    "known": ("{host} {right}", STRICT, True),
    "known with a comment and odd blanks": ("  {host}\t{right} me@x # y  ", STRICT, True),
    "known, a line of Windows": ("{host} {right}\r", STRICT, True),
    "known in capitals": ("GPU01 {right}", AS_GPU01, True),
    "known for its address without the port": ("127.0.0.1 {right}", STRICT, True),
    "another key for its address without the port": ("127.0.0.1 {wrong}", STRICT, False),
    "commented out": ("#{host} {right}", STRICT, False),
    "another host": ("gpu02 {right}", STRICT, False),
    "a list of names": ("gpu02,{host},x {right}", STRICT, True),
    "a pattern": ("gpu0? {right}", AS_GPU01, True),
    "a pattern with a refusal": ("gpu*,!gpu01 {right}", AS_GPU01, False),
    "a refusal first": ("!gpu01,gpu* {right}", AS_GPU01, False),
    "a refusal alone": ("!gpu02 {right}", AS_GPU01, False),
    "brackets are no range": ("gpu0[0-9] {right}", AS_GPU01, False),
    "changed": ("{host} {wrong}", STRICT, False),
    "changed, new ones accepted": ("{host} {wrong}", NEW, False),
    "changed, unchecked": ("{host} {wrong}", OFF, False),
    "changed beside the right one": ("{host} {wrong}\n{host} {right}", STRICT, True),
    "another type alone": ("{host} {rsa}", STRICT, False),
    "another type alone, new ones accepted": ("{host} {rsa}", NEW, False),
    "revoked": ("{host} {right}\n@revoked {host} {right}", STRICT, False),
    "revoked for all": ("@revoked * {right}", NEW, False),
    "revoked for another": ("{host} {right}\n@revoked gpu02 {right}", STRICT, True),
    "revoked, unchecked": ("@revoked * {right}", OFF, False),
    "an unknown marker": ("@trusted {host} {right}", STRICT, False),
    "an authority is no host": ("@cert-authority * {right}", STRICT, False),
    "the type does not fit the key": ("{host} ssh-rsa {blob}", STRICT, False),
    "no type": ("{host} {blob}", STRICT, False),
    "the key cut off": ("{host} ssh-ed25519 {cut}", STRICT, False),
    "an alias instead of the name": ("{host} {right}", AS_GPU01, False),
    "hashed": ("{hashed} {right}", STRICT, True),
    "hashed among others": ("gpu02,{hashed} {right}", STRICT, False),
    "hashed with others": ("{hashed},gpu02 {right}", STRICT, False),
    "hashed by nobody's method": ("{hashed2} {right}", STRICT, False),
    "a vertical tab parts no words": ("{host}\v{right}", STRICT, False),
    "a blank of no keyboard parts no words": ("{host}\N{NO-BREAK SPACE}{right}", STRICT, False),
    "a form feed before it": ("\f{host} {right}", STRICT, False),
    "in the second file": ("", f"{STRICT}\nUserKnownHostsFile {{folder}}/none {{folder}}/second", True),
    "a list of revoked keys": ("{host} {right}", f"{STRICT}\nRevokedHostKeys {{folder}}/revoked", False),
    "a list that is not there": ("{host} {right}", f"{STRICT}\nRevokedHostKeys {{folder}}/gone", False),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with sshd.running(tmp_path_factory.mktemp("same")) as running:
        yield running


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, server: Server) -> dict[str, str]:
    """Give what the rows name."""
    folder = tmp_path_factory.mktemp("keys")
    host = f"[127.0.0.1]:{server.port}"
    right = public(server.host_key)
    known = folder / "known_hosts"
    known.write_text(f"{host} {right}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    hashed = known.read_text().split()[0]
    blob = right.split()[1]
    return {
        "host": host, "right": right, "blob": blob, "cut": blob[:-8], "hashed": hashed,
        "hashed2": hashed.replace("|1|", "|2|"), "wrong": public(make_key(folder / "wrong")),
        "rsa": public(make_key(folder / "rsa", "rsa")),
    }  # fmt: skip


def public(key: Path) -> str:
    return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])


@pytest.mark.parametrize(("known", "options", "wanted"), ROWS.values(), ids=ROWS)
def test_who_is_let_in(
    server: Server, keys: dict[str, str], tmp_path: Path, known: str, options: str, *, wanted: bool
) -> None:
    (tmp_path / "known_hosts").write_bytes(f"{known.format(**keys)}\n".encode())
    (tmp_path / "second").write_text(f"{keys['host']} {keys['right']}\n")
    (tmp_path / "revoked").write_text(f"{keys['right']}\n")
    config = tmp_path / "config"
    lines = [*options.format(folder=tmp_path).splitlines(), f"UserKnownHostsFile {tmp_path}/known_hosts"]
    config.write_text("\n".join([*lines, "GlobalKnownHostsFile none", "LogLevel ERROR", ""]))
    ours, theirs = we_let_in(server, config, tmp_path / "pins"), ssh_lets_in(server, config)
    assert ours == wanted
    assert theirs or not ours, "ssh keeps it out"


def ssh_lets_in(server: Server, config: Path) -> bool:
    words = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "-i", str(server.identity), "-p", str(server.port)]
    done = subprocess.run(
        [*words, f"{server.user}@127.0.0.1", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return done.returncode == 0


def we_let_in(server: Server, config: Path, pins: Path) -> bool:
    link = open_link(server.settings(), ssh_config=str(config), pin_file=pins)
    try:
        return link.run(Command(("true",))).code == 0
    except PrudentError:
        return False
    finally:
        link.close()
