"""The tokenizer of lexical search: text to terms.

Letters are compared in Unicode's compatibility form, without case and without accents; English
plurals lose their ending; letters and digits are separated, so that 2023 finds FY2023; numbers stay
whole. Scripts that do not put spaces between words, and Korean, whose words carry particles, become
single characters and pairs of neighbours, which for Chinese is as good as segmentation into words
(Nie, Gao, Zhang and Zhou 2000, "On the use of words and n-grams for Chinese information retrieval").
"""

from __future__ import annotations

import re
import unicodedata

STOP_WORDS = frozenset(
    # Lucene's English list
    "a an and are as at be but by for if in into is it no not of on or such that the their then there "
    "these they this to was will with "
    # words of questions
    "what which who whom whose when where why how many much do does did has have had from were been "
    "its you your me please according can could should would than i we our us".split()
)
"""Words that say little about the subject of a query."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u1100-\u11ff\u3131-\u318f\uac00-\ud7af"  # Korean
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_MARKS = "\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0963\u0981-\u0dff"
"""Vowel signs and other marks that belong to the letter before; of Indic scripts the whole blocks."""

_TERM = re.compile(
    rf"(?P<run>[{_UNSPACED}]+(?:\s+[{_UNSPACED}]+)*)"
    rf"|(?P<number>\d{{1,3}}(?:,\d{{3}})+(?![\d,])|\d+(?:[.,]\d+)*)"
    rf"|(?:[^\W\d_{_UNSPACED}]+[{_MARKS}]*)+"
)
_ACCENTS = re.compile("[\u0300-\u036f]+")


def terms(text: str) -> list[str]:
    """Return the terms of a text, in its order, stop words included.

    >>> terms("The companies' revenues: 1,874 million in FY2023 (+10.5%)")
    ['the', 'company', 'revenue', '1874', 'million', 'in', 'fy', '2023', '10.5']
    >>> terms("２０２３年 Ｃａｆé")
    ['2023', '年', 'cafe']
    >>> terms("营业收入")
    ['营', '营业', '业', '业收', '收', '收入', '入']
    """
    result: list[str] = []
    for match in _TERM.finditer(_fold(text)):
        if match["run"] is not None:
            run = "".join(match["run"].split())
            result += [run[at : at + n] for at in range(len(run)) for n in (1, 2) if at + n <= len(run)]
        elif match["number"] is not None:
            groups = match["number"].split(",")
            is_grouped = len(groups) > 1 and all(len(group) == 3 for group in groups[1:])
            result.append("".join(groups) if is_grouped else match["number"])
        else:
            result.append(_singular(match[0]))
    return result


def is_word(term: str) -> bool:
    """Check whether a term is a word or number between spaces, and not a stop word."""
    return term not in STOP_WORDS and _TERM.match(term)["run"] is None  # pyright: ignore[reportOptionalSubscript]


def _fold(text: str) -> str:
    """Compatibility form without case and accents."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", bare).casefold()


def _singular(word: str) -> str:
    """Remove the plural ending: the S stemmer of Harman 1991, "How effective is suffixing?".

    It keeps words in -aes, -ees and -oes; here they lose their s like others, since people search for
    employees and fees.

    >>> [_singular(word) for word in ("countries", "bars", "fees", "glass", "gas")]
    ['country', 'bar', 'fee', 'glass', 'gas']
    """
    if len(word) <= 3 or not word.endswith("s") or word.endswith(("us", "ss")) or word in STOP_WORDS:
        return word
    return word[:-3] + "y" if word.endswith("ies") and not word.endswith(("eies", "aies")) else word[:-1]
