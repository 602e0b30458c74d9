from __future__ import annotations

from dataclasses import replace

import pytest

from vrag.agent.evidence import Evidence, passage_evidence
from vrag.render.text_format import extent, list_places, place_name, where
from vrag.testing import page as make_page
from vrag.types import ItemFacts, ItemKind

EVIDENCE = Evidence(
    item="i", document="book.pdf", document_id="d", page=4, kind=ItemKind.PAGE, box=(0, 0, 0.5, 0.5)
)
PRINTED = EVIDENCE.model_copy(update={"page_label": "IV"})


def test_a_citation_names_the_printed_number_where_it_is_another() -> None:
    assert place_name(EVIDENCE) == "part of page 4"
    assert place_name(PRINTED) == "part of page 4 (printed IV)"
    assert where(PRINTED) == "Page 4 (printed IV)"
    assert extent(PRINTED).startswith("Page 4 (printed IV), 0–50 % across")
    assert list_places([EVIDENCE, PRINTED]) == "book.pdf, page 4, page 4 (printed IV)"


@pytest.mark.parametrize(("label", "shown"), [("iv", "iv"), ("](http://a) <b>\x1b[1m", "(http://a) b1m")])
def test_evidence_has_the_printed_number_without_characters_of_markup(label: str, shown: str) -> None:
    item = replace(make_page("book.pdf", 4, "words"), facts=ItemFacts(label=label))
    assert passage_evidence(item, "Text 1").evidence.page_label == shown
