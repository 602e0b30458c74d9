from __future__ import annotations

import pytest
from pydantic import ValidationError

from vrag.geometry import Box, Size
from vrag.search.schema import MAX_HITS, MAX_TOP_K, ItemInfo, SearchRequest, SearchResponse
from vrag.search.searcher import MAX_TOP_K as ENGINE_TOP_K
from vrag.testing import tiny_corpus
from vrag.types import Clip, Item, ItemKind, Query, TextSource, Word, item_id


def parse(body: str) -> SearchRequest:
    return SearchRequest.model_validate_json(body)


def test_limits_agree_with_those_of_the_engine() -> None:
    assert MAX_TOP_K == ENGINE_TOP_K
    assert MAX_HITS >= MAX_TOP_K


class TestRequest:
    def test_becomes_queries_that_share_its_filters(self) -> None:
        asked = parse('{"queries": ["a", "b"], "documents": ["d"], "kinds": ["clip"], "search_corpus": "c"}')
        filters = (frozenset({"d"}), frozenset({ItemKind.CLIP}), frozenset({"c"}))
        assert asked.as_queries() == [Query("a", *filters), Query("b", *filters)]

    def test_absent_filters_let_everything_through(self) -> None:
        assert parse('{"queries": "a"}').as_queries() == [Query("a")]

    def test_empty_filters_let_nothing_through(self) -> None:
        (query,) = parse('{"queries": "a", "documents": [], "kinds": []}').as_queries()
        assert (query.documents, query.kinds) == (frozenset(), frozenset())

    @pytest.mark.parametrize(
        ("kinds", "left"), [("null", {"page"}), ('["page", "clip"]', {"page"}), ('["passage"]', set[str]())]
    )
    def test_the_older_shape_knows_pages_only(self, kinds: str, left: set[str]) -> None:
        (query,) = parse(f'{{"queries": "a", "vrag_ret": true, "kinds": {kinds}}}').as_queries()
        assert query.kinds == left

    def test_ignores_what_it_does_not_know(self) -> None:
        """As the systems replaced do: a client may send more than they read."""
        assert parse('{"queries": "a", "rerank": true}') == parse('{"queries": "a"}')

    @pytest.mark.parametrize("top_k", ["0", "1001", "-1", '"3"', "true", "null", "2.5", "1e300"])
    def test_top_k_is_a_number_of_hits(self, top_k: str) -> None:
        with pytest.raises(ValidationError):
            parse(f'{{"queries": "a", "top_k": {top_k}}}')


class TestResponse:
    def test_of_the_systems_replaced_is_understood(self) -> None:
        body = """{"results": [{"score": [0.5, 0.25, 0.125], "indice": [7, 1, 2], "data": [
            {"type": "image", "file_path": "corpus/a_1.jpg"},
            {"type": "video", "file_path": "b.mp4", "uid": "v1"},
            {"type": "text", "file_path": "c.txt", "content": "words"}]}]}"""
        (result,) = SearchResponse.model_validate_json(body).results
        assert [entry.type for entry in result.data] == ["image", "video", "text"]
        assert [entry.id for entry in result.data] == [None] * 3
        assert result.data[1].uid == "v1"


class TestItem:
    @pytest.mark.parametrize("item", tiny_corpus().items, ids=lambda item: item.name)
    def test_comes_back_as_it_was(self, item: Item) -> None:
        sent = ItemInfo.of(item, words=True).model_dump_json(exclude_none=True)
        back = ItemInfo.model_validate_json(sent).as_item()
        assert (back.image is None) == (item.image is None)
        for name in (
            "id",
            "document",
            "document_name",
            "kind",
            "ordinal",
            "text",
            "words",
            "size",
            "text_source",
        ):
            assert getattr(back, name) == getattr(item, name)

    def test_clips_keep_their_times(self) -> None:
        item = Item(
            id=item_id("ab" * 32, 2),
            document="ab" * 32,
            document_name="film.mp4",
            kind=ItemKind.CLIP,
            ordinal=2,
            text="a ferry",
            words=(Word(0, 1, Box.unit(0, 0, 1, 1)),),
            text_source=TextSource.OCR,
            size=Size(4, 3),
            image="x.jpg",
            clip=Clip("x.mp4", 60.0, 90.5, (60.0, 72.25)),
            heading="Films",
            uid="f-2",
        )
        back = ItemInfo.model_validate_json(ItemInfo.of(item, words=True).model_dump_json()).as_item()
        assert back.clip is not None
        assert (back.clip.start, back.clip.end, back.clip.frames) == (60.0, 90.5, (60.0, 72.25))
        assert (back.heading, back.uid, back.words) == ("Films", "f-2", item.words)

    def test_paths_of_the_server_do_not_travel(self) -> None:
        for item in tiny_corpus().items:
            told = ItemInfo.of(item, words=False).model_dump_json()
            assert item.image is None or item.image not in told
