"""Markers with which models cite, such as `[2]`, and the answer without them.

Models are told to write `[2]` for image 2 and `[Text 1]` for a text, or the id of a node of the graph. Some
write `[Image 2]`, `[1, 3]`, `[1–3]`, `【2†source】` or `[^2]` instead; these are read alike. A bracket that
is part of what the answer says ("the range is [0, 5]"), and one in code or a formula, is no marker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MAX_MARKER_NUMBERS = 20
"""References of one marker; further ones are dropped."""
_MAX_NAME_CHARS = 120
_KINDS = r"(?:images?|pictures?|texts?|videos?|nodes?|sources?|evidence|pages?\s+shown)"
_NUMBERS = r"\d{1,3}(?:\s*(?:[,;&–-]|and)\s*\d{1,3})*"
_BRACKET = re.compile(
    rf"""
    [ \t]*(?:
      \[\s*\^?\s*(?P<square>{_NUMBERS})\s*\](?:\(\#?[^()\s]*\))?
    | \[\s*(?P<named>[^\[\]\n]{{1,{_MAX_NAME_CHARS}}}?)\s*\](?!\()
    | [（(]\s*(?P<round>{_KINDS}\s*{_NUMBERS})\s*[)）]
    | 【\s*(?P<lens>[^【】\n]{{1,{_MAX_NAME_CHARS}}}?)\s*】
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_PROTECTED = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\$\$.*?\$\$|\\\(.*?\\\)|\\\[.*?\\\]", re.DOTALL)
"""Code and formulas, in which a bracket is no marker."""
_KIND_NUMBERS = re.compile(rf"({_KINDS})?\s*({_NUMBERS})\s*(?:†.*)?", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)")
_SAID = re.compile(
    r"(?:[:=,(\[{<>+*/-]|\b(?:is|are|was|were|of|in|from|to|between|range|interval|list|pages?|vector|array"
    r"|equals?|by|or|and))\Z",
    re.IGNORECASE,
)
"""What stands before a bracket that is part of what the answer says."""


@dataclass(frozen=True, slots=True)
class ModelMarker:
    """The markers at one place of an answer."""

    at: int
    """The place in the answer without markers, in characters."""
    references: tuple[str, ...]
    """What the model cites: numbers such as `2`, labels such as `Text 1`, ids of nodes."""


@dataclass(frozen=True, slots=True)
class UnmarkedAnswer:
    """An answer without its markers."""

    text: str
    markers: tuple[ModelMarker, ...] = ()


def take_markers(answer: str, is_known: Callable[[str], bool]) -> UnmarkedAnswer:
    """Take the markers out of an answer.

    Numbers in brackets are markers, known or not, unless the words before them make them part of what is
    said; names in brackets are markers only where `is_known` says that one of them can be cited. An answer
    that has no other letter or digit is returned as it is.
    """
    pieces: list[str] = []
    markers: list[ModelMarker] = []
    at = length = 0
    protected = [match.span() for match in _PROTECTED.finditer(answer)]
    for match in _BRACKET.finditer(answer):
        if match.start() < at or any(start <= match.end() - 1 < end for start, end in protected):
            continue
        references = _references(match, is_known)
        before = answer[at : match.start()]
        follows_marker = not before and bool(markers)
        said = answer[: match.start()].rstrip()
        if not references or not (follows_marker or said) or (not follows_marker and _is_said(match, said)):
            continue
        pieces.append(before)
        length += len(before)
        at = match.end()
        if follows_marker:
            references = (*markers.pop().references, *references)
        unique = tuple(dict.fromkeys(references))[:MAX_MARKER_NUMBERS]
        markers.append(ModelMarker(length, unique))
    text = "".join([*pieces, answer[at:]])
    if not markers or not any(character.isalnum() for character in text):
        return UnmarkedAnswer(answer)
    start = len(text) - len(text.lstrip())
    stripped = text.strip()
    placed = (
        ModelMarker(min(max(marker.at - start, 0), len(stripped)), marker.references) for marker in markers
    )
    return UnmarkedAnswer(stripped, tuple(placed))


def _is_said(match: re.Match[str], said: str) -> bool:
    """Return whether a bracket with numbers alone belongs to what the answer says."""
    return match["square"] is not None and "^" not in match[0] and _SAID.search(said) is not None


def _references(match: re.Match[str], is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """Return what a bracket cites; nothing where it is no marker."""
    if match["square"] is not None:
        numbers = tuple(_numbers(match["square"]))
        return () if "0" in numbers else numbers
    content = match["named"] or match["round"] or match["lens"]
    numbered = _KIND_NUMBERS.fullmatch(content)
    if numbered is not None:
        kind = (numbered[1] or "").strip().lower().rstrip("s")
        label = "Text " if kind == "text" else ""
        return tuple(f"{label}{number}" for number in _numbers(numbered[2]))
    if is_known(content.strip()):
        return (content.strip(),)
    return tuple(name.strip() for name in re.split(r"[;,]", content) if is_known(name.strip()))


def _numbers(text: str) -> Iterable[str]:
    """Yield the numbers of a list such as `1, 3–5`."""
    spread = _RANGE.sub(_spread_range, text)
    return (str(int(number)) for number in re.findall(r"\d+", spread))


def _spread_range(match: re.Match[str]) -> str:
    first, last = int(match[1]), int(match[2])
    return ",".join(map(str, range(first, min(last, first + MAX_MARKER_NUMBERS) + 1)))
