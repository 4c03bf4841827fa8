"""Every error that a user can meet: few families, each with its exit code, each printing itself with its remedy."""

from __future__ import annotations


class PrudentError(Exception):
    """Something a user can act on; `remedy` says how."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.where = where

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head}\n{self.remedy}" if self.remedy else head


class UsageError(PrudentError):
    """The command line, the inventory or the job file is wrong."""

    exit_code = 2


class GateRefused(PrudentError):
    """The gate said no."""

    exit_code = 3


class Unreachable(PrudentError):
    """The host cannot be reached, does not let us in, or cannot run our payload at all."""

    exit_code = 4
    transient = False  # True where the same attempt may work later: no answer, refused, broken off


class Denied(Unreachable):
    """The host answers and lets none of our keys in: waiting does not change that."""


class JobFailed(PrudentError):
    """The job failed for good."""

    exit_code = 5


class HostKeyError(PrudentError):
    """The host's key is unknown under `strict`, or has changed."""

    exit_code = 6


class LinkLost(PrudentError):
    """The link broke or fell silent: nothing is known about the host, least of all that anything failed."""

    exit_code = 75


class GaveUp(PrudentError):
    """A transient failure outlasted our patience; the same command may work later."""

    exit_code = 75


class PayloadCrashed(PrudentError):
    """Our own code on the host ended in an unforeseen way; the message holds its code and output."""

    exit_code = 1


def worst(codes: list[int]) -> int:
    """Give the exit code that speaks for many hosts: the first of this order that occurs."""
    order = (6, 1, 2, 5, 3, 4, 75, 141)
    present = set(codes)
    return next((code for code in order if code in present), 0)
