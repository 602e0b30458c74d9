"""The subject and the date of a document: its title, period, dates and the words of editions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath

from vrag.reading.conflicts.assertions import Assertion, terms_of
from vrag.reading.table_answers.values import Day, find_days
from vrag.types import Item

HEAD_CHARS = 700
"""Characters at the beginning of a document in which its title, date and edition are looked for."""
MAX_TITLE_LINES, MAX_TITLE_WORDS = 4, 12
"""Lines at the beginning of a document, and words of a line, that are its title."""
MIN_MENTIONS = 2
"""Times that a name stands in a document that it is about."""
SHARED_TEMPLATE, MIN_TEMPLATE = 0.3, 3
"""Share of the sentences of the smaller document, and sentences, that two documents of one template share."""
REVISION = 0.8
"""Share of the sentences of the smaller document that two dated documents share which are editions of one."""
GENERIC = terms_of(
    """report annual memo memorandum note notes minutes contract agreement manual guide handbook document
    letter final page summary overview policy plan sheet copy introduction information
    appendix annex statement brochure leaflet newsletter presentation slides paper terms conditions
    company group limited ltd inc llc gmbh corporation dear subject date table contents chapter section"""
)
"""Words of titles that name no subject."""
_NEWER_WORDS = re.compile(
    r"""\b(?:supersed(?:es|ing)|replac(?:es|ing)|amend(?:ed|ment|s)|revis(?:ed|ion)|updated|corrected|final
    |new\ edition|erratum|corrigendum|addendum)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_OLDER_WORDS = re.compile(
    r"\b(?:draft|superseded|obsolete|withdrawn|preliminary|outdated|archived|old version|no longer valid)\b",
    re.IGNORECASE,
)
_REVISION_NUMBER = re.compile(
    r"""\b(?:version|edition|revision|rev\.?|issue|v)\s?(?P<number>\d+(?:\.\d+)*)
    | \b(?P<rank>\d+)(?:st|nd|rd|th)\ (?:edition|revision|version)""",
    re.IGNORECASE | re.VERBOSE,
)
_REVISION_TERMS = terms_of(
    """draft final version edition revision rev revised amended amendment superseded supersedes updated old
    new preliminary obsolete corrected erratum issue copy v1 v2 v3 v4"""
)
_CODE = re.compile(
    r"""\b(no|nr|number|invoice|order|case|contract|policy|ticket|reference|ref|id|file|account|tender|permit)
    \b[.:#\s№]*\b([A-Z]{0,5}[-/]?\d[\w/-]*)""",
    re.IGNORECASE | re.VERBOSE,
)
_SERIES = re.compile(
    r"""\b(?:minutes|meeting|log|diary|invoice|receipt|weekly|monthly|daily|quarterly|newsletter|bulletin|timesheet
    |session|episode|lecture|payslip|bill|offer|quote|quotation|order|delivery)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_DATING = re.compile(
    r"""\b(?:dated|date|as\ of|effective|updated|revised|published|issued|amended|version|edition|valid|stand
      |since)\b[\w\s:,(]{0,16}$""",
    re.IGNORECASE | re.VERBOSE,
)
_YEAR = re.compile(r"(?<![\d.,/-])(?:FY|CY)?((?:19|20)\d\d)(?:[/–-](\d\d)(?!\d))?(?![\d,/-]|\.\d)")
_DAY_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?([0-2]\d|3[01])(?!\d)")


@dataclass(frozen=True, slots=True)
class DocumentRevision:
    """The subject of a document, and its place among its editions."""

    id: str
    name: str
    """Its path for people."""
    title: frozenset[str]
    """The terms of its name and of its first lines that name its subject."""
    years: frozenset[int]
    """The years of its name and its title: the period that it is about, unless it is dated so."""
    dated: Day | None
    """The last date near its beginning, or in its name."""
    number: tuple[int, ...]
    """The number of its version or edition; empty without one."""
    codes: frozenset[tuple[str, str]]
    """The codes of its first lines with the word before them, such as the number of an invoice."""
    is_serial: bool
    """True if its title says that it is one of a series, as minutes are."""
    words: tuple[str, ...]
    """The words of editions near its beginning and in its name: amended, draft."""
    rank: int
    """1 if its words say that it replaces another, -1 if they say that it is replaced or no more than a
    draft, else 0."""
    modified: datetime | None = None
    """The time at which its file was changed."""

    @property
    def date(self) -> str | None:
        """Return its date for people, or that of its file; None without any."""
        if self.dated is not None:
            parts = (f"{self.dated.year:04}", *(f"{part:02}" for part in self.dated[1:] if part))
            return "-".join(parts)
        return None if self.modified is None else f"{self.modified:%Y-%m-%d}"

    @property
    def is_revision(self) -> bool:
        """True if its words or its number say that there are other editions."""
        return bool(self.words or self.number)


@dataclass(slots=True)
class DocumentFacts:
    """A document to compare: its name, the time of its file, and where its text begins."""

    id: str
    name: str
    mtime_ns: int = 0
    """Modification time of the file in nanoseconds; 0 or less where it is not known."""


def read_revision(document: DocumentFacts, first: Item | None) -> DocumentRevision:
    """Read what the name and the first item of a document say about it."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|[_\-./\\+()]+", " ", PurePath(document.name).stem)
    head = first.text[:HEAD_CHARS] if first is not None else ""
    title = f"{first.heading if first is not None else ''}\n{_find_title(head)}"
    both = f"{name}\n{head}"
    days = _find_dates(head)
    if match := _DAY_IN_NAME.search(PurePath(document.name).stem):
        days.append(Day(*map(int, match.groups())))
    older, newer = _OLDER_WORDS.findall(both), _NEWER_WORDS.findall(both)
    number = _REVISION_NUMBER.search(name) or _REVISION_NUMBER.search(head)
    parts = re.findall(r"\d+", number["number"] or number["rank"]) if number else []
    modified = None
    if document.mtime_ns > 0:
        modified = datetime.fromtimestamp(document.mtime_ns / 1e9, UTC)
    return DocumentRevision(
        document.id,
        document.name,
        terms_of(f"{name} {title}") - GENERIC - _REVISION_TERMS,
        _find_years(f"{name}\n{title}"),
        max(days, key=lambda day: day, default=None),
        tuple(map(int, parts[:4])),
        frozenset((match[1].lower(), match[2].lower()) for match in _CODE.finditer(title)),
        _SERIES.search(f"{name} {title}") is not None,
        tuple(dict.fromkeys(word.lower() for word in (*older, *newer))),
        -1 if older and not newer else 1 if newer and not older else 0,
        modified,
    )


def _find_title(head: str) -> str:
    """Return the lines at the beginning that are no running text."""
    title: list[str] = []
    for line in filter(None, map(str.strip, head.splitlines())):
        if len(title) == MAX_TITLE_LINES or len(line.split()) > MAX_TITLE_WORDS or line[-1] in ".;,":
            break
        title.append(line)
    return "\n".join(title)


def _find_dates(head: str) -> list[Day]:
    """Return the dates that stand alone in a short line, or behind a word such as "dated"."""
    found: list[Day] = []
    for line in head.splitlines():
        for day, start, _ in find_days(line):
            is_short = len(line.split()) <= MAX_TITLE_WORDS and not line.rstrip().endswith(".")
            if day.year and day.month and (is_short or _DATING.search(line[:start])):
                found.append(day)
    return found


def _find_years(text: str) -> frozenset[int]:
    """Return the years of a title that stand for a period: not those of its dates."""
    masked = list(text)
    for day, start, end in find_days(text):
        if day.month:
            masked[start:end] = " " * (end - start)
    years: set[int] = set()
    for match in _YEAR.finditer(_DAY_IN_NAME.sub(" ", "".join(masked))):
        years.add(int(match[1]))
        if match[2] and (int(match[1]) + 1) % 100 == int(match[2]):
            years.add(int(match[1]) + 1)
    return frozenset(years)


def find_newer(one: DocumentRevision, other: DocumentRevision) -> int | None:
    """Return 0 or 1 for the document that its words, its number or its date show as newer; None without.

    Dates of files count only where neither document is dated.
    """
    if one.id == other.id:
        return None
    if one.rank != other.rank:
        return 0 if one.rank > other.rank else 1
    if one.number and other.number and one.number != other.number:
        return 0 if one.number > other.number else 1
    if one.dated and other.dated:
        return None if one.dated == other.dated else 0 if one.dated > other.dated else 1
    if one.dated or other.dated or not (one.modified and other.modified):
        return None
    days = (one.modified - other.modified).total_seconds() / 86400
    return None if abs(days) < 1 else 0 if days > 0 else 1


def _are_numbered_apart(one: DocumentRevision, other: DocumentRevision) -> bool:
    """Return whether two documents have codes of one kind, and none in common."""
    kinds = {word for word, _ in one.codes} & {word for word, _ in other.codes}
    return bool(kinds) and one.codes.isdisjoint(other.codes)


def _are_of_series(one: DocumentRevision, other: DocumentRevision) -> bool:
    """Return whether two documents are of one series, with other dates."""
    return (
        one.is_serial
        and other.is_serial
        and bool(one.dated and other.dated)
        and one.dated != other.dated
        and not (one.is_revision or other.is_revision)
    )


@dataclass(slots=True)
class DocumentSubjects:
    """Which documents are about the same, or made of one template about something else."""

    editions: Mapping[str, DocumentRevision]
    _keys: dict[str, set[tuple[str, ...]]] = field(default_factory=dict[str, "set[tuple[str, ...]]"])
    _terms: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    _names: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    _apart: dict[tuple[str, str], bool] = field(default_factory=dict["tuple[str, str]", bool])

    def add(self, document: str, assertions: Iterable[Assertion]) -> None:
        """Add the assertions of a page."""
        keys = self._keys.setdefault(document, set())
        terms = self._terms.setdefault(document, set())
        names = self._names.setdefault(document, Counter())
        for assertion in assertions:
            terms.update(assertion.words, assertion.heading)
            names.update(assertion.names)
            if assertion.cell is None and len(assertion.terms) >= 2:
                keys.add(assertion.key)

    def are_apart(self, one: str, other: str) -> bool:
        """Return whether two documents are of one template and about something else: other names, years."""
        if one == other:
            return False
        pair = (one, other) if one < other else (other, one)
        if pair not in self._apart:
            self._apart[pair] = self._compare(*pair)
        return self._apart[pair]

    def _compare(self, one: str, other: str) -> bool:
        first, second = self.editions[one], self.editions[other]
        if _are_numbered_apart(first, second) or _are_of_series(first, second):
            return True
        keys = self._keys.get(one, set()), self._keys.get(other, set())
        shared, smaller = len(keys[0] & keys[1]), min(map(len, keys))
        if shared < max(MIN_TEMPLATE, SHARED_TEMPLATE * smaller):
            return False
        have_dates = first.dated is not None and second.dated is not None and first.dated != second.dated
        if have_dates and shared < REVISION * smaller and not (first.is_revision or second.is_revision):
            return True
        return bool(self._own_names(one, other) and self._own_names(other, one))

    def _own_names(self, one: str, other: str) -> set[str]:
        """Return the names that one document is about and the other does not have."""
        revision, others = self.editions[one], self._terms.get(other, set()) | self.editions[other].title
        named = {name for name, count in self._names[one].items() if count >= MIN_MENTIONS}
        title = {term for term in revision.title if term in self._names[one]}
        return {term for term in (named | title) - others if len(term) > 2}

    def have_other_periods(
        self, one: Assertion, other: Assertion, years: tuple[frozenset[int], frozenset[int]]
    ) -> bool:
        """Return whether two assertions are of different years: of their own, or of their documents'."""
        if all(years):
            return years[0] != years[1]
        editions = self.editions[one.document], self.editions[other.document]
        if one.document == other.document:
            return bool(years[0] or years[1])
        if not any(years) and all(revision.is_revision for revision in editions):
            return False
        first, second = years[0] or editions[0].years, years[1] or editions[1].years
        if any(years):
            return not (first and second and not first.isdisjoint(second))
        return bool(first and second) and first.isdisjoint(second)

    def title_of(self, document: str) -> frozenset[str]:
        """Return the terms that name the subject of a document."""
        return self.editions[document].title
