"""The Python of the tests' hosts: an environment with nothing in it, least of all an editable install of this checkout.

The gate holds a host to be another one when a file of an editable install changes: were it the tests' own environment,
whoever edits a file of this tree while a gate looks would have it give up (exit code 75), and rightly so.
"""

from __future__ import annotations

import atexit
import functools
import tempfile
import venv
from pathlib import Path


@functools.cache
def python() -> str:
    """Give the interpreter, made once in each process of the tests and removed at its end."""
    folder = tempfile.TemporaryDirectory(prefix="prudent-gate-host-")
    atexit.register(folder.cleanup)
    made = Path(folder.name) / "env"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(made)
    return str(made / "bin" / "python3")
