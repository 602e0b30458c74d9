"""Facts about parts of a text keep their places when the text is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.item_facts import decode_facts, encode_facts, list_places, move_places
from vrag.types import FormField, ItemFacts, MarkedHeading, TextCell, TextTable, TurnedText

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "Fees ¹ Berth 17-C turned"
FACTS = ItemFacts(
    turned=(TurnedText(18, 24, 90),),
    headings=(MarkedHeading(0, 4, 1),),
    tables=(TextTable((TextCell(0, 0, 1, 1, 7, 12), TextCell(0, 1, 1, 1, 13, 17)), caption=(4, 6)),),
    fields=(FormField(((7, 12),), ((13, 17),), "berth"),),
)


def moved(first: int, last: int) -> Callable[[int], int]:
    """Takes a range out of a text."""
    return lambda at: at if at <= first else max(at - (last - first), first)


def test_facts_of_a_changed_text_are_about_the_same_words() -> None:
    move = moved(4, 6)
    found = move_places(FACTS, move, move)
    text = TEXT[:4] + TEXT[6:]
    assert [text[slice(*place)] for place in list_places(found)] == [
        *("turned", "Fees", "Berth", "17-C", "Berth", "17-C")
    ]
    assert found.tables[0].caption is None


def test_facts_about_words_that_are_gone_are_left_out() -> None:
    found = move_places(FACTS, lambda _: 0, lambda _: 0)
    assert list(list_places(found)) == []
    assert [each.name for each in found.fields] == ["berth"]


def test_facts_are_read_as_they_were_written() -> None:
    assert decode_facts(encode_facts(FACTS)) == FACTS
