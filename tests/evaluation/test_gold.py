from __future__ import annotations

import pytest

from vrag.evaluation.relevance import DocumentNames, Gold, has_gold
from vrag.types import Case, Document, DocumentStatus, GoldPage, ItemKind, item_id

FERRY, HARBOUR = "f" * 64, "0" * 64


def names(**files: str) -> DocumentNames:
    return DocumentNames.of(
        Document(path=name, id=id, name=name, size=1, mtime_ns=1, status=DocumentStatus.READY, items=9)
        for name, id in files.items()
    )


NAMES = names(**{"ferry.pdf": FERRY, "copy.pdf": FERRY, "harbour.mp4": HARBOUR})


def case(*gold: GoldPage, pages: tuple[int, ...] = (), spans: tuple[tuple[float, float], ...] = ()) -> Case:
    return Case(
        uid="c",
        query="?",
        reference_answer="9",
        file_name="harbour.mp4" if spans else "ferry.pdf",
        reference_page=pages,
        gold=gold,
        spans=spans,
    )


def test_pages_of_several_documents_with_their_grades() -> None:
    gold = Gold.of(case(GoldPage("ferry.pdf", 2, 2), GoldPage("other.pdf", 1)), NAMES)
    assert gold.grades == {("ferry.pdf", "page", 2): 2, ("other.pdf", "page", 1): 1}
    assert gold.documents == {"ferry.pdf", "other.pdf"}


@pytest.mark.parametrize("grades", [(1, 2), (2, 1)])
def test_the_same_page_under_two_names_is_one_with_the_higher_grade(grades: tuple[int, int]) -> None:
    gold = Gold.of(case(GoldPage("ferry.pdf", 2, grades[0]), GoldPage("copy.pdf", 2, grades[1])), NAMES)
    assert gold.grades == {("copy.pdf", "page", 2): 2}
    assert gold.spot(item_id(FERRY, 2), "ferry.pdf", 2, ItemKind.PAGE) in gold.grades


def test_a_whole_document_holds_its_pages() -> None:
    gold = Gold.of(case(GoldPage("ferry.pdf"), GoldPage("ferry.pdf", 2)), NAMES)
    assert gold.grades == {("ferry.pdf", "whole", 0): 1}
    for kind in ItemKind:
        assert gold.spot(item_id(FERRY, 7), "copy.pdf", 7, kind) == ("ferry.pdf", "whole", 0)


def test_a_passage_or_a_clip_with_the_number_of_a_gold_page_is_not_gold() -> None:
    gold = Gold.of(case(pages=(2,)), NAMES)
    assert gold.spot(item_id(FERRY, 2), "ferry.pdf", 2, ItemKind.PAGE) in gold.grades
    for kind in (ItemKind.PASSAGE, ItemKind.CLIP):
        assert gold.spot(item_id(FERRY, 2), "ferry.pdf", 2, kind) not in gold.grades


@pytest.mark.parametrize("name", ["faq.html", "Notes.MD", "log.txt", "data.json"])
def test_a_page_of_a_document_of_text_is_met_by_any_passage_of_it(name: str) -> None:
    gold = Gold.of(case(GoldPage(name, 1), GoldPage(name, 2, 3), GoldPage("ferry.pdf", 1)), DocumentNames())
    assert gold.grades == {(name, "text", 0): 3, ("ferry.pdf", "page", 1): 1}
    for number in (1, 7):
        assert gold.spot("a" * 16, name, number, ItemKind.PASSAGE) == (name, "text", 0)
        assert gold.spot("b" * 16, f"x{name}", number, ItemKind.PASSAGE) not in gold.grades
        assert gold.spot("f" * 16, "ferry.pdf", number, ItemKind.PASSAGE) not in gold.grades


def test_a_picture_in_a_document_of_text_is_gold_by_its_number() -> None:
    gold = Gold.of(case(GoldPage("faq.html", 2)), DocumentNames())
    assert gold.spot("a" * 16, "faq.html", 2, ItemKind.PAGE) in gold.grades
    assert gold.spot("a" * 16, "faq.html", 3, ItemKind.PAGE) not in gold.grades
    assert gold.spot("a" * 16, "faq.html", 2, ItemKind.CLIP) not in gold.grades


def test_a_document_of_text_is_known_by_all_its_names() -> None:
    both = names(**{"b.txt": FERRY, "a.md": FERRY})
    gold = Gold.of(case(GoldPage("b.txt", 1), GoldPage("a.md", 2)), both)
    assert gold.grades == {("a.md", "text", 0): 1}
    assert gold.spot(item_id(FERRY, 4), "b.txt", 4, ItemKind.PASSAGE) in gold.grades


@pytest.mark.parametrize(
    ("seconds", "at"),
    [
        ((0.0, 10.0), None),  # ends where the first stretch begins
        ((9.0, 11.0), 0),
        ((12.0, 13.0), 0),
        ((19.0, 35.0), 1),  # 1 second of the first, 5 of the second
        ((15.0, 35.0), 0),  # 5 seconds of both
        ((20.0, 30.0), None),
        ((10.0, 10.0), 0),  # a frame
        (None, None),
    ],
)
def test_a_clip_is_the_stretch_that_it_overlaps_longest(
    seconds: tuple[float, float] | None, at: int | None
) -> None:
    gold = Gold.of(case(spans=((10.0, 20.0), (30.0, 40.0))), NAMES)
    spot = gold.spot(item_id(HARBOUR, 3), "harbour.mp4", 3, ItemKind.CLIP, seconds)
    assert gold.grades.get(spot) == (None if at is None else 1)
    assert at is None or spot == ("harbour.mp4", "span", at)


def test_what_happens_at_that_time_in_another_video_is_not_gold() -> None:
    gold = Gold.of(case(spans=((10.0, 20.0),)), NAMES)
    assert gold.spot("9" * 16 + "-3", "film.mp4", 3, ItemKind.CLIP, (10.0, 20.0)) not in gold.grades


def test_a_case_without_any_has_none() -> None:
    assert not has_gold(case())
    assert has_gold(case(pages=(1,)))
    assert has_gold(case(spans=((0.0, 1.0),)))
    assert has_gold(case(GoldPage("ferry.pdf")))
