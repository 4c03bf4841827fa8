"""Which algorithms a connection offers: Paramiko's, ordered by what is known of the host, or as ssh_config chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.errors import UsageError
from local.links import hostkeys
from local.links.hostcerts import SIGNATURES, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import paramiko

    from local.links.hops import Resolved
    from local.links.knownhosts import Entry

# ssh_config's option → its name there, Paramiko's attribute, and Paramiko's table of all that it can do.
_OPTIONS = {
    "kexalgorithms": ("KexAlgorithms", "kex", "_kex_info"),
    "ciphers": ("Ciphers", "ciphers", "_cipher_info"),
    "macs": ("MACs", "digests", "_mac_info"),
}


def choose(transport: paramiko.Transport, hop: Resolved, entries: Iterable[Entry]) -> None:
    """Set what a transport offers; raises UsageError where ssh_config leaves nothing that Paramiko can do."""
    security = transport.get_security_options()
    for option, (name, attribute, table) in _OPTIONS.items():
        if wanted := hop.algorithms.get(option):
            setattr(security, attribute, _common(wanted, getattr(transport, table), name, hop))
    offered: Sequence[str] = (*security.key_types, *(f"{kind}{SUFFIX}" for kind in security.key_types))
    if wanted := hop.algorithms.get("hostkeyalgorithms"):
        offered = _common(wanted, offered, "HostKeyAlgorithms", hop)
    security.key_types = hostkeys.preferred(entries, hop.known_as, offered)


def signatures(hop: Resolved) -> tuple[str, ...]:
    """Give the algorithms that certificates may be signed with."""
    wanted = hop.algorithms.get("casignaturealgorithms", SIGNATURES)
    return tuple(name for name in wanted if name in SIGNATURES)


def accepts(hop: Resolved, kind: str) -> bool:
    """Tell whether ssh_config lets a key of a type be offered."""
    wanted = hop.algorithms.get("pubkeyacceptedalgorithms")
    certificate = SUFFIX if kind.endswith(SUFFIX) else ""
    made = (f"{one}{certificate}" for one in hostkeys.ALGORITHMS.get(kind.removesuffix(SUFFIX), ()))
    return wanted is None or bool({kind, *made} & set(wanted))


def refused_signatures(hop: Resolved, known: Iterable[str]) -> list[str]:
    """Give the algorithms that user keys must not sign with."""
    wanted = hop.algorithms.get("pubkeyacceptedalgorithms")
    return [] if wanted is None else [name for name in known if name not in wanted]


def _common(wanted: Sequence[str], known: Iterable[str], name: str, hop: Resolved) -> list[str]:
    possible = set(known)
    if common := [one for one in wanted if one in possible]:
        return common
    raise UsageError(
        f"none of ssh_config's {name} for {hop} is known to Paramiko: {', '.join(wanted)}",
        remedy=f"Add one of these to it: {', '.join(sorted(possible))}",
    )
