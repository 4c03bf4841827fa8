"""A shard: the samples of a dataset that one host is to do."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from remote.model import model_print
from remote.prompts import counted, dataset

if TYPE_CHECKING:
    from remote.prompts.counted import Counted
    from remote.schema import Dealt, Job


class Shard:
    """Samples by index, held against the dataset that they are of."""

    def __init__(self, indices: tuple[int, ...], path: str) -> None:
        self.indices = indices
        self._path = path

    def __repr__(self) -> str:
        return f"<shard of {len(self.indices)} samples of {self._path}>"

    @cached_property
    def samples(self) -> frozenset[int]:
        """Give the samples; raises DatasetError where the dataset has not so many."""
        if self.indices and self.indices[-1] >= self.whole:
            raise dataset.DatasetError(
                f"{self._path}: holds {self.whole} samples, sample {self.indices[-1]} was dealt to this host: the "
                "dataset has changed since; run extract again"
            )
        return frozenset(self.indices)

    @cached_property
    def whole(self) -> int:
        """Count the samples of the whole dataset."""
        return dataset.count(self._path)


def hold(job: Job, longest: int, dealt: Dealt) -> Counted:
    """Hold dataset and model against what the shard was dealt from; raises DatasetError where they are others now.

    The other hosts do their shards of that very dataset. Samples that were added behind its last one harm nobody.
    Gives what is known of all its samples.
    """
    model = model_print.fingerprint(job.model)
    if dealt.model and model and model != dealt.model:
        raise dataset.DatasetError(f"{job.model}: is another model than the one {_DEALT}")
    known = counted.count(job, longest)  # costs nothing where nothing has changed
    if len(known.lengths) < dealt.total or known.name(dealt.total) != dealt.dataset:
        raise dataset.DatasetError(f"{job.dataset}: its samples (or their tokens) are not those {_DEALT}")
    return known


_DEALT = (
    "that this host's part was dealt from, and the other hosts are at work on that one: bring it back, or stop them, "
    "and run extract again"
)
