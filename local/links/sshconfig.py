"""What the user's ssh_config says about a host: asked of OpenSSH itself where it is installed.

Explicit settings win over ssh_config, as options win over it in `ssh`.
"""

from __future__ import annotations

import functools
import getpass
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko

from local.errors import UsageError
from local.folders import at_home
from local.links import forwarding, sshoptions
from local.links.hops import DEFAULT_KEYS, PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local.links.hops import Resolved
    from local.links.settings import SshSettings

SECONDS = 10.0  # for `ssh -G`: a `Match exec` may run anything
LOOPS = 8  # jump hosts behind jump hosts, at most
UNHEARD = (
    "the OpenSSH client is not installed: Include, the system's ssh_config, CanonicalizeHostname and lists of "
    "algorithms are not honoured"
)
_LISTS = ("identityfile", "certificatefile")
_SYSTEM = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_USERS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")


def resolve(settings: SshSettings, *, ssh_config: str | None = None) -> Resolved:
    """Merge settings with what ssh_config says; `ssh_config` names another file than the user's, or `none`."""
    target = settings.alias or settings.address
    for word in (target, settings.address, settings.user or ""):
        if word.startswith("-") or any(letter.isspace() for letter in word):
            raise UsageError(f"{word!r} is neither a host nor a user", where=settings.name)
    found = _ask(target, settings, ssh_config) if shutil.which("ssh") else _fallback(target, settings, ssh_config)
    return _with_settings(found, settings, target)


def hop(text: str, *, ssh_config: str | None, settings: SshSettings) -> Resolved:
    """Resolve one `[user@]host[:port]` of a jump list; limits and host key policy are those of the target."""
    user, _, place = text.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
    host, port = _split(place, text)
    asked = replace(
        settings,
        name=text,
        address=host,
        port=port,
        user=user or None,
        alias=None,
        jump=None,
        identity_file=None,
        forward_agent=False,
    )
    found = resolve(asked, ssh_config=ssh_config)
    # A key that the inventory names for the target opens its jump hosts too, unless ssh_config names others.
    own = (at_home(settings.identity_file),) if settings.identity_file else ()
    return replace(found, identities=(*own, *found.identities), own_key=own[0] if own else None)


def route(settings: SshSettings, *, ssh_config: str | None = None) -> list[Resolved]:
    """Give the hops to a host, the host last.

    The first jump host is reached as ssh_config says, through jump hosts of its own; the others from the one before.
    """
    target = resolve(settings, ssh_config=ssh_config)
    hops = [target]
    while hops[0].jumps:
        if len(hops) > LOOPS:
            raise UsageError(f"the jump hosts to {target} have no end", where=settings.name)
        before = [hop(jump, ssh_config=ssh_config, settings=settings) for jump in hops[0].jumps]
        hops = [*before, *hops]
    return hops


def _with_settings(found: Resolved, settings: SshSettings, target: str) -> Resolved:
    changes: dict[str, object] = {
        "connect_timeout": settings.connect_timeout or found.connect_timeout,
        "strict": found.strict or settings.host_key == "strict",
    }
    if target != settings.address:
        changes["host"] = settings.address
    if settings.port is not None:
        changes["port"] = settings.port
    if settings.user is not None:
        changes["user"] = settings.user
    if settings.identity_file is not None:
        changes["own_key"] = own = at_home(settings.identity_file)
        changes["identities"] = (own, *found.identities)
    if settings.jump is not None:
        changes["jumps"] = sshoptions.jumps(settings.jump)
        changes["proxy_command"] = None
    if settings.forward_agent:
        changes["lent"] = forwarding.agent_of(found) or None
        changes["notes"] = (*(note for note in found.notes if "ForwardAgent" not in note), forwarding.notice(found))
    return replace(found, **changes)  # type: ignore[arg-type]  # the names are those of the fields above


def _split(place: str, text: str) -> tuple[str, int | None]:
    """Split `host`, `host:port`, `[v6]:port` or a bare IPv6 address."""
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        port = rest.removeprefix(":")
    elif place.count(":") == 1:
        host, _, port = place.partition(":")
    else:
        host, port = place, ""
    if not host or (port and not port.isascii()) or (port and not port.isdigit()):
        raise UsageError(f"jump host {text!r} is not of the form user@host:port")
    return host, int(port) if port else None


def _ask(target: str, settings: SshSettings, ssh_config: str | None) -> Resolved:
    """Ask `ssh -G`, which connects to nothing."""
    words = ["-F", ssh_config] if ssh_config else []
    words += ["-p", str(settings.port)] if settings.port else []
    words += ["-l", settings.user] if settings.user else []
    words += ["-o", f"HostName={settings.address}"] if target != settings.address else []  # an alias brings the rest
    return understood(_said(words, target, settings.name), target, _usual(), where=settings.name)


def understood(said: str, target: str, usual: Mapping[str, Sequence[str]], *, where: str = "") -> Resolved:
    """Give the hop that `ssh -G` describes; raises UsageError where it is no such description."""
    try:
        return sshoptions.hop(parse(said), target, usual)
    except (ValueError, KeyError, RuntimeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"what `ssh -G {target}` says is not understood: {why}", where=where) from error


@functools.cache
def _usual() -> dict[str, list[str]]:
    """Give what OpenSSH does where nobody chose."""
    return parse(_said(["-F", "none"], "localhost", ""))


def _said(words: list[str], target: str, where: str) -> str:
    """Give what `ssh -G` says; whatever a `Match exec` started ends with it."""
    with subprocess.Popen(
        ["ssh", *words, "-o", "RemoteCommand=none", "-G", "--", target, "true"],  # as it is with a command
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            stdout, stderr = process.communicate(timeout=SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise UsageError(
                f"`ssh -G {target}` gave no answer in {SECONDS:g} s",
                remedy="Look at `Match exec` and CanonicalizeHostname in ssh_config: what they wait for does not come.",
                where=where,
            ) from error
    if process.returncode:
        said = stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise UsageError(f"ssh_config cannot be read for {target}: {said}", where=where)
    return stdout.decode("utf-8", "surrogateescape")


def parse(text: str) -> dict[str, list[str]]:
    """Read what `ssh -G` writes: `keyword value` lines, keywords in lower case, some of them several times."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword.lower(), []).append(value)
    return values


def _fallback(target: str, settings: SshSettings, ssh_config: str | None) -> Resolved:
    """Read ssh_config by Paramiko's own parser, which knows less of it."""
    file = Path(ssh_config) if ssh_config else Path("~/.ssh/config").expanduser()
    config = paramiko.SSHConfig()
    read = ssh_config != "none" and file.exists()
    try:
        if read:
            config = paramiko.SSHConfig.from_path(str(file))
        found = config.lookup(target)
        values = {
            word: list(said) if word in _LISTS else [str(said)] for word, said in found.items() if said is not None
        }
        values = {word: said for word, said in values.items() if word not in sshoptions.ALGORITHMS}
        folder = Path("~/.ssh").expanduser()
        usual = {
            "hostname": [target], "port": [str(PORT)], "user": [settings.user or getpass.getuser()],
            "identityfile": [str(folder / name) for name in DEFAULT_KEYS],
            "userknownhostsfile": [" ".join(_USERS)], "globalknownhostsfile": [" ".join(_SYSTEM)],
        }  # fmt: skip
        made = sshoptions.hop(usual | values, target, {})
    except (paramiko.SSHException, OSError, ValueError, KeyError) as error:
        raise UsageError(f"{file} cannot be read: {error}", where=settings.name) from error
    return replace(made, notes=(UNHEARD, *made.notes)) if read else made
