"""The keys with which a user is let in: named files first, then the agent's, and an account of what was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.ssh_exception import BadAuthenticationType

from local.links import agents, algorithms, identities
from local.links.account import Account, Refused
from local.links.knownhosts import Key
from local.links.passphrases import KEYRING, Locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paramiko.pkey import PublicBlob

    from local.links.hops import Resolved
    from local.links.identities import Identity
    from local.links.passphrases import Keyring

SAID = 300  # characters of a banner
LOST = ("shut down", "EOF", "timeout", "No existing session", "not active")


@dataclass(frozen=True, slots=True)
class _Offer:
    """A key to be offered, and where it comes from."""

    key: Any
    source: str

    @property
    def blob(self) -> bytes:
        shown = getattr(self.key, "public_blob", None)
        return bytes(shown.key_blob if shown else self.key.asbytes())

    @property
    def kind(self) -> str:
        shown = getattr(self.key, "public_blob", None)
        return str(shown.key_type if shown else self.key.get_name())

    def __str__(self) -> str:
        return f"{Key(self.kind, self.key.asbytes()).fingerprint} ({self.source})"


class _Certified(paramiko.PKey):
    """A key, a file's or an agent's, that is shown with a certificate."""

    def __init__(self, key: Any, certificate: PublicBlob) -> None:
        self._key = key
        self.public_blob = certificate

    def get_name(self) -> str:
        return str(self._key.get_name())

    def get_bits(self) -> int:
        return int(self._key.get_bits())

    def asbytes(self) -> bytes:
        return bytes(self._key.asbytes())

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> Any:
        return self._key.sign_ssh_data(data, algorithm)


class UserKeys:
    """Offers a hop's keys one after the other, each once; raises Refused with its account."""

    def __init__(self, hop: Resolved, keyring: Keyring = KEYRING) -> None:
        self._hop = hop
        self._keyring = keyring
        self.account = Account(forbidden=not hop.public_keys)

    def authenticate(self, transport: paramiko.Transport) -> list[str]:
        """Be let in, or raise Refused (or what Paramiko raises when the link breaks before any key was refused)."""
        with agents.keys_of(self._hop.agent) as held:
            for offer in self._offers(held) if self._hop.public_keys else ():
                if self._takes(transport, offer):
                    return []
                if not transport.is_active() or (self.account.methods and "publickey" not in self.account.methods):
                    break
        if transport.is_active() and not self.account.further and self._needs_none(transport):
            return []
        self.account.farewell = "" if transport.is_active() else getattr(transport, "farewell", "") or "without a word"
        raise Refused(self.account)

    def _takes(self, transport: paramiko.Transport, offer: _Offer) -> bool:
        """Offer a key and note what comes of it."""
        try:
            return self._tried(transport, offer)
        finally:
            banner: bytes | None = transport.get_banner()  # Paramiko forgets it at the next key
            self.account.banner = self.account.banner or (banner or b"").decode("utf-8", "replace").strip()[:SAID]

    def _tried(self, transport: paramiko.Transport, offer: _Offer) -> bool:
        try:
            further = transport.auth_publickey(self._hop.user, offer.key)
        except BadAuthenticationType as error:
            self.account.methods = tuple(error.allowed_types)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not self.account.offered and any(word in str(error) for word in LOST):
                if not getattr(transport, "farewell", ""):
                    raise  # the link broke, or the server is busy: no key was refused
            elif not isinstance(error, paramiko.AuthenticationException) and transport.is_active():
                self.account.skipped.append(f"{offer.source} ({error})")  # it cannot sign
                return False
        else:
            if not further:
                return True
            self.account.further = tuple(further)
        if why := getattr(getattr(offer.key, "_key", offer.key), "unsigned", ""):
            self.account.skipped.append(f"{offer.source} ({why})")
        else:
            self.account.offered.append(str(offer))
        return False

    def _needs_none(self, transport: paramiko.Transport) -> bool:
        """Ask what else the server takes; there are servers that know by other means who comes."""
        try:
            transport.auth_none(self._hop.user)
        except BadAuthenticationType as error:
            self.account.methods = tuple(error.allowed_types)
            return False
        except (paramiko.SSHException, EOFError, OSError):
            return False
        return True

    def _offers(self, held: dict[bytes, Any]) -> Iterator[_Offer]:
        """Give the keys in the order in which they are offered, none twice."""
        offered: set[bytes] = set()
        for offer in self._in_order(held):
            if offer.blob in offered:
                continue
            offered.add(offer.blob)
            if why := self._unfit(offer):
                self.account.skipped.append(f"{offer.source} ({why})")
            else:
                yield offer

    def _in_order(self, held: dict[bytes, Any]) -> Iterator[_Offer]:
        later: list[Identity] = []  # locked keys that nobody named: asked for when nothing else opens
        for path in dict.fromkeys(self._hop.identities):
            identity = identities.look(path)
            if identity.locked and identity.public not in held and path != self._hop.own_key:
                later.append(identity)
            else:
                yield from self._of(identity, held)
        if not self._hop.identities_only:
            # A finger is wanted for a security key: only where no other key opens the host.
            for key in sorted(held.values(), key=agents.is_security_key):
                yield _Offer(key, f"agent: {key.comment or 'no comment'}")
        for identity in later:
            yield from self._of(identity, held)

    def _of(self, identity: Identity, held: dict[bytes, Any]) -> Iterator[_Offer]:
        """Give what a key file offers: its certificates, then itself; the agent signs where it holds the key."""
        key, source = held.get(identity.public or b""), f"{identity.path}, held by the agent"
        if key is None:
            key, source = self._opened(identity), str(identity.path)
        if key is None:
            return
        for file, certificate in identities.certificates(identity, self._hop.certificates):
            yield _Offer(_Certified(key, certificate), str(file))
        yield _Offer(key, source)

    def _opened(self, identity: Identity) -> Any:
        """Give a file's private key, None where there is none to be had."""
        why = identity.why
        try:
            if not why:
                return self._keyring.key(identity, batch=self._hop.batch) if identity.locked else identity.key()
        except (Locked, ValueError) as error:
            why = str(error)
        if why != identities.MISSING or self._hop.asks_for(identity.path):
            self.account.skipped.append(f"{identity.path} ({why})")
        return None

    def _unfit(self, offer: _Offer) -> str:
        if not algorithms.accepts(self._hop, offer.kind):
            return f"ssh_config's PubkeyAcceptedAlgorithms leaves {offer.kind} out"
        if "ssh-rsa" in offer.kind and offer.key.get_bits() < self._hop.smallest_rsa:
            return f"it has only {offer.key.get_bits()} bits"
        return ""
