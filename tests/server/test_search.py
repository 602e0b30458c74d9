from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from server_harness import PacedSearcher, ask, asked

from vrag.errors import CollectionError, SearchError
from vrag.search.schema import ImageFileEntry, SearchResponse
from vrag.server.app import create_app
from vrag.testing import MemorySearcher, page, passage, tiny_corpus
from vrag.types import ItemKind

if TYPE_CHECKING:
    import httpx

    from vrag.types import Item


def post(body: object) -> httpx.Response:
    app = create_app(tiny_corpus(), corpora=lambda: ("ferries", "notes"))
    return ask(app, "POST", "/search", json=body)


def results(body: object) -> list[dict[str, Any]]:
    response = post(body)
    assert response.status_code == 200, response.text
    return response.json()["results"]


class TestNewerShape:
    def test_has_three_lists_per_query_in_their_order(self) -> None:
        first, second = results({"queries": ["passengers 2024", "ice because"], "top_k": 2})
        assert [len(first[name]) for name in ("score", "indice", "data")] == [2, 2, 2]
        assert first["score"] == sorted(first["score"], reverse=True)
        assert second["data"][0]["type"] == "text"

    def test_one_query_may_come_bare(self) -> None:
        assert results({"queries": "passengers"}) == results({"queries": ["passengers"]})

    def test_a_page_is_an_image_named_by_stem_and_page(self) -> None:
        entry = results({"queries": "passengers"})[0]["data"][0]
        assert entry == {
            "type": "image",
            "file_path": "ferry_2.jpg",
            "id": "66657272792e7064-2",
            "document": b"ferry.pdf".hex().ljust(64, "0"),
            "document_name": "ferry.pdf",
            "page": 2,
            "url": "/items/66657272792e7064-2/image",
        }

    def test_a_passage_brings_its_text(self) -> None:
        entry = results({"queries": "january"})[0]["data"][0]
        assert (entry["type"], entry["file_path"]) == ("text", "notes.md")
        assert entry["content"] == "The ferry does not run in January because of ice."

    def test_is_what_its_model_says(self) -> None:
        response = post({"queries": ["ferry", "nothing like it"], "top_k": 5})
        found = SearchResponse.model_validate_json(response.content)
        again = json.loads(found.model_dump_json(exclude_none=True))
        assert again == response.json()

    def test_a_whole_number_may_be_written_with_a_point(self) -> None:
        assert len(results({"queries": "ferry the in", "top_k": 2.0})[0]["data"]) == 2

    def test_three_hits_when_nobody_says_how_many(self) -> None:
        assert len(results({"queries": "ferry the in of 2024"})[0]["data"]) == 3

    def test_search_corpus_may_be_null(self) -> None:
        assert results({"queries": ["ferry"], "top_k": 3, "search_corpus": None})[0]["data"]

    def test_filters_reach_the_searcher(self) -> None:
        searcher = tiny_corpus()
        body = {"queries": "ferry", "documents": ["d"], "kinds": ["page"], "search_corpus": ["notes"]}
        ask(create_app(searcher, corpora=lambda: ("ferries", "notes")), "POST", "/search", json=body)
        (query,) = searcher.queries
        assert query.documents == {"d"}
        assert query.kinds == {ItemKind.PAGE}
        assert query.corpora == {"notes"}

    def test_leaves_out_items_that_were_deleted_meanwhile(self) -> None:
        class Forgetful(MemorySearcher):
            def item(self, id: str) -> Item:
                raise SearchError("gone")

        app = create_app(Forgetful(tiny_corpus().items))
        assert ask(app, "POST", "/search", json={"queries": "ferry"}).json() == {
            "results": [{"score": [], "indice": [], "data": []}]
        }


class TestOlderShape:
    def test_has_names_of_pages_only(self) -> None:
        response = ask(create_app(tiny_corpus()), "GET", "/search?queries=ferry&queries=crowns.")
        assert response.json() == [
            [{"idx": 0, "image_file": "ferry_1.jpg"}, {"idx": 1, "image_file": "ferry_2.jpg"}],
            [{"idx": 0, "image_file": "ferry_3.jpg"}],
        ]
        TypeAdapter(list[list[ImageFileEntry]]).validate_json(response.content)

    def test_has_ten_at_most(self) -> None:
        many = MemorySearcher(tuple(page("long.pdf", number, "ferry") for number in range(1, 31)))
        response = ask(create_app(many), "GET", "/search?queries=ferry")
        assert [hit["idx"] for hit in response.json()[0]] == list(range(10))

    def test_passages_do_not_take_the_place_of_pages(self) -> None:
        texts = tuple(passage("a.txt", number, "ferry") for number in range(1, 31))
        searcher = MemorySearcher((*texts, page("z.pdf", 1, "ferry")))
        response = ask(create_app(searcher), "GET", "/search?queries=ferry")
        assert response.json() == [[{"idx": 0, "image_file": "z_1.jpg"}]]

    def test_can_be_asked_for_in_a_post(self) -> None:
        app = create_app(tiny_corpus())
        response = ask(app, "POST", "/search", json={"queries": ["ferry"], "top_k": 1, "vrag_ret": True})
        assert response.json() == [[{"idx": 0, "image_file": "ferry_1.jpg"}]]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "queries: It is missing."),
        ({"queries": []}, "queries:"),
        ({"queries": ""}, "queries: It must not be blank."),
        ({"queries": [" \n\x1f\u2003"]}, "queries[0]: It must not be blank."),
        ({"queries": [1]}, "queries[0]: "),
        ({"queries": None}, "queries: Input should be a valid string or a valid array."),
        ({"queries": 5}, "queries: Input should be a valid string or a valid array."),
        ({"queries": "a", "search_corpus": 5}, "search_corpus: Input should be a valid string or a valid a"),
        ({"queries": "a", "top_k": 0}, "top_k: It must be at least 1."),
        ({"queries": "a", "top_k": 10**9}, "top_k:"),
        ({"queries": "a", "top_k": -1}, "top_k:"),
        ({"queries": "a", "top_k": "3"}, "top_k:"),
        ({"queries": "a", "top_k": 2.5}, "top_k:"),
        ({"queries": "a", "top_k": True}, "top_k:"),
        ({"queries": "a", "kinds": ["picture"]}, "kinds[0]:"),
        ({"queries": "a", "search_corpus": "taxis"}, "There is no collection named 'taxis'."),
        ({"queries": "a" * 9000}, "queries:"),
        ({"queries": ["a"] * 1025}, "queries:"),
        ({"queries": ["a"] * 200, "top_k": 1000}, "200 queries times top_k 1000 is more than 20,000 hits."),
        ([], "It is not a JSON object."),
        ("ferry", "It is not a JSON object."),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(body: object, told: str) -> None:
    response = post(body)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(told), response.text
    assert response.json()["hint"], "what to do is not said"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("PUT", "/search"), ("GET", "/items/none"), ("GET", "/items/0011223344556677-1")],
)
def test_every_refusal_says_what_to_do(method: str, path: str) -> None:
    response = ask(create_app(tiny_corpus()), method, path)
    assert 400 <= response.status_code < 500
    assert response.json()["hint"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"queries": "\\ud800"}', b"[" * 100_000])
def test_a_body_that_is_not_json_is_refused(content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = ask(create_app(tiny_corpus()), "POST", "/search", content=content, headers=headers)
    assert response.status_code == 422
    assert len(response.json()["detail"]) < 200


@pytest.mark.parametrize("query", ["", "?queries=", "?queries=%20", "?queries=" + "a" * 9000, "?q=a"])
def test_the_older_shape_refuses_alike(query: str) -> None:
    assert ask(create_app(tiny_corpus()), "GET", f"/search{query}").status_code == 422


class TestFaults:
    def fail(self, error: Exception) -> httpx.Response:
        searcher = PacedSearcher(fail=error)
        searcher.go.set()
        return ask(create_app(searcher), "POST", "/search", json={"queries": "ferry"})

    def test_of_the_query_are_told(self) -> None:
        response = self.fail(SearchError("The query is odd.", "Ask otherwise."))
        assert (response.status_code, response.json()) == (
            422,
            {"detail": "The query is odd.", "hint": "Ask otherwise."},
        )

    def test_of_the_collection_say_nothing_of_its_place(self) -> None:
        response = self.fail(CollectionError("/home/ann/secret could not be read."))
        assert response.status_code == 503
        assert "secret" not in response.text
        assert response.headers["retry-after"]

    def test_of_ours_have_an_id_that_the_log_has_too(self, caplog: pytest.LogCaptureFixture) -> None:
        response = self.fail(ZeroDivisionError("at /home/ann/vrag/x.py"))
        assert response.status_code == 500
        assert "ann" not in response.text
        assert response.json()["id"] in caplog.text
        assert "ZeroDivisionError" in caplog.text


def test_the_searcher_is_called_in_one_thread_of_its_own() -> None:
    searcher = PacedSearcher()
    searcher.go.set()
    app = create_app(searcher)

    async def many() -> None:
        async with asked(app) as client:
            await asyncio.gather(*(client.post("/search", json={"queries": "ferry"}) for _ in range(20)))

    asyncio.run(many())
    assert len(searcher.threads) == 1
    assert searcher.threads.pop().startswith("vrag-search")
