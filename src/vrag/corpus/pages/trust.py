"""Trust in a text layer: letters that no language writes so are compared with the picture of the page.

A layer may show letters right and store others: shifted alphabets, digits or private characters in their
place, one letter for all; or be a bad reading of a scan. Few letters in all languages make most of a text;
where they do not, or where many words are none, a line or two are read by OCR. A false alarm costs these.
Where the words of one font alone are none, a word or two of it are read, and its others if these differ.
Where the glyphs of a font are other figures than it says, a word or two of it decide as well.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rapidfuzz.fuzz import ratio

from vrag.corpus.ocr import WORD, read_strip
from vrag.corpus.pages.placed_text import PlacedText
from vrag.corpus.pages.segments import TextSegment, join_rows, split_lines
from vrag.geometry import Box
from vrag.types import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

    from vrag.corpus.pages.ink import Pixels


class PageFonts(NamedTuple):
    """Lookups of the fonts of a page."""

    find_fonts: Callable[[Iterable[Box]], Generator[int]]
    """Yields a number for the font of each word, by its box; 0 for none."""
    find_figures: Callable[[], Mapping[int, Mapping[str, str]]]
    """Returns by the number of a font the figure that it seems to draw for each that it stores."""


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
MIXED_PART = re.compile(r"[\d\u0370-\u04ff](?:(?<=[^\W\d_].)[^\W_]|(?<=[A-Za-z].)|(?=[A-Za-z]))")
"""Part of each such word, and of some others, which is found ten times as fast."""
MAX_MIXED = 0.2
"""How often that is found per word, above which a text is improbable."""
MAX_SYMBOLS = 0.25
"""Share of characters that are neither letters nor digits nor common punctuation, above which it is."""
FIRST_IDEOGRAPH, MIN_IDEOGRAPHS, MIN_IDEOGRAPH_STEP = "\u2e80", 20, 0.8
"""Characters that fill a square: where they follow each other at less of their height, they are drawn
as letters of another script."""
PUNCTUATION = frozenset(".,;:!?()[]{}-–—‐'’‘\"“”„«»/%&*+=<>|_•·…°€$£§@#~^©®™→←■□▪●○✓×±")
VOWELS_AND_FIGURES = frozenset("aeiouyAEIOUY0123456789")
MISREAD = re.compile(r"[0-9](?:(?<=[a-z][015])[a-z]|(?<=\b0)(?!th)[a-z]{2}|[OoIl][0-9])")
"""Part of a word as a bad reading of a picture has it: digits for letters, letters for digits."""
MARKS = "()\"'.,;:!?"
NO_VOWEL = re.compile(rf"[{MARKS}]*[A-Za-z][a-z]{{2,}}[{MARKS}]*")
"""Such a word, of which no letter is a vowel. Abbreviations in capitals are usual."""
ABBREVIATIONS = frozenset(
    "bldg bzw ftr html hrs http ltd mph mrs pcs pdf pts sgt str tbsp tsp vgl yrs".split()
)
MIN_MISREAD, MIN_MISREAD_SHARE = 2, 0.03
"""Different such words, and their share of all, from which their lines are compared."""
_LETTER = "A-Za-z\xaa-\u04ff"
ODD_SIGNS = re.compile(
    rf"[\xa1-\xbf,=>?\]^`](?:[\xa1-\xbf]{{2}}|(?<=[{_LETTER}].)[{_LETTER}]{{3}}(?![{_LETTER}0-9]))"
)
"""Part of a word as of figures that are stored as letters and signs, with a comma before three of them."""
THRICE = re.compile(rf"([{_LETTER}])(?<![iIwWxX])\1\1(?![{_LETTER}])")
FIGURES_ALONE = re.compile(rf"[{_LETTER}\xa1-\xbf,=>?\]^`]+")
"""A word of nothing but such letters and signs."""
MIN_WITH_THRICE = 5
"""Letters of a word that ends in one letter thrice, as 48,000 may be stored."""
MIN_ODD_LETTERS = 4
"""Letters of a word without a vowel that may be figures."""
MIN_FONT_LETTERS, MIN_SHARE_LETTERS = 6, 16
"""Letters of a font below which nothing is said of it, and below which not by its frequent letters."""
MIN_FREQUENT_IN_FONT, MIN_ODD_SHARE = 0.42, 0.4
"""Share of frequent letters below which a font with many letters is doubtful, fewer where it has few, and
share of letters in odd words from which it is."""
FIGURES = 16
"""Neighbouring characters among which figures and the signs between them are, in any shifted alphabet."""
STRIPS = 2
"""Lines that are compared."""
MAX_READ_RUNS = 40
"""Runs of words that are read one by one; where there are more, the whole page is."""
FIGURE = re.compile("[0-9]")
MIN_STRIP_LETTERS, MIN_RUN_LETTERS = 8, 4
"""Letters of a line, and of words of one font, from which it is compared."""
STEP = 29
"""Distance of the words that are looked up one after the other, so that they are from all of a page."""
MAX_LOOKED_UP, MIN_USUAL_LETTERS = 2000, 40
"""Words whose font is looked up, and letters of a font with which it is known to be a usual one."""
MIN_STRIP_SCORE = 0.85
"""Score of OCR from which a line that differs counts."""
MIN_SIMILARITY = 75.0
"""Likeness of the two readings, in per cent, below which they are different."""


def contradicts(pixels: Pixels, layer: PlacedText) -> bool:
    """Return whether the picture of a page says something else than improbable letters of its layer."""
    lines = _find_doubtful_lines(layer, pixels.shape[1] / pixels.shape[0])
    longest = _find_longest([line for line in lines if not line.angle], MIN_STRIP_LETTERS)
    if not longest and is_misread(layer.text):
        misread = [line for line in split_lines(layer) if MISREAD.search(line.text)]
        longest = _find_longest([line for line in misread if not line.angle], MIN_STRIP_LETTERS)
    verdicts = [_differs(pixels, line) for line in longest]
    return bool(verdicts) and all(verdicts)


def _find_longest(lines: Iterable[TextSegment], letters: int) -> list[TextSegment]:
    """Return the longest of some lines with so many letters, which are compared."""
    longest = sorted(lines, key=lambda line: _count_letters(line.text), reverse=True)[:STRIPS]
    return [line for line in longest if _count_letters(line.text) >= letters]


def is_misread(text: str) -> bool:
    """Return whether many words of a text are such as a bad reading of a picture has."""
    words = text.split()
    plain = {word.strip(MARKS).lower() for word in _without_vowels(words) if NO_VOWEL.fullmatch(word)}
    found = len(plain - ABBREVIATIONS) + len(set(MISREAD.findall(text)))
    return found >= MIN_MISREAD and found >= MIN_MISREAD_SHARE * len(words)


def may_have_figures(text: str) -> bool:
    """Return whether letters of a text may stand for figures: a long word without vowels, or two of them."""
    if ODD_SIGNS.search(text) or (_has_thrice(text) and THRICE.search(text)):
        return True
    odd = {letters for word in _without_vowels(text.split()) if (letters := _odd_letters(word))}
    return len(odd) > 1 or any(len(letters) >= MIN_FONT_LETTERS for letters in odd)


def _has_thrice(text: str) -> bool:
    """Return whether a text has a letter thrice in a row."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    found = codes[2:][(codes[2:] == codes[1:-1]) & (codes[1:-1] == codes[:-2])]
    return any(chr(code).isalpha() for code in np.unique(found).tolist())


def _odd_letters(word: str) -> str:
    """Return the letters of a word without vowels; "" if they are few, or an abbreviation in the plural."""
    letters = word.strip(MARKS)
    is_one = FIGURES_ALONE.fullmatch(letters)
    if not is_one or len(letters) < MIN_ODD_LETTERS or (letters[-1] == "s" and letters[:-1].isupper()):
        return ""
    return letters.lower()


def is_odd(word: str) -> bool:
    """Return whether a word may be figures that are stored as letters or signs."""
    if ODD_SIGNS.search(word) or (len(word) >= MIN_WITH_THRICE and THRICE.search(word)):
        return True
    return bool(_without_vowels([word]) and _odd_letters(word))


def is_very_odd(word: str) -> bool:
    """Return whether a word may hardly be anything else than figures that are stored as letters."""
    word = word.strip(MARKS)
    if not FIGURES_ALONE.fullmatch(word):
        return False
    if ODD_SIGNS.search(word) or (len(word) >= MIN_WITH_THRICE and THRICE.search(word)):
        return True
    return bool(_without_vowels([word])) and len(_odd_letters(word)) >= MIN_FONT_LETTERS


def _without_vowels(words: Iterable[str]) -> list[str]:
    """Return the words of ASCII letters and signs of which no letter is a vowel."""
    return [
        word for word in words if len(word) > 2 and VOWELS_AND_FIGURES.isdisjoint(word) and word.isascii()
    ]


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
    words = len(text.split())
    may_be_mixed = len(MIXED_PART.findall(text)) > MAX_MIXED * words
    return may_be_mixed and len(MIXED_WORD.findall(text)) > MAX_MIXED * words


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


def correct_fonts(pixels: Pixels, layer: PlacedText, fonts: PageFonts) -> PlacedText:
    """Return a text with the words of fonts that store other letters than they show as OCR reads them.

    Where it is not sure of some of them, no text: a figure by itself is too little ink to be read again, so
    the whole page is.

    Args:
        pixels: The picture of the page.
        layer: Its text.
        fonts: Lookups of its fonts.
    """
    if not may_have_figures(layer.text):
        return layer
    lines = split_lines(layer)
    doubtful = _list_doubtful_fonts(layer, fonts)
    wrong = {index for words in doubtful if _are_wrong(pixels, lines, words) for index in words}
    if not wrong and _are_wrong(pixels, lines, _list_very_odd(layer)):
        return PlacedText()
    runs = _list_runs(lines, wrong)
    if len(runs) > MAX_READ_RUNS:
        return PlacedText()
    if not runs:
        return layer
    for number, own in groupby(runs, key=lambda run: run.number):
        line = _rewrite_line(pixels, lines[number], [run.line for run in own])
        if line is None:
            return PlacedText()
        lines[number] = line
    return join_rows([line] for line in lines)


def correct_figures(pixels: Pixels, layer: PlacedText, fonts: PageFonts) -> PlacedText:
    """Return a text with the figures that its fonts draw, if OCR reads these and not those that are stored.

    Where it reads neither, no text: the whole page is read.
    """
    if not FIGURE.search(layer.text) or not (drawn := fonts.find_figures()):
        return layer
    texts = [layer.text[word.start : word.end] for word in layer.words]
    order = [index for index, text in enumerate(texts) if FIGURE.search(text)]
    with closing(fonts.find_fonts(layer.words[index].box for index in order[:MAX_LOOKED_UP])) as numbers:
        found = {index: drawn[font] for index, font in zip(order, numbers, strict=False) if font in drawn}
    corrected = _replace_figures(layer, found)
    likeness = _compare_figures(pixels, layer, corrected, found)
    if not found or likeness < 0:
        return layer
    return corrected if likeness and len(order) <= MAX_LOOKED_UP else PlacedText()


def _replace_figures(layer: PlacedText, found: Mapping[int, Mapping[str, str]]) -> PlacedText:
    """Return a text with the figures that are drawn, which are given by the indices of the words."""
    letters = list(layer.text)
    for index, shown in found.items():
        span = slice(layer.words[index].start, layer.words[index].end)
        letters[span] = layer.text[span].translate(str.maketrans(dict(shown)))
    return replace(layer, text="".join(letters))


def _compare_figures(
    pixels: Pixels, layer: PlacedText, corrected: PlacedText, words: Collection[int]
) -> float:
    """Compare what OCR reads in some words with their figures before and after they are corrected.

    Returns how much more the latter are alike: below 0 if less, 0 if OCR reads neither.
    """
    stored, drawn = (
        [run.line for run in _list_runs(split_lines(each), words)] for each in (layer, corrected)
    )
    pairs = sorted(zip(stored, drawn, strict=True), key=lambda pair: -len(FIGURE.findall(pair[0].text)))
    likeness = 0.0
    for before, after in pairs[:STRIPS]:
        text, score = _read_line(pixels, before)
        if score >= MIN_STRIP_SCORE:
            read = FIGURE.findall(text)
            likeness += ratio(read, FIGURE.findall(after.text)) - ratio(read, FIGURE.findall(before.text))
    return likeness


def _are_wrong(pixels: Pixels, lines: Sequence[TextSegment], words: Collection[int]) -> bool:
    """Return whether OCR reads something else in the places of some words, by their indices."""
    compared = _find_longest((run.line for run in _list_runs(lines, words)), MIN_RUN_LETTERS)
    return bool(compared) and all(_differs(pixels, line) for line in compared)


def _list_very_odd(layer: PlacedText) -> list[int]:
    """Return very odd words, whatever their font; none if they are all the same one."""
    texts = [layer.text[word.start : word.end] for word in layer.words]
    found = [index for index, text in enumerate(texts) if is_very_odd(text)]
    return found if len({texts[index].strip(MARKS).lower() for index in found}) > 1 else []


def _list_doubtful_fonts(layer: PlacedText, page_fonts: PageFonts) -> list[list[int]]:
    """Return the words of each font whose words are odd, as far as they are looked up.

    The fonts of odd words are looked at, until they have a few usual words too.
    """
    texts = [layer.text[word.start : word.end] for word in layer.words]
    odd = [index for index, text in enumerate(texts) if is_odd(text)]
    rest = sorted(set(range(len(texts))).difference(odd), key=lambda index: (index % STEP, index))
    order = [*odd, *rest][:MAX_LOOKED_UP]
    fonts: dict[int, list[int]] = {}
    if not odd:
        return []
    with closing(page_fonts.find_fonts(layer.words[index].box for index in order)) as found:
        for count, (index, font) in enumerate(zip(order, found, strict=False)):
            if count < len(odd):
                fonts.setdefault(font, [])
            elif not fonts:
                break
            if font not in fonts:
                continue
            fonts[font].append(index)
            if count >= len(odd) and _is_usual_font([texts[each] for each in fonts[font]]):
                del fonts[font]
    fonts.pop(0, None)
    return [sorted(words) for words in fonts.values() if is_doubtful_font([texts[each] for each in words])]


def is_doubtful_font(words: Sequence[str]) -> bool:
    """Return whether the words of a font, in any order, are such as one has that stores other letters.

    >>> is_doubtful_font(["VQRLPPP", "TXLUPP"]), is_doubtful_font(["HTML", "HTML"])
    (True, False)
    """
    letters = [letter for word in words for letter in word if _is_letter(letter)]
    number = len(letters)
    odd = [word for word in words if is_odd(word)]
    if not odd or number < MIN_FONT_LETTERS:
        return False
    in_odd = sum(map(_is_letter, "".join(odd)))
    if in_odd >= MIN_ODD_SHARE * number and may_have_figures(" ".join(odd)):
        return True
    several = len({word.strip(MARKS) for word in words}) > 1
    is_narrow = several and ord(max(letters)) - ord(min(letters)) < FIGURES
    share = frequent_share(" ".join(words), MIN_SHARE_LETTERS)
    return is_narrow or share < MIN_FREQUENT_IN_FONT - 0.5 / math.sqrt(number)


def _is_letter(character: str) -> bool:
    """Return whether a character is a letter or a sign beyond ASCII, which figures may be stored as."""
    return character.isalpha() or character > "\xa0"


def _is_usual_font(words: Sequence[str]) -> bool:
    """Return whether some words of a font tell that it stores what it shows."""
    letters = sum(map(len, words))
    in_odd = sum(len(word) for word in words if is_odd(word))
    is_known = letters >= MIN_USUAL_LETTERS and in_odd < MIN_ODD_SHARE / 2 * letters
    return is_known and frequent_share(" ".join(words), MIN_SHARE_LETTERS) >= MIN_FREQUENT


class _FontRun(NamedTuple):
    """Words beside each other in a line."""

    number: int
    """Index of the line."""
    line: TextSegment
    """The words; their positions are those in the whole line."""


def _list_runs(lines: Sequence[TextSegment], words: Collection[int]) -> list[_FontRun]:
    """Return the runs of neighbours among some words of a text, by their indices in it, in order."""
    runs: list[_FontRun] = []
    first = 0
    for number, line in enumerate(lines):
        found = groupby(enumerate(line.words, first), key=lambda entry: entry[0] in words)
        runs += [
            _FontRun(number, _cut(line, [word for _, word in own])) for is_wanted, own in found if is_wanted
        ]
        first += len(line.words)
    return runs


def _cut(line: TextSegment, words: Sequence[Word]) -> TextSegment:
    bounds = Box.around([word.box for word in words]).as_tuple()
    return TextSegment(line.text[words[0].start : words[-1].end], tuple(words), bounds, line.angle)


def _rewrite_line(pixels: Pixels, line: TextSegment, runs: Sequence[TextSegment]) -> TextSegment | None:
    """Return a line with runs of its words as OCR reads them; None if it is not sure of one."""
    text, position = "", 0
    words: list[Word] = []
    for run in runs:
        reading, score = _read_line(pixels, run)
        if not reading.strip() or score < MIN_STRIP_SCORE:
            return None
        start, end = run.words[0].start, run.words[-1].end
        words += [_move(word, len(text) - position) for word in line.words if position <= word.start < start]
        text += line.text[position:start]
        words += [_move(word, len(text)) for word in _place_words(reading, run)]
        text += reading
        position = end
    words += [_move(word, len(text) - position) for word in line.words if word.start >= position]
    return TextSegment(text + line.text[position:], tuple(words), line.bounds, line.angle)


def _move(word: Word, distance: int) -> Word:
    return Word(word.start + distance, word.end + distance, word.box)


def _place_words(text: str, run: TextSegment) -> list[Word]:
    """Return the words of a text that was read in the place of a run, with their shares of its box."""
    spans = [match.span() for match in WORD.finditer(text)]
    if len(spans) == len(run.words):
        return [Word(*span, word.box) for span, word in zip(spans, run.words, strict=True)]
    left, top, right, bottom = run.bounds
    if run.angle:
        return [Word(*span, Box.unit(left, top, right, bottom)) for span in spans]
    step = (right - left) / max(1, len(text))
    return [
        Word(start, end, Box.unit(left + start * step, top, left + end * step, bottom))
        for start, end in spans
    ]


def _differs(pixels: Pixels, line: TextSegment) -> bool:
    """Return whether OCR surely reads something else in the place of a line."""
    text, score = _read_line(pixels, line)
    if score < MIN_STRIP_SCORE:
        return False
    is_better = MISREAD.search(line.text) is not None and not MISREAD.search(text)
    return is_better or ratio(_letters(text), _letters(line.text)) < MIN_SIMILARITY


def _read_line(pixels: Pixels, line: TextSegment) -> tuple[str, float]:
    """Read a line by OCR: its text and its score."""
    height, width = pixels.shape[:2]
    left, top, right, bottom = line.bounds
    across, down = (0.15 * (right - left), 0.0) if line.angle % 180 else (0.0, 0.15 * (bottom - top))
    rows = slice(int(max(0.0, top - down) * height), int(min(1.0, bottom + down) * height) + 1)
    columns = slice(max(0, int((left - across) * width) - 4), int((right + across) * width) + 5)
    return read_strip(np.rot90(pixels[rows, columns], line.angle // 90))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _count_letters(text: str) -> int:
    return sum(character.isalnum() or character > "\xa0" for character in text)
