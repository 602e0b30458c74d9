"""A judge without a model: the same words in the same order, the same number, the same list.

It pays in training, so it must not be fooled: what is nearly the same may be the opposite ("decreased" and
"increased" differ in two letters). Lenient published measures, such as ANLS, are measures of an evaluation
(`vrag.datasets`), and never a reward. Nothing that a model wrote is ever evaluated.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, cast

from vrag.agent.actions import ABSTENTION
from vrag.metrics import edits
from vrag.reward.answer_tokens import SCALES, NumberToken, Token, read_tokens
from vrag.reward.reward import Verdict

TOLERANCE = Decimal("0.01")
"""Fraction of the reference by which a number with a decimal point or in per cent may differ, if it is the
same at the precision of the coarser of both."""
MAX_LIST_CHARACTERS = 10_000
"""Maximum length of a text that is read as a list."""
MAX_LIST_ELEMENTS = 300
"""Each is compared with each. A longer list is compared as text."""
MAX_UNIT_WORDS = 2
"""Words right after a number that may be its unit, whatever they are."""
STEM_LETTERS = 4
"""Letters in which words are the same to the question: "carried" and "carry"."""
MIN_TYPO_LETTERS = 8
"""Letters of a word in which a typo may pass, where typos do."""
_BETWEEN = re.compile(r"\s*(?:,(?!\d{3}(?!\d))|[;\n、，；]|\band\b)\s*")
"""Separators of a list that is written out."""
_FUNCTION_WORDS = frozenset(
    "a an and are as at be by for from had has have he her his in is it its of on she that the their them "
    "there they this to total was were which who with answer about approximately around".split()
)
"""Words beside a number that say nothing of it, besides those of the question."""
_QUALIFIERS = frozenset(
    "not no never none neither nor non without except excluding cannot wrong false incorrect or either maybe "
    "perhaps possibly otherwise unless instead but rather than versus vs less more least most fewer greater "
    "over under above below between beyond exceeding up down nearly almost half twice double hundreds "
    "thousands millions billions dozen dozens minus negative k m b tn".split()
)
"""Words that make another number of the one beside them, or none."""
_DIRECTIONS = frozenset(
    "increase increases increased increasing decrease decreases decreased decreasing rise rises rose risen "
    "fall falls fell fallen drop drops dropped decline declines declined gain gains gained loss losses lost "
    "lose growth grew shrank higher lower profit profits deficit surplus debit credit before after male "
    "males female females men women boys girls north south east west left right first last per plus minimum "
    "maximum max onward onwards upward upwards earlier later bc bce excluded lakh lakhs crore crores "
    "quadrillion quintillion squared cubed halves thirds quarters fifths tenths hundredths thousandths "
    "millionths permille bps basis".split()
)
"""Words that have opposites, set a bound or scale: beside a number only where the question has them too."""
_COMPARISONS = frozenset({"more", "less", "fewer"})
"""Right after the number where the question asks for it: "How many more?" "5 more"."""
_UNIT_NAMES = {
    "time": "second seconds sec secs s|minute minutes min mins|hour hours hr hrs h|day days|week weeks|"
    "month months|quarter quarters|year years yr yrs|decade decades|century centuries",
    "length": "mm millimetre millimetres millimeter millimeters|cm centimetre centimetres centimeter "
    "centimeters|m metre metres meter meters|km kilometre kilometres kilometer kilometers|inch inches|"
    "foot feet ft|yard yards|mile miles",
    "mass": "mg milligram milligrams|g gram grams|kg kilogram kilograms|t ton tons tonne tonnes|lb lbs|"
    "ounce ounces oz",
    "money": "dollar dollars usd|euro euros eur|pound pounds gbp|yen jpy|cent cents ¢|pence penny|"
    "rupee rupees inr ₹|franc francs chf|yuan renminbi rmb cny|won krw ₩|rouble roubles ruble rubles rub ₽|"
    "krona kronor krone kroner|peso pesos|lira liras ₺|rand real reais baht dirham dirhams riyal riyals",
}
_UNITS = {
    word: (kind, names.split()[0])
    for kind, units in _UNIT_NAMES.items()
    for names in units.split("|")
    for word in names.split()
}
"""Kind and name of units of which one is a multiple of another: a word for another unit is another amount."""
_ASKED_SCALE = re.compile(
    r"(?i)\bin (?:(?:us|usd|eur|gbp|dollars?|euros?|[$€£]) ?)*(thousand|million|billion|trillion)s?\b"
)
"""A question for an amount "in millions", whose reference may leave the scale out."""


@dataclass(frozen=True, slots=True)
class RulesJudge:
    """Compares by rules; never fails, never asks a model.

    - "Not answerable" is right only where the reference says so, and nothing else is right there.
    - A number: the answer holds exactly one, and it is the same. A reference with a decimal point or in per
      cent may be rounded, by 1 % at most. A percentage may be written as a share. Beside the number may be
      words of the question, function words, and a unit of one or two words right after it, but none that
      negates, compares or scales it, offers a choice, is another unit than the question or the reference
      names ("cents" for dollars), or has an opposite that the question does not name. Where the question
      asks for millions ("in millions"), the answer may say "million".
    - A list, `[…]`: as many elements, each of which matches another one of the reference.
    - Any other text: the same words in the same order, and nothing else. Case, punctuation and articles do
      not count, numbers may be written in words ("six knots", "6 knots").

    An answer in a sentence is therefore wrong unless its only number is asked for: for such, ask a model.
    """

    exact: bool = False
    """True if a number must stand alone and is not rounded."""
    typos: bool = False
    """True if one wrong letter within a word of at least eight passes, neither the first nor one of the last
    two: "prescribe" and "proscribe" are the same then."""

    @property
    def identity(self) -> str:
        """The version of the rules, and the options."""
        return f"rules-4:{int(self.exact)}{int(self.typos)}"

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        """Compare answer and reference; see `Judge`. The score is 0 or 1."""
        if _abstains(reference) or _abstains(answer):
            return _decide(_abstains(reference) and _abstains(answer), "abstention")
        elements = _parse_list(reference)
        if elements is None:
            return self._compare(question, answer, reference)
        given = _parse_list(answer)
        if given is None:
            given = [part for part in _BETWEEN.split(answer.strip().strip("[].")) if part]
        return _decide(self._match_lists(question, given, elements), "list")

    async def aclose(self) -> None:
        """Do nothing: it holds no resources."""

    def _compare(self, question: str, answer: str, reference: str) -> Verdict:
        """Compare as one number, or else as text."""
        given, expected = read_tokens(answer), read_tokens(reference)
        if len(expected) == 1 and isinstance(number := expected[0], NumberToken):
            return _decide(self._is_number(question, given, number), "number")
        same = len(given) == len(expected) and all(map(self._is_same, given, expected))
        return _decide(bool(expected) and same, "text")

    def _is_number(self, question: str, given: list[Token], number: NumberToken) -> bool:
        """Return whether an answer says a number, and no other."""
        at = [place for place, token in enumerate(given) if isinstance(token, NumberToken)]
        if len(at) != 1 or not self._is_amount(question, given[at[0]], number):
            return False
        if self.exact:
            return len(given) == 1
        asked = _Asked.of(question, number)
        words = [(place, token) for place, token in enumerate(given) if isinstance(token, str)]
        if any(map(asked.has_other_unit, [_currency_of(given[at[0]]), *(word for _, word in words)])):
            return False
        other = [(place, word) for place, word in words if not asked.is_harmless(word)]
        may_be_units = range(at[0] + 1, at[0] + 1 + MAX_UNIT_WORDS)
        return all(
            (place in may_be_units and _may_be_unit(word))
            or (place == at[0] + 1 and word in asked.comparisons)
            for place, word in other
        )

    def _is_amount(self, question: str, given: Token, number: NumberToken) -> bool:
        """Return whether a number is the same, in the scale that the question asks for or another."""
        if self._is_same(given, number):
            return True
        scale = _ASKED_SCALE.search(question)
        if self.exact or scale is None or not isinstance(given, NumberToken):
            return False
        value = (given.value / SCALES[scale[1].lower()]).normalize()
        decimals = max(0, -int(value.as_tuple().exponent))
        return self._is_same(replace(given, value=value, decimals=decimals), number)

    def _is_same(self, given: Token, expected: Token) -> bool:
        if isinstance(given, NumberToken) and isinstance(expected, NumberToken):
            return _is_same_number(given, expected, exact=self.exact)
        if isinstance(given, NumberToken) or isinstance(expected, NumberToken):
            return False
        return given == expected or (self.typos and _is_typo(given, expected))

    def _match_lists(self, question: str, given: list[str], expected: list[str]) -> bool:
        """Check whether each element of one can be paired with an element of the other."""
        if len(given) != len(expected) or not given:
            return not given and not expected
        fits = [[self._compare(question, part, other).correct for part in given] for other in expected]
        optimize: Any = importlib.import_module("scipy.optimize")  # it ships no types
        pairs: Any = zip(*optimize.linear_sum_assignment(fits, maximize=True), strict=True)
        return all(fits[int(row)][int(column)] for row, column in pairs)


def _decide(correct: bool, kind: str) -> Verdict:
    return Verdict(correct, float(correct), f"compared as {kind}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """The words that may stand beside the number, by the question and its reference."""

    stems: AbstractSet[str]
    """The first letters of the words of the question, without a choice of directions ("rise or fall")."""
    comparisons: AbstractSet[str]
    """"more" for "How many more?"."""
    units: Mapping[str, AbstractSet[str]]
    """The units that are asked for, by their kind."""

    @classmethod
    def of(cls, question: str, number: NumberToken) -> _Asked:
        """Read a question, and the currency of the reference."""
        words = [token if isinstance(token, str) else "" for token in read_tokens(question)]
        before = ["", "", *words]
        chosen = {
            word
            for left, middle, right in zip(words, words[1:], words[2:], strict=False)
            if middle == "or" and {left, right} <= _DIRECTIONS
            for word in (left, right)
        }
        closed = {word[:STEM_LETTERS] for word in chosen}
        units: dict[str, set[str]] = {"money": {number.currency}} if number.currency else {}
        for at, word in enumerate(words):
            if word in _UNITS and {"many", "in"} & set(before[at : at + 2]):
                kind, name = _UNITS[word]
                units.setdefault(kind, set()).add(name)
        compared = {word for word, last in zip(words, before[1:], strict=False) if last in {"many", "much"}}
        return cls({word[:STEM_LETTERS] for word in words} - closed, compared & _COMPARISONS, units)

    def is_harmless(self, word: str) -> bool:
        """Return whether a word is one of the question, by its stem, or a function word."""
        return word not in _QUALIFIERS and (word in _FUNCTION_WORDS or word[:STEM_LETTERS] in self.stems)

    def has_other_unit(self, word: str) -> bool:
        """Return whether a word is a unit, and another one of its kind is asked for."""
        kind, name = _UNITS.get(word, ("", ""))
        return name not in self.units.get(kind, {name})


def _currency_of(token: Token) -> str:
    return token.currency if isinstance(token, NumberToken) else ""


def _may_be_unit(word: str) -> bool:
    return word.isalpha() and word not in _QUALIFIERS | _DIRECTIONS


def _is_same_number(given: NumberToken, expected: NumberToken, *, exact: bool) -> bool:
    if given.currency and expected.currency and given.currency != expected.currency:
        return False
    is_share = given.percent and not expected.percent and abs(expected.value) < 1
    values = [] if is_share else [(given.value, given.decimals)]
    if given.percent != expected.percent and not exact:
        scaled = given.value.scaleb(-2) if given.percent else given.value.scaleb(2)
        values.append((scaled, max(0, given.decimals + (2 if given.percent else -2))))
    is_rough = not exact and (expected.decimals > 0 or expected.percent)
    return any(
        value == expected.value or (is_rough and _is_rounded(value, decimals, expected))
        for value, decimals in values
    )


def _is_rounded(value: Decimal, decimals: int, expected: NumberToken) -> bool:
    """Return whether two numbers are the same at the coarser precision, and differ by 1 % at most."""
    unit = Decimal(1).scaleb(-min(decimals, expected.decimals))
    is_near = abs(value - expected.value) <= TOLERANCE * abs(expected.value)
    return is_near and abs(value - expected.value) * 2 <= unit


def _is_typo(given: str, expected: str) -> bool:
    """Return whether two long words differ by one edit between the first letter and the last two."""
    if min(len(given), len(expected)) < MIN_TYPO_LETTERS or not (given.isalpha() and expected.isalpha()):
        return False
    same_ends = given[0] == expected[0] and given[-2:] == expected[-2:]
    return same_ends and edits(given, expected, most=2) <= 1


def _parse_list(text: str) -> list[str] | None:
    """Return the elements of a list in JSON or Python; None for another text, and one that is too long."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")) or len(text) > MAX_LIST_CHARACTERS:
        return None
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value: Any = read(text)
            if isinstance(value, list) and len(cast("list[object]", value)) <= MAX_LIST_ELEMENTS:
                return [str(element) for element in cast("list[object]", value)]
    return None


def _abstains(text: str) -> bool:
    return text.strip().rstrip(".").casefold() == ABSTENTION.casefold()
