"""Telling: the hooks of an occasion done one after the other, at once or beside other work, each occasion once."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.errors import UsageError
from local.hooks import doing, notes, table
from local.masks import mask
from local.text import clean
from remote.run import occasions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from local.hooks.table import HookTable
    from local.targets import Target

LEAVING = 2.0  # seconds that what is being told gets when nobody waits any more


def foresee(targets: Iterable[Target]) -> None:
    """See, before anything is started, that whatever is to be told can be; raises UsageError."""
    for target in targets:
        for occasion in table.OCCASIONS:
            for hook in table.on_laptop(target.hooks, occasion):
                try:
                    doing.ready(hook)
                except UsageError as error:
                    error.where = f"jobs.{target.job.name}.hooks.{occasion}"
                    raise


@dataclass
class Teller:
    """Does the laptop's hooks of one host; `say` is told how each went, whole lines without secrets."""

    target: Target
    secrets: tuple[str, ...]
    say: Callable[[str, str], None]  # style, line
    left: Callable[[], bool] = lambda: False  # nobody waits any more
    _leaving: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _last: dict[str, threading.Thread] = field(default_factory=dict)  # of each occasion

    def wants(self, occasion: str) -> bool:
        """Tell whether anything is to be done on an occasion."""
        return bool(table.on_laptop(self.target.hooks, occasion))

    def now(self, occasion: str, run: str, facts: dict[str, Any], *, note: str | None) -> None:
        """Do the hooks of an occasion; `note` names it among those of the run, where it must be told once alone."""
        if self.wants(occasion) and (note is None or notes.first(self.target.name, run, note)):
            self._do(occasion, run, facts)

    def beside(self, occasion: str, run: str, facts: dict[str, Any], *, note: str | None) -> None:
        """Do the same while other work goes on, after what was told of that occasion before."""
        if not self.wants(occasion):
            return
        before = self._last.get(occasion)

        def work() -> None:
            if before is not None:
                before.join()
            self.now(occasion, run, facts, note=note)

        self._last[occasion] = self.start(work)

    def start(self, work: Callable[[], None]) -> threading.Thread:
        """Do something beside, as `beside` does."""
        thread = threading.Thread(target=work, name=f"hooks {self.target.name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def finish(self, *, wait: bool) -> None:
        """Wait for what is being told, or end it."""
        if not wait:
            self._leaving.set()
        for thread in self._threads:
            thread.join(doing.DEADLINE if wait else LEAVING)

    def _do(self, occasion: str, run: str, facts: dict[str, Any]) -> None:
        job = self.target.job
        known = {"run": run, "job": job.name, "host": self.target.name, "output": job.output, **facts}
        told = {name: clean(value) for name, value in occasions.variables(occasion, **known).items()}
        for number, hook in enumerate(table.on_laptop(self.target.hooks, occasion), 1):
            self._tell_of(occasion, number, hook, *self._one(hook, occasion, told))

    def _one(self, hook: HookTable, occasion: str, told: dict[str, str]) -> tuple[str, str]:
        """Do one of them; gives what went wrong, and what it said."""
        if hook.laptop:
            return doing.command(hook.laptop, told, lambda: self._leaving.is_set() or self.left())
        title = f"{told['PRUDENT_GATE_JOB']} on {told['PRUDENT_GATE_HOST']}: {occasion.removeprefix('on_')}"
        said = (f"{name.removeprefix(occasions.PREFIX).lower()}: {value}" for name, value in told.items() if value)
        body = mask("\n".join(said), self._hidden())
        return doing.notify(os.environ.get(hook.notify or "", ""), occasion, title, body), ""

    def _tell_of(self, occasion: str, number: int, hook: HookTable, wrong: str, words: str) -> None:
        how = f"notify {hook.notify}" if hook.notify else "laptop"
        self._say("yellow" if wrong else "green", f"hook {occasion} {number} ({how}): {wrong or 'done'}")
        for line in words.splitlines():
            self._say("dim", f"  {line}")

    def _say(self, style: str, line: str) -> None:
        self.say(style, mask(clean(line), self._hidden()))

    def _hidden(self) -> list[str]:
        """Give all that is never shown: the job's secrets, and where notifications go."""
        every = (hook for occasion in table.OCCASIONS for hook in table.on_laptop(self.target.hooks, occasion))
        return [*self.secrets, *filter(None, (os.environ.get(hook.notify or "") for hook in every))]
