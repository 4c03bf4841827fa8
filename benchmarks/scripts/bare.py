"""The tiny run without a gate: the patched engine loaded in the job's environment, one batch of its largest size."""

import os
import sys
from pathlib import Path, PurePosixPath

folder = sys.argv[1]
sys.path.insert(0, f"{folder}/payload")

from remote import overlay, wire  # noqa: E402 - the payload of the bundle
from remote.environment import job_environment  # noqa: E402
from remote.paths import Bundle  # noqa: E402
from remote.schema import Job  # noqa: E402

CHILD = """
import os, sys
from pathlib import Path
from remote import wire
from remote.engines import base
from remote.schema import Job

job = wire.loads(Job, Path(sys.argv[1]).read_bytes())
engine = base.make(job)
engine.load()
states = engine.extract([[1 + (n * 7 + k) % 99 for k in range(engine.longest)] for n in range(job.batch_size)])
assert len(states) == job.batch_size
engine.close()
sys.stdout.flush()
os._exit(0)
"""

job = wire.loads(Job, Path(folder, "job.json").read_bytes())
bundle = Bundle(PurePosixPath(folder))
overlay.ensure(bundle, job.python)
sys.stdout.flush()
os.execve(job.python, [job.python, "-c", CHILD, f"{folder}/job.json"], job_environment(job, bundle))  # noqa: S606
