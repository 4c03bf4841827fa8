"""What other programs keep about hosts: known_hosts files, ssh's own answers; and ranges of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from local.errors import UsageError
from local.links import hostkeys, knownhosts, sshconfig
from remote import ranges
from tests.fuzz.budget import fuzzed
from tests.fuzz.strange import cut, words

if TYPE_CHECKING:
    from pathlib import Path

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJ3mrpy0Bq0nFPBNQgQrlGUqjO4WNkTmJmH0wZHcdbQH"
KNOWN = "\n".join(
    (
        f"gpu01,192.0.2.1 ssh-ed25519 {KEY}",
        f"[gpu02]:2222 ssh-ed25519 {KEY} comment",
        f"|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-ed25519 {KEY}",
        f"@cert-authority *.example ssh-ed25519 {KEY}",
        f"@revoked * ssh-ed25519 {KEY}",
        f"*,!gpu03 ssh-ed25519 {KEY}",
        "# a comment",
        "",
    )
).encode()
SAID = b"""host gpu01
hostname 192.0.2.1
user root
port 22
identityfile ~/.ssh/id_ed25519
identityfile ~/.ssh/%h-%r
userknownhostsfile ~/.ssh/known_hosts ~/.ssh/known_hosts2
globalknownhostsfile /etc/ssh/ssh_known_hosts
proxycommand nc %h %p
proxyjump me@jump:22,other
connecttimeout 10
requiredrsasize 1024
stricthostkeychecking accept-new
identityagent SSH_AUTH_SOCK
ciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com
"""


@fuzzed(2500, st.tuples(cut(KNOWN), st.one_of(words, st.sampled_from(["gpu01", "[gpu02]:2222", "localhost"]))))
def test_known_hosts(folder: Path, drawn: tuple[bytes, str]) -> None:
    data, host = drawn
    file = folder / "known_hosts"
    file.write_bytes(data)
    found = knownhosts.contents([file])
    assert all(str(file) in said for said in found.unused)
    for entry in found.entries:
        entry.names(host.encode("utf-8", "replace").decode())
        assert entry.key.fingerprint.startswith(entry.key.kind)
    assert sorted(hostkeys.preferred(found.entries, "gpu01", ["ssh-ed25519", "ssh-rsa"])) == ["ssh-ed25519", "ssh-rsa"]


@fuzzed(2000, cut(SAID))
def test_answers_of_ssh(folder: Path, data: bytes) -> None:
    del folder
    try:
        found = sshconfig.understood(data.decode("utf-8", "surrogateescape"), "gpu01", {})
    except UsageError as error:
        assert "ssh -G gpu01" in str(error)
    else:
        assert isinstance(found.port, int)


@fuzzed(2500, st.one_of(words, cut(b"0-99,105,200-3000", b"1,2,3-4").map(lambda data: data.decode("utf-8", "replace"))))
def test_ranges(folder: Path, text: str) -> None:
    del folder
    try:
        found = ranges.spans(text)
    except ranges.RangeError as error:
        assert len(str(error)) < 500
        return
    if sum(map(len, found)) < 10_000:
        assert ranges.parse(ranges.tell(ranges.parse(text))) == ranges.parse(text)
