"""What a fetch shows: a bar while bytes come, a line per host at the end, and the document of `--json`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from local.summary import duration, size
from local.text import clean
from remote.wire import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from rich.console import Console

    from local.fetching.crew import Share

EVERY = 15.0  # seconds between two lines where there is no terminal for a bar


class Coming:
    """A bar for all that is to come; without a terminal, a line now and then. Called from many threads."""

    def __init__(
        self, console: Console, samples: int, total: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._samples, self._total = samples, total
        self._done = self._bytes = 0
        self._said = clock()
        self._lock = threading.Lock()
        self._live = console.is_terminal
        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(binary_units=True),
            TransferSpeedColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        self._bars = Progress(*columns, console=console, transient=True, disable=not self._live)
        self._task = self._bars.add_task(self._counted(), total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def on_bytes(self, _: str, count: int) -> None:
        """Take note of bytes that came, or that came in vain."""
        with self._lock:
            self._bytes += count
            self._bars.update(self._task, advance=count)
            if not self._live and self._clock() - self._said > EVERY:
                self._said = self._clock()
                said = f"{self._counted()}, {size(self._bytes)} of {size(self._total)}"
                self._console.print(Text(said, "dim"), soft_wrap=True)

    def on_sample(self, _: str, __: object) -> None:
        """Take note of a sample that stands."""
        with self._lock:
            self._done += 1
            self._bars.update(self._task, description=self._counted())

    def on_link(self, host: str, said: str) -> None:
        """Say what became of a link."""
        self._console.print(Text(clean(f"{host}: {said}"), "yellow"), soft_wrap=True)

    def _counted(self) -> str:
        return f"{self._done} of {self._samples} samples"


def print_shares(console: Console, shares: Mapping[str, Share]) -> None:
    """Print what came of each host."""
    for name, share in shares.items():
        if share.came:
            speed = f", {size(share.size / share.seconds)}/s" if share.seconds else ""
            took = f"{size(share.size)} in {duration(share.seconds)}{speed}"
            console.print(f"[bold]{escape(name)}[/]  {share.came} samples, {took}", soft_wrap=True)


def document(
    to: Path,
    hosts: Mapping[str, tuple[Path | None, int, str | None]],
    shares: Mapping[str, Share],
    *,
    wanted: int,
    present: int,
    failed: Mapping[int, tuple[str, str]],
) -> dict[str, Any]:
    """Give the document; `hosts` has manifest, samples in it and error of each."""
    told = {}
    for name, (manifest, samples, error) in hosts.items():
        share = shares.get(name)
        told[name] = {
            "manifest": str(manifest) if manifest else None,
            "samples": samples,
            "fetched": share.came if share else 0,
            "bytes": share.size if share else 0,
            "seconds": round(share.seconds, 3) if share else 0.0,
            "error": error,
        }
    samples_told = {
        "wanted": wanted,
        "present": present,
        "fetched": sum(share.came for share in shares.values()),
        "bytes": sum(share.size for share in shares.values()),
        "failed": [{"index": index, "host": host, "why": why} for index, (host, why) in sorted(failed.items())],
    }
    return {"schema": SCHEMA, "to": str(to), "samples": samples_told, "hosts": told}
