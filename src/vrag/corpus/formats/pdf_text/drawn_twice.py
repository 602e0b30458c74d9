"""Words that a page draws several times in one place, to make them bold or give them a shadow."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from vrag.corpus.formats.pdf_text.raised_words import MAX_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.corpus.formats.pdf_text.raised_words import LayerWord
    from vrag.corpus.formats.pdfium_text import Layer, Sides

MAX_SHIFT = 0.2
"""Distance of a word from its double, in heights of the word."""
CELL = 3.0
"""Greatest distance, in points."""
_REPEATED = re.compile(r"(.+?)\1+")


def leave_out_doubles(layer: Layer, words: list[LayerWord]) -> list[LayerWord]:
    """Return the words of a page without those that stand upon the same word drawn before."""
    if not _may_have_doubles(words):
        return words
    kept = _without_doubles(words)
    for word in kept:
        if len(word.text) <= MAX_LENGTH and (match := _REPEATED.fullmatch(word.text)):
            _shorten(layer, word, len(match[1]))
    return kept


def _may_have_doubles(words: Sequence[LayerWord]) -> bool:
    """Return whether a word stands in the same square as another one, in one of two grids."""
    counts = Counter([word.text for word in words])
    repeated = [(word.text, *word.sides[:2]) for word in words if counts[word.text] > 1]
    return any(
        len({(text, (left + shift) // CELL, (bottom + shift) // CELL) for text, left, bottom in repeated})
        < len(repeated)
        for shift in (0, CELL / 2)
    )


def _without_doubles(words: Sequence[LayerWord]) -> list[LayerWord]:
    kept: list[LayerWord] = []
    seen: dict[str, dict[tuple[int, int], Sides]] = {}
    for word in words:
        column, row = int(word.sides[0] // CELL), int(word.sides[1] // CELL)
        places = seen.get(word.text)
        if places is None:
            places = seen[word.text] = {}
        elif _has_double(places, column, row, word.sides):
            continue
        places[column, row] = word.sides
        kept.append(word)
    return kept


def _has_double(places: Mapping[tuple[int, int], Sides], column: int, row: int, sides: Sides) -> bool:
    """Return whether a word stands upon one in its square or in one beside it."""
    for across in (column - 1, column, column + 1):
        for down in (row - 1, row, row + 1):
            other = places.get((across, down))
            if other is not None and _is_double(other, sides):
                return True
    return False


def _is_double(first: Sides, second: Sides) -> bool:
    reach = min(CELL, MAX_SHIFT * (first[3] - first[1]))
    return all(abs(a - b) <= reach for a, b in zip(first, second, strict=True))


def _shorten(layer: Layer, word: LayerWord, length: int) -> None:
    """Leave out the repetitions of a word that PDFium joined with its doubles; it has `length` characters."""
    first, second = (layer.rects(word.start + at * length, word.start + (at + 1) * length) for at in range(2))
    if first and second and _is_double(first[0], second[0]):
        word.text = word.text[:length]
