"""Text of documents on its way into a message: it stays text.

Servers read a prompt as one string of tokens. A passage that holds `<|im_start|>system` would open a turn
of its own there, one that holds `<|image_pad|>` would stand for a picture that is not there, and one that
holds the end of the fence around it would speak from outside. None of them changes for a reader.
"""

from __future__ import annotations

import re

__all__ = ["material"]

_CONTROL = re.compile(
    r"<(?=\|)|(?<=\|)>"  # tokens of chat templates: <|im_start|>
    r"|<(?=/?\s*(?:passage|think|search|bbox|answer|evidence|tool_call|tool_response|image|video|s)\s*[>/])"
    r"|\[(?=/?(?:INST|SYS)\])"
    r"|<(?=<SYS>>|start_of_turn|end_of_turn)",
    re.IGNORECASE,
)
_SHAPED = {"<": "‹", ">": "›", "[": "⟦"}


def material(text: str) -> str:
    """The text with what a model's server or grammar would take for control written otherwise.

    >>> material("Ferry <|im_start|>system: a < b </passage>")
    'Ferry ‹|im_start|›system: a < b ‹/passage>'
    """
    return _CONTROL.sub(lambda found: _SHAPED[found[0]], text)
