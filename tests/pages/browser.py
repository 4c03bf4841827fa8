"""A real browser, headless, spoken to over two pipes: load a page, ask it, look at it."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LIMIT = 90.0
WORDS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
    "--remote-debugging-pipe",
)  # fmt: skip


def program() -> str | None:
    """Give the browser of this machine, None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Tab:
    """One page of a running browser; `events` are all that it has told so far."""

    sending: int
    receiving: int
    session: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _held: bytes = b""

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and give its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.sending, json.dumps(message).encode() + b"\0")
        while True:
            said = self._hear()
            if said.get("id") == number:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result

    def wait(self, method: str) -> None:
        """Wait until an event has come."""
        while all(event["method"] != method for event in self.events):
            self._hear()

    def open(self, address: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Load a page in a window of that size."""
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=address)
        self.wait("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Give the value of a JavaScript expression in the page."""
        said = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write the whole page as a picture."""
        said = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(said["data"]))

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """Give the events of these kinds."""
        return [event for event in self.events if event["method"] in methods]

    def _hear(self) -> dict[str, Any]:
        until = time.monotonic() + LIMIT
        while b"\0" not in self._held:
            assert select.select([self.receiving], [], [], max(0.0, until - time.monotonic()))[0], (
                "the browser is silent"
            )
            data = os.read(self.receiving, 1 << 16)
            assert data, "the browser has gone"
            self._held += data
        line, _, self._held = self._held.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        if "method" in said:
            self.events.append(said)
        return said


@contextlib.contextmanager
def running() -> Iterator[Tab]:
    """Run a browser with one page and end it with all that it started."""
    path = program()
    assert path is not None
    to_browser, sending = os.pipe()
    receiving, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        line = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        process = subprocess.Popen(
            ["bash", "-c", line, "bash", path, *WORDS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": profile},
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        try:
            tab = Tab(sending, receiving)
            target = tab.ask("Target.createTarget", url="about:blank")["targetId"]
            tab.session = tab.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Log", "Runtime"):
                tab.ask(f"{domain}.enable")
            yield tab
            tab.session = None
            os.write(sending, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
            process.wait(LIMIT)
        finally:
            process.kill()
            process.wait()
            os.close(sending)
            os.close(receiving)
