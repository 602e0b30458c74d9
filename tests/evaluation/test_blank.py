from __future__ import annotations

from vrag.evaluation.retrieval import BlankSearcher
from vrag.testing import tiny_corpus
from vrag.types import Query


def test_blanked_pages_are_found_as_before_and_show_nothing() -> None:
    corpus = tiny_corpus()
    blank, item = BlankSearcher(corpus), corpus.items[1]
    assert blank.version != corpus.version
    assert blank.search([Query("passengers")], 3) == corpus.search([Query("passengers")], 3)
    assert blank.item(item.id) == item
    seen, white = corpus.image(item.id), blank.image(item.id)
    assert seen.getextrema() != white.getextrema()
    assert white.size == seen.size
    assert white.getcolors() == [(white.width * white.height, (255, 255, 255))]
