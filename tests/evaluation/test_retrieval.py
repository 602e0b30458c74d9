from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from vrag.evaluation.retrieval import DEPTH, evaluate_retrieval
from vrag.geometry import Box
from vrag.types import Case, Clip, Document, DocumentStatus, GoldPage, Hit, Item, ItemKind, Region, item_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.types import Query


class Found(NamedTuple):
    document: str
    page: int
    kind: ItemKind = ItemKind.PAGE


@dataclass(frozen=True)
class TableSearcher:
    """Looks the answer up: which (document, page) a query finds is what these tests are about."""

    table: Mapping[str, Sequence[Found]]
    version: str = "1"
    clips: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, "tuple[float, float]"])
    """When the clips that are items happen."""

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        assert top_k == DEPTH
        return [[_hit(rank, found) for rank, found in enumerate(self.table[q.text], 1)] for q in queries]

    def item(self, id: str) -> Item:
        clip = Clip("", *self.clips[id])
        return Item(id=id, document=id, document_name="", kind=ItemKind.CLIP, ordinal=1, size=None, clip=clip)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        raise NotImplementedError

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        raise NotImplementedError

    def part(self, id: str, view: View) -> Image | None:
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
        *("ndcg@5", "ndcg@10", "recall@1", "recall@3", "recall@5", "recall@10", "mrr", "document_recall@10"),
        *("questions", "pages", "seconds", "skipped", "missing", "groups", "estimates"),
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


def test_a_question_without_words_is_left_out_and_ends_nothing() -> None:
    searcher = TableSearcher({"one": [Found("a", 2)]})
    report = evaluate_retrieval([case("one", "a.pdf", 2), case(" \n", "a.pdf", 2)], searcher, DOCUMENTS)
    assert [score.uid for score in report.scores] == ["one"]
    assert report.skipped == 1


def test_where_documents_are_not_known_all_are_searched_and_nothing_is_missing() -> None:
    asked: list[Query] = []

    class Server(TableSearcher):
        def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
            asked.extend(queries)
            return super().search(queries, top_k)

    report = evaluate_retrieval([case("one", "a.pdf", 2)], Server({"one": [Found("a", 2)]}), [])
    assert [query.documents for query in asked] == [None]
    assert (report.measures["recall@1"], report.missing) == (1, ())


def test_a_report_does_not_change() -> None:
    report = evaluate_retrieval([], TableSearcher({}), DOCUMENTS)
    with pytest.raises(FrozenInstanceError):
        report.skipped = 3  # pyright: ignore[reportAttributeAccessIssue]


class TestGradedGold:
    CASE = replace(case("one", "a.pdf"), gold=(GoldPage("a.pdf", 1, 2), GoldPage("b.pdf", 2, 1)))

    def test_a_better_page_earlier_earns_more(self) -> None:
        """Grades 1, 2 where 2, 1 is best: (1 + 2 / log2 3) / (2 + 1 / log2 3)."""
        searcher = TableSearcher({"one": [Found("b", 2), Found("a", 1)]})
        report = evaluate_retrieval([self.CASE], searcher, DOCUMENTS)
        assert report.measures["ndcg@10"] == pytest.approx(2.26186 / 2.63093, abs=1e-5)
        assert report.measures["recall@1"] == 1 / 2

    def test_pages_take_up_the_places_of_their_documents(self) -> None:
        pages = [Found("a", at) for at in range(10)]
        searcher = TableSearcher({"one": [*pages, Found("b", 1)]})
        assert evaluate_retrieval([self.CASE], searcher, DOCUMENTS).measures["document_recall@10"] == 1 / 2
        searcher = TableSearcher({"one": [*pages[1:], Found("b", 1)]})
        assert evaluate_retrieval([self.CASE], searcher, DOCUMENTS).measures["document_recall@10"] == 1

    def test_all_gold_documents_that_are_missing_are_named(self) -> None:
        missing = replace(self.CASE, gold=(*self.CASE.gold, GoldPage("z.pdf", 1)))
        report = evaluate_retrieval([missing], TableSearcher({"one": []}), DOCUMENTS)
        assert report.missing == ("z.pdf",)

    def test_a_passage_of_a_document_that_is_gold_as_a_whole_is_gold(self) -> None:
        whole = replace(self.CASE, gold=(GoldPage("a.pdf"), GoldPage("b.pdf")))
        found = [Found("a", 7, ItemKind.PASSAGE), Found("a", 8, ItemKind.PASSAGE), Found("b", 1)]
        report = evaluate_retrieval([whole], TableSearcher({"one": found}), DOCUMENTS)
        assert report.measures["recall@1"] == 1 / 2
        assert report.measures["recall@3"] == 1
        # the second passage of the same document takes up a place: (1 + 1 / log2 4) / (1 + 1 / log2 3)
        assert report.measures["ndcg@10"] == pytest.approx(1.5 / 1.63093, abs=1e-5)


class TestVideos:
    CASE = replace(case("one", "a.pdf"), spans=((10.0, 20.0), (60.0, 70.0)))

    def test_a_gold_stretch_is_found_by_the_first_clip_that_overlaps_it(self) -> None:
        found = [Found("a", at, ItemKind.CLIP) for at in (1, 2, 3)]
        clips = {"a-1": (0.0, 10.0), "a-2": (10.0, 15.0), "a-3": (15.0, 30.0)}
        searcher = TableSearcher({"one": found}, clips=clips)
        measures = evaluate_retrieval([self.CASE], searcher, DOCUMENTS).measures
        assert measures["recall@10"] == 1 / 2
        assert measures["mrr"] == 1 / 2
        assert measures["document_recall@10"] == 1

    def test_clips_of_other_videos_are_not_opened(self) -> None:
        searcher = TableSearcher({"one": [Found("b", 1, ItemKind.CLIP)]})
        assert evaluate_retrieval([self.CASE], searcher, DOCUMENTS).measures["recall@10"] == 0


class TestRegions:
    CASE = replace(case("one", "a.pdf", 1), regions=(Region(1, Box.unit(0, 0, 1, 0.5)),))
    SEARCHER = TableSearcher({"one": [Found("a", 1)]})

    @staticmethod
    def left(query: str, hits: Sequence[Hit]) -> list[tuple[Hit, Box]]:
        """The left half of every page."""
        assert query == "one"
        return [(hit, Box.unit(0, 0, 0.5, 1)) for hit in hits]

    def test_without_boxes_they_are_not_measured(self) -> None:
        report = evaluate_retrieval([self.CASE], self.SEARCHER, DOCUMENTS)
        assert not [name for name in report.measures if name.startswith("region")]

    def test_are_measured_where_hits_are_located(self) -> None:
        measures = evaluate_retrieval([self.CASE], self.SEARCHER, DOCUMENTS, locate=self.left).measures
        assert (measures["region_recall@1"], measures["region_precision@1"]) == (0.5, 0.5)

    def test_are_not_measured_of_questions_without_gold_regions(self) -> None:
        report = evaluate_retrieval([case("one", "a.pdf", 1)], self.SEARCHER, DOCUMENTS, locate=self.left)
        assert not [name for name in report.measures if name.startswith("region")]

    def test_count_under_all_names_of_the_document(self) -> None:
        documents = [document("a", "x.pdf"), document("a", "a.pdf")]
        asked = replace(self.CASE, file_name="x.pdf")
        report = evaluate_retrieval([asked], self.SEARCHER, documents, locate=self.left)
        assert report.measures["region_recall@1"] == 0.5

    def test_of_one_page_under_two_names_are_one(self) -> None:
        documents = [document("a", "x.pdf"), document("a", "a.pdf")]
        gold = tuple(Region(1, Box.unit(0, 0, 1, 0.5), name) for name in ("x.pdf", "a.pdf"))
        report = evaluate_retrieval(
            [replace(self.CASE, regions=gold)], self.SEARCHER, documents, locate=self.left
        )
        assert report.measures["region_recall@1"] == 0.5

    def test_of_other_documents_count_by_their_names(self) -> None:
        gold = (Region(2, Box.unit(0, 0, 1, 0.5), "b.pdf"),)
        searcher = TableSearcher({"one": [Found("b", 2), Found("a", 2)]})
        measures = evaluate_retrieval(
            [replace(self.CASE, regions=gold)], searcher, DOCUMENTS, locate=self.left
        ).measures
        assert measures["region_recall@1"] == 0.5
        # of the two halves offered, a quarter of a page is gold
        assert measures["region_precision@5"] == 0.25

    def test_what_is_no_page_covers_nothing_and_takes_up_its_place(self) -> None:
        found = [Found("a", 1, ItemKind.PASSAGE), Found("a", 1)]
        measures = evaluate_retrieval(
            [self.CASE], TableSearcher({"one": found}), DOCUMENTS, locate=self.left
        ).measures
        assert measures["region_recall@1"] == 0
        assert measures["region_recall@5"] == 0.5


def test_intervals_are_over_documents() -> None:
    """Ten questions about each of two documents, one of which is found, are two of a kind and not twenty."""
    searcher = TableSearcher({f"{name}{at}": [Found("a", 1)] for name in "ab" for at in range(10)})
    cases = [
        replace(case(f"{name}{at}", f"{name}.pdf", 1), query_type=name) for name in "ab" for at in range(10)
    ]
    report = evaluate_retrieval(cases, searcher, DOCUMENTS)
    found = report.estimates["recall@1"]
    assert (found.mean, found.n, found.few) == (0.5, 20, True)
    assert (found.low, found.high) == (0, 1)
    assert {label: one["recall@1"].mean for label, one in report.estimates_by("query_type").items()} == {
        "a": 1,
        "b": 0,
    }
    assert report.estimates_by("source_type") == {}
    assert evaluate_retrieval([], searcher, DOCUMENTS).estimates == {}


def test_groups_tell_their_own_means() -> None:
    cases = [
        replace(case("one", "a.pdf", 1), source_type=("Table", "Chart"), benchmark="m"),
        replace(case("two", "a.pdf", 2), source_type=("Table",), benchmark="m"),
    ]
    searcher = TableSearcher({"one": [Found("a", 1)], "two": [Found("a", 1)]})
    groups = evaluate_retrieval(cases, searcher, DOCUMENTS).groups
    assert groups.keys() == {"benchmark", "source_type"}
    sources = groups["source_type"]
    assert {label: (one["questions"], one["recall@1"]) for label, one in sources.items()} == {
        "Chart": (1, 1.0),
        "Table": (2, 0.5),
    }
