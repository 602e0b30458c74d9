"""The subject and the date of a document: its title, period, dates and the words of editions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath

from vrag.reading.conflicts.assertions import terms_of
from vrag.reading.table_answers.values import Day, find_days
from vrag.types import Item

HEAD_CHARS = 700
"""Characters at the beginning of a document in which its title, date and edition are looked for."""
MAX_TITLE_LINES, MAX_TITLE_WORDS = 4, 12
"""Lines at the beginning of a document, and words of a line, that are its title."""
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
REVISION_TERMS = terms_of(
    """draft final version edition revision rev revised amended amendment superseded supersedes updated old
    new preliminary obsolete corrected erratum issue copy extract excerpt text title v1 v2 v3 v4"""
)
"""Words of titles that name an edition or a part, and no subject."""
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
_SUBJECT_LINE = re.compile(
    r"^\W*(?:re|subject|concerning|regarding|about|betreff)\b\s*[:.]?\s*(.{3,120})$",
    re.IGNORECASE | re.MULTILINE,
)
_LETTER = re.compile(r"^\W*(?:dear\b|hi\b|hello\b|to:|from:)", re.IGNORECASE | re.MULTILINE)
"""The beginning of a letter, whose first lines name who wrote it."""
_YEAR = re.compile(r"(?<![\d.,/-])(?:FY|CY)?((?:19|20)\d\d)(?:[/–-](\d\d)(?!\d))?(?![\d/-]|[.,]\d)")
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
    head: str = ""
    """Its title and its subject line."""
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
    title = "\n".join(_SUBJECT_LINE.findall(head))
    if not _LETTER.search(head):
        title = f"{first.heading if first is not None else ''}\n{_find_title(head)}\n{title}"
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
        terms_of(f"{name} {title}") - GENERIC - REVISION_TERMS,
        _find_years(f"{name}\n{title}"),
        max(days, key=lambda day: day, default=None),
        tuple(map(int, parts[:4])),
        frozenset((match[1].lower(), match[2].lower()) for match in _CODE.finditer(title)),
        _SERIES.search(f"{name} {title}") is not None,
        tuple(dict.fromkeys(word.lower() for word in (*older, *newer))),
        -1 if older and not newer else 1 if newer and not older else 0,
        title,
        modified,
    )


def _find_title(head: str) -> str:
    """Return the lines at the beginning that are no running text."""
    title: list[str] = []
    for line in filter(None, map(str.strip, head.splitlines())):
        if (
            len(title) == MAX_TITLE_LINES
            or len(line.split()) > MAX_TITLE_WORDS
            or line[-1] in ".;,?"
            or (title and ": " in line)
        ):
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
