"""The status of a document, and the reason that says what of it is missing and where."""

from __future__ import annotations

from pathlib import Path

from vrag.corpus.converter import SourceFile
from vrag.index.manifest import OpenDocument
from vrag.types import DocumentStatus, Item, ItemFacts, ItemKind, item_id

DOCUMENT = "0" * 64
SOURCE = SourceFile(Path("/a.pdf"), DOCUMENT, "a.pdf", 1, 1)


def item(ordinal: int, *unread: str, kind: ItemKind = ItemKind.PAGE) -> Item:
    return Item(
        id=item_id(DOCUMENT, ordinal),
        document=DOCUMENT,
        document_name="a.pdf",
        kind=kind,
        ordinal=ordinal,
        facts=ItemFacts(unread=unread),
    )


def outcome(*parts: Item | tuple[int, str]) -> tuple[DocumentStatus, list[str]]:
    """The status of a document of these items, with a number and a reason for those that failed."""
    document = OpenDocument(SOURCE)
    document.count(len(parts), 0)
    for part in parts:
        if isinstance(part, Item):
            document.add_item(part)
        else:
            document.fail(*part)
    status, reason = document.outcome()
    return status, reason.splitlines()


def test_a_document_of_which_all_is_read_has_no_reason() -> None:
    assert outcome(item(1), item(2)) == (DocumentStatus.READY, [])


def test_a_reason_names_its_pages_and_stands_once() -> None:
    off = "OCR is off."
    status, lines = outcome(item(1), item(2, off), item(3, off, "The page has an icon."), item(4, off))
    assert status is DocumentStatus.PARTIAL
    assert lines == ["Pages 2–4: OCR is off.", "Page 3: The page has an icon."]


def test_what_concerns_the_whole_document_names_no_page() -> None:
    _, lines = outcome(item(1, "The document has an attached file.", "It is faint."), item(2))
    assert lines == ["The document has an attached file.", "Page 1: It is faint."]


def test_a_document_of_one_part_names_none() -> None:
    assert outcome(item(1, "OCR is off.")) == (DocumentStatus.PARTIAL, ["OCR is off."])
    assert outcome((1, "It is torn.")) == (DocumentStatus.FAILED, ["It is torn."])


def test_a_page_that_failed_is_called_so_beside_other_pages_only() -> None:
    passage = item(1, kind=ItemKind.PASSAGE)
    assert outcome(item(1), (2, "It is torn."))[1] == ["Page 2: It is torn."]
    assert outcome(item(1, kind=ItemKind.CLIP), (2, "It is torn."))[1] == ["Clip 2: It is torn."]
    assert outcome(passage, (2, "It is torn."))[1] == ["Part 2: It is torn."]
    assert outcome(passage, item(2, "OCR is off."))[1] == ["Page 2: OCR is off."]


def test_what_is_missing_without_a_reason_is_told_too() -> None:
    document = OpenDocument(SOURCE)
    document.count(3, 0)
    document.add_item(item(1))
    assert document.outcome() == (DocumentStatus.PARTIAL, "2 of 3 are missing without a reason.")
