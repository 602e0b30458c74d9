"""The beginning of an answer without its markers, while the rest is still being written.

What is certain is the beginning of what `take_markers` will return, however the answer goes on. Held back are
brackets that are not closed, or whose use depends on what follows; blanks and joints that may stand before a
marker; lines that may belong to a list of references; and brackets in what may become code or a formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from vrag.agent.answers.markers import (
    BEFORE_CHARS,
    BRACKET,
    JOINTS,
    MAX_NAME_CHARS,
    PROTECTED,
    REFERENCE_HEADING,
    REFERENCE_HEADINGS,
    REFERENCE_LINE,
    MarkerReading,
    UnmarkedAnswer,
    references_of,
)

_OPEN_BRACKET = re.compile(
    rf"(?:\[{{1,2}}[^\[\]\n【】［］]{{0,{MAX_NAME_CHARS}}}|[［【][^\[\]\n【】［］]{{0,{MAX_NAME_CHARS}}}"
    r"|[（(][^()（）\n]{0,60})\Z"
)
"""A bracket that may still be closed."""
_OPEN_PROTECTED = re.compile(r"(?:``|`[^`\n]{0,500}|\$(?:[^$\n.!?]|[.!?](?!\s)){0,200})\Z")
"""Code or a formula that may still be closed."""
_OPEN_LINK = re.compile(r"\([^()\s]{0,300}")
_OPEN_VERB = re.compile(r"\s{1,3}\w{0,10}")
_OPEN_REFERENCE = re.compile(
    r"\s{0,8}(?:[-*•]\s{0,3})?(?:[\[［【](?:\^?\d{0,3}(?:[\]］】]:?\s{0,8})?)?)?",
)
"""A line that may become a reference."""
_OPEN_HEADING = re.compile(r"\W{0,8}(\w*)(\W{0,8})")
_OPEN_JOINTS = JOINTS | {"a", "an"}


def take_certain_markers(begun: str, describe: Callable[[str], str | None]) -> UnmarkedAnswer:
    """Return what is certain of an answer without its markers, and the markers in it.

    Args:
        begun: The answer as far as it is written.
        describe: As for `take_markers`.

    >>> take_certain_markers("It rose [1]. It fell [2", lambda reference: reference).text
    'It rose. It fell'
    """
    text = begun.lstrip()
    text = text[: _references_start(text)]
    reading = MarkerReading(text, describe)
    protected = _open_protection(text)
    unclosed = _OPEN_BRACKET.search(text)
    end = len(text) if unclosed is None else unclosed.start()
    for match in BRACKET.finditer(text):
        if match.start() >= end:
            break
        references, _ = references_of(match, lambda name: describe(name) is not None)
        if references and _is_open(text, match, protected):
            end = match.start()
            break
        reading.read(match)
    rest = text[reading.at : end]
    is_after_marker = bool(reading.markers) and reading.markers[-1].at == reading.length
    if is_after_marker and rest.strip(" \t").lower() in _OPEN_JOINTS:
        rest = ""
    reading.text = text[: reading.at] + rest
    unmarked = reading.finish()
    if not any(character.isalnum() for character in unmarked.text):
        return UnmarkedAnswer("")
    length = len("".join([*reading.pieces, rest]).rstrip())
    known = sum(marker.at <= length for marker in reading.markers)  # others stand behind blanks held back
    return UnmarkedAnswer(unmarked.text, unmarked.markers[:known])


def _is_open(text: str, match: re.Match[str], protected: int) -> bool:
    """Return whether the use of a bracket depends on what follows."""
    rest = text[match.end() :]
    return (
        match.end() > protected
        or (not rest.strip() and len(rest) < BEFORE_CHARS)
        or _OPEN_VERB.fullmatch(rest) is not None
        or (match["link"] is None and _OPEN_LINK.fullmatch(rest) is not None)
    )


def _open_protection(text: str) -> int:
    """Return where code or a formula begins that may still be closed; the length of the text if none does."""
    at = 0
    for match in PROTECTED.finditer(text):
        unclosed = _OPEN_PROTECTED.search(text, at)
        if unclosed is not None and unclosed.start() < match.start():
            return unclosed.start()
        is_formula = match[0].startswith("$") and not match[0].startswith("$$")
        if is_formula and match.end() == len(text):  # a digit may follow
            return match.start()
        at = match.end()
    unclosed = _OPEN_PROTECTED.search(text, at)
    return len(text) if unclosed is None else unclosed.start()


def _references_start(text: str) -> int:
    """Return where a list of references begins that may end the answer; its length if none does."""
    lines = text.split("\n")
    starts = [0]
    for line in lines[:-1]:
        starts.append(starts[-1] + len(line) + 1)
    first = len(lines)
    while first > 0 and _may_be_reference(lines[first - 1], is_last=first == len(lines)):
        first -= 1
    listed = [line.lstrip() for line in lines[first:]]
    if first > 0 and REFERENCE_HEADING.fullmatch(lines[first - 1]) and len(lines[first - 1]) < MAX_NAME_CHARS:
        return starts[first - 1]
    if any(listed) and all("[^".startswith(line[:2]) for line in listed):
        return starts[first]
    if _may_be_heading(lines[-1]):
        return starts[-1]
    return len(text)


def _may_be_reference(line: str, *, is_last: bool) -> bool:
    is_open = is_last and _OPEN_REFERENCE.fullmatch(line) is not None
    return is_open or not line.strip() or REFERENCE_LINE.fullmatch(line) is not None


def _may_be_heading(line: str) -> bool:
    match = _OPEN_HEADING.fullmatch(line)
    if match is None:
        return False
    word = match[1].casefold()
    return (
        word in REFERENCE_HEADINGS
        if match[2]
        else any(heading.startswith(word) for heading in REFERENCE_HEADINGS)
    )
