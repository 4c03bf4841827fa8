"""From the command line and the inventory to targets: a host, how to reach it, and the job with every setting."""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from local import folders, toml, whereabouts
from local.errors import UsageError
from local.inventory import JobTable, Settings, seconds
from local.links.settings import SshSettings
from remote.schema import GateSpec, Job, Pattern, Retry

if TYPE_CHECKING:
    from local.hooks.table import HooksTable
    from local.inventory import Inventory

PYTHON = "python3"
WORKDIR = "~/.prudent-gate"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WORD = re.compile(r"[^\s\x00-\x1f\x7f\-/\\'\"`$;&|<>(){}\[\]*?!,@][^\s\x00-\x1f\x7f/\\'\"`$;&|<>(){}\[\]*?!,]*")
SSH_PORT = 22
HIGHEST_PORT = 65535
_BRACKETED = re.compile(r"\[(?P<address>[^\]]+)\](?::(?P<port>.*))?")


@dataclass(frozen=True, kw_only=True)
class Target:
    """One host of this command line, with the job that it is to do."""

    name: str
    ssh: SshSettings
    job: Job
    gpus: int | None
    usd_per_hour: float | None
    hooks: HooksTable | None = None  # of the job
    hint: str = ""  # what was probably meant, should there be no such host


def resolve(inventory: Inventory, hosts: str | None, job: str | None, *, needs_job: bool = True) -> tuple[Target, ...]:
    """Give the targets of `-H` (all hosts without it), each once, in the order named; raises UsageError."""
    chosen = _chosen(inventory, hosts)
    name, table = _choose_job(inventory, job, needs_job=needs_job)
    made = (_target(inventory, host, settings, name, table) for host, settings in chosen.items())
    return tuple(replace(target, hint=_hint(inventory, target.name)) for target in made)


def _hint(inventory: Inventory, name: str) -> str:
    """Say what a word that is in no inventory may have meant."""
    known = {word.lower(): word for word in (*inventory.hosts, *inventory.groups)}
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    if name in inventory.hosts or not close:
        return ""
    return f"{inventory.file} has no {name!r}; did you mean {known[close[0]]!r}?"


def expand(text: str, where: str) -> str:
    """Replace `${NAME}` by the laptop's variables; the tool's own folders are known without being set."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in _FOLDERS:
            return str(_FOLDERS[name]())
        if (found := os.environ.get(name)) is None:
            raise UsageError(f"${{{name}}} is not set on this laptop", where=where, remedy=f"Set it: export {name}=…")
        return found

    return _VARIABLE.sub(value, text)


_FOLDERS = {"PRUDENT_GATE_CACHE": folders.cache, "PRUDENT_GATE_STATE": folders.state}


def _choose_job(inventory: Inventory, job: str | None, *, needs_job: bool) -> tuple[str, JobTable]:
    names = list(inventory.jobs)
    if job is not None:
        if job not in inventory.jobs:
            raise UsageError(f"{inventory.file} has no job {job!r}", remedy=toml.near(job, names) or "It has no jobs.")
        return job, inventory.jobs[job]
    if len(names) == 1:
        return names[0], inventory.jobs[names[0]]
    if not needs_job:
        return "", JobTable()
    if not names:
        raise UsageError(f"{inventory.file} has no job", remedy="Add a table [jobs.NAME] with engine, model, …")
    raise UsageError(
        f"{inventory.file} has {len(names)} jobs: {', '.join(sorted(names))}", remedy="Choose one with --job NAME."
    )


def _chosen(inventory: Inventory, hosts: str | None) -> dict[str, Settings]:
    """Give the settings of every host that is meant, by name; what is named twice comes once."""
    if hosts is None:
        if not inventory.hosts:
            raise UsageError(f"{inventory.file} has no hosts", remedy="Add a table [hosts.NAME], or name one with -H.")
        return dict(inventory.hosts)
    words = [word.strip() for word in hosts.split(",") if word.strip()]
    if not words:
        raise UsageError("-H names no host", remedy="Write -H NAME, -H GROUP or -H user@address:port.")
    chosen: dict[str, Settings] = {}
    for word in words:
        for name, settings in _meant(inventory, word).items():
            if not any(_place(name, settings) == _place(other, have) for other, have in chosen.items()):
                chosen[word if name in chosen else name] = settings
    return chosen


def _place(name: str, settings: Settings) -> tuple[Any, ...]:
    return settings.address or settings.ssh or name, settings.port, settings.user


def _meant(inventory: Inventory, word: str) -> dict[str, Settings]:
    """Give the hosts that one word of -H means: a name, a group, or an ad-hoc `user@address:port`."""
    if word in inventory.hosts:
        return {word: inventory.hosts[word]}
    if word in inventory.groups:
        return {name: inventory.hosts[name] for name in inventory.groups[word]}
    user, address, port = parse(word)
    said = {key: value for key, value in (("user", user), ("port", port)) if value is not None}
    if entry := _entry(inventory, address, port):
        return {entry: structs.replace(inventory.hosts[entry], **said)}
    name = f"{address}:{port}" if port is not None else address
    return {name: structs.replace(inventory.defaults, address=address, **said)}


def _entry(inventory: Inventory, address: str, port: int | None) -> str | None:
    """Find the entry that an ad-hoc address means, by name or address (and port, where several share it)."""
    if address in inventory.hosts:
        return address
    found = [name for name, settings in inventory.hosts.items() if settings.address == address]
    if len(found) > 1:
        found = [name for name in found if (inventory.hosts[name].port or SSH_PORT) == (port or SSH_PORT)] or found
    if len(found) > 1:
        raise UsageError(f"{address} is the address of {', '.join(found)}", remedy="Name the one that you mean.")
    return found[0] if found else None


def parse(word: str) -> tuple[str | None, str, int | None]:
    """Split `user@address:port`; an IPv6 address with a port stands in brackets. Raises UsageError."""
    user, _, rest = word.rpartition("@")
    port: str | None
    if bracketed := _BRACKETED.fullmatch(rest):
        address, port = bracketed["address"], bracketed["port"]
    elif rest.count(":") == 1:
        address, port = rest.split(":")
    else:
        address, port = rest, None
    if ("@" in word and not user) or not _WORD.fullmatch(address) or (user and not _WORD.fullmatch(user)):
        raise UsageError(f"-H {word!r} is no host", remedy="Write -H NAME, -H GROUP or -H user@address:port.")
    return user or None, address, _port(word, port)


def _port(word: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= HIGHEST_PORT:
        raise UsageError(f"-H {word!r}: {text!r} is no port", remedy="A port is a number from 1 to 65535.")
    return int(text)


def _target(inventory: Inventory, name: str, settings: Settings, job: str, table: JobTable) -> Target:
    where = f"{inventory.file}: hosts.{name}"
    return Target(
        name=name,
        ssh=_ssh(where, name, settings),
        job=_job(inventory, name, settings, job, table),
        gpus=settings.gpus,
        usd_per_hour=settings.usd_per_hour,
        hooks=table.hooks,
    )


def _ssh(where: str, name: str, settings: Settings) -> SshSettings:
    address = settings.address or settings.ssh or name
    for key, word in (("address", address), ("user", settings.user), ("ssh", settings.ssh)):
        if word is not None and not _WORD.fullmatch(word):
            raise UsageError(f"{key} {word!r} is no word that ssh takes", where=where, remedy=f"Mend its {key}.")
    if address.count(":") == 1:  # with more of them it is IPv6
        host, _, port = address.partition(":")
        raise UsageError(
            f"address {address!r} holds a port",
            where=where,
            remedy=f'Write address = "{host}" and port = {port or 22}.',
        )
    _check_jumps(where, settings.jump)
    timeout = settings.connect_timeout and seconds(settings.connect_timeout)
    return SshSettings(
        name=name,
        address=address,
        port=settings.port,
        user=settings.user,
        identity_file=_laptop_path(settings.identity_file, f"{where}.identity_file"),
        jump=settings.jump,
        alias=settings.ssh,
        ssh_config=config(settings.ssh_config, f"{where}.ssh_config"),
        host_key=settings.host_key or "accept-new",
        forward_agent=bool(settings.forward_agent),
        **({"connect_timeout": timeout} if timeout else {}),
    )


def _check_jumps(where: str, jump: str | None) -> None:
    """See that a list of jump hosts holds hosts: its words may go into a ProxyCommand, which a shell reads."""
    for word in () if jump in {None, "none"} else str(jump).split(","):
        try:
            parse(word.strip().removeprefix("ssh://").rstrip("/"))
        except UsageError:
            raise UsageError(
                f"jump {word!r} is no host", where=where, remedy="Write user@address:port, several with commas between."
            ) from None


def config(text: str | None, where: str) -> str | None:
    """Give the ssh_config file to read; `none` is ssh's own word for no file at all."""
    path = _laptop_path(text, where)
    if path not in {None, "none"} and not Path(str(path)).is_file():
        remedy = "Name a file that is there; the demo's is written by: fab demo.up"
        wrong = "is no file" if Path(str(path)).exists() else "does not exist"
        raise UsageError(f"{path} {wrong}", where=where, remedy=remedy)
    return path


def _laptop_path(text: str | None, where: str) -> str | None:
    if not text:
        return None
    path = _without_controls(expand(text, where), where)
    try:
        return str(Path(path).expanduser())
    except RuntimeError as error:  # ~name of nobody
        raise UsageError(f"{path!r}: {error}", where=where, remedy="Write the path from its start: /… or ~/…") from None


def _without_controls(path: str, where: str) -> str:
    if any(unicodedata.category(character) == "Cc" for character in path):
        raise UsageError(f"{path!r} has a control character in it", where=where, remedy="Write the path without it.")
    return path


def _host_path(text: str, where: str, *, program: bool = False, hub: bool = False) -> str:
    """Give a path on the host: absolute or below the home, since a job does not start where a login does.

    A program's bare name is looked up there; `hub` lets names of the form `owner/name` pass.
    """
    path = _without_controls(expand(text, where), where)
    whole = path.startswith(("/", "~/")) or (program and "/" not in path) or (hub and path[:1] not in {".", "~"})
    if path and not whole:
        raise UsageError(
            f"{path!r} is no whole path", where=where, remedy="Name a path on the host from its start: /… or ~/…"
        )
    return path


def _job(inventory: Inventory, host: str, settings: Settings, name: str, table: JobTable) -> Job:
    """Build the job as this host is to do it: the host's environment under the job's."""
    where = f"{inventory.file}: jobs.{name}"
    own = f"{inventory.file}: hosts.{host}"
    said: dict[str, Any] = {
        key: value
        for key in (
            "layers",
            "tensor_parallel",
            "max_model_len",
            "batch_size",
            "device",
            "memory_fraction",
            "progress",
            "keep_log_mb",
        )
        if (value := getattr(table, key)) is not None
    }
    job = Job(
        name=name,
        engine=table.engine or "",
        python=_host_path(table.python or settings.python or PYTHON, f"{own}.python", program=True),
        workdir=_host_path(settings.workdir or WORKDIR, f"{own}.workdir"),
        model=_host_path(table.model or "", f"{where}.model", hub=True),
        dataset=_host_path(table.dataset or "", f"{where}.dataset", hub=True),
        output=_host_path(table.output or "", f"{where}.output"),
        env={key: str(value) for key, value in {**settings.env, **table.env}.items()},
        secret_env=tuple(dict.fromkeys((*settings.secret_env, *table.secret_env))),
        command=tuple(table.command or ()),
        retry=_retry(table),
        gate=GateSpec(**structs.asdict(table.gate)) if table.gate else GateSpec(),
        **said,
    )
    whereabouts.check(job, user=settings.user, of_job=where, of_host=own)
    return job


def _retry(table: JobTable) -> Retry:
    said: dict[str, Any] = structs.asdict(table.retry) if table.retry else {}
    durations = {
        key: seconds(said[key]) for key in ("start_line", "progress_line", "backoff") if said.get(key) is not None
    }
    plain = {key: said[key] for key in ("transient", "hang", "max_failed_samples") if said.get(key) is not None}
    patterns = tuple(Pattern(**structs.asdict(pattern)) for pattern in said.get("patterns") or ())
    values: dict[str, Any] = {**durations, **plain, "patterns": patterns}
    return Retry(**values)
