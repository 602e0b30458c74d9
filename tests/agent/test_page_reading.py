"""Pages for the reader open the pages beside them."""

from __future__ import annotations

from vrag.agent.page_reading import open_page
from vrag.testing import MemorySearcher, page


def test_a_page_opens_those_before_and_behind_it() -> None:
    pages = [page("report.pdf", number, f"Page {number}") for number in (1, 2, 3)]
    searcher = MemorySearcher((*pages, page("other.pdf", 4, "Another report")))
    second = open_page(searcher, pages[1])
    found = {step: second.beside(step) for step in (-2, -1, 1, 2)}

    assert {step: one and one.item.text for step, one in found.items()} == {
        -2: None, -1: "Page 1", 1: "Page 3", 2: None
    }  # fmt: skip
    before = found[-1]
    assert before is not None
    again = before.beside(1)
    assert again is not None
    assert again.item == second.item
