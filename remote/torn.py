"""What a cut has left of a secret at the edge of a text: pure, used by `remote.masks`.

A cut may go through a secret, through a terminal command that stands within one, or through a character. What a cut has
left of the command is text by then ("1m" of a colour), and is looked behind.
"""

from __future__ import annotations

import bisect
import re
from itertools import accumulate

MINIMUM = 3  # characters of a secret that a cut has left: fewer tell nothing
LOOKED_AT = 1 << 16  # characters at an edge in which what is left of a secret is looked for

# What may be left of a terminal command at the start of a text: parameters and a last letter, a title and its end. A
# letter alone only where it is a usual one: any other is rather a word's first, and a word would be masked for nothing.
_HEADS = (
    re.compile(r"[\x1b\x80-\x9f]?\[[0-?]*[ -/]*[@-~]|[0-?]+[ -/]*[@-~]|[mK]"),
    re.compile(r"[()*+#%][0-~]"),
    re.compile(r"[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\xc2?\x9c)"),
    re.compile(r"\\"),
)
# What may be left at the end of one: a title whose end has not come, half of a control character in UTF-8.
_TAILS = (
    re.compile(r"(?:\x1b[\]PX^_]|\xc2?[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*\x1b?\Z"),
    re.compile(r"\xc2\Z"),
)


class Bare:
    """A text without all that nobody sees; `place` says where one of its characters stands in the whole text."""

    def __init__(self, text: str, unseen: re.Pattern[str], start: int = 0, end: int | None = None) -> None:
        kept, at, end = [], start, len(text) if end is None else end
        for match in unseen.finditer(text, start, end):
            kept.append((at, match.start()))
            at = match.end()
        self._kept = [piece for piece in [*kept, (at, end)] if piece[0] < piece[1]]
        self._starts = list(accumulate((upto - at for at, upto in self._kept), initial=0))
        self.text = "".join(text[at:upto] for at, upto in self._kept)

    def place(self, offset: int) -> int:
        """Give the place in the whole text."""
        piece = bisect.bisect_right(self._starts, offset) - 1
        return self._kept[piece][0] + offset - self._starts[piece]


def spans(
    text: str, hidden: tuple[str, ...], unseen: re.Pattern[str], *, start: bool, end: bool
) -> list[tuple[int, int]]:
    """Give the edges of a text that are what is left of a secret; `start` and `end` say where it was cut."""
    found: list[tuple[int, int]] = []
    if not hidden or not (start or end):
        return found
    near, far = min(len(text), LOOKED_AT), max(0, len(text) - LOOKED_AT)
    heads = {0, *(match.end() for head in _HEADS if start and (match := head.match(text, 0, near)))}
    tails = {len(text), *(match.start() for tail in _TAILS if end and (match := tail.search(text, far)))}
    for at in heads if start else ():
        bare = Bare(text, unseen, at, near)
        if left := max(_common(shape, bare.text) for shape in hidden):
            found.append((0, bare.place(left - 1) + 1))
    for upto in tails if end else ():
        bare = Bare(text, unseen, far, upto)
        if left := max(_common(bare.text, shape) for shape in hidden):
            found.append((bare.place(len(bare.text) - left), len(text)))
    if start and end and len(text) <= LOOKED_AT:
        inner = [Bare(text, unseen, at, upto).text for at in heads for upto in tails if upto - at >= MINIMUM]
        found += [(0, len(text)) for bare in inner if len(bare) >= MINIMUM and any(bare in shape for shape in hidden)]
    return found


def _common(before: str, after: str) -> int:
    """Give how many characters `before` ends with that `after` begins with, 0 where they are too few to tell."""
    for count in range(min(len(before), len(after)), MINIMUM - 1, -1):
        if before.endswith(after[:count]):
            return count
    return 0
