"""The folders that libraries write to without being told: temporary files, and the caches in a user's home."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from remote.host.disk import disk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remote.schema import Disk

NAMED = ("TMPDIR", "TEMP", "TMP")  # as Python's tempfile goes by them
USUAL = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 - its places where none of those can be used


def found(environment: Mapping[str, str]) -> dict[str, Disk]:
    """Give the file system of `home`, of the folder named for `temporary` files, and of what is taken in its place.

    `instead` is not there where the folder that is named can be used, nor where none can.
    """
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - gives `~` where nobody knows it
    named = next((environment[name] for name in NAMED if environment.get(name)), USUAL[0])
    places = {"temporary": disk(named, ours=False)}
    if home.startswith("/"):
        places["home"] = disk(home, ours=False)
    if not usable(places["temporary"]):
        instead = next((place for path in USUAL if usable(place := disk(path, ours=False))), None)
        places |= {"instead": instead} if instead else {}
    return places


def usable(place: Disk) -> bool:
    """Tell whether a folder is there and takes files."""
    return place.exists and place.writable
