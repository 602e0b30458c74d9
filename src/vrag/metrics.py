"""Measures of rankings, of answers and of boxes against gold. Pure functions.

A ranking is a sequence of distinct names of pages, best first. Should a name come up again, it counts
once, where it stands first; the later place is taken up all the same. The gold is a set of names, all as
relevant as each other, or says how relevant each is; pages with a relevance of 0 or less do not count.

An answer is compared with one reference; where a question has several, the best of them counts.
"""

from __future__ import annotations

import math
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vrag.geometry import Box

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

_ARTICLES = frozenset({"a", "an", "the"})

_Name = TypeVar("_Name", bound="Hashable")


def ndcg(
    ranking: Sequence[_Name], gold: AbstractSet[_Name] | Mapping[_Name, float], k: int | None = None
) -> float:
    """Return the normalised discounted cumulative gain of the first `k` places, 0 to 1.

    DCG@k = Σ rel(i) / log2(i + 1) over the ranks i = 1 … k; nDCG@k = DCG@k / IDCG@k, where IDCG@k is
    the DCG of a ranking that begins with the gold pages, the most relevant first. Järvelin and
    Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques", with the discount and the linear
    gain of trec_eval (`ndcg_cut`), which ViDoRe reports; others have 2^rel - 1 for the gain, which is the
    same where no page is more relevant than 1.

    `ranking` has the names of pages, best first; `gold` the names of the gold pages, or the relevance of
    each: without any the result is 0. If `k` is None, all places count, with the ideal over all of the gold.

    >>> ndcg(["a", "b", "c"], {"a", "c"}, k=3) == (1 + 1 / 2) / (1 + 1 / math.log2(3))
    True
    >>> ndcg(["a", "b", "c"], {"a", "c"}, k=1)
    1.0
    >>> ndcg(["c", "a"], {"a": 2, "c": 1}) == (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))
    True
    """
    gains = _gains(gold)
    ideal = sorted(gains.values(), reverse=True)[:k]
    best = math.fsum(gain * _discount(rank) for rank, gain in enumerate(ideal, start=1))
    found = math.fsum(gains[ranking[rank - 1]] * _discount(rank) for rank in _gold_ranks(ranking, gains, k))
    return found / best if best > 0 else 0.0


def recall(
    ranking: Sequence[_Name], gold: AbstractSet[_Name] | Mapping[_Name, float], k: int | None = None
) -> float:
    """Return the share of gold pages in the first `k` places: |gold ∩ ranking[:k]| / |gold|, 0 without gold.

    A page counts as one, however relevant it is.

    >>> recall(["a", "b", "c"], {"a", "c"}, k=2)
    0.5
    """
    gains = _gains(gold)
    return len(_gold_ranks(ranking, gains, k)) / len(gains) if gains else 0.0


def reciprocal_rank(ranking: Sequence[_Name], gold: AbstractSet[_Name] | Mapping[_Name, float]) -> float:
    """Return 1 / rank of the first gold page, 0 without one; its mean over questions is the MRR.

    >>> reciprocal_rank(["a", "b", "c"], {"b", "c"})
    0.5
    """
    return next((1 / rank for rank in _gold_ranks(ranking, _gains(gold), None)), 0.0)


def normalised(text: str) -> str:
    """Normalise a text for comparison: lower case, no punctuation, no English articles, single spaces.

    Rajpurkar et al. 2016 (SQuAD), whose evaluation script does this. Deviation: punctuation of other
    scripts and typographic quotes are punctuation too, and letters are compared in their composed form.

    >>> normalised("The  “Lantern” Ferry.")
    'lantern ferry'
    """
    plain = unicodedata.normalize("NFC", text).lower()
    words = "".join(
        sign
        for sign in plain
        if sign not in string.punctuation and not unicodedata.category(sign).startswith("P")
    ).split()
    return " ".join(word for word in words if word not in _ARTICLES)


def exact_match(answer: str, reference: str) -> float:
    """Return 1 if answer and reference are the same once `normalised`, else 0 (EM of SQuAD).

    >>> exact_match("the Ferry.", "ferry")
    1.0
    """
    return float(normalised(answer) == normalised(reference))


def token_f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of precision and recall over the words of both, once `normalised`.

    F1 of SQuAD (Rajpurkar et al. 2016): words count as often as they occur. Where one of both has no
    words, it is 1 if the other has none either.

    >>> token_f1("a red ferry", "red ferry boat")
    0.8
    """
    given, expected = normalised(answer).split(), normalised(reference).split()
    if not given or not expected:
        return float(given == expected)
    return 2 * (Counter(given) & Counter(expected)).total() / (len(given) + len(expected))


def anls(answer: str, reference: str, *, threshold: float = 0.5) -> float:
    """Return the normalised Levenshtein similarity, 0 to 1; 0 below the threshold.

    Biten et al. 2019, "Scene text visual question answering", eq. 1: 1 - NL where NL < τ, else 0; NL is
    the edit distance over the length of the longer of both. Case and white space around do not count;
    deviation: white space within counts as one space, whatever it is.

    `threshold` is τ. The measure is named for its mean over questions (ANLS).

    >>> anls("Lantern ferry", "lantern fery")
    0.923...
    >>> anls("boat", "lantern ferry")
    0.0
    """
    given, expected = " ".join(answer.lower().split()), " ".join(reference.lower().split())
    longer = max(len(given), len(expected))
    if not longer:
        return 1.0
    distance = edits(given, expected, most=threshold * longer)
    return 1 - distance / longer if distance < threshold * longer else 0.0


def edits(left: str, right: str, *, most: float = math.inf) -> float:
    """Return the Levenshtein distance: letters to insert, drop or replace; infinite where it reaches `most`.

    >>> edits("kitten", "sitting"), edits("kitten", "sitting", most=3)
    (3, inf)
    """
    from rapidfuzz.distance import Levenshtein

    limit = None if math.isinf(most) else max(math.ceil(most) - 1, 0)
    distance = Levenshtein.distance(left, right, score_cutoff=limit)
    return distance if distance < most else math.inf


def _gains(gold: AbstractSet[_Name] | Mapping[_Name, float]) -> Mapping[_Name, float]:
    if isinstance(gold, Mapping):
        return {name: gain for name, gain in gold.items() if gain > 0}
    return dict.fromkeys(gold, 1.0)


def _gold_ranks(ranking: Sequence[_Name], gold: Mapping[_Name, float], k: int | None) -> list[int]:
    """Return the ranks, from 1 and ascending, at which a gold page stands for the first time."""
    first: dict[_Name, int] = {}
    for rank, name in enumerate(ranking[:k], start=1):
        if name in gold:
            first.setdefault(name, rank)
    return list(first.values())


def _discount(rank: int) -> float:
    """Return the weight of a gold page at `rank`, from 1."""
    return 1 / math.log2(rank + 1)


def overlap(one: Sequence[Box], other: Sequence[Box]) -> tuple[float, float]:
    """Return the area that two sets of boxes of a page both cover, and the area that either covers.

    Within each set, no area counts twice. Exact: the sides of all boxes cut the plane into cells, and a box
    is a set of them.
    """
    boxes = {*one, *other}
    across = np.unique([side for box in boxes for side in (box.x1, box.x2)])
    down = np.unique([side for box in boxes for side in (box.y1, box.y2)])
    cells = np.outer(np.diff(down), np.diff(across))

    def cells_of(boxes: Sequence[Box]) -> NDArray[np.bool_]:
        """Return the cells that boxes cover, shape (rows, columns)."""
        covered = np.zeros(cells.shape, np.bool_)
        for box in boxes:
            left, right = np.searchsorted(across, (box.x1, box.x2))
            top, bottom = np.searchsorted(down, (box.y1, box.y2))
            covered[top:bottom, left:right] = True
        return covered

    first, second = cells_of(one), cells_of(other)
    return float(cells[first & second].sum()), float(cells[first | second].sum())


def region_f1(found: Sequence[Box], gold: Sequence[Box]) -> float:
    """Return the F1 of the areas that two sets of boxes of a page cover, 0 to 1: 2 |F ∩ G| / (|F| + |G|).

    Grounding of ViDoRe v3 (Loison et al. 2026, arXiv 2601.08620): the boxes of each side are merged into one
    zone, and precision and recall are of pixels (the Dice coefficient). Here areas are exact. 0 where either
    covers nothing.

    >>> region_f1([Box.unit(0, 0, 1, 1)], [Box.unit(0, 0, 0.5, 1)])
    0.666...
    """
    common, united = overlap(found, gold)
    return 2 * common / (united + common) if common > 0 else 0.0


def region_iou(found: Sequence[Box], gold: Sequence[Box]) -> float:
    """Return intersection over union of the areas that two sets of boxes of a page cover, 0 to 1.

    >>> region_iou([Box.unit(0, 0, 1, 1)], [Box.unit(0, 0, 0.5, 1)])
    0.5
    """
    common, united = overlap(found, gold)
    return common / united if common > 0 else 0.0
