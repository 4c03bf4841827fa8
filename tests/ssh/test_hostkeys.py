"""Host keys: pinned when new, refused when unknown under strict, always refused when changed or revoked."""

from __future__ import annotations

import base64
import resource
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.errors import HostKeyError, UsageError
from local.links import hostkeys
from local.links.base import Command
from local.links.hostkeys import Entry, Key, Trust, judge, pin, preferred, read, verify
from local.links.ssh import open_link
from tests.ssh import sshd
from tests.ssh.servers import make_key, needs_openssh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ssh.servers import Server

TRUE = Command(("true",))


def made(kind: str, rest: bytes) -> Key:
    """Give a key of which only the frame is one."""
    return Key(kind, len(kind).to_bytes(4) + kind.encode() + rest)


ED = made("ssh-ed25519", b"ed one")
OTHER = made("ssh-ed25519", b"ed two")
RSA = made("ssh-rsa", b"rsa one")


def entry(patterns: str, key: Key = ED, marker: str = "") -> Entry:
    return Entry(file=Path("known_hosts"), line=1, marker=marker, patterns=patterns, key=key)


def line(host: str, key: Key, marker: str = "") -> str:
    return f"{marker} {host} {key.kind} {base64.b64encode(key.blob).decode()}\n".lstrip()


@pytest.mark.parametrize(
    ("entries", "verdict"),
    [
        ([], "new"),
        ([entry("gpu02")], "new"),
        ([entry("gpu01")], "known"),
        ([entry("GPU01")], "known"),
        ([entry("gpu01", OTHER)], "changed"),
        ([entry("gpu01", OTHER), entry("gpu01")], "known"),
        ([entry("gpu01", RSA)], "changed"),
        ([entry("gpu01", RSA), entry("gpu01")], "known"),
        ([entry("gpu*,!gpu01")], "new"),
        ([entry("gpu??,x")], "known"),
        ([entry("gpu01"), entry("gpu01", marker="@revoked")], "revoked"),
        ([entry("gpu01"), entry("*", OTHER, marker="@revoked")], "known"),
        ([entry("gpu01", OTHER, marker="@cert-authority")], "new"),
    ],
)
def test_judgement(entries: list[Entry], verdict: str) -> None:
    assert judge(entries, "gpu01", ED).verdict == verdict


@pytest.mark.parametrize(
    ("patterns", "matches"), [("[gpu01]:2222", True), ("gpu01", False), ("[gpu01]:22", False), ("[gpu*]:2222", True)]
)
def test_hosts_with_a_port(patterns: str, matches: bool) -> None:  # noqa: FBT001
    assert entry(patterns).names("[gpu01]:2222") is matches


@needs_openssh
def test_names_that_ssh_keygen_has_hashed(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    public = make_key(tmp_path / "key").with_suffix(".pub").read_text().split()
    file.write_text(f"[gpu01]:2222 {public[0]} {public[1]}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    (found,) = read([file])
    assert found.patterns.startswith("|1|")
    assert found.names("[gpu01]:2222")
    assert not found.names("gpu01")


@needs_openssh
def test_fingerprints_are_those_of_ssh_keygen(tmp_path: Path) -> None:
    public = make_key(tmp_path / "key").with_suffix(".pub")
    kind, text, *_ = public.read_text().split()
    told = subprocess.run(["ssh-keygen", "-l", "-f", public], check=True, capture_output=True, text=True).stdout
    assert Key(kind, base64.b64decode(text)).fingerprint == f"{kind} {told.split()[1]}"


def test_what_is_no_entry_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"# comment\n\n gpu01 \ngpu01 ssh-ed25519 !!!\n\xff\xfe\n" + line("gpu01", ED).encode())
    assert [found.line for found in read([file, tmp_path / "missing", tmp_path])] == [6]


def test_known_types_are_asked_for_first() -> None:
    offered = ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"]
    assert preferred([entry("gpu01", RSA)], "gpu01", offered) == [*offered[2:], *offered[:2]]
    assert preferred([], "gpu01", offered) == offered


def test_certificates_are_asked_for_only_where_an_authority_speaks_for_the_host() -> None:
    offered = ["ssh-ed25519", "rsa-sha2-512", "ssh-ed25519-cert-v01@openssh.com", "rsa-sha2-512-cert-v01@openssh.com"]
    authority = entry("*.example", OTHER, marker="@cert-authority")
    assert preferred([authority], "gpu01.example", offered) == [*offered[2:], *offered[:2]]
    assert preferred([authority, entry("gpu01.example", RSA)], "[gpu01.example]:2222", offered) == [
        *offered[2:],
        "rsa-sha2-512",
        "ssh-ed25519",
    ]
    assert preferred([authority], "gpu01.test", offered) == offered[:2]


def test_a_torn_pin_file_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "pins"
    file.write_text(line("gpu02", OTHER).rstrip("\n"))
    assert pin(file, "gpu01", ED).verdict == "new"
    assert file.read_text() == line("gpu02", OTHER) + line("gpu01", ED)


def test_a_pin_that_a_full_disk_takes_half_of_is_taken_back(tmp_path: Path) -> None:
    pin(tmp_path / "pins", "one", ED)
    before = (tmp_path / "pins").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 30, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            pin(tmp_path / "pins", "two", RSA)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "pins").read_bytes() == before
    assert pin(tmp_path / "pins", "two", RSA).verdict == "new"


def test_a_pin_file_is_private(tmp_path: Path) -> None:
    pin(tmp_path / "pins", "gpu01", ED)
    assert (tmp_path / "pins").stat().st_mode & 0o777 == 0o600


def test_pinning_side_by_side_keeps_whole_lines_and_one_key(tmp_path: Path) -> None:
    file = tmp_path / "pins"
    verdicts: list[str] = []
    keys = [made("ssh-ed25519", bytes([number]) * 40) for number in range(16)]
    threads = [
        threading.Thread(target=lambda key=key: verdicts.append(pin(file, "gpu01", key).verdict)) for key in keys
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(verdicts) == ["changed"] * 15 + ["new"]
    assert len(read([file])) == 1


def test_a_key_known_on_port_22_serves_on_other_ports(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line("gpu01", ED))
    verify("[gpu01]:2222", ED, Trust(files=[file], pin_file=tmp_path / "pins", strict=True))
    assert verify("[gpu01]:2222", OTHER, Trust(files=[file], pin_file=tmp_path / "pins", strict=False))


def test_a_new_key_is_pinned_and_announced_once(sshd_server: Server, tmp_path: Path) -> None:
    pins = tmp_path / "pins"
    link = sshd_server.link(pin_file=pins)
    assert link.run(TRUE).code == 0
    fingerprint = _fingerprint(sshd_server.host_key)
    assert [fingerprint in notice for notice in link.notices] == [True]
    link.reconnect()
    link.close()
    assert len(link.notices) == 1
    again = sshd_server.link(pin_file=pins, host_key="strict")
    assert again.run(TRUE).code == 0
    again.close()
    assert again.notices == []


def test_an_unknown_key_is_refused_under_strict(sshd_server: Server, tmp_path: Path) -> None:
    with pytest.raises(HostKeyError, match="is not known") as caught:
        sshd_server.link(pin_file=tmp_path / "pins", host_key="strict").run(TRUE)
    assert _fingerprint(sshd_server.host_key) in str(caught.value)
    assert caught.value.exit_code == 6
    assert not (tmp_path / "pins").exists()


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_changed_key_always_stops(sshd_server: Server, tmp_path: Path, policy: str) -> None:
    pins = tmp_path / "pins"
    pins.write_text("# ours\n" + line(f"[127.0.0.1]:{sshd_server.port}", OTHER))
    before = pins.read_bytes()
    with pytest.raises(HostKeyError, match="has changed") as caught:
        sshd_server.link(pin_file=pins, host_key=policy).run(TRUE)
    told = str(caught.value)
    assert f"{pins}:2" in told
    assert OTHER.fingerprint in told
    assert _fingerprint(sshd_server.host_key) in told
    assert f"ssh-keygen -f {pins} -R '[127.0.0.1]:{sshd_server.port}'" in told
    assert pins.read_bytes() == before


@needs_openssh
def test_the_users_own_known_hosts_counts_and_is_not_written(sshd_server: Server, tmp_path: Path) -> None:
    known, config = tmp_path / "known_hosts", tmp_path / "config"
    kind, text, *_ = sshd_server.host_key.with_suffix(".pub").read_text().split()
    known.write_text(f"[127.0.0.1]:{sshd_server.port} {kind} {text}\n")
    config.write_text(f"Host *\n  UserKnownHostsFile {known}\n")
    before = known.read_bytes()
    settings = sshd_server.settings(host_key="strict")
    link = open_link(settings, ssh_config=str(config), pin_file=tmp_path / "pins")
    assert link.run(TRUE).code == 0
    link.close()
    assert known.read_bytes() == before


@pytest.fixture
def two_keyed(tmp_path: Path) -> Iterator[Server]:
    if sshd.program() is None:
        pytest.skip("needs an sshd with two host keys")
    folder = tmp_path / "two"
    folder.mkdir()
    make_key(folder / "second_key", "ecdsa")
    with sshd.running(folder, more=f"HostKey {folder}/second_key") as server:
        yield server


def test_a_second_type_of_key_is_no_change(two_keyed: Server) -> None:
    kind, text, *_ = (two_keyed.folder / "second_key.pub").read_text().split()
    two_keyed.pins.write_text(f"[127.0.0.1]:{two_keyed.port} {kind} {text}\n")
    link = two_keyed.link(host_key="strict")
    assert link.run(TRUE).code == 0
    link.close()


def test_a_revoked_key_is_refused(sshd_server: Server, tmp_path: Path) -> None:
    kind, text, *_ = sshd_server.host_key.with_suffix(".pub").read_text().split()
    pins = tmp_path / "pins"
    pins.write_text(f"[127.0.0.1]:{sshd_server.port} {kind} {text}\n@revoked * {kind} {text}\n")
    with pytest.raises(HostKeyError, match="revoked by"):
        sshd_server.link(pin_file=pins).run(TRUE)


def test_our_pins_lie_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "state"))
    assert hostkeys.pins() == tmp_path / "state" / "known_hosts"


def _fingerprint(private: Path) -> str:
    kind, text, *_ = private.with_suffix(".pub").read_text().split()
    return Key(kind, base64.b64decode(text)).fingerprint


def test_a_key_that_cannot_be_pinned_is_not_trusted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be pinned") as caught:
        verify("host", ED, Trust(files=(), pin_file=tmp_path, strict=False))
    assert "PRUDENT_GATE_STATE" in caught.value.remedy
