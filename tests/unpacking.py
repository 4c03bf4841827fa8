"""Bundles of our own making, unpacked for a test."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

# Python 3.11 has the filter from 3.11.4 on, and 3.12 warns where none is given.
_FILTERED: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def unpack(data: bytes, folder: PathLike[str]) -> None:
    """Unpack an archive that the test has made itself."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, **_FILTERED)  # noqa: S202 - made by the test
