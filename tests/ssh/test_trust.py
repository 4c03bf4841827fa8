"""Who is trusted, from the command line on: unknown, changed and known keys, whichever program meets them first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.links import knownhosts
from local.links.base import Command
from tests import hostpython
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]

ROOT = Path(__file__).parents[2]
FAB = str(Path(sys.executable).with_name("fab"))
TRUE = Command(("true",))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with host keys of three types."""
    folder = tmp_path_factory.mktemp("trust")
    more = "".join(f"HostKey {keys.key(folder / f'{kind}_key', '-t', kind)}\n" for kind in ("rsa", "ecdsa"))
    with sshd.running(folder, more=more) as running:
        yield running


def public(server: Server, name: str = "host_key") -> str:
    return " ".join((server.folder / f"{name}.pub").read_text().split()[:2])


def fab(server: Server, folder: Path, *words: str, known: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "known_hosts").write_text(known)
    (folder / "config").write_text(f"Host *\n UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile none\n")
    (folder / "inventory.toml").write_text(
        f'[defaults]\nuser = "{server.user}"\nssh_config = "{folder}/config"\npython = "{hostpython.python()}"\n'
        f'workdir = "{folder}/work"\nidentity_file = "{server.identity}"\n'
        f'[hosts.gpu]\naddress = "127.0.0.1"\nport = {server.port}\n'
    )
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "FABRIC_INVENTORY": str(folder / "inventory.toml"),
        "PRUDENT_GATE_STATE": str(folder / "state"), "PRUDENT_GATE_CACHE": str(folder / "cache"),
    }  # fmt: skip
    return subprocess.run(
        [FAB, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_new_key_is_said_aloud_once_and_kept(server: Server, tmp_path: Path) -> None:
    said = fab(server, tmp_path, "runs")
    assert said.returncode == 0, said.stderr
    assert keys.fingerprint(server.host_key) in "".join(said.stderr.split())
    pins = tmp_path / "state" / "known_hosts"
    assert pins.read_text() == f"[127.0.0.1]:{server.port} {public(server)}\n"
    assert pins.stat().st_mode & 0o777 == 0o600
    again = fab(server, tmp_path, "runs", "--strict-host-keys")
    assert (again.returncode, keys.fingerprint(server.host_key) in again.stderr) == (0, False)


def test_the_flag_refuses_what_is_not_known(server: Server, tmp_path: Path) -> None:
    said = fab(server, tmp_path, "runs", "--strict-host-keys")
    assert said.returncode == 6
    assert "is not known" in said.stderr
    assert not (tmp_path / "state" / "known_hosts").exists()
    known = f"[127.0.0.1]:{server.port} {public(server)}\n"
    assert fab(server, tmp_path, "runs", "--strict-host-keys", known=known).returncode == 0


def test_a_changed_key_stops_with_how_to_mend_it(server: Server, tmp_path: Path) -> None:
    other = keys.key(tmp_path / "other", "-t", "ed25519")
    name = f"[127.0.0.1]:{server.port}"
    known = f"# mine\n{name} {' '.join(other.with_suffix('.pub').read_text().split()[:2])}\n"
    said = fab(server, tmp_path, "runs", known=known)
    assert said.returncode == 6
    told = "".join(said.stderr.split())
    assert keys.fingerprint(other) in told
    assert keys.fingerprint(server.host_key) in told
    assert f"{tmp_path}/known_hosts:2" in told
    assert (tmp_path / "known_hosts").read_text() == known
    mend = ["ssh-keygen", "-f", str(tmp_path / "known_hosts"), "-R", name]
    assert "".join(" ".join(mend[:4]).split()) in told
    subprocess.run(mend, check=True, capture_output=True)
    mended = (tmp_path / "known_hosts").read_text()
    assert fab(server, tmp_path, "runs", known=mended).returncode == 0


@pytest.mark.parametrize("name", ["host_key", "rsa_key", "ecdsa_key"])
@pytest.mark.parametrize("hashed", [False, True], ids=["plain", "hashed"])
def test_any_known_type_is_asked_for(server: Server, tmp_path: Path, name: str, hashed: bool) -> None:  # noqa: FBT001
    pins = tmp_path / "pins"
    pins.write_text(f"[127.0.0.1]:{server.port} {public(server, name)}\n")
    if hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", pins], check=True, capture_output=True)
        (entry,) = knownhosts.read([pins])
        assert entry.patterns.startswith("|1|")
    before = pins.read_bytes()
    link = server.link(pin_file=pins, host_key="strict")
    assert link.run(TRUE).code == 0
    link.close()
    assert pins.read_bytes() == before


@pytest.mark.parametrize("patterns", ["*", "[127.0.0.?]:*", "[127.0.0.1]:{port},!other", "127.0.0.1"])
def test_patterns_that_mean_the_host(server: Server, tmp_path: Path, patterns: str) -> None:
    pins = tmp_path / "pins"
    pins.write_text(f"{patterns.format(port=server.port)} {public(server)} a comment\n")
    link = server.link(pin_file=pins, host_key="strict")
    assert link.run(TRUE).code == 0
    link.close()


def test_ten_hosts_at_once_pin_one_line(server: Server, tmp_path: Path) -> None:
    links = [server.link(pin_file=tmp_path / "pins") for _ in range(10)]
    threads = [threading.Thread(target=link.run, args=(TRUE,)) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for link in links:
        link.close()
    assert (tmp_path / "pins").read_text() == f"[127.0.0.1]:{server.port} {public(server)}\n"
    assert len([notice for link in links for notice in link.notices]) == 1, "one of them pinned it, and says so"


def test_two_controllers_pin_at_once(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from local.links.hostkeys import Key, pin
for number in range(200):
    blob = len("ssh-ed25519").to_bytes(4) + b"ssh-ed25519" + (sys.argv[2].encode() if number % 2 else b"same")
    pin(Path(sys.argv[1]), f"gpu{number:03}", Key("ssh-ed25519", blob))
"""
    words = [sys.executable, "-c", program, str(tmp_path / "pins")]
    both = [subprocess.Popen([*words, name], cwd=ROOT) for name in ("one", "two")]
    assert [one.wait(60) for one in both] == [0, 0]
    found = knownhosts.contents([tmp_path / "pins"])
    assert found.unused == ()
    assert sorted(entry.patterns for entry in found.entries) == [f"gpu{number:03}" for number in range(200)]
    assert (tmp_path / "pins").stat().st_mode & 0o777 == 0o600
