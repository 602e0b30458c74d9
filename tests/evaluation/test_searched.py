from __future__ import annotations

from vrag.evaluation.result_store import Searched, searched_for
from vrag.types import Case, Document, DocumentStatus, GoldPage


def document(name: str, status: DocumentStatus = DocumentStatus.READY) -> Document:
    return Document(path=f"/data/{name}", id="0", name=name, size=1, mtime_ns=1, status=status, items=1)


def case(uid: str, name: str, *gold: str) -> Case:
    pages = tuple(GoldPage(document=one, page=1) for one in gold)
    return Case(uid=uid, query="Who?", reference_answer="A", file_name=name, gold=pages)


def test_documents_that_are_asked_about_and_cannot_be_found_are_named() -> None:
    cases = [case("1", "a.pdf"), case("2", "b.pdf"), case("3", "a.pdf", "a.pdf", "c.pdf"), case("4", "")]
    there = [document("a.pdf"), document("b.pdf", DocumentStatus.FAILED), document("d.pdf")]
    assert searched_for(cases, there) == Searched(documents=2, absent=("b.pdf", "c.pdf"), questions=2)
    assert searched_for(cases[:1], there) == Searched(documents=2)


def test_nothing_is_known_where_a_server_searches() -> None:
    assert searched_for([case("1", "a.pdf")], []) is None
