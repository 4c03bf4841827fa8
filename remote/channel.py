r"""The result channel: answers leave on the real standard output; what anybody prints ends on standard error.

A frame is `\x1e<NAME> <header>\n<body>`. Answers are `PRUDENT-GATE <length> <sha256>`; see docs/wire.md.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

MARK = b"\x1e"
ANSWER = b"PRUDENT-GATE"
FRAME = b"FRAME"


class Channel:
    """Owns the process's standard output; made once, before anything else is imported."""

    def __init__(self) -> None:
        self._descriptor = os.dup(1)  # not inherited by children
        os.dup2(2, 1)

    def answer(self, body: bytes) -> None:
        """Send the one answer of a verb."""
        self._send(answer_frame(body))

    def frame(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one frame of a stream; `size` is added to the header."""
        line = json.dumps({**header, "size": len(body)}, separators=(",", ":"))
        self._send(MARK + FRAME + b" " + line.encode() + b"\n" + body)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def answer_frame(body: bytes) -> bytes:
    """Give the frame of an answer."""
    digest = hashlib.sha256(body).hexdigest().encode()
    return MARK + ANSWER + b" %d " % len(body) + digest + b"\n" + body
