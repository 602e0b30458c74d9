"""The words of an answer as the evaluation script of SQuAD takes them, and how many two answers share."""

from __future__ import annotations

import re
import string
from collections import Counter
from typing import TYPE_CHECKING

from vrag.agent.actions import ABSTENTION

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["abstains", "bag_f1", "shared_words", "squad_words", "without_articles", "without_punctuation"]

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def abstains(text: str) -> bool:
    """Whether it says "Not answerable" and nothing else."""
    return text.strip().rstrip(".").casefold() == ABSTENTION.casefold()


def without_punctuation(text: str) -> str:
    """The text without the punctuation of ASCII; that of other scripts and typographic quotes stay."""
    return text.translate(_PUNCTUATION)


def without_articles(text: str) -> str:
    """The text with a space in place of each "a", "an" and "the"; in lower case."""
    return _ARTICLE.sub(" ", text)


def squad_words(text: str) -> list[str]:
    """The words in lower case, without the punctuation of ASCII and without articles.

    Rajpurkar et al. 2018 (arXiv 1806.03822), `evaluate-v2.0.py`. `vrag.metrics.normalised` goes further: for
    it all punctuation is punctuation.

    >>> squad_words("The end-to-end “test”, an hour.")
    ['endtoend', '“test”', 'hour']
    """
    return without_articles(without_punctuation(text.lower())).split()


def shared_words(said: Sequence[str], meant: Sequence[str]) -> int:
    """How many words both have; each counts as often as it occurs in both."""
    return (Counter(said) & Counter(meant)).total()


def bag_f1(said: Sequence[str], meant: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over words, whatever their order; 0 where none is shared.

    >>> bag_f1(["red", "blue"], ["red"])
    0.666...
    """
    shared = shared_words(said, meant)
    return 2 * shared / (len(said) + len(meant)) if shared else 0.0
