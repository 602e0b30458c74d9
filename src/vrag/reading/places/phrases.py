"""The places of a phrase, name or number on a page, where it stands word for word.

All words of the phrase stand there in their order. They may be divided by a hyphen, joined, of another
ending or, one of several, misread by one letter; see `word_forms` for what is the same word. A wrong place is
worse than none: digits and signs are never guessed, and a number of one or two digits needs the same unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vrag.reading.page_text import PageText
from vrag.reading.places.word_forms import WordForm, list_forms, root
from vrag.text.terms import one_edit_apart
from vrag.types import TextSource

MAX_PHRASE_WORDS = 40
"""Words from which a text is no phrase."""
MIN_MISREAD = 5
"""Letters of a word that may be misread by one letter or have another ending."""
MIN_MISREAD_ALONE = 7
"""Letters of a single word, read by OCR, that may be misread."""
WORDS_PER_SLIP = 3
"""Words of a phrase for each one that is misread."""
SHORT_NUMBER = 2
"""Digits of a number that stands in many places, so that its unit must be the same."""
_ARTICLES = frozenset({"the", "a", "an"})
_HYPHEN = re.compile(r"\s?[-‐‑\u00ad]\s{0,2}| ")
_GROUP_SPACE = re.compile(r"[ \u00a0\u202f\u2009]")
_GROUP = 3
_INSIDE_GROUPS = re.compile(r"[ \u00a0\u202f\u2009]\d{3}(?!\d)")
_BEHIND_GROUP = re.compile(r"(?<!\d)\d{1,3}[ \u00a0\u202f\u2009]$")
_RANGE_BEHIND = re.compile(r"\s?[-−–/:]\s?\d")
_RANGE_BEFORE = re.compile(r"\d\s?[-−–/:]\s?$")
_PERCENT = re.compile(r"\s?(?:[%％]|per ?cent\b)", re.IGNORECASE)
_CURRENCY = re.compile(r"[$€£¥₤]\s?$")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place where a phrase stands."""

    first: int
    last: int
    """The numbers of its first and last word on the page."""
    slips: int = 0
    """Words that are misread or have another ending."""


def read_phrase(text: str) -> list[WordForm]:
    """Return the words of a phrase, without an article at its beginning."""
    forms = list_forms(text)
    return forms[1:] if len(forms) > 1 and forms[0].key in _ARTICLES else forms


def find_phrase(phrase: str, page: PageText) -> list[Occurrence]:
    """Return the places of a phrase on a page, in the order of its text: the exact ones, if any."""
    forms = read_phrase(phrase)
    if not forms or len(forms) > MAX_PHRASE_WORDS:
        return []
    search = _PhraseSearch(forms, page, may_slip=False)
    found = list(search.run())
    if not found:
        found = list(_PhraseSearch(forms, page, may_slip=True).run())
    found = [place for place in found if not _cuts_number(page, place)]
    if len(forms) == 1 and forms[0].is_number:
        found = [place for place in found if _has_same_unit(phrase, forms[0], page, place)]
    return found


def is_same_phrase(a: str, b: str) -> bool:
    """Return whether two short texts have the same words, numbers of the same value and unit.

    >>> is_same_phrase("8,802", "8802."), is_same_phrase("5 %", "5%"), is_same_phrase("5%", "5")
    (True, True, False)
    """
    first, second = read_phrase(a), read_phrase(b)
    if len(first) != len(second) or not first or bool(_PERCENT.search(a)) != bool(_PERCENT.search(b)):
        return False
    return all(one.matches(other) for one, other in zip(first, second, strict=True))


def is_part_of_phrase(part: str, text: str) -> bool:
    """Return whether a text has all words of a shorter one, stop words apart."""
    wanted = [form for form in read_phrase(part) if not form.is_stop_word]
    keys = {key for form in list_forms(text) for key in form.keys}
    return bool(wanted) and all(not keys.isdisjoint(form.keys) for form in wanted)


@dataclass(frozen=True, slots=True)
class _PhraseSearch:
    forms: Sequence[WordForm]
    page: PageText
    may_slip: bool

    def run(self) -> Iterator[Occurrence]:
        end = -1
        for start in self.page.form_initials.get(self.forms[0].key[0], ()):
            place = self._follow(start) if start > end else None
            if place is not None:
                end = place.last
                yield place

    def _follow(self, start: int) -> Occurrence | None:
        """Return the place of the phrase that begins with this word of the page."""
        at, number, slips = 0, start, 0
        while at < len(self.forms):
            if number >= len(self.page.forms) or (number > start and not self.page.run_on(number - 1)):
                return None
            step = self._step(at, number)
            if step is None:
                return None
            at, number, slips = at + step[0], number + step[1], slips + step[2]
        return Occurrence(start, number - 1, slips) if self._allows(slips) else None

    def _allows(self, slips: int) -> bool:
        return slips * WORDS_PER_SLIP <= len(self.forms) or (slips == 1 and len(self.forms) <= WORDS_PER_SLIP)

    def _step(self, at: int, number: int) -> tuple[int, int, int] | None:
        """Return how many words of the phrase and of the page are the same here, and the slips."""
        wanted, found = self.forms[at], self.page.forms[number]
        if wanted.matches(found):
            return 1, 1, 0
        if at + 1 < len(self.forms) and _is_joined(wanted, self.forms[at + 1], found):
            return 2, 1, 0
        if number + 1 < len(self.page.forms) and self.page.run_on(number):
            following = self.page.forms[number + 1]
            if _is_joined(found, following, wanted) and _HYPHEN.fullmatch(self.page.gap(number)):
                return 1, 2, 0
            if wanted.is_number and (count := self._count_groups(wanted, number)):
                return 1, count, 0
        return (1, 1, 1) if self.may_slip and self._is_slip(wanted, found) else None

    def _count_groups(self, wanted: WordForm, number: int) -> int:
        """Return the count of numbers on the page that are the groups of digits of one number; 0 for none."""
        digits, count = self.page.forms[number].key, 1
        if len(digits) > _GROUP or self.page.forms[number].is_negative != wanted.is_negative:
            return 0
        while wanted.key.startswith(digits) and number + count < len(self.page.forms):
            group = self.page.forms[number + count]
            is_group = len(group.key.partition(".")[0]) == _GROUP and group.is_number
            if not is_group or not _GROUP_SPACE.fullmatch(self.page.gap(number + count - 1)):
                return 0
            digits, count = digits + group.key, count + 1
            if digits == wanted.key:
                return count
        return 0

    def _is_slip(self, wanted: WordForm, found: WordForm) -> bool:
        if wanted.is_number or found.is_number or min(len(wanted.key), len(found.key)) < MIN_MISREAD:
            return False
        if root(wanted) == root(found):
            return True
        if len(self.forms) == 1:
            is_read = self.page.item.text_source is TextSource.OCR
            if not is_read or len(wanted.key) < MIN_MISREAD_ALONE:
                return False
        return is_misread(wanted.key, found.key)


@lru_cache(maxsize=65_536)
def is_misread(a: str, b: str) -> bool:
    """Return whether two words of letters, of five or more, differ by one letter other than the first.

    >>> is_misread("goverment", "government"), is_misread("report3", "report4"), is_misread("fifth", "sixth")
    (True, False, False)
    """
    if min(len(a), len(b)) < MIN_MISREAD or a[0] != b[0]:
        return False
    return a.isalpha() and b.isalpha() and one_edit_apart(a, b)


def _is_joined(first: WordForm, second: WordForm, whole: WordForm) -> bool:
    """Return whether two words are the halves of another; two numbers are not."""
    if second.is_number or (first.is_number and first.is_negative != whole.is_negative):
        return False
    return first.key + second.key == whole.key


def _cuts_number(page: PageText, place: Occurrence) -> bool:
    """Return whether a place begins or ends within the digits of a longer number, a range or a fraction."""
    text, first, last = page.text, page.forms[place.first], page.forms[place.last]
    before, behind = text[max(first.start - 5, 0) : first.start], text[last.end : last.end + 5]
    if first.is_number and place.first:
        if len(first.key) == _GROUP and _BEHIND_GROUP.search(before) and page.run_on(place.first - 1):
            return True
        if _is_short(first) and _RANGE_BEFORE.search(before):
            return True
    if not last.is_number:
        return False
    if len(last.key) <= _GROUP and _INSIDE_GROUPS.match(behind) and page.run_on(place.last):
        return True
    return _is_short(last) and _RANGE_BEHIND.match(behind) is not None


def _is_short(form: WordForm) -> bool:
    """Return whether a number has one or two digits before the decimal point."""
    return len(form.key.partition(".")[0]) <= SHORT_NUMBER


def _has_same_unit(phrase: str, form: WordForm, page: PageText, place: Occurrence) -> bool:
    """Return whether a number has the unit of another, or is long enough to be known without one.

    A per cent sign stands behind both or neither; a currency before both, or before that of the page alone.
    """
    if not _is_short(form) or "." in form.key:
        return True
    found, last = page.forms[place.first], page.forms[place.last]
    if bool(_PERCENT.match(phrase, form.end)) != bool(_PERCENT.match(page.text, last.end)):
        return False
    if not _CURRENCY.search(phrase, 0, form.start):
        return True
    return _CURRENCY.search(page.text, max(found.start - 2, 0), found.start) is not None
