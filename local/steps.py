"""What a task of the fabfile is to our executor: a step on every host, or something done once on the laptop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from invoke.parser.argument import Argument
from invoke.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from local.screen import Screen
    from local.session import Session
    from local.targets import Target

HELP = {
    "all": "Show what is no finding as well, with the reason.",
    "batch": "How many samples go to the engine at once.",
    "detach": "Return once the start is confirmed; do not follow.",
    "dry_run": "End with the plan: who would do which samples; start nothing.",
    "follow": "Go on until the run ends.",
    "fresh": "Ignore a stored verdict.",
    "indices": "Only these samples: 0-99,120.",
    "html": "Write the page to this file (- for standard output; default: the run's id with .html).",
    "interval": "Ask each host so often, as 5s or 1m (default: 5s).",
    "inventory": "The TOML file of hosts and jobs (default: FABRIC_INVENTORY, else inventories/demo.toml).",
    "job": "The job to do, when the inventory has more than one.",
    "json": "Write a JSON document on standard output.",
    "keep": "How many of the newest ended runs stay (default: 5).",
    "laptop": "Clean the laptop's own caches as well: sources of packages and releases.",
    "markdown": "Write the report as Markdown to this file (- for standard output).",
    "log": "Show the log of this host below the table.",
    "no_patches": "Gate the host as it is, without our patch series.",
    "once": "Show one snapshot, then end.",
    "package": "The package whose releases are tried (vllm or speculators).",
    "parallel": "How many streams to each host at once.",
    "patience": "How long to wait for a link that is lost, as 90, 10m or 2h (default: for ever); then exit code 75.",
    "releases": "Which releases: 0.15.0,0.16.0 or '>=0.12,<0.18' (default: the newest).",
    "report": "Write the gate's JSON report to this file (- for standard output).",
    "run": "The run to look at (default: the latest).",
    "samples": "Fetch the samples too, not the manifests alone.",
    "strict_host_keys": "Refuse hosts whose key is not known yet, as host_key = 'strict' does for one host.",
    "suggest": "Write every known fix as a new patch to this file, for review.",
    "svg": "Also write what is shown as a picture to this file.",
    "embedded": "With the SSH server in Python, not the machine's OpenSSH.",
    "to": "The folder on this laptop (default: fetched/JOB).",
    "until": "Stop after this level of the gate.",
    "until_done": "End when every run has ended; code 5 if one did not end well.",
    "wait": "How long hosts that are ready wait for the others' gates, as 90, 10m or 2h (default: 15m).",
    "watch": "Examine again whenever a patch file changes.",
    "yes": "Remove what is shown.",
    "without": "Leave out this patch of the series (may be repeated).",
}


class _Documented(Task):  # type: ignore[type-arg]
    """A task whose options have their help from one table and no one-letter names, which would clash."""

    def __init__(self, body: Callable[..., Any], **kwargs: Any) -> None:
        kwargs.setdefault("auto_shortflags", False)
        super().__init__(body, **kwargs)

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: FBT001 - Invoke's
        """Give the options of the command line."""
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        for argument in arguments:
            argument.help = argument.help or HELP.get(str(argument.attr_name or argument.name))
        return arguments


class _OfTargets(_Documented):
    """A task that works on hosts of the inventory: the executor reads these options before any body runs."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: FBT001 - Invoke's
        """Add what every such task takes."""
        common = [Argument(name="inventory", help=HELP["inventory"]), Argument(name="job", help=HELP["job"])]
        strict = Argument(
            name="strict-host-keys",
            attr_name="strict_host_keys",
            kind=bool,
            default=False,
            help=HELP["strict_host_keys"],
        )
        return [*super().get_arguments(ignore_unknown_help), *common, strict]


class OnHosts(_OfTargets):
    """A step of the pipeline that runs on each host: its body gets the host's Session.

    `foresee` is called once with the hosts and the options, before any of them is reached, and raises UsageError.
    `gather` is called once, after all pipelines have ended, with every session and the options given. `brief` steps
    print their own table: no summary follows them. Steps that start nothing need no job. In a step that `meets`, the
    hosts share one job.
    """

    def __init__(
        self,
        body: Callable[..., Any],
        *,
        foresee: Callable[..., None] | None = None,
        gather: Callable[..., None] | None = None,
        needs_job: bool = True,
        brief: bool = False,
        meets: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(body, **kwargs)
        self.foresee = foresee
        self.gather = gather
        self.needs_job = needs_job
        self.brief = brief
        self.meets = meets

    def prepare(self, targets: Sequence[Target], options: dict[str, Any]) -> None:
        """Refuse what cannot work with these hosts and options, while nothing has been done yet."""
        if self.foresee:
            self.foresee(targets, **options)

    def finish(self, sessions: Sequence[Session], options: dict[str, Any]) -> None:
        """Show what all hosts together gave."""
        if self.gather:
            self.gather(sessions, **options)


class OnTargets(_OfTargets):
    """Something done once, on the laptop, about hosts that are not connected to: its body gets what was Chosen."""

    needs_job = True


class OnAll(OnTargets):
    """Something done once for all hosts together: its body gets what was Chosen, and connects by itself."""

    needs_job = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The hosts of the command line, each with its job, and where to tell of them; `again` reads the inventory anew."""

    screen: Screen
    targets: Sequence[Target]
    again: Callable[[], Sequence[Target]]
    inventory: Path


class OnLaptop(_Documented):
    """Something done once, on the laptop: its body gets the Screen."""
