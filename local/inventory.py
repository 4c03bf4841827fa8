"""The inventory: hosts, groups and jobs in one TOML file; everything in it is checked before anything is reached.

Settings of a host: `[defaults]` ← its groups, in the order it names them ← its own. A job: `[defaults]` ← its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from local import gatetable, toml
from local.hooks import table as hooktable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Text = Annotated[str, Meta(min_length=1)]
Port = Annotated[int, Meta(ge=1, le=65535)]
MOST = 2**31 - 1  # of whatever is counted in whole numbers
DEAREST = 1e6  # dollars an hour
Positive = Annotated[int, Meta(ge=1, le=MOST)]
Natural = Annotated[int, Meta(ge=0, le=MOST)]
Duration = float | str

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAMES = "a name is letters, digits, dot, underscore and dash, and starts with a letter or digit"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_REQUIRED = {"speculators": ("model", "dataset", "output"), "command": ("command", "output")}
LONGEST = 10 * 365 * 86400.0  # seconds
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class PatternTable(Struct, forbid_unknown_fields=True):
    """`[[retry.patterns]]`: a text of one's own by which a failed attempt is known."""

    match: Text
    kind: Literal["transient", "fatal", "node-fatal"]
    cause: Text = "own-pattern"
    advice: str = ""


class RetryTable(Struct, forbid_unknown_fields=True):
    """`retry`: how the supervisor treats failed and silent attempts."""

    transient: Natural | None = None
    start_line: Duration | None = None
    progress_line: Duration | None = None
    backoff: Duration | None = None
    hang: Literal["restart", "report"] | None = None
    max_failed_samples: Natural | None = None
    patterns: tuple[PatternTable, ...] | None = None


class Settings(Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be said of a host, in `[defaults]`, a group or the host itself."""

    address: Text | None = None
    port: Port | None = None
    user: Text | None = None
    identity_file: Text | None = None
    jump: Text | None = None
    ssh: Text | None = None
    ssh_config: Text | None = None
    host_key: Literal["accept-new", "strict"] | None = None
    forward_agent: bool | None = None
    connect_timeout: Duration | None = None
    python: Text | None = None
    workdir: Text | None = None
    gpus: Natural | None = None
    usd_per_hour: Annotated[float, Meta(ge=0, le=DEAREST)] | None = None
    groups: tuple[Text, ...] = ()
    env: dict[str, Any] = {}
    secret_env: tuple[Text, ...] = ()


class JobTable(Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be said of a job, in `[jobs.NAME]`."""

    engine: Literal["speculators", "command"] | None = None
    model: Text | None = None
    dataset: Text | None = None
    output: Text | None = None
    layers: tuple[Natural, ...] | None = None
    tensor_parallel: Positive | None = None
    max_model_len: Positive | None = None
    batch_size: Positive | None = None
    device: Literal["cuda", "cpu"] | None = None
    memory_fraction: Annotated[float, Meta(gt=0, le=1)] | None = None
    python: Text | None = None
    command: tuple[Text, ...] | None = None
    progress: Text | None = None
    keep_log_mb: Positive | None = None
    env: dict[str, Any] = {}
    secret_env: tuple[Text, ...] = ()
    retry: RetryTable | None = None
    gate: gatetable.GateTable | None = None
    hooks: hooktable.HooksTable | None = None


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """A whole, valid file: every host and job with what it inherits."""

    file: Path
    defaults: Settings
    hosts: Mapping[str, Settings]
    jobs: Mapping[str, JobTable]
    groups: Mapping[str, tuple[str, ...]]


def load(file: Path) -> Inventory:
    """Read and check an inventory; raises UsageError naming the place and the remedy."""
    document = toml.read(file, "the inventory")
    toml.known_keys(document, ("defaults", "hosts", "groups", "jobs"), file=file, path="")
    of_hosts, of_jobs = _defaults(file, toml.table(document, "defaults", file=file, path="defaults"))
    groups = {name: _settings(file, f"groups.{name}", body) for name, body in _named(file, document, "groups")}
    own = {name: _settings(file, f"hosts.{name}", body) for name, body in _named(file, document, "hosts")}
    hosts = {
        name: _inherit([of_hosts, *(groups[group] for group in host.groups if group in groups), host])
        for name, host in own.items()
    }
    jobs = {name: _job(file, name, of_jobs, body) for name, body in _named(file, document, "jobs")}
    return Inventory(file=file, defaults=of_hosts, hosts=hosts, jobs=jobs, groups=_members(file, groups, own))


def seconds(text: Duration) -> float | None:
    """Give the seconds of a duration (`90`, `"10m"`, `"1h30m"`), None where it is none that a clock runs."""
    if not isinstance(text, str):
        return _bounded(text)
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        return None
    return _bounded(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _bounded(found: float) -> float | None:
    return float(found) if 0 <= found <= LONGEST else None


def option_seconds(told: str) -> float | None:
    """Give the seconds of a duration on the command line, where seconds need no unit."""
    return seconds(float(told) if told.isdecimal() else told)


def _named(file: Path, document: Mapping[str, Any], kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Give the tables `[kind.NAME]`, their names checked: they become words of the command line."""
    tables = toml.table(document, kind, file=file, path=kind)
    for name in tables:
        if not _NAME.fullmatch(name):
            raise toml.wrong(
                file,
                f"{kind}.{name!r}",
                _NAMES,
            )
    return [(name, toml.table(tables, name, file=file, path=f"{kind}.{name}")) for name in tables]


def _defaults(file: Path, body: dict[str, Any]) -> tuple[Settings, JobTable]:
    """Split `[defaults]` into what hosts and what jobs inherit; what both know (env …) reaches a job by its host."""
    of_hosts, of_jobs = set(Settings.__struct_fields__) - {"address", "groups", "ssh"}, set(JobTable.__struct_fields__)
    toml.known_keys(body, of_hosts | of_jobs, file=file, path="defaults")
    hosts = _settings(file, "defaults", {key: value for key, value in body.items() if key in of_hosts})
    jobs = {key: value for key, value in body.items() if key in of_jobs - of_hosts}
    return hosts, toml.convert(jobs, JobTable, file=file, path="defaults")


def _settings(file: Path, path: str, body: dict[str, Any]) -> Settings:
    settings = toml.convert(body, Settings, file=file, path=path)
    _check_environment(file, path, settings)
    _check_duration(file, f"{path}.connect_timeout", settings.connect_timeout)
    if settings.connect_timeout is not None and not seconds(settings.connect_timeout):
        raise toml.wrong(file, f"{path}.connect_timeout", "nothing connects in no time")
    for index, group in enumerate(settings.groups):
        if not _NAME.fullmatch(group):
            raise toml.wrong(file, f"{path}.groups[{index}]", f"{group!r} is not the name of a group: {_NAMES}")
    return settings


def _inherit(layers: list[Settings]) -> Settings:
    """Lay settings over each other, the last on top; `env` and `secret_env` are merged."""
    merged = layers[0]
    for layer in layers[1:]:
        said = {name: value for name, value in structs.asdict(layer).items() if value not in (None, {}, ())}
        said["env"] = {**merged.env, **layer.env}
        said["secret_env"] = tuple(dict.fromkeys((*merged.secret_env, *layer.secret_env)))
        merged = structs.replace(merged, **said)
    return merged


def _job(file: Path, name: str, defaults: JobTable, body: dict[str, Any]) -> JobTable:
    own = toml.convert(body, JobTable, file=file, path=f"jobs.{name}")
    said = {key: value for key, value in structs.asdict(own).items() if value is not None}
    if own.retry and defaults.retry:
        said["retry"] = _over(defaults.retry, own.retry)
    if own.hooks and defaults.hooks:
        said["hooks"] = hooktable.over(defaults.hooks, own.hooks)
    job = structs.replace(defaults, **said)
    _check_job(file, f"jobs.{name}", job)
    return job


def _over(below: RetryTable, above: RetryTable) -> RetryTable:
    """Lay one `retry` over another; the patterns of both count, the nearer first."""
    said = {k: v for k, v in structs.asdict(above).items() if v is not None}
    if above.patterns and below.patterns:
        said["patterns"] = above.patterns + below.patterns
    return structs.replace(below, **said)


def _check_job(file: Path, path: str, job: JobTable) -> None:
    if job.engine is None:
        raise toml.wrong(file, path, "the key 'engine' is missing", remedy='Say engine = "speculators" or "command".')
    for key in _REQUIRED[job.engine]:
        if not getattr(job, key):
            raise toml.wrong(file, path, f"engine {job.engine!r} needs the key {key!r}, which is missing or empty")
    if job.engine != "command" and job.command:
        raise toml.wrong(file, f"{path}.command", "is for engine 'command' only")
    if any("\0" in word for word in job.command or ()):
        raise toml.wrong(file, f"{path}.command", "holds a NUL character, which no program can be given")
    if job.layers and len(set(job.layers)) != len(job.layers):
        raise toml.wrong(file, f"{path}.layers", f"names a layer twice: {list(job.layers)}")
    if job.progress is not None:
        _check_progress(file, f"{path}.progress", job.progress)
    _check_environment(file, path, job)
    for key in ("start_line", "progress_line", "backoff"):
        _check_duration(file, f"{path}.retry.{key}", getattr(job.retry, key, None))
    gatetable.check(file, f"{path}.gate", job.gate)
    hooktable.check(file, f"{path}.hooks", job.hooks)
    _check_duration(file, f"{path}.hooks.unreachable_after", getattr(job.hooks, "unreachable_after", None))
    for number, pattern in enumerate((job.retry and job.retry.patterns) or ()):
        _check_pattern(file, f"{path}.retry.patterns[{number}].match", pattern.match)


def _check_environment(file: Path, path: str, table: Settings | JobTable) -> None:
    for name, value in table.env.items():
        if not _VARIABLE.fullmatch(name):
            raise toml.wrong(file, f"{path}.env", f"{name!r} is not the name of an environment variable")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise toml.wrong(file, f"{path}.env.{name}", f"expected text or a number, found {toml.kind(value)}")
        if "\0" in str(value):
            raise toml.wrong(file, f"{path}.env.{name}", "holds a NUL character, which no environment can")
    for index, name in enumerate(table.secret_env):
        if not _VARIABLE.fullmatch(name):
            raise toml.wrong(
                file, f"{path}.secret_env[{index}]", f"{name!r} is not the name of an environment variable",
                remedy="secret_env lists names; the values come from the laptop's environment.",
            )  # fmt: skip


def _check_duration(file: Path, path: str, value: Duration | None) -> None:
    if value is not None and seconds(value) is None:
        raise toml.wrong(
            file, path, f"expected a duration, found {toml.kind(value)}",
            remedy='A duration is seconds (90) or text such as "90s", "10m", "1h30m".',
        )  # fmt: skip


def _check_pattern(file: Path, path: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise toml.wrong(file, path, f"is not a regular expression: {error}") from None


def _check_progress(file: Path, path: str, pattern: str) -> None:
    _check_pattern(file, path, pattern)
    if not re.compile(pattern).groups:
        raise toml.wrong(
            file, path, "needs a group that matches how many samples are done",
            remedy="Write (?P<done>[0-9]+), and (?P<total>[0-9]+) where the line tells how many there are.",
        )  # fmt: skip


def _members(file: Path, groups: Mapping[str, Settings], hosts: Mapping[str, Settings]) -> dict[str, tuple[str, ...]]:
    """Give each group's hosts; a group without hosts, or named as a host is, is a mistake."""
    members: dict[str, list[str]] = {}
    for name, host in hosts.items():
        for group in host.groups:
            members.setdefault(group, []).append(name)
    for group in groups:
        if group not in members:
            raise toml.wrong(file, f"groups.{group}", "no host is in this group", remedy=toml.near(group, members))
    for group in members:
        if group in hosts:
            raise toml.wrong(file, f"hosts.{group}", "is the name of a group and of a host; -H could mean either")
    return {group: tuple(names) for group, names in members.items()}
