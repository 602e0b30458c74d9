"""M3DocVQA (arXiv 2411.04952): `m3docvqa/em` and `m3docvqa/f1`, the list EM and F1 of its `evaluate.py`.

That is the script of MultiModalQA (arXiv 2104.06039), which goes back to that of DROP (arXiv 1903.00161).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from vrag.evaluation.scorers.matching import best_match
from vrag.evaluation.scorers.words import abstains, without_articles, without_punctuation
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.types import Case

__all__ = ["list_em", "list_f1", "measures", "span_words"]

MOST = 500
"""Elements of a list that was said; a longer one is one span."""
_BREAK = re.compile(r"[\s-]+")
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen".split()
)
_NUMBERS = (
    {word: float(number) for number, word in enumerate(_SMALL)}
    | {
        word: 10.0 * tens
        for tens, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)
    }
    | {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "point": 0.0}
)
"""Words that the script takes for numbers, each for itself: "twenty-one" is 20 and 1, "point" is 0."""


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`m3docvqa/em`: the same spans in whatever order; `m3docvqa/f1`: over the words of those that match.

    The right answer is the list of all its spans. What was said is one span, as M3DocRAG has it, whose
    answers are texts; only an answer that is a list in JSON is the list of its elements, as MultiModalQA
    has them. Nothing is cut at commas, which stand within names as well. An abstention is an empty span.

    Deviation: any white space separates words; in the script blanks alone do.
    """
    if answer is None:
        return {"m3docvqa/em": 0.0, "m3docvqa/f1": 0.0}
    said = [""] if abstains(answer) else _spans(answer)
    if len(said) > MOST:
        said = [answer]
    listed = case.answer_format is AnswerFormat.LIST
    meant = _spans(case.reference_answer) if listed else [case.reference_answer]
    return {"m3docvqa/em": list_em(said, meant), "m3docvqa/f1": list_f1(said, meant)}


def list_em(said: Sequence[str], meant: Sequence[str]) -> float:
    """1 if they are the same spans, and as many; else 0.

    >>> list_em(["The Hague", "5"], ["five", "Hague"]), list_em(["a cat"], ["cat", "cat"])
    (1.0, 0.0)
    """
    ours, theirs = (
        [" ".join(span_words(span)) for span in said],
        [" ".join(span_words(span)) for span in meant],
    )
    return float(len(ours) == len(theirs) and set(ours) == set(theirs))


def list_f1(said: Sequence[str], meant: Sequence[str]) -> float:
    """The F1 of each span with the one that it is matched with, over the longer list; to two digits.

    Spans are sets of words. Where a right span has numbers and one that was said has none of them, they
    have nothing in common. Of two without words the F1 is 1.

    >>> list_f1(["red cat"], ["red dog"]), list_f1(["red cat"], ["cat", "dog"]), list_f1(["4"], ["5"])
    (0.5, 0.33, 0.0)
    """
    ours, theirs = (
        [frozenset(span_words(span)) for span in said],
        [frozenset(span_words(span)) for span in meant],
    )
    scores = [[_f1(span, right) for span in ours] for right in theirs]
    longer = max(len(ours), len(theirs))
    mean = sum(scores[row][column] for row, column in best_match(scores)) / longer if longer else 0.0
    return round(100 * mean) / 100


def span_words(span: str) -> list[str]:
    """The words by which a span is compared.

    They are cut at blanks and hyphens, so that a number has no sign; numbers, and words for them, are written
    as Python writes a float; others lose the punctuation of ASCII, and articles are dropped.

    >>> span_words("The 1,000 end-to-end tests: twenty-one failed")
    ['1000.0', 'end', 'to', 'end', 'tests', '20.0', '1.0', 'failed']
    """
    return [word for part in _BREAK.split(span.lower()) for word in without_articles(_number(part)).split()]


def _number(word: str) -> str:
    """A number as a float; of another word, what is left without punctuation, which may be a number."""
    bare = word if _is_number(word) else without_punctuation(word)
    if _is_number(bare):
        return str(float(bare))
    return str(_NUMBERS[bare]) if bare in _NUMBERS else bare


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _f1(said: frozenset[str], right: frozenset[str]) -> float:
    numbers = {word for word in right if _is_number(word)}
    if numbers and not numbers & said:
        return 0.0
    precision = len(said & right) / len(said) if said else 1.0
    recall = len(said & right) / len(right) if right else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _spans(text: str) -> list[str]:
    """The elements of a list in JSON; any other text is one span."""
    if not text.lstrip().startswith("["):
        return [text]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    parts = cast("list[Any]", value)
    plain = all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts)
    return [str(part) for part in parts] if plain and parts else [text]
