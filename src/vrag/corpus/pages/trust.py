"""Trust in a text layer: letters that no language writes so are compared with the picture of the page.

A layer may show letters right and store others: shifted alphabets, digits or private characters in their
place, one letter for all. Few letters in all languages make most of a text; where they do not, a line or two
are read by OCR. A false alarm costs these.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz.fuzz import ratio

from vrag.corpus.ocr import read_strip
from vrag.corpus.pages.segments import split_lines

if TYPE_CHECKING:
    from vrag.corpus.pages.ink import Pixels
    from vrag.corpus.pages.placed_text import PlacedText
    from vrag.corpus.pages.segments import TextSegment

MAX_CHARACTERS = 2000
"""Beginning of a text that is looked at."""
MIN_LETTERS = 40
"""Letters below which their shares say nothing."""
FREQUENT_LETTERS = {
    "LATIN": frozenset("eaionrts"),
    "CYRILLIC": frozenset("оеаинтсрі"),
    "GREEK": frozenset("αοιετσνης"),
}
"""By script: letters that make half or more of a text in each of its languages."""
MIN_FREQUENT, MIN_CERTAIN, MIN_FREQUENT_IN_LINE = 0.46, 0.56, 0.38
"""Shares of these letters: below the first a text is improbable, above the second it is not. Between them,
its lines are looked at, which are improbable below the third. English has 0.63, Polish 0.51; a shifted
English 0.30 to 0.40."""
MIN_LINES, MIN_LINE_LETTERS = 2, 25
"""Improbable lines that make a part of a text improbable, and their letters."""
MAX_ONE_LETTER = 0.35
"""Share of one letter, of any script, above which a text is improbable."""
MIN_KNOWN = 0.8
"""Share of letters in these scripts from which that is asked."""
MIN_ALPHABETIC = 0.1
"""Share of letters among letters and digits below which a text is improbable."""
MIXED_WORD = re.compile(r"[^\W\d_]\d+[^\W\d_]|[A-Za-z][\u0370-\u04ff]|[\u0370-\u04ff][A-Za-z]")
"""Digits between letters, or letters of two alphabets side by side."""
MAX_MIXED = 0.2
"""How often that is found per word, above which a text is improbable."""
MAX_SYMBOLS = 0.25
"""Share of characters that are neither letters nor digits nor common punctuation, above which it is."""
FIRST_IDEOGRAPH, MIN_IDEOGRAPHS, MIN_IDEOGRAPH_STEP = "\u2e80", 20, 0.8
"""Characters that fill a square: where they follow each other at less of their height, they are drawn
as letters of another script."""
PUNCTUATION = frozenset(".,;:!?()[]{}-–—‐'’‘\"“”„«»/%&*+=<>|_•·…°€$£§@#~^©®™→←■□▪●○✓×±")
STRIPS = 2
"""Lines that are compared."""
MIN_STRIP_LETTERS = 8
MIN_STRIP_SCORE = 0.85
"""Score of OCR from which a line that differs counts."""
MIN_SIMILARITY = 75.0
"""Likeness of the two readings, in per cent, below which they are different."""


def contradicts(pixels: Pixels, layer: PlacedText) -> bool:
    """Return whether the picture of a page says something else than improbable letters of its layer."""
    lines = [
        line for line in _find_doubtful_lines(layer, pixels.shape[1] / pixels.shape[0]) if not line.angle
    ]
    longest = sorted(lines, key=lambda line: _count_letters(line.text), reverse=True)[:STRIPS]
    verdicts = [_differs(pixels, line) for line in longest if _count_letters(line.text) >= MIN_STRIP_LETTERS]
    return bool(verdicts) and all(verdicts)


def _find_doubtful_lines(layer: PlacedText, aspect: float) -> list[TextSegment]:
    """Return the lines of a layer to compare with a picture; `aspect` is its width over its height."""
    text = layer.text[:MAX_CHARACTERS]
    share = frequent_share(text)
    if share < MIN_FREQUENT or is_improbable(text) or _has_narrow_ideographs(layer, aspect):
        return split_lines(layer)
    if share >= MIN_CERTAIN:
        return []
    lines = [line for line in split_lines(layer) if _count_letters(line.text) >= MIN_LINE_LETTERS]
    found = [line for line in lines if frequent_share(line.text, MIN_LINE_LETTERS) < MIN_FREQUENT_IN_LINE]
    return found if len(found) >= MIN_LINES else []


def is_improbable(text: str) -> bool:
    """Return whether the characters of a text are such as no language writes, whatever their alphabet."""
    visible = {letter: count for letter, count in Counter(text.lower()).items() if not letter.isspace()}
    total = sum(visible.values())
    if total < MIN_LETTERS:
        return False
    letters = {letter: count for letter, count in visible.items() if letter.isalpha()}
    number = sum(letters.values())
    digits = sum(count for letter, count in visible.items() if letter.isdigit())
    marks = sum(count for letter, count in visible.items() if letter in PUNCTUATION)
    if total - number - digits - marks > MAX_SYMBOLS * total:
        return True
    if number + digits >= MIN_LETTERS and number < MIN_ALPHABETIC * (number + digits):
        return True
    if number >= MIN_LETTERS and max(letters.values()) > MAX_ONE_LETTER * number:
        return True
    return len(MIXED_WORD.findall(text)) > MAX_MIXED * len(text.split())


def frequent_share(text: str, least: int = MIN_LETTERS) -> float:
    """Return the share of a script's frequent letters; 1 where letters are few, or of scripts without any.

    >>> round(frequent_share("the price of the warehouse is stated in the deed of sale"), 2)
    0.69
    """
    known = frequent = number = 0
    for letter, count in Counter(text.lower()).items():
        if letter.isalpha():
            number += count
            script, base = _script_of(letter)
            if script in FREQUENT_LETTERS:
                known += count
                frequent += count * (base in FREQUENT_LETTERS[script])
    return frequent / known if number >= least and known > MIN_KNOWN * number else 1.0


@cache
def _script_of(letter: str) -> tuple[str, str]:
    """Return the script of a letter, and the letter without accents."""
    base = unicodedata.normalize("NFD", letter)[0]
    return unicodedata.name(base, "").split(" ")[0], base


def _has_narrow_ideographs(layer: PlacedText, aspect: float) -> bool:
    """Return whether ideographs follow each other more closely than they are high; `aspect` as above."""
    boxes = [word.box for word in layer.words if layer.text[word.start] >= FIRST_IDEOGRAPH]
    steps = sorted(
        (after.x1 - box.x1) * aspect
        for box, after in pairwise(boxes)
        if box.x1 < after.x1 and box.y2 > after.y1
    )
    heights = sorted(box.y2 - box.y1 for box in boxes)
    if len(steps) < MIN_IDEOGRAPHS:
        return False
    return steps[len(steps) // 2] < MIN_IDEOGRAPH_STEP * heights[len(heights) * 9 // 10]


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
