"""Words whose letters stand apart, each as a word of its own: "T O T A L"."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from vrag.corpus.formats.pdf_text.raised_words import around_sides
from vrag.geometry import Box

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.corpus.formats.pdf_text.raised_words import LayerWord

MIN_RUN = 4
"""Letters, figures and signs of a run from which they may be words."""
MIN_LETTERS = 5
"""Letters of the words of a run: fewer are choices, variables or initials."""
MAX_GAP = 1.3
"""Space between two letters of a word, in heights of the letters."""
REGULAR = 1.7
"""Space between two letters by the median one, from which a word ends."""
OTHER_SPACING = 1.5
"""Space between letters by that of the letters before them, from which they are set apart in another way."""
MAX_TURNED_SPACE = 0.28
"""Usual space between letters of turned text, in heights, up to which they are not set apart.

PDFium has each of them as a line where they are drawn one by one."""
MIN_SPACES = 3
"""Spaces in a row that show how letters are set apart."""
MAX_CUT_RUN = 400
"""Letters of a run beyond which it is not cut where the spaces change."""
_SPACED = re.compile(r"(?<!\S)\S \S \S \S(?!\S)")
_LETTER = re.compile(r"[^\W_\u0590-\uffff]|[.,:;%()'’-]")
_WORD = re.compile(r"[(]?([A-ZÀ-Þ]{2,}|[A-ZÀ-Þ]?[a-zß-ÿ]+)[.,:;)]?")
_VOWEL = re.compile(r"[aeiouäöüéèáíóúAEIOUÄÖÜÉÈÁÍÓÚ]")
_GROUPED_NUMBER = re.compile(r"\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?%?|\d+[.,]\d+%?")


def join_spaced_letters(words: Sequence[LayerWord]) -> list[LayerWord]:
    """Return words with those that are set letter by letter joined."""
    if not _SPACED.search(" ".join(word.text for word in words)):
        return list(words)
    joined: list[LayerWord] = []
    for run in _list_runs(words):
        joined += _join_run(run) if len(run) >= MIN_RUN else run
    return joined


def _list_runs(words: Sequence[LayerWord]) -> Iterator[list[LayerWord]]:
    """Yield words in runs of single letters that stand beside each other; others alone."""
    run: list[LayerWord] = []
    for word in words:
        is_letter = len(word.text) == 1 and word.base is None and _LETTER.match(word.text) is not None
        if run and not (is_letter and _follows(run[-1], word)):
            yield run
            run = []
        run.append(word)
        if not is_letter:
            yield run
            run = []
    if run:
        yield run


def _follows(before: LayerWord, word: LayerWord) -> bool:
    if before.turn != word.turn:
        return False
    height = max(before.upright[3] - before.upright[1], word.upright[3] - word.upright[1])
    is_beside = min(before.upright[3], word.upright[3]) > max(before.upright[1], word.upright[1]) - height
    return is_beside and 0 < word.upright[0] - before.upright[2] < 4 * MAX_GAP * height


def _join_run(run: Sequence[LayerWord]) -> list[LayerWord]:
    """Return the words of a run; the letters themselves if they are none.

    A run is cut where letters with typed spaces meet others that their font sets apart.
    """
    gaps = [after.upright[0] - before.upright[2] for before, after in pairwise(run)]
    if run[0].turn and median(gaps) <= MAX_TURNED_SPACE * _height_of(run):
        return list(run)
    best = _group_letters(run, gaps)
    for cut in _list_cuts(gaps):
        first, rest = _group_letters(run[:cut], gaps[: cut - 1]), _group_letters(run[cut:], gaps[cut:])
        parts = [*first, *rest]
        if first and rest and (not best or _count_all(parts) > _count_all(best)):
            best = parts
    if not best:
        return list(run)
    joined = list(map(_join, best))
    return [joined[0], *(replace(word, glue=" ") for word in joined[1:])]


def _list_cuts(gaps: Sequence[float]) -> Iterator[int]:
    """Yield the letters of a run at which the spaces between letters become wider or narrower.

    The space that a font adds stands behind its letters.
    """
    if len(gaps) >= MAX_CUT_RUN:
        return
    for cut in range(MIN_SPACES, len(gaps) - MIN_SPACES + 1):
        before, after = sorted(gaps[cut - MIN_SPACES : cut]), sorted(gaps[cut : cut + MIN_SPACES])
        is_wider = after[0] > OTHER_SPACING * before[MIN_SPACES // 2]
        is_narrower = OTHER_SPACING * after[MIN_SPACES // 2] < before[0]
        if is_wider or is_narrower:
            yield cut


def _group_letters(run: Sequence[LayerWord], gaps: Sequence[float]) -> list[Sequence[LayerWord]]:
    """Return the letters of each word of a run; nothing if they are none."""
    usual = median(gaps)
    if usual > MAX_GAP * _height_of(run):
        return []
    groups = [[run[0]]]
    for gap, word in zip(gaps, run[1:], strict=True):
        if gap > REGULAR * usual:
            groups.append([])
        groups[-1].append(word)
    is_text = _count_all(groups) >= MIN_LETTERS or all(
        _GROUPED_NUMBER.fullmatch(_text_of(group)) for group in groups
    )
    return list(groups) if is_text else []


def _height_of(run: Sequence[LayerWord]) -> float:
    return max(word.upright[3] - word.upright[1] for word in run)


def _text_of(group: Sequence[LayerWord]) -> str:
    return "".join(word.text for word in group)


def _count_all(groups: Sequence[Sequence[LayerWord]]) -> int:
    """Return the number of letters of all words."""
    return sum(_count_letters(_text_of(group)) for group in groups)


def _count_letters(text: str) -> int:
    """Return the number of letters of a word; 0 if it cannot be one."""
    match = _WORD.fullmatch(text)
    if match is None or not _VOWEL.search(text):
        return 0
    steps = {ord(after) - ord(before) for before, after in pairwise(match[1].upper())}
    return 0 if steps == {1} else len(match[1])


def _join(group: Sequence[LayerWord]) -> LayerWord:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    return replace(
        first,
        text=_text_of(group),
        end=last.end,
        sides=around_sides([word.sides for word in group]),
        upright=around_sides([word.upright for word in group]),
        box=Box.around([word.box for word in group]),
    )
