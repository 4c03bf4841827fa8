"""Notes of what was told, made before it is told: nobody who follows a run again, or beside us, tells it twice."""

from __future__ import annotations

import os
from urllib.parse import quote

from local import folders


def first(host: str, run: str, occasion: str) -> bool:
    """Make the note; False where somebody has made it. Where none can be made, better told twice than never."""
    folder = folders.state() / "hooks" / (quote(host, safe="@").lstrip(".") or "host") / quote(run, safe="")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(folder / quote(occasion, safe=""), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True
    return True
