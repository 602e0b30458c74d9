"""Text for terminals and line printers: letters struck twice or over a line, and escape codes."""

from __future__ import annotations

import re

BACKSPACE, ESCAPE = b"\x08", b"\x1b"
JAPANESE_CODE = b"\x1b$"
"""Begins Japanese letters in ISO-2022, which is no text for a terminal."""
_CODE = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)|[ -/]{1,4}[0-~]|[0-Z\\^-~])"
)


def drop_terminal_codes(data: bytes) -> bytes:
    r"""Return a text as it looks on a terminal, if it has backspaces or escape codes; else as it is.

    >>> drop_terminal_codes(b"N\bNA\bA _\bx \x1b[1mbold\x1b[0m")
    b'NA x bold'
    """
    has_codes = (b"\x1b[" in data or b"\x1b]" in data) and JAPANESE_CODE not in data
    if not has_codes and BACKSPACE not in data:
        return data
    text = data.decode("utf-8", "surrogateescape")
    if has_codes:
        text = _CODE.sub("", text)
    lines = (_strike(line) for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _strike(line: str) -> str:
    """Return a line with the letters that are struck last at each place; lines under letters do not count."""
    if "\b" not in line:
        return line
    shown: list[str] = []
    place = 0
    for letter in line:
        if letter == "\b":
            place = max(place - 1, 0)
            continue
        if place == len(shown):
            shown.append(letter)
        elif letter not in "_ " or shown[place] in "_ ":
            shown[place] = letter
        place += 1
    return "".join(shown)
