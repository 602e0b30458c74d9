"""HotpotQA (arXiv 1809.09600): `hotpotqa/f1`, as its `hotpot_evaluate_v1.py` has it.

Its exact match is that of SQuAD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.rules.words import abstains, bag_f1, squad_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["measures"]

_WHOLE = (["yes"], ["no"], ["noanswer"])
"""Answers that are right as a whole or not at all."""


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`hotpotqa/f1`: as F1 of SQuAD, but "yes" and "no" are right alone or not at all.

    An abstention is the script's "noanswer". Two answers without words share none: 0, where SQuAD has 1.
    """
    if answer is None:
        return {"hotpotqa/f1": 0.0}
    said = _words(answer)
    return {"hotpotqa/f1": max(_f1(said, _words(reference)) for reference in case.references)}


def _f1(said: list[str], meant: list[str]) -> float:
    return 0.0 if said != meant and (said in _WHOLE or meant in _WHOLE) else bag_f1(said, meant)


def _words(text: str) -> list[str]:
    return ["noanswer"] if abstains(text) else squad_words(text)
