"""SlideVQA from the hub, with its pictures in every row, and from its repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from document_sets import IMAGE, cell, pa, pages_of, picture, taken, write_files, write_lines, write_table

from vrag.datasets.protocols import FileDocument
from vrag.datasets.slidevqa import SlideVQA
from vrag.errors import CaseError
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HUB = pa.schema(
    [
        ("deck_name", pa.string()),
        ("deck_url", pa.string()),
        *((f"page_{number}", IMAGE) for number in sorted(range(1, 21), key=str)),  # 1, 10, 11, … 2, 20, 3
        ("qa_id", pa.int64()),
        ("question", pa.string()),
        ("answer", pa.string()),
        ("arithmetic_expression", pa.string()),
        ("evidence_pages", pa.list_(pa.int64())),
    ]
)
DECK = "growth-review-2014-phpapp01_95"


def asked(qa_id: int = 17, pages: Sequence[int] | None = (3, 7), deck: str = DECK) -> dict[str, Any]:
    return {
        "deck_name": deck,
        "deck_url": f"https://www.slideshare.net/x/{deck}",
        "qa_id": qa_id,
        "question": "How many?",
        "answer": "12",
        "arithmetic_expression": "None",
        "evidence_pages": None if pages is None else list(pages),
    }


def hub_row(
    slides: Sequence[bytes | None], qa_id: int = 17, pages: Sequence[int] | None = (3, 7), deck: str = DECK
) -> dict[str, Any]:
    return asked(qa_id, pages, deck) | {f"page_{number}": cell(data) for number, data in enumerate(slides, 1)}


def on_the_hub(folder: Path, *rows: dict[str, Any], split: str = "test") -> Path:
    """In two shards, of groups of two rows."""
    half = (len(rows) + 1) // 2
    for shard, part in enumerate((rows[:half], rows[half:])):
        write_table(folder / "data" / f"{split}-0000{shard}-of-00002.parquet", part, HUB, group=2)
    return folder


def slides(count: int, shade: int = 0) -> list[bytes]:
    return [picture(shade + number) for number in range(count)]


def test_a_deck_is_in_every_row_and_becomes_one_document(tmp_path: Path) -> None:
    one, other = slides(20), slides(20, 100)
    rows = [
        hub_row(one),
        hub_row(other, qa_id=18, deck="b"),
        hub_row(one, qa_id=19),
        hub_row(other, qa_id=20, deck="b"),
    ]

    cases, documents = taken(SlideVQA().open(on_the_hub(tmp_path, *rows)))

    assert cases[0] == Case(
        uid="slidevqa-test-17",
        query="How many?",
        reference_answer="12",
        file_name=f"{DECK}.pdf",
        reference_page=(3, 7),
        query_type="Multi-Hop",
        benchmark="slidevqa",
    )
    assert [case.file_name for case in cases] == [f"{DECK}.pdf", "b.pdf"] * 2
    assert [source.name for source in documents] == [f"{DECK}.pdf", "b.pdf"]
    assert [pages_of(source) for source in documents] == [one, other]


def test_pages_that_are_missing_at_the_end_are_none_and_others_keep_their_number(tmp_path: Path) -> None:
    shown = slides(5)
    broken: list[bytes | None] = [shown[0], None, b"no picture", shown[3][:-40], shown[4]]
    opened = SlideVQA().open(on_the_hub(tmp_path, hub_row(broken, pages=[2, 6])))

    (document,) = taken(opened)[1]

    assert pages_of(document) == pages_of(document) == [shown[0], None, None, None, shown[4]]
    blank = ", ".join(f"{DECK}.pdf, page {page}" for page in (2, 3, 4))
    assert opened.notes == [
        f"Pages without a readable image are blank (3): {blank}.",
        f"Gold pages lie beyond the end of their document (1): {DECK}.pdf, page 6.",
    ]


def test_a_deck_without_pictures_is_a_blank_page(tmp_path: Path) -> None:
    opened = SlideVQA().open(on_the_hub(tmp_path, hub_row([], pages=[])))

    (document,) = taken(opened)[1]

    assert pages_of(document) == [None]
    assert any("no image of any page" in note for note in opened.notes)


@pytest.mark.parametrize("pages", [[], None])
def test_a_question_without_evidence_counts_for_answers_only(
    tmp_path: Path, pages: Sequence[int] | None
) -> None:
    opened = SlideVQA().open(on_the_hub(tmp_path, hub_row(slides(1), pages=pages)))

    assert [case.reference_page for case in opened.cases] == [()]
    assert opened.notes == ["Questions have no gold page and count for answers only (1): slidevqa-test-17."]


def test_the_hub_calls_val_what_the_repository_calls_dev(tmp_path: Path) -> None:
    on_the_hub(tmp_path, hub_row(slides(1)), hub_row(slides(1), qa_id=18), split="val")

    for split in ("dev", "val"):
        assert [case.uid for case in SlideVQA().open(tmp_path, split).cases] == [
            "slidevqa-dev-17",
            "slidevqa-dev-18",
        ]
    with pytest.raises(CaseError, match=r"test-.*NTT-hil-insight/SlideVQA.*Agree"):
        SlideVQA().open(tmp_path)
    with pytest.raises(CaseError, match="validation"):
        SlideVQA().open(tmp_path, "validation")


def test_folders_above_do_not_say_which_split_it_is(tmp_path: Path) -> None:
    folder = on_the_hub(tmp_path / "test-1" / "qa", hub_row(slides(1)), hub_row(slides(1)), split="train")

    with pytest.raises(CaseError, match="holds no test-"):
        SlideVQA().open(folder)


def test_ids_that_repeat_are_made_to_differ(tmp_path: Path) -> None:
    rows = [hub_row(slides(1)), hub_row(slides(1), pages=[1])]

    uids = [case.uid for case in SlideVQA().open(on_the_hub(tmp_path, *rows)).cases]

    assert len(set(uids)) == 2
    assert all(uid.startswith("slidevqa-test-17") for uid in uids)


def test_a_parquet_without_pictures_is_refused_when_documents_are_taken(tmp_path: Path) -> None:
    plain = pa.schema([field for field in HUB if not field.name.startswith("page_")])
    write_table(tmp_path / "data" / "test-00000-of-00001.parquet", [asked()], plain)

    (document,) = taken(SlideVQA().open(tmp_path))[1]

    with pytest.raises(CaseError, match="no column 'page_1'"):
        pages_of(document)


URLS = [f"https://image.example.com/{DECK}-{number}-1024.jpg?cb=1" for number in range(1, 21)]


def repository(folder: Path, *rows: dict[str, Any]) -> Path:
    write_lines(folder / "annotations" / "bbox" / "test.jsonl", [{"deck_name": DECK, "bboxes": []}])
    write_lines(folder / "annotations" / "qa" / "test.jsonl", rows)
    return folder


def put(folder: Path, name: str, data: bytes, deck: str = DECK) -> None:
    path = folder / "images" / "test" / deck / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_pictures_that_were_fetched_are_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    repository(
        tmp_path, asked() | {"image_urls": URLS, "reasoning_type": "Multi-Hop", "answer_type": "Non-Span"}
    )
    shown = {number: picture(number) for number in (1, 2, 10)}
    for number, data in shown.items():
        put(tmp_path, f"{DECK}-{number}-1024.jpg", data)
    put(tmp_path, "a-1-1024.jpg", picture(), "a-deck-nobody-asks-about")

    opened = SlideVQA().open(tmp_path)
    cases, (document,) = taken(opened)

    assert cases[0].query_type == "Multi-Hop"
    assert pages_of(document) == [shown[1], shown[2], *[None] * 7, shown[10]]
    assert "1 folders of images that no question is about were left out." in opened.notes


def test_the_order_is_that_of_addresses_and_not_of_names(tmp_path: Path) -> None:
    urls = [f"https://image.example.com/x/{name}.jpg?cb=1" for name in ("b%20c", "gone", "a-1-638")]
    repository(tmp_path, asked() | {"image_urls": urls})
    for name, shade in (("b c.jpg", 50), ("a-1-638.jpg", 100), ("more-2-638.jpg", 150)):
        put(tmp_path, name, picture(shade))

    (document,) = taken(SlideVQA().open(tmp_path))[1]

    assert pages_of(document) == [picture(50), None, picture(100)]


def test_without_addresses_the_numbers_in_the_names_are_the_pages(tmp_path: Path) -> None:
    repository(tmp_path, asked())
    shown = {number: picture(number) for number in (1, 2, 10)}
    for number, data in shown.items():
        put(tmp_path, f"slide-{number}-638.jpg", data)

    (document,) = taken(SlideVQA().open(tmp_path))[1]

    assert pages_of(document) == [shown[1], shown[2], *[None] * 7, shown[10]]


def test_a_deck_that_could_not_be_fetched_is_left_out_with_its_questions(tmp_path: Path) -> None:
    repository(tmp_path, asked(), asked(qa_id=18, deck="gone"), asked(qa_id=19, deck="printed"))
    put(tmp_path, "slide-1-638.jpg", picture())
    write_files(tmp_path / "pdf", "printed.pdf")

    opened = SlideVQA().open(tmp_path)
    cases, documents = taken(opened)

    assert [case.uid for case in cases] == ["slidevqa-test-17", "slidevqa-test-19"]
    assert documents[1] == FileDocument("printed.pdf", tmp_path / "pdf" / "printed.pdf")
    assert "Questions about decks that are missing were left out (1): slidevqa-test-18." in opened.notes


@pytest.mark.parametrize(
    "url", ["../../secret.jpg", "https://[", 7, None, "", "https://a/..%2f..%2fsecret.jpg"]
)
def test_an_address_leads_to_no_other_folder(tmp_path: Path, url: object) -> None:
    (tmp_path / "secret.jpg").write_bytes(picture())
    repository(tmp_path / "set", asked() | {"image_urls": [url]})
    put(tmp_path / "set", "x.jpg", picture())

    with pytest.raises(CaseError, match="holds no images"):
        SlideVQA().open(tmp_path / "set")


@pytest.mark.parametrize("deck", ["..", "../a", "a/b", "\x00", "a\nb", "", "x" * 300])
def test_a_deck_is_a_plain_name(tmp_path: Path, deck: str) -> None:
    with pytest.raises(CaseError, match="row 1"):
        SlideVQA().open(repository(tmp_path, asked(deck=deck)))
