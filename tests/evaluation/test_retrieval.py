from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest

from vrag.evaluation.retrieval import DEPTH, evaluate_retrieval
from vrag.types import Case, Document, DocumentStatus, Hit, ItemKind, item_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.Image import Image

    from vrag.corpus.video import Frame
    from vrag.geometry import Size
    from vrag.types import Item, Query


class Found(NamedTuple):
    document: str
    page: int
    kind: ItemKind = ItemKind.PAGE


@dataclass(frozen=True)
class TableSearcher:
    """Looks the answer up: which (document, page) a query finds is what these tests are about."""

    table: Mapping[str, Sequence[Found]]
    version: str = "1"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        assert top_k == DEPTH
        return [[_hit(rank, found) for rank, found in enumerate(self.table[q.text], 1)] for q in queries]

    def item(self, id: str) -> Item:
        raise NotImplementedError

    def image(self, id: str, *, least: Size | None = None) -> Image:
        raise NotImplementedError

    def frames(self, id: str, *, fps: float, most: int) -> list[Frame]:
        raise NotImplementedError


def _hit(rank: int, found: Found) -> Hit:
    name, page, kind = found
    return Hit(item_id(name, page), 1 / rank, rank, name, f"{name}.pdf", page, kind)


def document(id: str, name: str = "", items: int = 10) -> Document:
    return Document(
        path=f"/docs/{name or id}",
        id=id,
        name=name or f"{id}.pdf",
        size=1,
        mtime_ns=1,
        status=DocumentStatus.READY,
        items=items,
    )


def case(query: str, file_name: str, *pages: int) -> Case:
    return Case(uid=query, query=query, reference_answer="", file_name=file_name, reference_page=pages)


DOCUMENTS = [document("a"), document("b", items=5)]


def test_measures_are_means_over_the_questions_that_have_a_gold_page() -> None:
    searcher = TableSearcher({"one": [Found("b", 1), Found("a", 2), Found("a", 3)], "two": [Found("b", 4)]})
    cases = [case("one", "a.pdf", 2, 7), case("none", "a.pdf"), case("two", "b.pdf", 4)]
    report = evaluate_retrieval(cases, searcher, DOCUMENTS)
    measures = report.measures
    assert [score.uid for score in report.scores] == ["one", "two"]
    assert report.skipped == 1
    assert report.pages == 15
    assert report.missing == ()
    assert measures["recall@1"] == (0 + 1) / 2
    assert measures["recall@3"] == measures["recall@10"] == (1 / 2 + 1) / 2
    assert measures["mrr"] == (1 / 2 + 1) / 2
    assert measures["ndcg@5"] == pytest.approx((0.63093 / 1.63093 + 1) / 2, abs=1e-5)


def test_the_json_has_the_keys_that_are_promised() -> None:
    report = evaluate_retrieval([case("one", "a.pdf", 2)], TableSearcher({"one": []}), DOCUMENTS)
    assert list(report.as_dict()) == [
        *("ndcg@5", "ndcg@10", "recall@1", "recall@3", "recall@5", "recall@10", "mrr"),
        *("questions", "pages", "seconds", "skipped", "missing"),
    ]
    assert report.as_dict()["questions"] == 1


def test_a_file_that_is_not_in_the_collection_is_named_and_its_questions_count_as_failed() -> None:
    searcher = TableSearcher({"one": [Found("a", 1)], "two": [Found("a", 1)], "three": [Found("c", 1)]})
    failed = document("c", items=0)
    cases = [case("one", "a.pdf", 1), case("two", "z.pdf", 1), case("three", "c.pdf", 1)]
    report = evaluate_retrieval(cases, searcher, [*DOCUMENTS, failed])
    assert report.missing == ("c.pdf", "z.pdf")
    assert report.measures["recall@1"] == pytest.approx(1 / 3)


def test_the_right_page_of_the_wrong_document_is_not_gold() -> None:
    report = evaluate_retrieval([case("one", "a.pdf", 1)], TableSearcher({"one": [Found("b", 1)]}), DOCUMENTS)
    assert report.measures["recall@10"] == 0


def test_a_passage_is_not_a_page_and_takes_up_its_place() -> None:
    searcher = TableSearcher({"one": [Found("a", 1, ItemKind.PASSAGE), Found("a", 1)]})
    report = evaluate_retrieval([case("one", "a.pdf", 1)], searcher, DOCUMENTS)
    assert report.measures["mrr"] == 1 / 2


def test_the_same_bytes_under_two_names_are_found_under_both() -> None:
    searcher = TableSearcher({"one": [Found("a", 1)], "two": [Found("a", 1)]})
    documents = [document("a", "x.pdf"), document("a", "y.pdf")]
    report = evaluate_retrieval([case("one", "x.pdf", 1), case("two", "y.pdf", 1)], searcher, documents)
    assert report.measures["recall@1"] == 1
    assert report.pages == 10


def test_many_questions_are_asked_in_order() -> None:
    cases = [case(f"q{at}", "a.pdf", at % 9 + 1) for at in range(100)]
    searcher = TableSearcher({one.query: [Found("a", one.reference_page[0])] for one in cases})
    report = evaluate_retrieval(cases, searcher, DOCUMENTS)
    assert [score.uid for score in report.scores] == [one.uid for one in cases]
    assert report.measures["recall@1"] == 1


def test_no_questions_make_no_division_by_zero() -> None:
    report = evaluate_retrieval([case("none", "a.pdf")], TableSearcher({}), DOCUMENTS)
    assert report.measures["mrr"] == 0
    assert report.skipped == 1


def test_a_report_does_not_change() -> None:
    report = evaluate_retrieval([], TableSearcher({}), DOCUMENTS)
    with pytest.raises(FrozenInstanceError):
        report.skipped = 3  # pyright: ignore[reportAttributeAccessIssue]
