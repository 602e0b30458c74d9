"""Words of answers as SQuAD's evaluation script takes them, their overlap, and ANLS."""

from __future__ import annotations

import re
import string
from collections import Counter
from typing import TYPE_CHECKING

from vrag.cases.gold import UNANSWERABLE
from vrag.metrics import anls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.types import Case

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
SMALL_NUMBERS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
NUMBER_WORDS = (
    SMALL_NUMBERS
    | {word: 10 * tens for tens, word in enumerate(_TENS, start=2)}
    | {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9}
)
"""Words that scripts replace by numbers, each for itself: "twenty-one" is 20 and 1."""


def score_anls(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `anls`: the similarity to the nearest reference, 0 where half of the letters or more are wrong.

    ANLS (Biten et al. 2019, arXiv 1905.13648, eq. 1), of ST-VQA and DocVQA. At exactly one half papers
    differ. By the equation of ST-VQA, which is used here, it counts as 0, and so it does for
    MMLongBench-Doc; the text of DocVQA keeps it. An abstention is compared as "Not answerable".
    """
    if answer is None:
        return {"anls": 0.0}
    return {"anls": max(anls(answer, reference) for reference in case.references)}


def abstains(text: str) -> bool:
    """Return whether a text is "Not answerable" and nothing else."""
    return text.strip().rstrip(".").casefold() == UNANSWERABLE.casefold()


def without_punctuation(text: str) -> str:
    """Remove the punctuation of ASCII; that of other scripts and typographic quotes stay."""
    return text.translate(_PUNCTUATION)


def without_articles(text: str) -> str:
    """Replace each "a", "an" and "the" in a lower-case text by a space."""
    return _ARTICLE.sub(" ", text)


def squad_words(text: str) -> list[str]:
    """Split a text into words in lower case, without the punctuation of ASCII and without articles.

    Rajpurkar et al. 2018 (arXiv 1806.03822), `evaluate-v2.0.py`. `vrag.metrics.normalised` removes all
    punctuation.

    >>> squad_words("The end-to-end “test”, an hour.")
    ['endtoend', '“test”', 'hour']
    """
    return without_articles(without_punctuation(text.lower())).split()


def shared_words(answer: Sequence[str], reference: Sequence[str]) -> int:
    """Count the words that both have; each as often as it occurs in both."""
    return (Counter(answer) & Counter(reference)).total()


def bag_f1(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Return the F1 over words, whatever their order; 0 where none is shared.

    >>> bag_f1(["red", "blue"], ["red"])
    0.666...
    """
    shared = shared_words(answer, reference)
    return 2 * shared / (len(answer) + len(reference)) if shared else 0.0
