"""MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523): `mmlongbench`, by the rules of its `eval_score.py`.

The rules are followed to the letter, with what they overlook: 9.9 is a right answer to "how many, 9", a gold
integer written "21%" can never be met, and "answerable" is 71 % of "Not answerable". Two things differ:

- Lists are read as literals, where the script evaluates whatever stands in brackets, so that a model's
  answer would run as a program. `[1+1, 3]` is therefore a text to us, and `[2, 3]` to the script.
- Where the script breaks off, we go on. A text in brackets that is no list is one element. Two empty lists
  are the same: 1. A gold number that is none ("1.5 million") is compared as text, and only its equal counts.

The authors have a model extract a short answer first; see `vrag.evaluation.scorers.rule`.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from vrag.metrics import edits
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["clean", "likeness", "mark", "measures", "verbatim"]

LONGEST_LIST = 10_000
"""Characters of a text that is read as a list; what is longer is one element."""
_THRESHOLD = 0.5
_CLOSE = 0.01
"""Of the larger of both, by which decimal numbers may differ."""
_PARENTHESIS = re.compile(r"(?<!\s)\s*\([^)]*\)")
_QUOTE = re.compile(r"^['\"]|['\"]$")
_VERBATIM = re.compile(
    r"\d+(?:-\d+|\s\d+)?"  # a number, two of them, a telephone number
    r"|\d{4}[-\s]\d{2}[-\s]\d{2}"  # a date
    r"|[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}"  # an address
)


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`mmlongbench`: how right the answer is by the rule for `case.answer_format`; see `mark`.

    An abstention is "Not answerable" and is compared as such. The best reference counts; the data set has
    one.
    """
    if answer is None:
        return {"mmlongbench": 0.0}
    marks = (mark(reference, answer.strip(), case.answer_format) for reference in case.references)
    return {"mmlongbench": max(marks)}


def mark(gold: str, answer: str, form: AnswerFormat) -> float:
    """How right an answer is, 0 to 1.

    - An integer: the same once the answer is cut to its whole part; nothing but a bare number is one.
    - A decimal number: within 1 % of the larger, or the same when both are rounded to as many digits as
      the one with fewer has, two at least; of the gold, or a hundred times it, or a hundredth.
    - Text, and "Not answerable": equality where the gold is `verbatim`, else `likeness`.
    - A list, and any other format: as many elements, which are compared in the order of the alphabet. All
      must be equal if the first gold one is a number or verbatim; else the least likeness counts.

    Args:
        gold: The right answer.
        answer: What was said.
        form: What the gold is.
    """
    match form:
        case AnswerFormat.INTEGER:
            return _mark_integer(gold, answer)
        case AnswerFormat.FLOAT:
            return _mark_float(clean(gold), clean(answer))
        case AnswerFormat.TEXT | AnswerFormat.NONE:
            return _mark_text(clean(gold), clean(answer))
        case _:
            return _mark_list(_elements(gold), _elements(answer))


def clean(text: str) -> str:
    """The text as it is compared: lower case, without parentheses, quotes around it, "$" and "%".

    >>> clean("'Blue' (dark)"), clean("$ 5 %"), clean("5 miles")
    ('blue', '5', '5 miles')
    """
    closed, end, rest = text.lower().strip().rpartition(")")  # else a long run of "(" takes minutes
    bare = (_PARENTHESIS.sub("", closed + end) + rest).strip()
    bare = _QUOTE.sub("", bare).strip()
    return bare.lstrip("$").rstrip("%").strip()


def verbatim(gold: str) -> bool:
    """Whether nothing but this very text is right: integers, dates, addresses, times, names of files.

    >>> verbatim("2015-03-04"), verbatim("page 3"), verbatim("12.5")
    (True, True, False)
    """
    return (
        any(part in gold for part in ("https://", "a.m.", "p.m."))
        or gold.endswith((".py", "ipynb"))
        or gold.startswith("page")
        or _VERBATIM.fullmatch(gold) is not None
    )


def likeness(gold: str, answer: str) -> float:
    """ANLS as this data set has it: also what is wrong in exactly half of its letters counts as 0.

    >>> likeness("abcde", "abcxy"), likeness("ab", "ax")
    (0.6, 0.0)
    """
    longer = max(len(gold.upper()), len(answer.upper()))
    if not longer:
        return 1.0
    return max(0.0, 1.0 - edits(gold, answer, most=_THRESHOLD * longer) / longer)


def _mark_integer(gold: str, answer: str) -> float:
    try:
        return float(int(gold) == int(float(answer)))
    except (ValueError, OverflowError):
        return float(not gold)  # as published: where the gold is empty, whatever is no number is right


def _mark_float(gold: str, answer: str) -> float:
    meant, said = _number(gold), _number(answer)
    if meant is None:
        return float(gold == answer)
    if said is None:
        return 0.0
    return float(any(_same_number(said, one) for one in (meant / 100, meant, meant * 100)))


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return float(text)
    return None


def _same_number(said: float, meant: float) -> bool:
    if math.isclose(meant, said, rel_tol=_CLOSE):
        return True
    digits = max(min(_digits(said), _digits(meant)), 2)
    return round(said, digits) == round(meant, digits)


def _digits(number: float) -> int:
    """Digits after the point as Python writes the number; 3 where it writes none."""
    _, point, after = str(number).rpartition(".")
    return len(after) if point else 3


def _mark_text(gold: str, answer: str) -> float:
    return float(gold == answer) if verbatim(gold) else likeness(gold, answer)


def _mark_list(gold: list[str], answer: list[str]) -> float:
    if len(gold) != len(answer):
        return 0.0
    meant, said = sorted(map(clean, gold)), sorted(map(clean, answer))
    if not meant:
        return 1.0
    if _number(meant[0]) is not None or verbatim(meant[0]):
        return float("-".join(meant) == "-".join(said))
    return min(map(likeness, meant, said))


def _elements(text: str) -> list[str]:
    """The elements of a list that is written as Python; the text itself where it is none."""
    if not text.startswith("[") or len(text) > LONGEST_LIST:
        return [text]
    with warnings.catch_warnings(), suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        warnings.simplefilter("ignore")  # of odd escapes in what a model wrote
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.List) and not any(isinstance(node, ast.Set) for node in ast.walk(tree)):
            # a set is written in another order every time
            return [str(element) for element in cast("list[object]", ast.literal_eval(tree))]
    return [text]
