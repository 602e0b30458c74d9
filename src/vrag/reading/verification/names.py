"""Names of an answer on the pages of its evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vrag.reading.text_layout import STOP_WORDS, is_cjk, tokens
from vrag.reading.verification.source_text import SourceText

MIN_SHARE, MIN_WHOLE_SHARE = 0.5, 0.8
"""Share of the pairs of characters of a Chinese or Japanese name that must stand together: of one that was
cut out of a sentence, and of one that is the whole answer."""


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A range of the flat text of a page."""

    page: int
    """Number of the page among those of the evidence."""
    statement: int
    start: int
    end: int


def find_name(
    name: str,
    texts: Sequence[SourceText],
    resolve: Callable[[str], tuple[str, ...]],
    share: float = MIN_WHOLE_SHARE,
) -> Iterator[TextPlace]:
    """Yield the places that have all words of a name near each other, in any order.

    `resolve` gives the words of the pages that a word may stand for. Of a name in Chinese or Japanese, a
    share of its pairs of characters is enough, since where it begins and ends is not written.
    """
    terms = [token.term for token in tokens(name)]
    words = list(dict.fromkeys(term for term in terms if term not in STOP_WORDS)) or terms
    if not words:
        return
    forms = [frozenset(resolve(word)) for word in words]
    wide = is_cjk(name)
    needed = len(forms) if not wide else max(math.ceil(share * len(forms)), 1)
    if sum(map(bool, forms)) < needed:
        return
    for page, text in enumerate(texts):
        found = [sorted(at for form in some for at in text.places.get(form, ())) for some in forms]
        present = [places for places in found if places]
        if len(present) < needed:
            continue
        reach = len(terms) + 2
        for anchor in min(present, key=len) if not wide else sorted({at for some in present for at in some}):
            near = [min(some, key=lambda at: abs(at - anchor)) for some in present]
            near = [at for at in near if abs(at - anchor) <= reach]
            if len(near) >= needed:
                start = min(text.tokens[at].start for at in near)
                end = max(text.tokens[at].end for at in near)
                yield TextPlace(page, text.statement_at(start), start, end)
