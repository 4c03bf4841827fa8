"""Doing one thing of a job's hooks on the laptop: a command with a deadline, or a notification. Never raises."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import warnings
from typing import TYPE_CHECKING, Any

from local.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local.hooks.table import HookTable

DEADLINE = 300.0
GRACE = 2.0
TICK = 0.05
KEPT = 1 << 16  # bytes of a command's output that are shown: its end
MARKS = {"on_done": "success", "on_failed": "failure"}


def command(
    text: str, variables: Mapping[str, str], left: Callable[[], bool], deadline: float = DEADLINE
) -> tuple[str, str]:
    """Run a command of the shell; gives what went wrong (nothing when all went well) and what it said.

    `left` says that nobody waits any more: it is ended then.
    """
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                env={**os.environ, **variables}, process_group=0,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            return f"cannot be started ({getattr(error, 'strerror', None) or error})", ""
        until = time.monotonic() + deadline
        while process.poll() is None and time.monotonic() < until and not left():
            time.sleep(TICK)
        late = process.poll() is None
        if late:
            _end(process)
        start = max(0, said.seek(0, os.SEEK_END) - KEPT)
        said.seek(start)
        words = said.read().decode("utf-8", "replace")
        if start:  # a line that was cut may have been cut within a secret
            words = words.partition("\n")[2]
    if late:
        return "was ended: interrupted" if left() else f"was ended: it took more than {deadline:g} s", words
    return f"exit code {process.returncode}" if process.returncode else "", words


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started in its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def notify(url: str, occasion: str, title: str, body: str) -> str:
    """Send a notification; gives what went wrong, nothing when it was taken."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its many plugins' imports
            service = _sender(url)
            words = _as_text(service, body)
            taken = service.notify(title=title, notify_type=MARKS.get(occasion, "warning"), **words)
    except UsageError as error:
        return error.message
    except Exception as error:  # noqa: BLE001 - a library of hundred services: whatever it raises, the run is not its concern
        return f"{type(error).__name__} in apprise"
    return "" if taken else "was not taken by the service"


def _as_text(service: Any, body: str) -> dict[str, Any]:
    """Give words of a host as text: a service that takes HTML or Markdown (mail, chats) is given them escaped."""
    import apprise  # noqa: PLC0415 - as in `_sender`
    from apprise import conversion  # noqa: PLC0415

    convert: Any = conversion.convert_between  # it bears no types
    text = apprise.NotifyFormat.TEXT
    target = service.resolve_format(text)
    return {"body": convert(text, target, content=body), "body_format": target}


def ready(hook: HookTable) -> None:
    """See that a notification could be sent; raises UsageError."""
    if hook.notify is None:
        return
    url = os.environ.get(hook.notify)
    if not url:
        raise UsageError(
            f"${hook.notify} is not set on this laptop, and a hook is to notify by it",
            remedy=f"Set it to an apprise URL: export {hook.notify}=…, or take the hook out of the file.",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _sender(url)


def _sender(url: str) -> Any:
    """Give what sends to a URL; raises UsageError, without the URL: it is a secret."""
    try:
        import apprise  # noqa: PLC0415 - an extra, and half a second
    except ImportError:
        raise UsageError(
            "a hook is to notify, and apprise is not installed", remedy="Install it: pip install -e '.[notify]'"
        ) from None
    sender = apprise.Apprise.instantiate(url)  # one service, asked by itself: many would be asked by threads that stay
    if sender is None:
        raise UsageError(
            "the URL of a notification is none that apprise knows",
            remedy="Its services and their URLs are listed in apprise's documentation; as ours: json://host/path.",
        )
    return sender
