"""Hyphens of compounds that stand at the end of a printed line: "one-" and "concept".

A PDF file does not say whether such a hyphen is part of the word; the document itself does.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from vrag.corpus.formats.libreoffice.xml_parts import shown_text
from vrag.item_facts import move_places

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

    from vrag.types import Item

HYPHENS = "-\u2010\u2011"
MAX_COMPOUNDS = 50_000
MAX_COMPOUND_CHARS = 80
_WORD = re.compile(rf"\w+(?:[{HYPHENS}]\w+)*")


def find_compounds(root: Element) -> dict[str, int]:
    """Return the compounds of a document without one of their hyphens, with its place: "oneconcept", 3.

    Those that the document also has as words without the hyphen are left out.
    """
    text = shown_text(root)
    found: dict[str, int] = {}
    words = {match[0] for match in _WORD.finditer(text)}
    compounds = sorted(word for word in words if any(hyphen in word for hyphen in HYPHENS))
    for compound in islice(compounds, MAX_COMPOUNDS):
        for place, letter in enumerate(compound[:MAX_COMPOUND_CHARS]):
            if letter in HYPHENS and len(compound) <= MAX_COMPOUND_CHARS:
                found[compound[:place] + compound[place + 1 :]] = place
    return {joined: place for joined, place in found.items() if joined not in words}


def restore_hyphens(item: Item, compounds: Mapping[str, int]) -> Item:
    """Put the hyphens of compounds back that were taken for those of a divided word."""
    joints = {word.start for before, word in pairwise(item.words) if before.end == word.start}
    places = [
        place
        for match in _WORD.finditer(item.text)
        if match[0] in compounds and (place := match.start() + compounds[match[0]]) in joints
    ]
    return _insert_hyphens(item, places) if places else item


def _insert_hyphens(item: Item, places: list[int]) -> Item:
    """Insert hyphens before places of the text, in ascending order, and move what stands behind them."""

    def start(at: int) -> int:
        return at + bisect_right(places, at)

    def end(at: int) -> int:
        return at + bisect_left(places, at)

    text = "-".join(item.text[first:last] for first, last in pairwise([0, *places, len(item.text)]))
    words = (replace(word, start=start(word.start), end=end(word.end)) for word in item.words)
    facts = move_places(item.facts, start, end)
    return replace(item, text=text, words=tuple(words), facts=facts)
