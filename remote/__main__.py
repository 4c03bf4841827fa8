"""The payload's door: `python -I -B …/remote/__main__.py VERB`, one JSON document on stdin, one frame on stdout.

Verbs answer over SSH; roles are processes that the payload starts by itself, under a job's environment, with
`python -m remote ROLE [ARGUMENT…]`. Exit codes: 0 answered (a foreseen failure is an answer) · 2 the request cannot
be understood (one line on stderr says why) · anything else is a crash. A role's exit code is its own.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # started by path, isolated: nothing of ours is on the path yet
    sys.path[0:0] = [str(Path(__file__).resolve().parent.parent)]

from remote import inuse, schema, wire
from remote.channel import Channel

# verb → (module of remote, request document); the module's `answer(request)` gives the answer document
VERBS: dict[str, tuple[str, type[Any]]] = {
    "facts": ("facts", schema.FactsRequest),
    "surface": ("surface", schema.SurfaceRequest),
    "probe": ("probe", schema.ProbeRequest),
    "verdict": ("verdict", schema.VerdictRequest),
    "launch": ("launch", schema.LaunchRequest),
    "status": ("status", schema.StatusRequest),
    "pulse": ("pulse", schema.PulseRequest),
    "stop": ("stop", schema.StopRequest),
    "verify": ("verify", schema.VerifyRequest),
    "census": ("census", schema.CensusRequest),
    "story": ("story", schema.StoryRequest),
    "expect": ("expect", schema.ExpectRequest),
    "clean": ("clean", schema.CleanRequest),
}
# verb → (module, request document); the module's `stream(request, channel)` sends frames
STREAMS: dict[str, tuple[str, type[Any]]] = {
    "read": ("read", schema.ReadRequest),
    "levels": ("probe", schema.ProbeRequest),
    "send": ("send", schema.SendRequest),
}
# role → module; the module's `main(arguments)` gives the exit code
ROLES = {
    "supervise": "supervise",
    "attempt": "attempt",
    "probe-child": "gate.probe_child",
    "verify-child": "results.verify_child",
    "census-child": "prompts.census_child",
    "tiny-model": "model.tiny_model",
    "hook": "run.hook_child",
}


def main(arguments: list[str]) -> int:
    """Dispatch a verb or a role; gives the exit code."""
    name = arguments[0] if arguments else ""
    if name in ROLES:
        return int(importlib.import_module(f"remote.{ROLES[name]}").main(arguments[1:]))
    if name not in VERBS and name not in STREAMS:
        sys.stderr.write(f"remote: unknown verb {name!r}\n")
        return 2
    return _verb(name, Channel())


def _verb(name: str, channel: Channel) -> int:
    module, document = {**VERBS, **STREAMS}[name]
    try:
        request: Any = wire.loads(document, sys.stdin.buffer.read(), name)
    except wire.WireError as error:
        sys.stderr.write(f"remote: {error}\n")
        return 2
    inuse.mark(__file__)
    room = importlib.import_module(f"remote.{module}")
    if name in STREAMS:
        room.stream(request, channel)
    else:
        channel.answer(wire.dumps(room.answer(request)).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
