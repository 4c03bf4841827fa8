"""What a task of the fabfile is to our executor: a step on every host, or something done once on the laptop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from invoke.parser.argument import Argument
from invoke.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from local.screen import Screen
    from local.session import Session
    from local.targets import Target

HELP = {
    "all": "Show what is no finding as well, with the reason.",
    "batch": "How many samples go to the engine at once.",
    "detach": "Return once the start is confirmed; do not follow.",
    "follow": "Go on until the run ends.",
    "fresh": "Ignore a stored verdict.",
    "inventory": "The TOML file of hosts and jobs (default: FABRIC_INVENTORY, else inventories/demo.toml).",
    "job": "The job to do, when the inventory has more than one.",
    "json": "Write a JSON document on standard output.",
    "no_patches": "Gate the host as it is, without our patch series.",
    "package": "The package whose releases are tried (vllm or speculators).",
    "patience": "How long to wait for a link that is lost, as 90, 10m or 2h (default: for ever); then exit code 75.",
    "releases": "Which releases: 0.15.0,0.16.0 or '>=0.12,<0.18' (default: the newest).",
    "report": "Write the gate's JSON report to this file (- for standard output).",
    "run": "The run to look at (default: the latest).",
    "suggest": "Write every known fix as a new patch to this file, for review.",
    "svg": "Also write what is shown as a picture to this file.",
    "until": "Stop after this level of the gate.",
    "watch": "Examine again whenever a patch file changes.",
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
    """A task that works on hosts of the inventory: the executor reads these two options before any body runs."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: FBT001 - Invoke's
        """Add what every such task takes."""
        common = [Argument(name="inventory", help=HELP["inventory"]), Argument(name="job", help=HELP["job"])]
        return [*super().get_arguments(ignore_unknown_help), *common]


class OnHosts(_OfTargets):
    """A step of the pipeline that runs on each host: its body gets the host's Session.

    `foresee` is called once with the options, before any host is reached, and raises UsageError. `gather` is called
    once, after all pipelines have ended, with every session and the options given. `brief` steps print their own table:
    no summary follows them. Steps that start nothing need no job.
    """

    def __init__(
        self,
        body: Callable[..., Any],
        *,
        foresee: Callable[..., None] | None = None,
        gather: Callable[..., None] | None = None,
        needs_job: bool = True,
        brief: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(body, **kwargs)
        self.foresee = foresee
        self.gather = gather
        self.needs_job = needs_job
        self.brief = brief

    def prepare(self, options: dict[str, Any]) -> None:
        """Refuse options that cannot work, while nothing has been done yet."""
        if self.foresee:
            self.foresee(**options)

    def finish(self, sessions: Sequence[Session], options: dict[str, Any]) -> None:
        """Show what all hosts together gave."""
        if self.gather:
            self.gather(sessions, **options)


class OnTargets(_OfTargets):
    """Something done once, on the laptop, about hosts that are not connected to: its body gets what was Chosen."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The hosts of the command line, each with its job, and where to tell of them."""

    screen: Screen
    targets: Sequence[Target]


class OnLaptop(_Documented):
    """Something done once, on the laptop: its body gets the Screen."""
