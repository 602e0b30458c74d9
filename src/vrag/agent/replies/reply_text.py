"""Text of a reply without thoughts and quoted passages."""

from __future__ import annotations

import re

__all__ = ["unquoted"]

_TAG = re.compile(r"<(?P<close>/?)(?P<name>think|passage)\b[^<>]*>", re.IGNORECASE)


def unquoted(reply: str) -> str | None:
    """The reply with blanks in place of thoughts and of quoted passages: every place in it stays the same.

    A reply that starts in the middle of a thought is understood. A passage that never ends is none.

    Returns:
        None where a thought begins that never ends: nothing after that is certain to be said.

    >>> unquoted("<think>why</think> <answer>12</answer>").strip()
    '<answer>12</answer>'
    """
    tags = list(_TAG.finditer(reply))
    thoughts = [tag for tag in tags if tag["name"].lower() == "think"]
    blank: list[tuple[int, int]] = [(0, thoughts[0].end())] if thoughts and thoughts[0]["close"] else []
    endless = False
    for place, tag in enumerate(tags):
        if tag["close"] or (blank and tag.start() < blank[-1][1]):
            continue
        quoted = tag["name"].lower() == "passage"
        close = None if quoted and endless else _close(tags, place)
        if close is None and not quoted:
            return None
        endless = endless or close is None
        if close is not None:
            blank.append((tag.start(), close.end()))
    return _blanked(reply, blank)


def _close(tags: list[re.Match[str]], place: int) -> re.Match[str] | None:
    name = tags[place]["name"].lower()
    rest = (tags[later] for later in range(place + 1, len(tags)))
    return next((tag for tag in rest if tag["close"] and tag["name"].lower() == name), None)


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*pieces, text[at:]])
