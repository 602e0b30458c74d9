from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from stored_items import put_files, put_items

from vrag.index.catalog import Catalog
from vrag.index.collection import Collection
from vrag.item_facts import decode_facts
from vrag.search import named_pages
from vrag.search.engine import Engine
from vrag.search.multi import NUMBER_STRIDE, MultiSearcher
from vrag.search.named_pages import MAX_READ_PAGES
from vrag.types import Document, DocumentStatus, Item, ItemFacts, ItemKind, Query, item_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vrag.types import Hit

BOOK, OTHER = "b" * 64, "c" * 64
LABELS = ("i", "ii", "1", "2", "3")


def add(collection: Collection, document: str, name: str, labels: Sequence[str]) -> None:
    """Adds a document of pages that all have the same words."""
    items = [
        Item(
            id=item_id(document, ordinal),
            document=document,
            document_name=name,
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text=f"harbour boats {name} " + "boats " * (6 - ordinal),
            facts=ItemFacts(label=label),
        )
        for ordinal, label in enumerate(labels, 1)
    ]
    add_items(collection, items)


def add_items(collection: Collection, items: Sequence[Item]) -> None:
    """Adds the items of a document."""
    document, name = items[0].document, items[0].document_name
    put_items(collection, items)
    row = Document(path=f"/{name}", id=document, name=name, size=1, mtime_ns=1, status=DocumentStatus.READY)
    put_files(collection, [(row, len(items))])


def add_pages(
    collection: Collection, name: str, texts: Sequence[str], *, label: str = "", document: str = "d" * 64
) -> None:
    """Adds a document of pages with a text each, and all with the same printed number."""
    items = [
        Item(
            id=item_id(document, ordinal),
            document=document,
            document_name=name,
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text=text,
            facts=ItemFacts(label=label),
        )
        for ordinal, text in enumerate(texts, 1)
    ]
    add_items(collection, items)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    collection = Collection.create(tmp_path / "collection")
    add(collection, BOOK, "book.pdf", LABELS)
    add(collection, OTHER, "plain.pdf", ("",) * 5)
    return Engine(collection, None)


def found(engine: Engine, text: str, top_k: int = 10) -> list[tuple[str, int]]:
    (hits,) = engine.search([Query(text)], top_k)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({hit.item for hit in hits}) == len(hits)
    return [(hit.document_name, hit.ordinal) for hit in hits]


def test_the_page_with_the_printed_number_is_first_and_that_at_the_position_second(engine: Engine) -> None:
    assert found(engine, "boats book.pdf page 2")[:2] == [("book.pdf", 4), ("book.pdf", 2)]
    assert found(engine, "boats book.pdf page ii")[0] == ("book.pdf", 2)


def test_without_printed_numbers_the_position_counts(engine: Engine) -> None:
    assert found(engine, "boats plain.pdf page 4")[0] == ("plain.pdf", 4)


def test_the_other_hits_keep_their_order(engine: Engine) -> None:
    plain = found(engine, "boats book.pdf 2")
    asked = found(engine, "boats book.pdf page 2")
    named = [("book.pdf", 4), ("book.pdf", 2)]
    assert [hit for hit in asked if hit not in named] == [hit for hit in plain if hit not in named]


def test_no_more_hits_come_than_are_asked_for(engine: Engine) -> None:
    assert found(engine, "boats book.pdf page 2", top_k=1) == [("book.pdf", 4)]


def test_a_page_comes_first_beside_the_few_hits_that_there_are(engine: Engine) -> None:
    add_pages(engine.collection, "e.pdf", ("anchorage", "none"))
    assert found(engine, "anchorage page 2") == [("e.pdf", 2), ("e.pdf", 1)]


def test_several_collections_are_searched_for_named_pages(tmp_path: Path) -> None:
    engines: dict[str, Engine] = {}
    for name, document, labels in (("a", OTHER, ("",) * 5), ("b", BOOK, LABELS)):
        collection = Collection.create(tmp_path / name)
        add(collection, document, f"{name}.pdf", labels)
        engines[name] = Engine(collection, None)
    (hits,) = MultiSearcher(engines).search([Query("boats b.pdf page 2")], 10)
    assert [(hit.document_name, hit.ordinal) for hit in hits[:2]] == [("b.pdf", 4), ("b.pdf", 2)]
    assert all(hit.row >= NUMBER_STRIDE for hit in hits[:2])
    assert len({hit.row for hit in hits}) == len(hits) == 10


def test_only_items_that_the_query_may_find_come_first(engine: Engine) -> None:
    query = Query("boats page 2", documents=frozenset({OTHER}))
    (hits,) = engine.search([query], 10)
    assert [hit.document for hit in hits] == [OTHER] * 5
    assert hits[0].ordinal == 2


def test_a_page_that_does_not_exist_changes_nothing(engine: Engine) -> None:
    assert found(engine, "boats book.pdf page 99") == found(engine, "boats book.pdf page")


def test_pages_are_found_that_share_no_word_with_the_query_where_there_is_one_document(
    engine: Engine,
) -> None:
    (hits,) = engine.search([Query("page ii", documents=frozenset({BOOK}))], 10)
    assert [(hit.document_name, hit.ordinal, hit.rank) for hit in hits] == [("book.pdf", 2, 1)]


def test_a_number_alone_finds_the_only_page_that_has_it_printed(engine: Engine) -> None:
    assert found(engine, "page ii") == [("book.pdf", 2)]
    assert found(engine, "page vii") == []


def test_a_number_alone_finds_the_pages_of_all_documents_that_have_it(engine: Engine) -> None:
    add(engine.collection, "d" * 64, "annex.pdf", ("i", "ii", "A-3"))
    assert found(engine, "page ii") == [("annex.pdf", 2), ("book.pdf", 2)]
    assert found(engine, "What is on page A-3?") == [("annex.pdf", 3)]
    assert found(engine, "page ii", top_k=1) == [("annex.pdf", 2)]


def test_a_position_alone_finds_pages_only_where_none_has_the_number_printed(engine: Engine) -> None:
    assert found(engine, "page 3") == [("book.pdf", 5)]
    assert found(engine, "page 4") == [("book.pdf", 4), ("plain.pdf", 4)]


def test_the_document_that_is_named_counts_and_not_that_of_the_best_hit(engine: Engine) -> None:
    add_pages(engine.collection, "harbour_log-2026.pdf", ("tides", "tides"))
    best, *_ = found(engine, "boats book boats in the log of the harbour, 2026, page 2")
    assert best == ("harbour_log-2026.pdf", 2)


def test_the_only_page_comes_first_though_another_document_has_the_better_hits(engine: Engine) -> None:
    add_pages(engine.collection, "d.pdf", ("lighthouse",), label="xii")
    assert found(engine, "boats plain.pdf page xii")[0] == ("d.pdf", 1)


def test_pages_of_several_documents_follow_the_hits(engine: Engine) -> None:
    for name in ("d", "e"):
        add_pages(engine.collection, f"{name}.pdf", ("lighthouse",), label="xii", document=name * 64)
    hits = found(engine, "boats plain.pdf page xii", top_k=20)
    assert hits[0][0] == "plain.pdf"
    assert hits[-2:] == [("d.pdf", 1), ("e.pdf", 1)]


def test_a_file_is_not_named_by_a_number_alone(engine: Engine) -> None:
    add(engine.collection, "d" * 64, "2.pdf", ("", ""))
    assert found(engine, "boats plain.pdf page 2")[0] == ("plain.pdf", 2)


def test_a_number_alone_is_looked_up_in_all_collections(tmp_path: Path) -> None:
    engines: dict[str, Engine] = {}
    for name, document, labels in (("a", OTHER, ("",) * 5), ("b", BOOK, LABELS), ("c", BOOK, LABELS)):
        collection = Collection.create(tmp_path / name)
        add(collection, document, f"{name}.pdf", labels)
        engines[name] = Engine(collection, None)
    searcher = MultiSearcher(engines)
    (hits,) = searcher.search([Query("page ii")], 10)
    assert [(hit.document_name, hit.ordinal, hit.row // NUMBER_STRIDE) for hit in hits] == [("b.pdf", 2, 1)]
    (hits,) = searcher.search([Query("page ii", corpora=frozenset({"a"}))], 10)
    assert hits == []


def add_many(collection: Collection, documents: int, pages: int, label: str = "") -> None:
    """Adds documents of pages; `label` is that of a page, with its number."""
    items = [
        Item(
            id=item_id(document, ordinal),
            document=document,
            document_name=f"file{number:03}.pdf",
            kind=ItemKind.PAGE,
            ordinal=ordinal,
            text="harbour boats",
            facts=ItemFacts(label=label and f"{label}{ordinal}"),
        )
        for number in range(documents)
        for document in (hashlib.sha256(bytes([number])).hexdigest(),)
        for ordinal in range(1, pages + 1)
    ]
    put_items(collection, items)
    files = {item.document: item.document_name for item in items}
    rows = [
        Document(path=f"/{name}", id=id, name=name, size=1, mtime_ns=1, status=DocumentStatus.READY)
        for id, name in files.items()
    ]
    put_files(collection, [(row, pages) for row in rows])


def test_hits_are_made_of_the_pages_that_are_returned_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.create(tmp_path / "collection")
    add_many(collection, 200, 2)
    engine = Engine(collection, None)
    assert len(found(engine, "page 2", 7)) == 7
    made: list[int] = []
    hits = Catalog.hits

    def count(catalog: Catalog, pages: list[tuple[str, float]]) -> list[Hit]:
        made.append(len(pages))
        return hits(catalog, pages)

    monkeypatch.setattr(Catalog, "hits", count)
    pages = found(engine, "page 2", 7)
    assert [name for name, _ in pages] == [f"file{number:03}.pdf" for number in range(7)]
    assert {ordinal for _, ordinal in pages} == {2}
    assert sum(made) <= 2 * 7


@pytest.mark.parametrize("pages", [MAX_READ_PAGES, MAX_READ_PAGES + 200])
def test_of_a_long_document_few_printed_numbers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    collection = Collection.create(tmp_path / "collection")
    add_many(collection, 1, pages, "A-")
    engine = Engine(collection, None)
    read: list[str] = []

    def decode(facts: str) -> ItemFacts:
        read.append(facts)
        return decode_facts(facts)

    monkeypatch.setattr(named_pages, "decode_facts", decode)
    assert found(engine, "What does page A-150 say?")[0] == ("file000.pdf", 150)
    assert found(engine, "What does page 60 say?")[0] == ("file000.pdf", 60)
    assert len(read) <= 2 * MAX_READ_PAGES


def test_a_document_of_two_collections_is_that_of_the_first(tmp_path: Path) -> None:
    collections = [Collection.create(tmp_path / name) for name in ("one", "two")]
    for collection in collections:
        add_many(collection, 3, 2)
    add(collections[1], OTHER, "plain.pdf", ("",) * 5)
    searcher = MultiSearcher({str(at): Engine(each, None) for at, each in enumerate(collections)})
    (hits,) = searcher.search([Query("page 2")], 10)
    pages = {(hit.document_name, hit.row >= NUMBER_STRIDE) for hit in hits if hit.ordinal == 2}
    assert pages == {*((f"file{number:03}.pdf", False) for number in range(3)), ("plain.pdf", True)}
    assert len({hit.item for hit in hits}) == len(hits)


FIGURES = (
    "Cover of the harbour book",
    "",
    "List of figures\n" + "\n".join(f"Figure {n}: Boats ........ {n + 3}" for n in range(1, 6)),
    "boats boats as Figure 2 shows, and Figure 2 again",
    "Figure 2 shows boats boats boats",
    "Boats\nFigure 2: Boats by year",
    "2.3 Results\nTable 2. Boats",
    "the end",
)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("boats in Figure 2", 6),
        ("boats in Abb. 2", 6),
        ("图2 boats", 6),
        ("boats in Table 2", 7),
        ("boats in section 2.3", 7),
        ("boats on the cover", 1),
        ("boats on the last page", 8),
        ("boats on the second-to-last page", 7),
    ],
)
def test_the_page_that_a_question_points_to_is_first(engine: Engine, text: str, page: int) -> None:
    add_pages(engine.collection, "figures.pdf", FIGURES)
    query = Query(text, documents=frozenset({"d" * 64}))
    (hits,) = engine.search([query], 10)
    assert hits[0].ordinal == page


def test_a_blank_page_is_passed_over_by_those_who_count(engine: Engine) -> None:
    add_pages(engine.collection, "figures.pdf", FIGURES)
    (hits,) = engine.search([Query("boats on the second page", documents=frozenset({"d" * 64}))], 10)
    assert [hit.ordinal for hit in hits[:2]] == [2, 3]


def test_the_pages_that_mention_a_part_come_first_where_none_has_its_caption(engine: Engine) -> None:
    add_pages(engine.collection, "figures.pdf", ("boats", "boats boats boats", "as Figure 9 shows"))
    (hits,) = engine.search([Query("boats in Figure 9", documents=frozenset({"d" * 64}))], 10)
    assert hits[0].ordinal == 3


def test_the_document_that_has_the_figure_is_meant_where_none_is_named(engine: Engine) -> None:
    add_pages(engine.collection, "figures.pdf", FIGURES)
    assert found(engine, "boats boats harbour in Figure 2")[0] == ("figures.pdf", 6)


def test_named_pages_of_other_documents_come_between_the_hits(engine: Engine) -> None:
    pages = found(engine, "harbour boats page 3", top_k=10)[:4]
    assert {("book.pdf", 5), ("plain.pdf", 3)} <= set(pages)


def test_a_number_that_is_only_written_on_the_pages_is_found(engine: Engine) -> None:
    texts = [f"Words of page {letter}\n{number}" for number, letter in enumerate("abcdefg", -2)]
    texts[4] = f"30 boats\n{texts[4]}"
    add_pages(engine.collection, "front.pdf", texts)
    query = Query("words on page 3", documents=frozenset({"d" * 64}))
    (hits,) = engine.search([query], 10)
    assert [hit.ordinal for hit in hits[:2]] == [6, 3]


def test_a_lone_number_on_a_page_is_no_page_number(engine: Engine) -> None:
    add_pages(engine.collection, "lone.pdf", ("words a", "words b", "words c", "words d\n3", "words e"))
    (hits,) = engine.search([Query("words on page 3", documents=frozenset({"d" * 64}))], 10)
    assert hits[0].ordinal == 3


def test_of_many_named_pages_those_come_first_that_the_words_find(engine: Engine) -> None:
    texts = ["boats" if number in {7, 8} else "tides" for number in range(1, 13)]
    add_pages(engine.collection, "long.pdf", texts)
    (hits,) = engine.search([Query("boats on pages 2 to 9", documents=frozenset({"d" * 64}))], 10)
    assert {hit.ordinal for hit in hits[:2]} == {7, 8}


def test_few_texts_are_read_in_a_long_document(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    add_pages(engine.collection, "long.pdf", [f"boats Figure 2 of page {number}" for number in range(400)])
    read: list[int] = []
    read_texts = named_pages.read_texts

    def count(source: named_pages.PageSource, rows: Sequence[int]) -> dict[int, str]:
        texts = read_texts(source, rows)
        read.append(len(source.texts))
        return texts

    monkeypatch.setattr(named_pages, "read_texts", count)
    query = Query("boats in Figure 2 on page 7", documents=frozenset({"d" * 64}))
    assert engine.search([query], 10)[0]
    assert 0 < max(read) <= 2 * named_pages.MAX_READ_TEXTS
