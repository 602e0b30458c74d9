"""HotpotQA (arXiv 1809.09600): F1, precision and recall of answers, as its `hotpot_evaluate_v1.py` has them.

Its exact match is that of SQuAD. What it makes of supporting facts, see `vrag.evaluation.measures.citations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.scorers.words import abstains, shared_words, squad_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["measures"]

_WHOLE = (["yes"], ["no"], ["noanswer"])
"""Answers that are right as a whole or not at all."""
_NAMES = ("hotpotqa/f1", "hotpotqa/precision", "hotpotqa/recall")


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`hotpotqa/f1`: as F1 of SQuAD, but "yes" and "no" are right alone or not at all.

    `hotpotqa/precision` and `hotpotqa/recall` are what it is the harmonic mean of, and what the joint
    measures are made of. Of several references, all are of the one with the best F1.

    An abstention is the script's "noanswer". Two answers without words share none: 0, where SQuAD has 1.
    """
    if answer is None:
        return dict.fromkeys(_NAMES, 0.0)
    said = _words(answer)
    best = max(_scores(said, _words(reference)) for reference in case.references)
    return dict(zip(_NAMES, best, strict=True))


def _scores(said: list[str], meant: list[str]) -> tuple[float, float, float]:
    """F1, precision and recall."""
    shared = shared_words(said, meant)
    if not shared or (said != meant and (said in _WHOLE or meant in _WHOLE)):
        return 0.0, 0.0, 0.0
    return 2 * shared / (len(said) + len(meant)), shared / len(said), shared / len(meant)


def _words(text: str) -> list[str]:
    return ["noanswer"] if abstains(text) else squad_words(text)
