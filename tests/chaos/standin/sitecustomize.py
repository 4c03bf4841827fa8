"""A STAND-IN for a host's wall clock: `time.time` is off by the seconds that the file `~/.clock-offset` says.

The machine's own clock cannot be moved by a test. Every Python of the payload on the pretended host imports this.
"""

import os
import time

_REAL = time.time
_FILE = os.environ.get("HOME", "") + "/.clock-offset"


def _off() -> float:
    try:
        with open(_FILE) as file:  # noqa: PTH123 - every Python of the host imports this: no more than it must
            return _REAL() + float(file.read() or 0)
    except (OSError, ValueError):
        return _REAL()


time.time = _off
