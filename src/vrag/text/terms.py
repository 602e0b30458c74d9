"""The terms of a text: its words in a form in which those of a question and those of a page can be compared.

Letters are folded and inflection is left out of a term. Words of scripts with spaces become light stems;
runs of Chinese, Japanese and Korean characters become overlapping pairs, which need no dictionary. Morphology
only: no synonyms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from vrag.text.folding import DIGIT_SEPARATORS, INVISIBLE, MARKS, fold, fold_case

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_TOKEN = re.compile(
    rf"""(?P<skip>(?<=\w)['’]s\b) | (?P<run>[{CJK}]+) | \d+(?:[.,{DIGIT_SEPARATORS}]\d+)+
    | (?:\b[A-Z]\.){{2,}} | [^\W_{CJK}]+(?:[{MARKS}{INVISIBLE}]+[^\W_{CJK}]+)*[{MARKS}]*""",
    re.VERBOSE,
)
_CHARACTER = re.compile("[\uff66-\uff9d][\uff9e\uff9f]|.", re.DOTALL)
"""A character of Chinese, Japanese or Korean; a narrow letter with its mark is one."""
_ORDINAL = re.compile(r"^(\d+)(?:st|nd|rd|th)$")
_NUMBER = re.compile(r"\d[\d.]*")
_VOWEL = re.compile(r"[aeiouy]")

STOP_WORDS = frozenset(
    """a about according after all also among an and any are as at be been before being both but by can
    could did do does doing down during each either every few following for from given had has
    have having he her here him his how i if in include included includes including into is it
    its itself just like look looks many me mention mentioned more most much my name named no
    nor not of on one only or other our out over own per please provide same say says shall she
    should show shown shows so some such tell than that the their them then there these they
    this those through to too under until up us use used uses using very was we were what when
    where whether which while who whom whose why will with would you your""".split()
)
"""English words that say nothing about what a question looks for."""


class Token(NamedTuple):
    """One term of a text: `text[start:end]`, folded to `term`."""

    term: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Return the terms of a text in order, stop words included.

    >>> [token.term for token in tokens("Studies of 1,234 gross margins")]
    ['study', 'of', '1234', 'gross', 'margin']
    >>> [token.term for token in tokens("总收入")]
    ['总收', '收入']
    """
    terms: list[Token] = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if match["skip"]:
            continue
        if match["run"] and end - start > 1:
            terms += _pair_characters(text, start, end)
        else:
            terms.append(Token(stem(match.group()), start, end))
    return terms


def _pair_characters(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the pairs of neighbours in a run of Chinese, Japanese or Korean, or its only character."""
    spans = [match.span() for match in _CHARACTER.finditer(text, start, end)]
    for (first, _), (_, last) in pairwise(spans) if len(spans) > 1 else [(spans[0], spans[0])]:
        yield Token(fold(text[first:last]), first, last)


def is_cjk(text: str) -> bool:
    """Return whether the text starts with a Chinese, Japanese or Korean character."""
    return re.match(f"[{CJK}]", text) is not None


def is_number(term: str) -> bool:
    """Return whether a term is a plain number."""
    return _NUMBER.fullmatch(term) is not None


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the folded word without thousands separators and the commonest English endings.

    >>> [stem(word) for word in ("Companies", "cited", "running", "1,383", "21st", "loss")]
    ['company', 'cit', 'run', '1383', '21', 'loss']
    """
    folded = fold(word).rstrip(".")
    if folded in STOP_WORDS and not word.isascii():  # no English word, as Vietnamese "đo"
        return fold_case(word)
    if folded[:1].isdigit():
        return _ORDINAL.sub(r"\1", folded.replace(",", ""))
    word = folded.replace(".", "")
    if not word.isascii():
        return word

    # The s of a plural or of a verb.
    if len(word) >= 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies"):
            word = word[:-3] + "y"
        else:
            word = word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]

    # The endings ed, ing and ly, and a final e, where a stem with a vowel and three letters remains.
    for ending in ("ing", "ed", "ly"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            word = rest[:-1] if doubled else rest
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def one_edit_apart(a: str, b: str) -> bool:
    """Return whether one inserted, lost, changed or swapped letter turns one word into the other.

    >>> one_edit_apart("goverment", "government"), one_edit_apart("fourth", "fifth")
    (True, False)
    """
    if abs(len(a) - len(b)) > 1:
        return False
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    left, right = a[same:], b[same:]
    swapped = left[1::-1] + left[2:] if len(left) > 1 else left
    return left[1:] == right[1:] or left[1:] == right or left == right[1:] or swapped == right
