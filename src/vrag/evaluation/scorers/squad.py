"""SQuAD (arXiv 1606.05250, 1806.03822): `em` and `f1`, as its `evaluate-v2.0.py` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.scorers.words import abstains, bag_f1, squad_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["measures"]


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`em`: the same words in the same order; `f1`: over the bags of words. The best reference for each.

    Of a question that cannot be answered the right answer is the empty one, and that is what an abstention
    is. References without a word in them are left out.

    Deviation: a run that failed is wrong; the script leaves a missing answer out of the mean.
    """
    if answer is None:
        return {"em": 0.0, "f1": 0.0}
    said = _words(answer)
    meant = [words for words in map(_words, case.references) if words] or [[]]
    return {
        "em": max(float(said == words) for words in meant),
        "f1": max(bag_f1(said, words) if said and words else float(said == words) for words in meant),
    }


def _words(text: str) -> list[str]:
    return [] if abstains(text) else squad_words(text)
