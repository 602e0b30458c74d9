"""A judge without a model: the same words, nearly the same letters, the same number, the same list.

The rules are those by which MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523) compares answers once they
are short, with these differences: the kind of answer is read from the reference, a list may be in any order,
the numbers inside a text must agree, and nothing that a model wrote is ever evaluated.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from vrag.agent.actions import ABSTENTION
from vrag.metrics import anls, exact_match, normalised
from vrag.reward.reward import Verdict

TOLERANCE = 0.01
"""Fraction of the reference by which a number with a decimal point or in per cent may differ."""
MAX_LIST_CHARACTERS = 10_000
"""Maximum length of a text that is read as a list."""
MAX_LIST_ELEMENTS = 300
"""Each is compared with each. A longer list is compared as text."""
_DIGITS = r"(?:\d{1,3}(?:[,\u2009\u202f]\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[-+\u2212]?)[$€£¥]?\s?(?P<digits>{_DIGITS})\s?(?P<percent>%?)(?!\w)"
)
_BETWEEN = re.compile(r"\s*(?:,(?!\d{3}(?!\d))|[;\n、，；]|\band\b)\s*")
"""Separators of a list that is written out."""


@dataclass(frozen=True, slots=True)
class RulesJudge:
    """Compares by rules; never fails, never asks a model.

    - "Not answerable" is right only where the reference says so, and nothing else is right there.
    - A number: the answer holds exactly one, and it is the same; a reference with a decimal point or in
      per cent may be missed by 1 %. A percentage may be written as a share.
    - A list, `[…]`: as many elements, each of which matches another one of the reference.
    - Any other text: the same words (`exact_match`), or an `anls` of at least `least` with the same numbers.

    An answer in a sentence is therefore wrong unless its only number is asked for: for such, ask a model.
    """

    least: float = 0.5
    """ANLS from which a text is right; 1 asks for the same letters. Short words that differ in a letter
    are right below that ("cat", "car")."""

    @property
    def identity(self) -> str:
        """The version of the rules, and the threshold."""
        return f"rules-2:{self.least}"

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:  # noqa: ARG002 - unused
        """Compare answer and reference; see `Judge`. The score is 0 or 1, or the ANLS of texts."""
        if _abstains(reference) or _abstains(answer):
            return _decide(_abstains(reference) and _abstains(answer), "abstention")
        elements = _parse_list(reference)
        if elements is None:
            return _compare(answer, reference, self.least)
        given = _parse_list(answer)
        if given is None:
            given = [part for part in _BETWEEN.split(answer.strip().strip("[].")) if part]
        return _decide(_match_lists(given, elements, self.least), "list")

    async def aclose(self) -> None:
        """Do nothing: it holds no resources."""


def _decide(correct: bool, kind: str) -> Verdict:
    return Verdict(correct, float(correct), f"compared as {kind}")


def _compare(answer: str, reference: str, least: float) -> Verdict:
    """Compare as one number, or else as text."""
    number = _NUMBER.fullmatch(reference.strip().rstrip("."))
    if number is not None:
        found = list(_NUMBER.finditer(answer))
        return _decide(len(found) == 1 and _same_number(found[0], number), "number")
    answer, reference = (text.strip().rstrip(".") for text in (answer, reference))
    if normalised(reference) and exact_match(answer, reference):
        return _decide(correct=True, kind="text")
    # The numbers must agree, where the reference has any: "12 crowns" is near "13 crowns".
    given, expected = list(_NUMBER.finditer(answer)), list(_NUMBER.finditer(reference))
    agree = not expected or (len(given) == len(expected) and all(map(_same_number, given, expected)))
    similarity = anls(answer, reference) if agree else 0.0
    return Verdict(similarity >= max(least, 1e-9), similarity, "compared as text")


def _same_number(given: re.Match[str], expected: re.Match[str]) -> bool:
    rough = "." in expected["digits"] or bool(expected["percent"])
    value, wanted = _value(given), _value(expected)
    slack = (TOLERANCE + 1e-9) * abs(wanted) if rough else 0.0
    values = [value]
    if bool(given["percent"]) != bool(expected["percent"]):
        values.append(value / 100 if given["percent"] else value * 100)
    return any(abs(value - wanted) <= slack for value in values)


def _value(number: re.Match[str]) -> float:
    digits = re.sub(r"[,\u2009\u202f]", "", number["digits"])
    return -float(digits) if number["sign"] in {"-", "\u2212"} else float(digits)


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


def _match_lists(given: list[str], expected: list[str], least: float) -> bool:
    """Check whether each element of one can be paired with an element of the other."""
    if len(given) != len(expected) or not given:
        return not given and not expected
    fits = [[_compare(part, other, least).correct for part in given] for other in expected]
    optimize: Any = importlib.import_module("scipy.optimize")  # it ships no types
    pairs: Any = zip(*optimize.linear_sum_assignment(fits, maximize=True), strict=True)
    return all(fits[int(row)][int(column)] for row, column in pairs)


def _abstains(text: str) -> bool:
    return text.strip().rstrip(".").casefold() == ABSTENTION.casefold()
