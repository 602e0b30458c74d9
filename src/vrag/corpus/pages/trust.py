"""Trust in a text layer: letters that no language writes so are compared with the picture of the page.

A layer may show letters right and store others: shifted alphabets, digits or private characters in their
place, one letter for all. Few letters in all languages make most of a text; where they do not, a line or two
are read by OCR. A false alarm costs these.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz.fuzz import ratio

from vrag.corpus.ocr import read_strip
from vrag.corpus.pages.segments import split_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.corpus.pages.ink import Pixels
    from vrag.corpus.pages.segments import PageWords, TextSegment

MAX_CHARACTERS = 2000
"""Beginning of a text that is looked at."""
MIN_LETTERS = 40
"""Letters below which their shares say nothing."""
FREQUENT_LETTERS = {
    "LATIN": frozenset("eaionrts"),
    "CYRILLIC": frozenset("оеаинтсрівл"),
    "GREEK": frozenset("αοιετσνηςυρ"),
}
"""By script: letters that make half or more of a text in each of its languages."""
MIN_FREQUENT = 0.46
"""Share of these letters below which a text is improbable: English has 0.63, Polish 0.51; a shifted English
0.30 to 0.40."""
MAX_ONE_LETTER = 0.35
"""Share of one letter, of any script, above which a text is improbable."""
MIN_KNOWN = 0.8
"""Share of letters in these scripts from which that is asked."""
MIXED_WORD = re.compile(r"[^\W\d_]\d+[^\W\d_]")
MAX_MIXED = 0.2
"""Share of words with digits among their letters above which a text is improbable."""
MAX_SYMBOLS = 0.25
"""Share of characters that are neither letters nor digits nor common punctuation, above which it is."""
PUNCTUATION = frozenset(".,;:!?()[]{}-–—‐'’‘\"“”„«»/%&*+=<>|_•·…°€$£§@#~^©®™→←■□▪●○✓×±")
STRIPS = 2
"""Lines that are compared."""
MIN_STRIP_LETTERS = 8
MIN_STRIP_SCORE = 0.85
"""Score of OCR from which a line that differs counts."""
MIN_SIMILARITY = 50.0
"""Likeness of the two readings, in per cent, below which they are different."""


def is_improbable(text: str) -> bool:
    """Return whether the letters of a text are such as no language writes."""
    text = text[:MAX_CHARACTERS]
    counts = Counter(text.lower())
    visible = {letter: count for letter, count in counts.items() if not letter.isspace()}
    total = sum(visible.values())
    if total < MIN_LETTERS:
        return False
    symbols = sum(
        count for letter, count in visible.items() if not letter.isalnum() and letter not in PUNCTUATION
    )
    if symbols > MAX_SYMBOLS * total:
        return True
    letters = {letter: count for letter, count in visible.items() if letter.isalpha()}
    number = sum(letters.values())
    if number < MIN_LETTERS:
        return False
    if max(letters.values()) > MAX_ONE_LETTER * number:
        return True
    return _lacks_frequent(letters) or len(MIXED_WORD.findall(text)) > MAX_MIXED * len(text.split())


def _lacks_frequent(letters: Mapping[str, int]) -> bool:
    """Return whether the frequent letters of a script are rare, where most letters are of that script."""
    known = frequent = 0
    for letter, count in letters.items():
        base = unicodedata.normalize("NFD", letter)[0]
        script = unicodedata.name(base, "").split(" ")[0]
        if script in FREQUENT_LETTERS:
            known += count
            frequent += count * (base in FREQUENT_LETTERS[script])
    return known > MIN_KNOWN * sum(letters.values()) and frequent < MIN_FREQUENT * known


def contradicts(pixels: Pixels, layer: PageWords) -> bool:
    """Return whether the picture of a page says something else than its layer, in the lines compared."""
    lines = [line for line in split_lines(layer) if not line.angle]
    longest = sorted(lines, key=lambda line: _count_letters(line.text), reverse=True)[:STRIPS]
    verdicts = [_differs(pixels, line) for line in longest if _count_letters(line.text) >= MIN_STRIP_LETTERS]
    return bool(verdicts) and all(verdicts)


def reads_as(strip: Pixels, text: str) -> bool:
    """Return whether OCR reads a text in a part of a picture, more or less."""
    read, _ = read_strip(strip)
    return ratio(_letters(read), _letters(text)) >= MIN_SIMILARITY


def _differs(pixels: Pixels, line: TextSegment) -> bool:
    height, width = pixels.shape[:2]
    left, top, right, bottom = line.bounds
    margin = 0.15 * (bottom - top)
    rows = slice(int(max(0.0, top - margin) * height), int(min(1.0, bottom + margin) * height) + 1)
    strip = pixels[rows, max(0, int(left * width) - 4) : int(right * width) + 5]
    if strip.ndim == 2:
        strip = np.repeat(strip[:, :, np.newaxis], 3, axis=2)
    text, score = read_strip(strip[:, :, :3])
    return score >= MIN_STRIP_SCORE and ratio(_letters(text), _letters(line.text)) < MIN_SIMILARITY


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _count_letters(text: str) -> int:
    return sum(map(str.isalnum, text))
