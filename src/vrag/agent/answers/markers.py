"""Markers with which models cite, such as `[2]`, and the answer without them.

Models are told to write `[2]` for image 2 and `[Text 1]` for a text, or the id of a node of the graph. Some
write `[Image 2]`, `[1, 3]`, `[1–3]`, `[[1]]`, `【2†source】`, `[^2]` or `(see image 2)` instead; these are
read alike. A marker that is a word of its sentence ("According to [2], …") becomes the name of what it
cites, so that no number of the model remains in the text; where it cites nothing that was shown, … takes its
place. A bracket that is part of what the answer says ("the range is [0, 5]"), and one in code or a formula,
is no marker. What names nothing that was shown is a marker only where the place leaves no doubt: `[user_id]`
may be a column, and `[3]` the number of a line. The time is linear in the length of the answer.
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
_SHOWING = (
    r"(?:shown|given|stated|reported|listed|cited|cite|mentioned|described|documented|indicated|confirmed"
    r"|supported|found|seen|noted|see|as)"
)
_SOURCE = (
    r"(?:documents?|reports?|passages?|pages?|images?|pictures?|sources?|texts?|charts?|figures?|videos?"
    r"|tables?|slides?|data|evidence|information)"
)
_CITING = re.compile(
    rf"(?:\baccording to|\bsee|\b{_SHOWING} (?:in|by|on|at)|\b{_SOURCE} (?:in|from|of)|\bsources?:?"
    r"|根据|依据|见|如)\Z",
    re.IGNORECASE,
)
"""What stands before a marker, whatever it names."""
_CITING_NUMBER = re.compile(
    r"(?:\b(?:per|(?:based|rel(?:y|ies)|rests?) on|(?:taken|comes?|came|known|quoted|derived|read) from"
    r"|refers? to|(?-i:In|As in))|(?:\A|[。，；！？.!?\n])\s{0,3}在)\Z",
    re.IGNORECASE,
)
"""What stands before a marker that is a number."""
_MEASURED = re.compile(
    r"(?:[%∈°×*/]|\b(?:at|within|over|through|into|using|size[sd]?|shapes?|dimensions?|rates?|steps?|levels?"
    r"|kernels?|domain|window|span|confidence|bounds?|limits?|indices|positions?|numbers?|scores?|weights?"
    r"|pairs?|elements?|entries|keys?|items?|options?|result))\Z",
    re.IGNORECASE,
)
"""What stands before numbers that are no references, besides `_VALUE`."""
_INDEX = re.compile(r"\b(?:at|index|offset|slot)\Z", re.IGNORECASE)
"""What stands before a number that is an index."""
NODE_ID = re.compile(r"(?=[^_]*_)[^\W_][\w-]{2,63}")
"""A name that may be an id of a node, such as `fares_2023`."""
_ENDS = frozenset(".!?。！？\n")
_OPENINGS = frozenset(":\"“”‘'*：")
"""Characters with which a sentence may begin after a marker that leads, besides letters and digits."""
OMITTED = "…"
_LINE_START = re.compile(r"(?:\A|\n)[ \t]{0,8}(?:[-*•>]|\d{1,3}[.)])?[ \t]{0,8}\Z")
_LINE_NUMBER = re.compile(
    r"^[ \t]{0,8}(?:[-*•>]|\d{1,3}[.)])?[ \t]{0,8}[\[［【](\d{1,3})[\]］】](?=[ \t]{0,8}\S)", re.MULTILINE
)
"""A number in brackets with which a line begins."""


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
            sentence; None for what was never shown. Empty for what was never shown and can hardly be anything
            but a reference, such as the id of a node that is not there.
    """
    text = _without_references(answer)
    reading = MarkerReading(text, describe, is_whole=True)
    for match in BRACKET.finditer(text):
        reading.read(match)
    unmarked = reading.finish()
    if reading.use is _Use.TEXT or not any(character.isalnum() for character in unmarked.text):
        return UnmarkedAnswer(answer)
    return unmarked


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a bracket in its sentence."""

    before: str
    """Text before it, not all of it."""
    words: str
    """The same without the blanks at its end."""
    after: str
    """Text after it, not all of it."""
    is_bare: bool
    """True if it holds numbers alone."""
    is_subject: bool
    """True if it begins a sentence in which it says something."""

    @classmethod
    def of(cls, text: str, match: re.Match[str], *, is_bare: bool) -> _Place:
        """Return the place of a bracket in a text."""
        start, end = match.span()
        before = text[max(0, start - BEFORE_CHARS) : start]
        words = before.rstrip(" \t")
        begins = (
            not words or _LINE_START.search(before) is not None or _SENTENCE_END.search(words) is not None
        )
        says = _VERB.match(text, end) is not None
        return cls(before, words, text[end : end + BEFORE_CHARS], is_bare, begins and says)

    @property
    def is_line_start(self) -> bool:
        """True at the beginning of a line, after its bullet."""
        return not self.words or _LINE_START.search(self.before) is not None

    @property
    def is_indexed(self) -> bool:
        """True directly after a variable."""
        return _INDEXED.search(self.before) is not None

    @property
    def is_noun(self) -> bool:
        """True after a word that asks for a noun."""
        return _NOUN.search(self.words) is not None

    @property
    def ends_sentence(self) -> bool:
        """True at the end of a sentence or line."""
        rest = self.after.lstrip(" \t")
        return not rest or rest[0] in _ENDS

    @property
    def precedes_sentence(self) -> bool:
        """True if a sentence begins after it."""
        rest = self.after.lstrip(" \t")
        return bool(rest) and (rest[0] in _OPENINGS or (rest[0].isalnum() and not rest[0].islower()))

    def use_of_id(self) -> _Use:
        """Return how an id is used that names nothing: elsewhere than in a citation, it may be code."""
        if _CITING.search(self.words):
            return _Use.NOUN
        is_after = not self.is_line_start and _SENTENCE_END.search(self.words) is not None
        is_alone = self.ends_sentence or self.precedes_sentence or self.after.startswith("[")
        return _Use.MARKER if is_after and is_alone else _Use.TEXT

    def use_of_numbers(self, count: int) -> _Use:
        """Return how numbers are used that name nothing: they may be values, unless something is cited."""
        cites = _CITING.search(self.words) or _CITING_NUMBER.search(self.words)
        if cites or (self.is_noun and not self.is_bare):
            return _Use.NOUN
        is_several = self.is_bare and count > 1
        if self.is_subject and not is_several:
            return _Use.NOUN
        if self.is_line_start:
            leads = not self.is_bare or (self.precedes_sentence and not is_several)
            return _Use.LEADING if leads else _Use.TEXT
        is_value = self.is_noun or self.is_indexed or _VALUE.search(self.words) or _INDEX.search(self.words)
        if self.is_bare and is_value:
            return _Use.TEXT
        is_value = self.before[-1:].isalnum() or not self.ends_sentence or _MEASURED.search(self.words)
        return _Use.TEXT if is_several and is_value else _Use.MARKER


@dataclass(slots=True)
class MarkerReading:
    """The reading of an answer from left to right."""

    text: str
    describe: Callable[[str], str | None]
    is_whole: bool = False
    """False if more of the answer may follow."""
    at: int = 0
    """End of what was read."""
    length: int = 0
    """Characters of the answer without markers so far."""
    pieces: list[str] = field(default_factory=list[str])
    markers: list[ModelMarker] = field(default_factory=list[ModelMarker])
    use: _Use = _Use.TEXT
    """The use of the last bracket that was taken."""
    kept: int = -1
    """End of the last bracket that was read as a value or a word; negative without one."""
    leading: _Use | None = None
    """The use of numbers that were not shown at the beginning of lines; None before one is met."""
    held: int | None = None
    """Where a bracket stands whose use depends on lines that may follow: the answer is certain up to it."""
    protected: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.protected = [match.span() for match in PROTECTED.finditer(self.text)]
        self.protected.reverse()

    def read(self, match: re.Match[str]) -> None:
        """Read a bracket: take it out, replace it, or leave it."""
        start, end = match.span()
        while self.protected and self.protected[-1][1] <= start:
            self.protected.pop()
        if self.held is not None or start < self.at or (self.protected and self.protected[-1][0] < end):
            return
        references, is_plain = references_of(match, lambda name: self.describe(name) is not None)
        if not references:
            return
        if match["link"] and not is_plain:  # a link with words
            return
        if match["round"] and any(self.describe(reference) == "" for reference in references):
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
                self.kept = match.end()
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
        place = _Place.of(self.text, match, is_bare=is_plain and "^" not in match[0])
        if place.is_line_start and not place.after.strip():
            return _Use.TEXT
        if not any(map(self.describe, references)):
            return self._use_of_unshown(match, references, place)
        if place.is_subject or place.is_noun:
            return _Use.NOUN
        if place.is_line_start:
            return _Use.LEADING
        if place.is_bare and (place.is_indexed or _VALUE.search(place.words)):
            return _Use.VALUE if len(references) == 1 and not place.is_indexed else _Use.TEXT
        return _Use.MARKER

    def _use_of_unshown(self, match: re.Match[str], references: tuple[str, ...], place: _Place) -> _Use:
        """Return how a bracket is used that names nothing shown."""
        follows_text = self.kept >= 0 and self.text[self.kept : match.start()].strip(" \t").lower() in JOINTS
        is_id = any(NODE_ID.fullmatch(reference) for reference in references)
        use = _Use.TEXT
        if not follows_text:
            use = place.use_of_id() if is_id else place.use_of_numbers(len(references))
        if use is _Use.LEADING and place.is_bare:
            use = self._use_of_leading(match.start())
        if use is _Use.TEXT:
            self.kept = match.end()
        return use

    def _use_of_leading(self, start: int) -> _Use:
        """Return how a number that was not shown is used at the beginning of a line.

        Where several lines have one, and none of them was shown, they are the numbers of a list.
        """
        if self.leading is None:
            numbers = [match[1] for match in _LINE_NUMBER.finditer(self.text)]
            are_shown = any(map(self.describe, dict.fromkeys(numbers)))
            self.leading = _Use.LEADING if are_shown or (self.is_whole and len(numbers) <= 1) else _Use.TEXT
        if self.leading is _Use.TEXT and not self.is_whole:
            self.held = start
        return self.leading

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
        text = "".join([*self.pieces, self.text[self.at : self.held]])
        blanks = len(text) - len(text.lstrip())
        stripped = text.strip()
        markers = (
            ModelMarker(min(max(marker.at - blanks, 0), len(stripped)), marker.references, marker.leads)
            for marker in self.markers
            if self.held is None or marker.at <= blanks + len(stripped)
        )
        return UnmarkedAnswer(stripped, tuple(markers))


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
        elif name := _known_name(piece.strip(), is_known):
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
