"""The errors of sockets, SSH and keys, mapped to ours where they enter: what was tried, what it means, what to do."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from local.errors import Denied, HostKeyError, PrudentError, Unreachable
from local.links.account import Refused, remedy

if TYPE_CHECKING:
    from collections.abc import Callable

BUSY = (
    "The host may be starting, overloaded, or letting in only so many at once (sshd's MaxStartups); try again shortly."
)
WRONG_PORT = "Check the port, and that an SSH server runs there."
FOREIGN = "Indecipherable protocol version"  # Paramiko's words for it
SPELLING = "Check its spelling, or the network's name service."
NO_ROUTE = "Check the address, the network or VPN, and the firewall between."


def explain(error: BaseException, *, target: str, where: str, said: str = "") -> PrudentError:
    """Give our error for what stopped a connection; `target` is user@host:port, `said` the server's last word."""
    if isinstance(error, PrudentError):
        return error
    if isinstance(error, Refused):
        return Denied(f"{target} lets none of our keys in: {error.account}", remedy=remedy(error.account), where=where)
    if isinstance(error, IncompatiblePeer):
        advice = "Its SSH server is too old for this Paramiko."
        return Unreachable(f"{target} has no algorithm in common with us: {error}", remedy=advice, where=where)
    message, advice = _words(error)
    word = f"; it says: {said}" if said else ""
    trouble = Unreachable(f"{target} {message}{word}", remedy=advice, where=where)
    trouble.transient = not _is_unknown_name(error) and FOREIGN not in str(error)
    return trouble


def worth_another_try(error: BaseException) -> bool:
    """Tell whether the same connection may well work in a moment: the server was there and broke off."""
    if isinstance(error, HostKeyError) or not isinstance(error, Unreachable) or not error.transient:
        return False
    cause = error.__cause__
    if isinstance(cause, paramiko.ChannelException):
        return False  # a jump host's word about the next hop, which a moment does not change
    return isinstance(cause, paramiko.SSHException | EOFError | ConnectionResetError)


def _words(error: BaseException) -> tuple[str, str]:
    text = str(error) or type(error).__name__
    for applies, message, advice in _KNOWN:
        if applies(error, text):
            return message.format(text=text), advice
    return f"cannot be reached: {text}", NO_ROUTE


def _is_unknown_name(error: BaseException) -> bool:
    return isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN


def _is_late(error: BaseException, _: str) -> bool:
    return isinstance(error, TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT


# The first that applies speaks; {text} is the error's own words.
_KNOWN: tuple[tuple[Callable[[BaseException, str], bool], str, str], ...] = (
    (lambda e, _: isinstance(e, socket.gaierror), "is not a known name ({text})", SPELLING),
    (lambda e, _: isinstance(e, ConnectionRefusedError), "refuses connections: nothing listens there", WRONG_PORT),
    (_is_late, "does not answer within the connect timeout", NO_ROUTE),
    (lambda _, t: FOREIGN in t, "speaks something else than SSH ({text})", WRONG_PORT),
    (lambda _, t: "banner" in t, "answers, but not as an SSH server does (no banner)", f"{WRONG_PORT} {BUSY}"),
    (lambda _, t: "No existing session" in t or "imed out" in t, "took the connection, then fell silent", BUSY),
    (lambda e, _: isinstance(e, paramiko.ChannelException), "is beyond its jump host's reach ({text})", NO_ROUTE),
    (
        lambda e, _: isinstance(e, ConnectionResetError | EOFError | paramiko.AuthenticationException),
        "broke the connection off",
        BUSY,
    ),
)
