"""The document that a query means, and the documents that a question may be about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from test_named_pages import add_pages

from vrag.index.collection import Collection
from vrag.search.engine import Engine
from vrag.search.multi import MultiSearcher
from vrag.search.named_documents import find_candidates
from vrag.types import Query, item_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vrag.types import Hit

PAGES = ("The year of a retailer", "Revenue grew in the stores.", "Stores and staff.", "More stores.")
OTHER = ("Coffee houses and their stores", *(f"Revenue of the stores in year {year}." for year in range(4)))


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Opens two documents about the same things; the second has more pages about them."""
    collection = Collection.create(tmp_path / "collection")
    add_pages(collection, "BESTBUY_2023_10K.pdf", PAGES, document="a" * 64)
    add_pages(collection, "scan-17.pdf", OTHER, document="b" * 64)
    return Engine(collection, None)


def find(engine: Engine, text: str, top_k: int = 10, preferred: str | None = None) -> list[Hit]:
    (hits,) = engine.search([Query(text, preferred=preferred)], top_k)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    return hits


def names(hits: Sequence[Hit]) -> list[str]:
    return [hit.document_name for hit in hits]


@pytest.mark.parametrize(
    "text",
    [
        "What revenue did the stores of Best Buy have?",
        "What revenue does the Bestbuy report say the stores had?",
        "revenue stores bestbuy_2023_10k",
    ],
)
def test_the_document_with_the_name_in_its_file_name_comes_first(engine: Engine, text: str) -> None:
    assert names(find(engine, "What revenue did the stores have?"))[0] == "scan-17.pdf"
    assert names(find(engine, text))[:3] == ["BESTBUY_2023_10K.pdf"] * 3


def test_the_document_with_the_name_in_its_title_comes_first(engine: Engine) -> None:
    add_pages(
        engine.collection, "scan-18.pdf", ("TAKE A STEP-BACK Prompting", "revenue", "revenue of stores")
    )
    best, *_ = find(engine, "What revenue of the stores does the paper on StepBack have?")
    assert best.document_name == "scan-18.pdf"


def test_a_name_in_the_titles_of_two_documents_names_none(engine: Engine) -> None:
    text = "What revenue did the stores of Acme have?"
    plain = names(find(engine, text))
    for number in (1, 2):
        title = f"Acme plan {number}"
        add_pages(engine.collection, f"scan-{number}.pdf", (title, "cranes"), document=str(number) * 64)
    assert [name for name in names(find(engine, text)) if name in plain][:5] == plain[:5]


def test_a_document_that_comes_later_is_named_as_well(engine: Engine) -> None:
    question = "What revenue does the Wharf handbook say the stores had?"
    assert "Wharf_handbook.pdf" not in names(find(engine, question))
    add_pages(engine.collection, "Wharf_handbook.pdf", OTHER, document="c" * 64)
    assert names(find(engine, question))[0] == "Wharf_handbook.pdf"
    add_pages(engine.collection, "Wharf-2024.pdf", OTHER[:2], document="d" * 64)
    assert names(find(engine, "How does the Wharf report describe revenue?"))[0] != "Wharf_handbook.pdf"


def test_a_wrong_guess_hides_nothing(engine: Engine) -> None:
    text = "What revenue did the stores have in year 3, as opposed to Best Buy?"
    best, *_ = find(engine, text.replace("Best Buy", "others"))
    assert best.item in {hit.item for hit in find(engine, text)}


def test_names_count_in_the_documents_that_a_query_may_find_alone(engine: Engine) -> None:
    query = Query(
        "What revenue did the stores of Best Buy have?", documents=frozenset({"b" * 64}), preferred="a" * 64
    )
    (hits,) = engine.search([query], 10)
    assert set(names(hits)) == {"scan-17.pdf"}


def test_several_collections_put_the_named_document_first(tmp_path: Path) -> None:
    engines: dict[str, Engine] = {}
    for name, file, texts in (("a", "BESTBUY_2023_10K.pdf", PAGES), ("b", "scan-17.pdf", OTHER)):
        collection = Collection.create(tmp_path / name)
        add_pages(collection, file, texts, document=name * 64)
        engines[name] = Engine(collection, None)
    query = Query("What revenue did the stores of Best Buy have?")
    (hits,) = MultiSearcher(engines).search([query], 10)
    assert names(hits)[:3] == ["BESTBUY_2023_10K.pdf"] * 3


def test_the_preferred_document_comes_first_unless_another_is_named(engine: Engine) -> None:
    assert names(find(engine, "revenue of stores", preferred="a" * 64))[0] == "BESTBUY_2023_10K.pdf"
    named = find(engine, "What revenue did the stores of Best Buy have?", preferred="b" * 64)
    assert names(named)[0] == "BESTBUY_2023_10K.pdf"


def test_sentences_about_the_form_of_the_answer_are_not_searched(engine: Engine) -> None:
    add_pages(engine.collection, "forms.pdf", ("integer format", "list format of answers"))
    question = "What revenue did the stores have?"
    asked = find(engine, f"{question} Write the answer in integer format.")
    assert asked == find(engine, question)
    assert names(find(engine, "answer in list format"))[0] == "forms.pdf"


def candidates(engine: Engine, question: str) -> list[str]:
    return names(find_candidates(question, find(engine, question), engine))


@pytest.mark.parametrize(
    "question",
    [
        "What does this report say about the stores?",
        "What revenue of the stores is on the last page?",
        "Wie hoch ist laut diesem Bericht revenue stores?",
        "这份报告 revenue stores",
    ],
)
def test_people_are_asked_which_document_a_question_is_about(engine: Engine, question: str) -> None:
    assert sorted(candidates(engine, question)) == ["BESTBUY_2023_10K.pdf", "scan-17.pdf"]


@pytest.mark.parametrize(
    "question",
    [
        "What revenue did the stores of Best Buy have according to this report?",
        "When did Norman open stores?",
        "What does this report say about coffee houses?",
    ],
)
def test_clear_questions_are_not_asked_back(engine: Engine, question: str) -> None:
    assert candidates(engine, question) == []


def test_one_document_is_no_choice(engine: Engine) -> None:
    query = Query("What does this report say about the stores?", documents=frozenset({"a" * 64}))
    (hits,) = engine.search([query], 10)
    assert hits
    assert find_candidates(query.text, hits, engine) == []


def test_scores_of_fused_rankings_do_not_ask_back(engine: Engine) -> None:
    question = "What revenue did the stores have?"
    hits = [
        replace(hit, document=str(rank % 2) * 64, item=item_id(str(rank % 2) * 64, rank + 1), score=0.03)
        for rank, hit in enumerate(find(engine, question))
    ]
    assert find_candidates(question, hits, engine) == []
    by_words = [replace(hit, score=3.0) for hit in hits]
    assert len(find_candidates(question, by_words, engine)) == len({hit.document for hit in hits[:2]})
