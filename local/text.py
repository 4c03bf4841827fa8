"""Text from elsewhere, made safe to print: nothing a host says may move the cursor, set a title or reverse a line."""

from __future__ import annotations

import re
import unicodedata

# Whole terminal commands (OSC, DCS and their like up to their end; CSI; two-byte escapes), then single characters.
# A command's text holds no start of another: a text of nothing but starts is read once, and not once for each of them.
_COMMANDS = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_TAB = "    "


def clean(text: str, *, lines: bool = False) -> str:
    """Give text without control characters and terminal commands; line ends stay only where `lines` says so."""
    text = _COMMANDS.sub("", text).replace("\r\n", "\n").replace("\t", _TAB)
    return "".join(_shown(character, lines=lines) for character in text)


def _shown(character: str, *, lines: bool) -> str:
    if character == "\n":
        return "\n" if lines else " "
    # Cc: controls · Cf: bidi controls, zero-width characters · Cs: halves of a pair · Zl, Zp: line separators
    if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return "" if character in "\r\x7f" or character < " " else "\N{REPLACEMENT CHARACTER}"
    return character
