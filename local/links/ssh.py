"""The link over SSH: Fabric's connection underneath, with deadlines, verified host keys, liveness and reconnection."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import tenacity

from local.errors import LinkLost, Unreachable
from local.links import channels, connection, sshconfig, trouble
from local.links.channels import SshStream

if TYPE_CHECKING:
    from pathlib import Path

    from local.links.base import Answer, Command
    from local.links.hops import Resolved
    from local.links.settings import SshSettings

TRIES = 3
PATIENCE = 30.0
CROWDED = "MaxStartups"  # a server that says this lets us in as soon as another has been let in


def open_link(settings: SshSettings, *, ssh_config: str | None = None, pin_file: Path | None = None) -> SshLink:
    """Give the link to a host; it connects at its first use, which raises Unreachable or HostKeyError."""
    return SshLink(settings, ssh_config=ssh_config, pin_file=pin_file)


class SshLink:
    """One host over SSH. `notices` tells what the user should know: keys pinned, ssh_config not honoured."""

    def __init__(self, settings: SshSettings, *, ssh_config: str | None = None, pin_file: Path | None = None) -> None:
        self.settings = settings
        self.notices: list[str] = []
        self._ssh_config = ssh_config or settings.ssh_config
        self._pin_file = pin_file
        self._hops: list[Resolved] = []
        self._connection: connection.Connection | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        state = "connected" if self._connection and self._connection.alive else "not connected"
        return f"<link to {self.settings.name}, {state}>"

    def run(self, command: Command, *, stdin: bytes = b"", deadline: float = 30.0, limit: int = 64 * 2**20) -> Answer:
        """Run a command to its end on the control connection."""
        held = self._held()
        try:
            return channels.run(held, command, stdin, deadline, limit)
        except (LinkLost, Unreachable) as error:
            held.close()  # nothing more is known of it; the next command dials anew
            error.where = error.where or self.settings.name
            raise

    def stream(self, command: Command, *, stdin: bytes = b"") -> SshStream:
        """Start a command on a connection of its own and read its output as it comes."""
        try:
            return SshStream(self._connect(), command, stdin)
        except (LinkLost, Unreachable) as error:
            error.where = error.where or self.settings.name
            raise

    def reconnect(self) -> None:
        """Drop what is left of the control connection and connect anew."""
        self.close()
        self._held()

    def close(self) -> None:
        """Let go of the host; streams go on until they are closed themselves."""
        with self._lock:
            held, self._connection = self._connection, None
        if held is not None:
            held.close()

    def _held(self) -> connection.Connection:
        with self._lock:
            if self._connection is None or not self._connection.alive:
                if self._connection is not None:
                    self._connection.close()
                self._connection = self._connect()
            return self._connection

    def _connect(self) -> connection.Connection:
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(trouble.worth_another_try),
            stop=tenacity.stop_after_delay(PATIENCE) | _TriedEnough(),
            wait=tenacity.wait_exponential(multiplier=0.3, max=5.0) + tenacity.wait_random(0, 0.5),
            reraise=True,
        )
        return attempts(connection.connect, self._route(), self.settings, self._note, pin_file=self._pin_file)

    def _route(self) -> list[Resolved]:
        """Give the hops to the host, the host last; ssh_config is asked once per link."""
        if not self._hops:
            hops = sshconfig.route(self.settings, ssh_config=self._ssh_config)
            for note in dict.fromkeys(note for hop in hops for note in hop.notes):
                self._note(note)
            self._hops = hops
        return self._hops

    def _note(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)


class _TriedEnough(tenacity.stop.stop_base):
    """Some tries are enough, but for a server that says it will let us in later."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return retry_state.attempt_number >= TRIES and CROWDED not in getattr(error, "message", "")
