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
_Square = tuple[float, float]
"""Number of a column and of a row, each as wide as `CELL`."""
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
    seen: dict[str, dict[_Square, Sides]] = {}
    for word in words:
        places = seen.get(word.text)
        if places is None:
            places = seen[word.text] = {}
        elif _has_double(places, word.sides):
            continue
        places[word.sides[0] // CELL, word.sides[1] // CELL] = word.sides
        kept.append(word)
    return kept


def _has_double(places: Mapping[_Square, Sides], sides: Sides) -> bool:
    """Return whether a word stands upon one of the same text, by their squares."""
    left, bottom, _, top = sides
    # Its double may be a little higher than itself.
    reach = min(CELL, 2 * MAX_SHIFT * (top - bottom))
    columns = {(left + shift) // CELL for shift in (-reach, 0, reach)}
    rows = {(bottom + shift) // CELL for shift in (-reach, 0, reach)}
    found = (places.get((column, row)) for column in columns for row in rows)
    return any(other is not None and _is_double(other, sides) for other in found)


def _is_double(first: Sides, second: Sides) -> bool:
    reach = min(CELL, MAX_SHIFT * (first[3] - first[1]))
    return all(abs(a - b) <= reach for a, b in zip(first, second, strict=True))


def _shorten(layer: Layer, word: LayerWord, length: int) -> None:
    """Leave out the repetitions of a word that PDFium joined with its doubles; it has `length` characters."""
    first, second = (layer.rects(word.start + at * length, word.start + (at + 1) * length) for at in range(2))
    if first and second and _is_double(first[0], second[0]):
        word.text = word.text[:length]
