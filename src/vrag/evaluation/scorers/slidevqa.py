"""SlideVQA (arXiv 2301.04883): `slidevqa/em` and `slidevqa/f1`, by the rules of its `evaluate.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.scorers.words import abstains, bag_f1, without_articles, without_punctuation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["measures", "slide_words"]

_REWRITES = (
    ("this is ", ""),
    ("it is ", ""),
    ("&", ","),
    ("and", ","),
    ("percent", ""),
    ("organisation", "organization"),
    ("because of", ""),
    ("because", ""),
    ("due to", ""),
    ("hours", "hrs"),
    ("minites", "min"),
)
"""One after the other, wherever the letters stand: also within words."""
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen".split()
    )
}


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`slidevqa/em`: the same words in the same order; `slidevqa/f1`: over the bags of words.

    Answers that share no word have 0 of both, two empty ones too. The best reference counts for each;
    the data set has one. An abstention is an empty answer.
    """
    said = [] if answer is None or abstains(answer) else slide_words(answer, case.query)
    meant = [slide_words(reference, case.query) for reference in case.references]
    return {
        "slidevqa/em": max(float(bool(said) and said == words) for words in meant),
        "slidevqa/f1": max(bag_f1(said, words) for words in meant),
    }


def slide_words(text: str, question: str) -> list[str]:
    """The words by which an answer to this question is compared.

    Some phrases are rewritten; what the question counts or chooses from is taken out ("how many
    apples", "which country"; in the question's own letters, so not where it begins with "How many");
    punctuation of ASCII and articles go; of what then begins with "yes" or "no", be it "nothing else", the
    first word is left; and numbers up to nineteen are digits.

    Deviation: where nothing follows "how many" or "which", nothing is taken out; the script breaks off.

    >>> slide_words("It is five apples", "so how many apples are there?")
    ['5']
    >>> slide_words("No, they are not", "Are they?")
    ['no']
    """
    plain = text.lower()
    for old, new in _REWRITES:
        plain = plain.replace(old, new)
    for mark in ("how many", "which"):
        plain = _without_unit(plain, question, mark)
    bare = without_articles(without_punctuation(plain))
    words = bare.split()
    if bare.startswith(("yes", "no")):
        words = words[:1]
    return [_NUMBERS.get(word, word) for word in words]


def _without_unit(text: str, question: str, mark: str) -> str:
    """Without the word that follows the first `mark` in the question, punctuation and all."""
    following = question.partition(mark)[2].split(maxsplit=1)
    return text.replace(following[0], "") if following else text
