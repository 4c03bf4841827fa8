"""ssh_config's options as we understand them: from keywords and values to a hop, and what of them is not honoured."""

from __future__ import annotations

import getpass
import math
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from local.folders import at_home
from local.links.hops import BEAT, CONNECT_TIMEOUT, SILENCE, Resolved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
ALGORITHMS = (
    "kexalgorithms",
    "ciphers",
    "macs",
    "hostkeyalgorithms",
    "pubkeyacceptedalgorithms",
    "casignaturealgorithms",
)
LONGEST = 10  # digits of a number of seconds
_DEBIANS = 300.0
_YES = {"yes", "true"}
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
# Options that change whether or how a host is reached, which we cannot do: value by which they are off, what to know.
_UNHEARD: Mapping[str, tuple[str, str]] = {
    "forwardagent": ("no", "say forward_agent = true in the inventory, for hosts whose root may use your keys"),
    "knownhostscommand": ("none", "host keys come from files only"),
    "verifyhostkeydns": ("false", "host keys come from files only"),
    "checkhostip": ("no", "host keys are looked up by name only"),
    "pkcs11provider": ("none", "load its keys into ssh-agent: ssh-add -s LIBRARY"),
    "hostbasedauthentication": ("no", "only keys open a host"),
    "bindinterface": ("none", "BindAddress is honoured"),
    "tunnel": ("false", "no tunnel is made"),
    "proxyusefdpass": ("no", "a ProxyCommand must pass bytes on"),
    "setenv": ("", "name variables in the inventory's `env`"),
}
_NAMES = {
    "forwardagent": "ForwardAgent", "knownhostscommand": "KnownHostsCommand", "verifyhostkeydns": "VerifyHostKeyDNS",
    "checkhostip": "CheckHostIP", "pkcs11provider": "PKCS11Provider", "bindinterface": "BindInterface",
    "hostbasedauthentication": "HostbasedAuthentication", "tunnel": "Tunnel", "proxyusefdpass": "ProxyUseFdpass",
    "setenv": "SetEnv",
}  # fmt: skip

Values = "Mapping[str, Sequence[str]]"


def hop(values: Mapping[str, Sequence[str]], target: str, usual: Mapping[str, Sequence[str]]) -> Resolved:
    """Give the hop that options describe; `usual` are the values that OpenSSH has where nobody chose."""
    first = {keyword: found[0] for keyword, found in values.items() if found}
    host, user, port = first["hostname"], first["user"], first["port"]
    alias = first.get("hostkeyalias")
    here = socket.gethostname()
    tokens = {
        "%%": "%", "%d": str(Path.home()), "%h": host, "%n": target, "%p": port, "%r": user, "%u": getpass.getuser(),
        "%k": alias or target, "%i": str(os.getuid()), "%l": here, "%L": here.partition(".")[0],
        "%j": first.get("proxyjump", ""),
    }  # fmt: skip
    proxy = first.get("proxycommand", "none")
    alive = _alive(first)
    known = [*_files(first.get("userknownhostsfile", "")), *_files(first.get("globalknownhostsfile", ""))]
    return Resolved(
        host=host,
        port=int(port),
        user=user,
        identities=_paths(values.get("identityfile", ()), tokens),
        identities_only=first.get("identitiesonly") in _YES,
        certificates=_paths(values.get("certificatefile", ()), tokens),
        agent=_agent(first.get("identityagent"), tokens),
        public_keys=_offers_keys(first),
        batch=first.get("batchmode") in _YES,
        jumps=jumps(first.get("proxyjump", "none")),
        known_hosts=_paths(known, tokens),
        host_key_alias=alias,
        strict=first.get("stricthostkeychecking") in _YES,
        revoked=next(iter(_paths([first.get("revokedhostkeys", "none")], tokens)), None),
        smallest_rsa=int(first.get("requiredrsasize", 1024)),
        proxy_command=None if proxy == "none" else expanded(proxy, tokens),
        connect_timeout=_seconds(first.get("connecttimeout", "none")),
        bind_address=first.get("bindaddress"),
        family=FAMILIES.get(first.get("addressfamily", "any"), socket.AF_UNSPEC),
        algorithms={
            name: tuple(first[name].split(","))
            for name in ALGORITHMS
            if name in first and values[name] != usual.get(name)
        },
        alive_every=alive[0],
        alive_within=alive[1],
        notes=(*_unheard(first), *_lax(first, alive)),
    )


def jumps(text: str) -> tuple[str, ...]:
    """Split a list of jump hosts."""
    return () if text in {"", "none"} else tuple(part.strip() for part in text.split(","))


def expanded(text: str, tokens: Mapping[str, str]) -> str:
    """Put values in place of ssh_config's tokens."""
    return re.sub("%.", lambda token: tokens.get(token[0], token[0]), text)


def _is_file(text: str) -> bool:
    return os.path.isfile(at_home(text))  # noqa: PTH113 - Path's own raises where a name is too long


def _paths(names: Sequence[str], tokens: Mapping[str, str]) -> tuple[Path, ...]:
    return tuple(_path(name, tokens) for name in names if name not in {"", "none", "/dev/null"})


def _path(text: str, tokens: Mapping[str, str]) -> Path:
    with_variables = _VARIABLE.sub(lambda found: os.environ.get(found[1], found[0]), text.strip('"'))
    return at_home(expanded(with_variables, tokens))


def _files(text: str) -> list[str]:
    """Split a list of files, written without quotes: words that only together name a file belong together."""
    files: list[str] = []
    words = text.split(" ")
    while words:
        whole = next((end for end in range(len(words), 1, -1) if _is_file(" ".join(words[:end]))), 1)
        files.append(" ".join(words[:whole]))
        words = words[whole:]
    return files


def _agent(text: str | None, tokens: Mapping[str, str]) -> str | None:
    if text is None or text == "SSH_AUTH_SOCK":
        return None
    if text == "none":
        return ""
    return os.environ.get(text[1:], "") if text.startswith("$") and "/" not in text else str(_path(text, tokens))


def _offers_keys(first: Mapping[str, str]) -> bool:
    chosen = first.get("preferredauthentications", "publickey").split(",")
    return first.get("pubkeyauthentication", "yes") not in {"no", "false"} and "publickey" in chosen


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() and int(text) else CONNECT_TIMEOUT


def _alive(first: Mapping[str, str]) -> tuple[float, float]:
    """Give the seconds between two probes, and those in which one is answered, that ssh_config asks for."""
    every, count = (_natural(first.get(f"serveralive{word}", "3")) for word in ("interval", "countmax"))
    return (every, every * count) if "serveraliveinterval" in first and every and count else (math.inf, math.inf)


def _natural(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < LONGEST else 0.0


def _lax(first: Mapping[str, str], alive: tuple[float, float]) -> list[str]:
    """Say that a host may not be silent for as long as ssh_config allows."""
    every, within = alive
    of_debian = first.get("batchmode") in _YES and every == _DEBIANS  # it comes with BatchMode, and nobody chose it
    if within == math.inf or within <= BEAT + SILENCE or of_debian:
        return []
    said = (
        f"ssh_config's ServerAliveInterval {every:g} is not honoured in full: a host is asked every "
        f"{min(every, BEAT):g} s, and a connection is given up after {SILENCE:g} s without an answer"
    )
    return [said]


def _unheard(first: Mapping[str, str]) -> list[str]:
    return [
        f"ssh_config's {_NAMES[keyword]} {first[keyword]} is not honoured: {why}"
        for keyword, (off, why) in _UNHEARD.items()
        if first.get(keyword, off) != off
    ]
