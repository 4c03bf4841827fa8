"""What the user's ssh_config says about a host: asked of OpenSSH itself where it is installed.

Explicit settings win over ssh_config, as options win over it in `ssh`.
"""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko

from local.errors import UsageError

if TYPE_CHECKING:
    from local.links.settings import SshSettings

PORT = 22
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
USUAL_KEYS = {*DEFAULT_KEYS, "id_ecdsa_sk", "id_ed25519_sk", "id_xmss", "id_dsa"}
UNHEARD = "the OpenSSH client is not installed: Include, Match, IdentitiesOnly and known_hosts options are not honoured"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """One hop, ready to be dialled. `jumps` are hops before it, first one first, as `[user@]host[:port]`."""

    host: str
    port: int = PORT
    user: str
    identities: tuple[Path, ...] = ()
    identities_only: bool = False
    own_key: Path | None = None  # the key that the inventory names
    jumps: tuple[str, ...] = ()
    known_hosts: tuple[Path, ...] = ()
    host_key_alias: str | None = None
    proxy_command: str | None = None
    note: str | None = None

    @property
    def known_as(self) -> str:
        """Give the name under which known_hosts files know this host."""
        host = (self.host_key_alias or self.host).lower()
        return host if self.port == PORT or self.host_key_alias else f"[{host}]:{self.port}"

    def asks_for(self, key: Path) -> bool:
        """Tell whether somebody named this key: OpenSSH adds the usual ones by itself, whether they exist or not."""
        return key == self.own_key or key.name not in USUAL_KEYS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"


def resolve(settings: SshSettings, *, ssh_config: str | None = None) -> Resolved:
    """Merge settings with what ssh_config says; `ssh_config` names another file than the user's, or `none`."""
    target = settings.alias or settings.address
    for word in (target, settings.address, settings.user or ""):
        if word.startswith("-") or any(letter.isspace() for letter in word):
            raise UsageError(f"{word!r} is neither a host nor a user", where=settings.name)
    found = _ask(target, settings, ssh_config) if shutil.which("ssh") else _fallback(target, ssh_config)
    return _with_settings(found, settings, target)


def hop(text: str, *, ssh_config: str | None, settings: SshSettings) -> Resolved:
    """Resolve one `[user@]host[:port]` of a jump list; limits and host key policy are those of the target."""
    user, _, place = text.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
    host, port = _split(place, text)
    asked = replace(
        settings, name=text, address=host, port=port, user=user or None, alias=None, jump=None, identity_file=None
    )
    found = resolve(asked, ssh_config=ssh_config)
    # A key that the inventory names for the target opens its jump hosts too, unless ssh_config names others.
    own = (Path(settings.identity_file).expanduser(),) if settings.identity_file else ()
    return replace(found, jumps=(), identities=(*own, *found.identities))


def _with_settings(found: Resolved, settings: SshSettings, target: str) -> Resolved:
    changes: dict[str, object] = {}
    if target != settings.address:
        changes["host"] = settings.address
    if settings.port is not None:
        changes["port"] = settings.port
    if settings.user is not None:
        changes["user"] = settings.user
    if settings.identity_file is not None:
        changes["own_key"] = own = Path(settings.identity_file).expanduser()
        changes["identities"] = (own, *found.identities)
    if settings.jump is not None:
        changes["jumps"] = _jumps(settings.jump)
        changes["proxy_command"] = None
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


def _jumps(text: str) -> tuple[str, ...]:
    return () if text in {"", "none"} else tuple(part.strip() for part in text.split(","))


def _ask(target: str, settings: SshSettings, ssh_config: str | None) -> Resolved:
    """Ask `ssh -G`, which connects to nothing."""
    words = ["ssh", *(["-F", ssh_config] if ssh_config else [])]
    words += ["-p", str(settings.port)] if settings.port else []
    words += ["-l", settings.user] if settings.user else []
    try:
        answer = subprocess.run([*words, "-G", "--", target], capture_output=True, text=True, timeout=10, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"ssh_config cannot be read for {target}: {said}", where=settings.name) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"`ssh -G {target}` gave no answer in 10 s", where=settings.name) from error
    return parse(answer.stdout)


def parse(text: str) -> Resolved:
    """Read what `ssh -G` writes: `keyword value` lines, keywords in lower case, some of them several times."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword, []).append(value)
    first = {keyword: found[0] for keyword, found in values.items()}
    host, user = first["hostname"], first["user"]
    files = " ".join([first.get("userknownhostsfile", ""), first.get("globalknownhostsfile", "")]).split()
    proxy = first.get("proxycommand", "none")
    return Resolved(
        host=host,
        port=int(first["port"]),
        user=user,
        identities=tuple(_path(value, host, user) for value in values.get("identityfile", []) if value != "none"),
        identities_only=first.get("identitiesonly") == "yes",
        jumps=_jumps(first.get("proxyjump", "none")),
        known_hosts=tuple(_path(file, host, user) for file in files if file not in {"none", "/dev/null"}),
        host_key_alias=first.get("hostkeyalias"),
        proxy_command=None if proxy == "none" else _expand(proxy, host, user, first["port"]),
    )


def _path(text: str, host: str, user: str) -> Path:
    return Path(_expand(text, host, user).strip('"')).expanduser()


def _expand(text: str, host: str, user: str, port: str = "") -> str:
    """Put values in place of ssh_config's tokens."""
    tokens = {
        "%%": "%", "%d": str(Path.home()), "%h": host, "%n": host, "%p": port, "%r": user, "%u": getpass.getuser(),
    }  # fmt: skip
    return re.sub("%.", lambda token: tokens.get(token[0], token[0]), text)


def _fallback(target: str, ssh_config: str | None) -> Resolved:
    """Read ssh_config by Paramiko's own parser, which knows less of it."""
    file = Path(ssh_config) if ssh_config else Path("~/.ssh/config").expanduser()
    config = paramiko.SSHConfig()
    read = ssh_config != "none" and file.exists()
    if read:
        try:
            config = paramiko.SSHConfig.from_path(str(file))
        except paramiko.SSHException as error:
            raise UsageError(f"{file} cannot be read: {error}") from error
    found = config.lookup(target)
    folder = Path("~/.ssh").expanduser()
    keys = [Path(name).expanduser() for name in found.get("identityfile", [])]
    return Resolved(
        host=found.get("hostname", target),
        port=int(found.get("port", PORT)),
        user=found.get("user") or getpass.getuser(),
        identities=tuple(keys or [folder / name for name in DEFAULT_KEYS]),
        jumps=_jumps(found.get("proxyjump", "")),
        known_hosts=(folder / "known_hosts", Path("/etc/ssh/ssh_known_hosts")),
        proxy_command=found.get("proxycommand"),
        note=UNHEARD if read else None,
    )
