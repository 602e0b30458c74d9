"""A judge without a model: the same words, nearly the same letters, the same number, the same list.

The rules are those by which MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523) compares answers once they
are short, with these differences: the kind of answer is read from the reference, a list may be in any order,
the numbers inside a text must agree, and nothing that a model wrote is ever evaluated.
"""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from vrag.agent.actions import ABSTENTION
from vrag.metrics import anls, exact_match, normalised
from vrag.reward.judge import Verdict

__all__ = ["RulesJudge"]

TOLERANCE = 0.01
"""Of the reference, by which a number with a decimal point or in per cent may differ."""
_LONGEST_LIST = 10_000
"""Characters of a text that is read as a list, at most."""
_MAX_ELEMENTS = 300
"""Of a text that is read as a list: each is compared with each. A longer one is compared as text."""
_DIGITS = r"(?:\d{1,3}(?:[,\u2009\u202f]\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[-+\u2212]?)[$€£¥]?\s?(?P<digits>{_DIGITS})\s?(?P<percent>%?)(?!\w)"
)
_BETWEEN = re.compile(r"\s*(?:,(?!\d{3}(?!\d))|[;\n、，；]|\band\b)\s*")
"""What stands between the elements of a list that is written out."""


@dataclass(frozen=True, slots=True)
class RulesJudge:
    """Compares by rules; never fails, never asks anybody.

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

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:  # noqa: ARG002 - rules do not read it
        """Compares the two; see `Judge`. The score is 0 or 1, or the ANLS of texts."""
        if _abstains(reference) or _abstains(answer):
            return _verdict(_abstains(reference) and _abstains(answer), "abstention")
        listed = _as_list(reference)
        if listed is not None:
            return _verdict(_same_lists(_elements(answer), listed, self.least), "list")
        return _compared(answer, reference, self.least)

    async def aclose(self) -> None:
        """Holds nothing."""


def _verdict(correct: bool, kind: str) -> Verdict:
    return Verdict(correct, float(correct), f"compared as {kind}")


def _compared(answer: str, reference: str, least: float) -> Verdict:
    """As one number, or else as text."""
    number = _NUMBER.fullmatch(reference.strip().rstrip("."))
    if number is not None:
        found = list(_NUMBER.finditer(answer))
        return _verdict(len(found) == 1 and _same_number(found[0], number), "number")
    answer, reference = (text.strip().rstrip(".") for text in (answer, reference))
    if normalised(reference) and exact_match(answer, reference):
        return _verdict(correct=True, kind="text")
    likeness = anls(answer, reference) if _same_numbers(answer, reference) else 0.0
    return Verdict(likeness >= max(least, 1e-9), likeness, "compared as text")


def _same_numbers(answer: str, reference: str) -> bool:
    """Whether the numbers in both agree, where the reference has any: "12 crowns" is near "13 crowns"."""
    said, meant = list(_NUMBER.finditer(answer)), list(_NUMBER.finditer(reference))
    return not meant or (len(said) == len(meant) and all(map(_same_number, said, meant)))


def _same_number(said: re.Match[str], meant: re.Match[str]) -> bool:
    rough = "." in meant["digits"] or bool(meant["percent"])
    value, wanted = _value(said), _value(meant)
    slack = (TOLERANCE + 1e-9) * abs(wanted) if rough else 0.0
    values = [value]
    if bool(said["percent"]) != bool(meant["percent"]):
        values.append(value / 100 if said["percent"] else value * 100)
    return any(abs(one - wanted) <= slack for one in values)


def _value(number: re.Match[str]) -> float:
    digits = re.sub(r"[,\u2009\u202f]", "", number["digits"])
    return -float(digits) if number["sign"] in {"-", "\u2212"} else float(digits)


def _as_list(text: str) -> list[str] | None:
    """The elements of a text that is a list in JSON or Python; None when it is none, or too long for one."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")) or len(text) > _LONGEST_LIST:
        return None
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value: Any = read(text)
            if isinstance(value, list) and len(cast("list[object]", value)) <= _MAX_ELEMENTS:
                return [str(element) for element in cast("list[object]", value)]
    return None


def _elements(answer: str) -> list[str]:
    """What an answer lists, written as a list or out."""
    listed = _as_list(answer)
    if listed is not None:
        return listed
    return [part for part in _BETWEEN.split(answer.strip().strip("[].")) if part]


def _same_lists(said: list[str], meant: list[str], least: float) -> bool:
    """Whether each element of one can be paired with an element of the other."""
    if len(said) != len(meant):
        return False
    fits = [[_compared(one, other, least).correct for one in said] for other in meant]
    taken: dict[int, int] = {}
    return all(_placed(at, fits, taken, set()) for at in range(len(meant)))


def _placed(at: int, fits: list[list[bool]], taken: dict[int, int], tried: set[int]) -> bool:
    """Pairs one element of the reference, moving others where need be (Kuhn's algorithm)."""
    for place, fit in enumerate(fits[at]):
        if fit and place not in tried:
            tried.add(place)
            if place not in taken or _placed(taken[place], fits, taken, tried):
                taken[place] = at
                return True
    return False


def _abstains(text: str) -> bool:
    return text.strip().rstrip(".").casefold() == ABSTENTION.casefold()
