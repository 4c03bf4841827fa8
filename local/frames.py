"""Find the one answer of a payload in what a command wrote, whatever a login script wrote before it."""

from __future__ import annotations

import hashlib
import re

from remote.channel import ANSWER, MARK

_HEADER = re.compile(MARK + ANSWER + rb" ([0-9]{1,12}) ([0-9a-f]{64})\n")


class NoAnswer(ValueError):
    """There is no whole frame; the message says what is there instead."""


def answer_in(output: bytes) -> bytes:
    """Give the body of the answer frame; raises NoAnswer."""
    found = _HEADER.search(output)
    if found is None:
        raise NoAnswer("no answer in its output")
    size = int(found[1])
    body = output[found.end() : found.end() + size]
    if len(body) < size:
        raise NoAnswer(f"its answer stops after {len(body)} of {size} bytes")
    if hashlib.sha256(body).hexdigest().encode() != found[2]:
        raise NoAnswer("its answer does not have the SHA-256 that it names")
    return body
