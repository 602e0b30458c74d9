"""Markers with which models cite, such as `[2]`, and the answer without them.

Models are told to write `[2]` for image 2 and `[Text 1]` for a text, or the id of a node of the graph. Some
write `[Image 2]`, `[1, 3]`, `[1–3]`, `[[1]]`, `【2†source】`, `[^2]` or `(see image 2)` instead; these are
read alike. A marker that is a word of its sentence ("According to [2], …") becomes the name of what it
cites, so that no number of the model remains in the text; where it cites nothing that was shown, … takes its
place. A bracket that is part of what the answer says ("the range is [0, 5]"), and one in code or a formula,
is no marker. The time is linear in the length of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

MAX_MARKER_NUMBERS = 20
"""References of one marker; further ones are dropped."""
MAX_NAME_CHARS = 120
BEFORE_CHARS = 40
"""Characters before a bracket that tell what it is."""
_NAME = rf"[^\[\]\n【】［］]{{1,{MAX_NAME_CHARS}}}"
BRACKET = re.compile(
    rf"(?P<square>\[{{1,2}}(?P<name>{_NAME})\]{{1,2}})(?P<link>\([^()\s]{{0,300}}\))?"
    rf"|［(?P<wide>{_NAME})］|【(?P<lens>{_NAME})】|[（(](?P<round>[^()（）\n]{{1,60}})[)）]"
)
PROTECTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,500}`|\$\$.*?(?:\$\$|\Z)|\\\(.*?(?:\\\)|\Z)|\\\[.*?(?:\\\]|\Z)"
    r"|\$(?![\s$])(?:[^$\n.!?]|[.!?](?!\s)){1,200}(?<!\s)\$(?!\d)",
    re.DOTALL,
)
"""Code and formulas, in which a bracket is no marker. A formula between single dollars lies in one sentence:
other dollars are amounts of money."""
REFERENCE_LINE = re.compile(
    r"\s{0,8}(?:[-*•]\s{1,3})?[\[［【]\^?(\d{1,3})[\]］】]:?\s{1,8}\S.*|\s{0,8}\[\^\d{1,3}\]:.*"
)
REFERENCE_HEADINGS = (
    *("source", "sources", "reference", "references", "citation", "citations", "evidence", "footnote"),
    *("footnotes", "quellen", "fuentes", "参考", "来源", "來源", "引用"),
)
REFERENCE_HEADING = re.compile(rf"\W{{0,8}}(?:{'|'.join(REFERENCE_HEADINGS)})\W{{0,8}}", re.IGNORECASE)
_KIND = r"(?:images?|pictures?|texts?|videos?|nodes?|sources?|evidence)"
_PIECE = re.compile(
    rf"(?:see\s{{1,3}})?(?P<kind>{_KIND})?\s{{0,3}}(?P<first>\d{{1,3}})(?:\s{{0,3}}[–-]\s{{0,3}}(?P<last>\d{{1,3}}))?"
    r"(?:\s{0,3}[:†].*)?",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"\s{0,3}(?:[,;&，；、]|\band\b)\s{0,3}", re.IGNORECASE)
JOINTS = frozenset({"", ",", ";", "and", "&", "/", "、", "，", "–", "-"})
"""What stands between two markers of one place."""
_VALUE = re.compile(
    r"(?:[:=(\[{<+]|\b(?:is|are|was|were|between|range|interval|list|pages?|vector|array|matrix|set|point"
    r"|coordinates?|values?|tuple|equals?|or|CI))\Z"
)
"""What stands before a bracket that is part of what the answer says."""
_INDEXED = re.compile(r"(?<![A-Za-z])[A-Za-z]\Z")
"""A variable directly before its index."""
_SENTENCE_END = re.compile(r"[.!?。！？]\Z")
_NOUN = re.compile(
    r"(?:\b(?:according to|in|to|by|from|of|on|see|per|both|and|with|as)|根据|依据|见|如|在)\Z", re.IGNORECASE
)
"""What stands before a marker that is a word of its sentence."""
_VERB = re.compile(
    r"\s{1,3}(?:says?|shows?|states?|reports?|lists?|gives?|mentions?|indicates?|confirms?|has|contains?|does)\b"
)
_ID = re.compile(r"(?=[^_]*_)[^\W_][\w-]{2,63}")
"""A name that can only be an id of a node, such as `fares_2023`."""
_CLAUSE_END = frozenset(".,;:!?。，；：！？\n")
OMITTED = "…"
_LINE_START = re.compile(r"(?:\A|\n)[ \t]{0,8}(?:[-*•>]|\d{1,3}[.)])?[ \t]{0,8}\Z")


@dataclass(frozen=True, slots=True)
class ModelMarker:
    """The markers at one place of an answer."""

    at: int
    """The place in the answer without markers, in characters."""
    references: tuple[str, ...]
    """What the model cites: numbers such as `2`, labels such as `Text 1`, ids of nodes."""
    leads: bool = False
    """True if it stands before what it cites for, at the beginning of a line."""


@dataclass(frozen=True, slots=True)
class UnmarkedAnswer:
    """An answer without its markers."""

    text: str
    markers: tuple[ModelMarker, ...] = ()


class _Use(Enum):
    """The use of a bracket in its sentence."""

    MARKER = auto()
    LEADING = auto()
    NOUN = auto()
    VALUE = auto()
    TEXT = auto()


def take_markers(answer: str, describe: Callable[[str], str | None]) -> UnmarkedAnswer:
    """Take the markers out of an answer.

    A list of references at its end is dropped. An answer that has no other letter or digit is returned as it
    is.

    Args:
        answer: The answer of a model.
        describe: The words for what a reference stands for, which take its place where it is a word of its
            sentence; None for what was never shown.
    """
    text = _without_references(answer)
    reading = MarkerReading(text, describe)
    for match in BRACKET.finditer(text):
        reading.read(match)
    unmarked = reading.finish()
    if reading.use is _Use.TEXT or not any(character.isalnum() for character in unmarked.text):
        return UnmarkedAnswer(answer)
    return unmarked


@dataclass(slots=True)
class MarkerReading:
    """The reading of an answer from left to right."""

    text: str
    describe: Callable[[str], str | None]
    at: int = 0
    """End of what was read."""
    length: int = 0
    """Characters of the answer without markers so far."""
    pieces: list[str] = field(default_factory=list[str])
    markers: list[ModelMarker] = field(default_factory=list[ModelMarker])
    use: _Use = _Use.TEXT
    """The use of the last bracket that was taken."""
    protected: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.protected = [match.span() for match in PROTECTED.finditer(self.text)]
        self.protected.reverse()

    def read(self, match: re.Match[str]) -> None:
        """Read a bracket: take it out, replace it, or leave it."""
        start, end = match.span()
        while self.protected and self.protected[-1][1] <= start:
            self.protected.pop()
        if start < self.at or (self.protected and self.protected[-1][0] < end):
            return
        references, is_plain = references_of(match, lambda name: self.describe(name) is not None)
        if not references:
            return
        if match["link"] and not is_plain:  # a link with words
            return
        before = self.text[self.at : start]
        joint = before.strip(" \t").lower()
        is_next = bool(self.markers) and self.markers[-1].at == self.length and joint in JOINTS
        if is_next and self.use is not _Use.NOUN:
            self._join(references, is_range=joint in {"–", "-"})
            self.at = end
            return
        use = _Use.NOUN if is_next else self._use(match, references, is_plain=is_plain)
        self._take(match, references, use)

    def _take(self, match: re.Match[str], references: tuple[str, ...], use: _Use) -> None:
        """Take a bracket out or replace it, as it is used."""
        before = self.text[self.at : match.start()]
        match use:
            case _Use.TEXT:
                return
            case _Use.VALUE:
                self._add(before + references[0])
            case _Use.NOUN:
                words = dict.fromkeys(filter(None, map(self.describe, references)))
                is_next = bool(self.markers) and self.markers[-1].at == self.length
                if words or not (is_next and before.strip(" \t").lower() in JOINTS):
                    self._add(before + (" and ".join(words) or OMITTED))
                self.markers.append(ModelMarker(self.length, references))
            case _Use.LEADING:
                self._add(before)
                self.markers.append(ModelMarker(self.length, references, leads=True))
            case _Use.MARKER:
                self._add(before.rstrip(" \t"))
                self.markers.append(ModelMarker(self.length, references))
        self.at, self.use = match.end(), use
        if use is _Use.LEADING:
            while self.at < len(self.text) and self.text[self.at] in " \t:":
                self.at += 1

    def _use(self, match: re.Match[str], references: tuple[str, ...], *, is_plain: bool) -> _Use:
        """Return how a bracket is used, by what stands before and after it."""
        start = match.start()
        before = self.text[max(0, start - BEFORE_CHARS) : start]
        words = before.rstrip(" \t")
        is_shown = any(self.describe(reference) is not None for reference in references)
        is_single = is_shown and len(references) == 1
        says = _VERB.match(self.text, match.end()) is not None
        is_line_start = not words or _LINE_START.search(before) is not None
        is_indexed = _INDEXED.search(before) is not None
        is_bare = is_plain and "^" not in match[0]
        is_noun = bool(words) and _NOUN.search(words) is not None
        after = self.text[match.end() : match.end() + BEFORE_CHARS]
        is_doubtful = not is_shown and ((is_bare and len(references) > 1) or _is_id(references))
        if is_doubtful and (is_noun or is_line_start or before[-1:].isalnum() or not _ends_clause(after)):
            return _Use.TEXT
        if is_line_start and not after.strip():
            return _Use.TEXT
        if (says and (is_line_start or _SENTENCE_END.search(words))) or is_noun:
            return _Use.NOUN
        if is_line_start:
            return _Use.LEADING
        if is_bare and (is_indexed or _VALUE.search(words)):
            return _Use.VALUE if is_single and not is_indexed else _Use.TEXT
        return _Use.MARKER

    def _join(self, references: tuple[str, ...], *, is_range: bool) -> None:
        """Add references to the marker before."""
        last = self.markers[-1]
        known = last.references
        if is_range and known[-1].isdecimal() and references[0].isdecimal():
            between = range(int(known[-1]), int(references[0]))
            references = (*map(str, between[:MAX_MARKER_NUMBERS]), *references)
        unique = tuple(dict.fromkeys((*known, *references)))[:MAX_MARKER_NUMBERS]
        self.markers[-1] = ModelMarker(last.at, unique, last.leads)

    def _add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.length += len(piece)

    def finish(self) -> UnmarkedAnswer:
        """Return the answer without its markers, without blanks around it."""
        text = "".join([*self.pieces, self.text[self.at :]])
        blanks = len(text) - len(text.lstrip())
        stripped = text.strip()
        markers = (
            ModelMarker(min(max(marker.at - blanks, 0), len(stripped)), marker.references, marker.leads)
            for marker in self.markers
        )
        return UnmarkedAnswer(stripped, tuple(markers))


def _is_id(references: tuple[str, ...]) -> bool:
    return any(_ID.fullmatch(reference) for reference in references)


def _ends_clause(after: str) -> bool:
    """Return whether a clause or a line ends before this text."""
    rest = after.lstrip(" \t")
    return not rest or rest[0] in _CLAUSE_END


def _without_references(answer: str) -> str:
    """Return an answer without the list of references at its end, if it has a heading or footnotes' marks."""
    lines = answer.rstrip().split("\n")
    first = len(lines)
    while first > 0 and (not lines[first - 1].strip() or REFERENCE_LINE.fullmatch(lines[first - 1])):
        first -= 1
    listed = [line for line in lines[first:] if line.strip()]
    if not listed:
        return answer
    has_heading = (
        first > 0
        and len(lines[first - 1]) < MAX_NAME_CHARS
        and (REFERENCE_HEADING.fullmatch(lines[first - 1]) is not None)
    )
    kept = "\n".join(lines[: first - has_heading]).rstrip()
    is_footnotes = all(line.lstrip().startswith("[^") for line in listed)
    return kept if kept and (has_heading or is_footnotes) else answer


def references_of(match: re.Match[str], is_known: Callable[[str], bool]) -> tuple[tuple[str, ...], bool]:
    """Return what a bracket cites, nothing where it is no marker; and whether it has numbers alone."""
    content = (match["name"] or match["wide"] or match["lens"] or match["round"]).strip()
    content = content.removeprefix("^").strip()
    in_words = match["round"] is not None
    if not in_words and not content.isdecimal() and (name := _known_name(content, is_known)):
        return (name,), False
    found: list[str] = []
    kind = ""
    for piece in _SEPARATOR.split(content):
        numbered = _PIECE.fullmatch(piece)
        if numbered is not None:
            kind = numbered["kind"] or kind
            found += _numbered(numbered, kind)
        elif (name := _known_name(piece.strip(), is_known)) or _ID.fullmatch(name := piece.strip()):
            found.append(name)
        else:
            return (), False
    is_plain = all(reference.isdecimal() for reference in found) and not kind
    if (in_words and is_plain) or "0" in found:
        return (), False
    return tuple(dict.fromkeys(found))[:MAX_MARKER_NUMBERS], is_plain


def _known_name(content: str, is_known: Callable[[str], bool]) -> str:
    """Return a name as it is known: as written, without the word node, or with a comma before a label."""
    bare = re.sub(r"^node\s{1,3}", "", content, flags=re.IGNORECASE)
    names = (content, bare, bare.replace(":", ",", 1))
    return next((name for name in names if not name.isdecimal() and name and is_known(name)), "")


def _numbered(match: re.Match[str], kind: str) -> Iterator[str]:
    """Yield the references of a piece such as `Image 2` or `1–3`."""
    label = kind.lower().rstrip("s")
    prefix = f"{label.title()} " if label in {"image", "picture", "text", "video"} else ""
    first = int(match["first"])
    last = min(int(match["last"] or first), first + MAX_MARKER_NUMBERS)
    return (f"{prefix}{number}" for number in range(first, last + 1))
