"""What the NVIDIA driver wrote into the kernel's log: its Xid messages, of this boot and this load of the driver."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from remote.host import commands
from remote.schema import Xid

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 3.0
MOST = 50  # kinds of message; a card in trouble writes thousands of lines of few kinds
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]{0,40}\): (\d{1,4})\b")
_LOADED = re.compile(r"NVRM: loading NVIDIA")  # the driver starts anew: what was before it is over
_SINCE_BOOT = re.compile(r"\[\s*(\d+\.\d+)\]")
_QUESTIONS = (("dmesg",), ("journalctl", "-k", "-b", "-o", "short-monotonic", "--no-pager", "-q", "--grep", "NVRM"))


def xids() -> tuple[Xid, ...] | None:
    """Ask the kernel's own buffer, else the journal; None where neither may be read."""
    for words in _QUESTIONS:
        said = commands.run(words, limit=LIMIT)
        if said.code == 0:
            return parse(said.out, time.clock_gettime(time.CLOCK_MONOTONIC))
    return None


def parse(text: str, uptime: float | None = None) -> tuple[Xid, ...]:
    """Read the messages, one Xid per code and card, with the last one's text."""
    return tuple(_counted(_latest(text.splitlines()), uptime))[:MOST]


def _latest(lines: list[str]) -> list[str]:
    """Leave out what was written before the driver was last loaded."""
    start = max((number for number, line in enumerate(lines) if _LOADED.search(line)), default=0)
    return lines[start:]


def _counted(lines: Iterable[str], uptime: float | None) -> list[Xid]:
    found: dict[tuple[int, str], Xid] = {}
    for line in lines:
        match = _XID.search(line)
        if match:
            key = int(match[2]), match[1]
            before = found.pop(key, None)
            stamp = _SINCE_BOOT.search(line)
            found[key] = Xid(
                code=key[0],
                bus=key[1],
                count=before.count + 1 if before else 1,
                text=line[match.start() :][:300].strip(),
                age=max(0.0, uptime - float(stamp[1])) if stamp and uptime is not None else None,
            )
    return list(found.values())
