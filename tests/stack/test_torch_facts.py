"""What is read of the installed torch without importing it is what torch says of itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from remote.host import cuda
from tests.stack.conftest import stack_python

pytestmark = pytest.mark.stack
QUESTION = """
import json, torch
print(json.dumps([torch.__file__, torch.__version__, torch.version.cuda, torch._C._cuda_getArchFlags()]))
"""


def test_torch_is_read_as_it_is() -> None:
    done = subprocess.run(
        [stack_python(), "-B", "-c", QUESTION], capture_output=True, check=True, text=True, timeout=300
    )
    file, version, release, flags = json.loads(done.stdout)
    told = cuda.torch(Path(file).with_name("version.py"))
    assert told is not None
    assert (told.version, told.cuda) == (version, release)
    assert told.archs == tuple((flags or "").split())
