"""When an answer is right: what a person accepts, compared by numbers, dates and words.

An expected answer is a few accepted forms. A number agrees when it is the same amount, however either side
writes it: `9,467 million` is `9.467 billion`. An answer may leave out the scale of the expected answer, and
that is counted, unless it asks for it in words: "9,180 with its scale: thousand euros". Signs count, and
brackets are a sign. An answer with another number before the right one is wrong, numbers of the question
aside. Dates agree by day, month and year. Words agree when they stand in the answer in a row; of `a & b` both
must. Where no answer is expected, any answer is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

SCALES = {
    "hundred": 2,
    "thousand": 3,
    "lakh": 5,
    "million": 6,
    "crore": 7,
    "billion": 9,
    "trillion": 12,
}
"""Powers of ten by their names."""
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
MAX_ANSWER_WORDS = 60
"""Words from which a text is no answer to a question for a value: the value stands in it among many."""

_NUMBER = re.compile(
    r"""(?P<open>\()?(?P<sign>[-−–+])?\s?(?:[$€£¥₹]|EUR|USD|CHF|GBP|Rs\.?)?\s?(?P<sign2>[-−–])?
    (?<![\w.,])(?P<digits>\d[\d.,'’`\u00a0\u202f]*\d|\d)(?![\w])(?P<close>\))?
    (?:\s?%)?(?:\s(?P<scale>hundred|thousand|lakh|million|crore|billion|trillion)s?\b)?""",
    re.VERBOSE | re.IGNORECASE,
)
_DATE = re.compile(
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\.?\s+(?P<month>[A-Za-z]{3})[a-z]*\.?,?\s+(?P<year>\d{4})"
    r"|(?P<month2>[A-Za-z]{3})[a-z]*\.?\s+(?P<day2>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year2>\d{4})"
    r"|(?P<year3>\d{4})-(?P<month3>\d{2})-(?P<day3>\d{2})"
)
_WORD = re.compile(r"[^\W_]+")
_WITH_SCALE = re.compile(r"\s+with its scale:\s+")
_BRACKETS = re.compile(r"\s\((?:or )?(?P<inner>[^)]*)\)")
_THOUSANDS = re.compile(r"\d{1,3}(?:[,.'’`\u00a0\u202f]\d{3})+")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number as it is written, and its scale."""

    value: Decimal
    """Without the scale."""
    scale: int = 0
    """Power of ten of the word that follows; 0 without one."""

    @property
    def scaled(self) -> Decimal:
        """The whole amount."""
        return self.value * Decimal(10) ** self.scale


@dataclass(frozen=True, slots=True)
class Accepted:
    """One accepted form of an answer."""

    text: str
    needs_scale: bool = False
    """True if the number is wrong without its scale."""


def parse_decimal(digits: str) -> Decimal:
    """Return the number that some digits with separators write; a last group of three is thousands.

    >>> parse_decimal("14.672,85"), parse_decimal("3`949.75"), parse_decimal("51,934")
    (Decimal('14672.85'), Decimal('3949.75'), Decimal('51934'))
    """
    if _THOUSANDS.fullmatch(digits) and not re.fullmatch(r"\d{1,3}\.\d{3}|0[.,]\d{3}", digits):
        return Decimal(re.sub(r"\D", "", digits))
    whole, mark, rest = digits, "", ""
    if last := re.search(r"[.,](?=\d+$)", digits):
        whole, mark, rest = digits[: last.start()], ".", digits[last.end() :]
    return Decimal(re.sub(r"\D", "", whole) + mark + rest)


def amounts_of(text: str) -> list[Amount]:
    """Return the numbers of a text in their order.

    >>> [str(amount.scaled) for amount in amounts_of("(425) thousand euros, after 370 in area 5 m2")]
    ['-425000', '370', '5']
    """
    found: list[Amount] = []
    for match in _NUMBER.finditer(text):
        negative = (
            bool(match["sign2"]) or match["sign"] in {"-", "−"} or bool(match["open"] and match["close"])
        )
        value = parse_decimal(match["digits"])
        scale = SCALES[match["scale"].lower()] if match["scale"] else 0
        found.append(Amount(-value if negative else value, scale))
    return found


def dates_of(text: str) -> list[tuple[int, int, int]]:
    """Return the dates of a text as year, month, day.

    >>> dates_of("effective 9 April 2019, not March 15, 1978")
    [(2019, 4, 9), (1978, 3, 15)]
    """
    found: list[tuple[int, int, int]] = []
    for match in _DATE.finditer(text):
        day, year = (match[name] or match[f"{name}2"] or match[f"{name}3"] for name in ("day", "year"))
        month = (match["month"] or match["month2"] or "").lower()
        number = (
            int(match["month3"]) if match["month3"] else MONTHS.index(month) + 1 if month in MONTHS else 0
        )
        if number:
            found.append((int(year), number, int(day)))
    return found


def accepted_forms(expected: str) -> list[Accepted]:
    """Return the forms of an expected answer that a person wrote; none where no answer is expected.

    >>> [form.text for form in accepted_forms("9,605 (or -9,605) thousand euros")]
    ['9,605 thousand euros', '-9,605 thousand euros']
    >>> accepted_forms("9,180 with its scale: EUR million")
    [Accepted(text='9,180 EUR million', needs_scale=True)]
    """
    if expected.lower().startswith("no answer"):
        return []
    if _WITH_SCALE.search(expected):
        return [Accepted(_WITH_SCALE.sub(" ", expected), needs_scale=True)]
    inner = _BRACKETS.search(expected)
    if inner is None:
        return [Accepted(expected)]
    before, after = expected[: inner.start()], expected[inner.end() :]
    outer, other = before + after, inner["inner"]
    starts_with_number = bool(amounts_of(other)) and other.lstrip("-(").strip()[:1].isdigit()
    return [Accepted(outer), Accepted(other + after if starts_with_number else f"{before} {other}")]


def is_accepted(question: str, answer: str, forms: list[Accepted]) -> bool:
    """Return whether an answer has one of the accepted forms."""
    return any(_agrees(question, answer, form) for form in forms)


def lacks_scale(answer: str, forms: list[Accepted]) -> bool:
    """Return whether an accepted form writes a scale, and the answer none."""
    return any(_scale_of(form.text) for form in forms) and not _scale_of(answer)


def _agrees(question: str, answer: str, form: Accepted) -> bool:
    if " & " in form.text and not form.text[:1].isupper():
        return all(_says(answer, part) for part in form.text.split(" & "))
    if len(_WORD.findall(answer)) > MAX_ANSWER_WORDS:
        return False
    if dates := dates_of(form.text):
        return dates[0] in dates_of(answer)[:1]
    wanted = amounts_of(form.text)
    if not wanted or len(_WORD.findall(form.text)) - len(wanted) > len(wanted) + 4 or len(wanted) > 1:
        return _says(answer, form.text)
    return _agrees_in_amount(question, answer, form, wanted[0])


def _agrees_in_amount(question: str, answer: str, form: Accepted, wanted: Amount) -> bool:
    """Return whether the first number of an answer, besides those of the question, is the wanted one."""
    asked = {amount.value for amount in amounts_of(question)} - {wanted.value}
    given = [amount for amount in amounts_of(answer) if amount.value not in asked]
    if not given:
        return False
    first = given[0]
    wanted_scale, first_scale = wanted.scale or _scale_of(form.text), first.scale or _scale_of(answer)
    power = Decimal(10)
    if wanted.value * power**wanted_scale == first.value * power**first_scale:
        return True
    if form.needs_scale or wanted.value != first.value:
        return False
    return first_scale == 0 or (wanted_scale == 0 and _scale_of(question) == first_scale)


def _scale_of(text: str) -> int:
    """Return the power of ten that a text names in words; 0 where it names none."""
    words = (word.lower().removesuffix("s") for word in _WORD.findall(text))
    return next((SCALES[word] for word in words if word in SCALES), 0)


def _says(answer: str, form: str) -> bool:
    """Return whether the words of a form stand in an answer in a row."""
    words, wanted = ([word.casefold() for word in _WORD.findall(text)] for text in (answer, form))
    return bool(wanted) and any(
        words[at : at + len(wanted)] == wanted for at in range(len(words) - len(wanted) + 1)
    )
