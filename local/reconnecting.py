"""What is done about cuts: connect again, with growing delays, for as long as patience lasts.

A link that is lost says nothing of what is at work over there, and never touches it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity

from local.errors import Denied, GaveUp, LinkLost, PayloadCrashed, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LONGEST_DELAY = 15.0
CRASHES = 3  # of the payload's stream without anything new between them: then it is given up


@dataclass
class Reconnecting:
    """One stream over any number of connections: `patience` seconds without a word end it (None: never).

    `sleep` waits between two connections and may raise to end it all; `meanwhile` is what is said to go on during a
    cut, `remedy` what to do once patience is over.
    """

    name: str  # the host's
    patience: float | None
    on_link: Callable[[str], None]
    sleep: Callable[[float], None]
    meanwhile: str
    remedy: str
    _heard: float = 0.0
    _fresh: bool = False  # something was heard on this connection
    _lost: bool = False
    _crashes: int = 0

    def go(self, connection: Callable[[], T]) -> T:
        """Call `connection` until it returns; raises GaveUp, and what no other connection would mend."""
        self._heard = time.monotonic()
        retrying = tenacity.Retrying(
            retry=self._again,
            wait=tenacity.wait_exponential(multiplier=0.25, max=LONGEST_DELAY) + tenacity.wait_random(0, 0.5),
            stop=self._out_of_patience,
            sleep=self.sleep,
            before_sleep=self._announce,
            retry_error_callback=self._give_up,
        )
        done: T = retrying(self._once, connection)
        return done

    def heard(self) -> None:
        """Note that the host has said something."""
        if self._lost:
            self.on_link(f"the link is back after {time.monotonic() - self._heard:.1f} s")
        self._lost, self._fresh = False, True
        self._heard = time.monotonic()

    def came_further(self) -> None:
        """Note that there was something new in what the host said."""
        self._crashes = 0

    def _once(self, connection: Callable[[], T]) -> T:
        self._fresh = False
        return connection()

    def _again(self, state: Any) -> bool:
        error = state.outcome.exception()
        if isinstance(error, PayloadCrashed):  # it may have been killed over there, but a fault of ours stays one
            self._crashes += 1
            if self._crashes >= CRASHES:
                return False
        elif isinstance(error, Denied) or not isinstance(error, LinkLost | Unreachable):
            return False
        if self._fresh:
            state.attempt_number = 1  # this connection worked: the delays start over
        return True

    def _out_of_patience(self, state: Any) -> bool:
        del state
        return self.patience is not None and time.monotonic() - self._heard >= self.patience

    def _announce(self, state: Any) -> None:
        if not self._lost:
            self.on_link(f"the link is lost ({state.outcome.exception().message}); {self.meanwhile}")
        self._lost = True

    def _give_up(self, state: Any) -> None:
        error = state.outcome.exception()
        raise GaveUp(
            f"no link for {self.patience:.0f} s: {getattr(error, 'message', error)}",
            remedy=self.remedy,
            where=self.name,
        ) from error
