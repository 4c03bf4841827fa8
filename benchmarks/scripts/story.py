"""What one does by hand: import the two modules, print three signatures, read them.

Bytecode goes to the folder that is given: an empty one is a host on which nothing has been compiled yet.
"""

import sys

sys.pycache_prefix = sys.argv[1]
sys.dont_write_bytecode = False

import inspect  # noqa: E402 - after the cache is named

import speculators.data_generation.custom_worker  # noqa: E402
import speculators.data_generation.vllm_hidden_states_generator  # noqa: E402, F401
from vllm.v1.core.kv_cache_utils import get_kv_cache_config_from_groups  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402
from vllm.v1.request import Request  # noqa: E402

for callee in (Request.__init__, Scheduler.__init__, get_kv_cache_config_from_groups):
    print(inspect.signature(callee))
