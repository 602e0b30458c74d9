"""Conflicts that are planted in documents, and those told compared with those known."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from benchmarks.conflict_documents import FORMATS, PAGED, Heading, Paragraph, Table, flatten, write_document
from benchmarks.conflict_matching import find_run, is_stated, numbers
from benchmarks.conflict_sources import Source, mine_facts, read_markdown
from benchmarks.conflict_truth import Collection, Planted, Side, load_truth, read_by_hand
from benchmarks.conflicts import (
    CollectionResult,
    FoundConflict,
    FoundSide,
    is_marked,
    is_placed,
    judge,
    read_items,
    report,
)
from benchmarks.planted_conflicts import DATA, Fact, generate, load_facts
from vrag.corpus.converter import CorpusOptions
from vrag.geometry import Box, Size
from vrag.index.build import add
from vrag.index.collection import Collection as Index
from vrag.types import Item, ItemKind, TextSource, Word

FACTS = """\
@ own/notes 1234567 notes.md
$1,200 | grant for | number | Clef | the grant for a first project | $1,300; $1,500; u:€1,200 | USD 1,200
5 days | wait no longer | number | Clef | the time to wait for an answer | 7 days; u:5 weeks | five days
June 14, 2024 | fund was opened | date | Clef | the day of its opening | July 14, 2024 | 2024-06-14
Ada Young | fund is led by | name | Clef | the head of the fund | Bo Lind; Cy Marsh | Dr Ada Young
"""
RULES = """\
@ own/notes 1234567 notes.md
may not be passed on | The grant may not be passed on. | It may be passed on. | Passing it on is allowed.
"""
NOTES = """\
# The fund

The grant for a first project is $1,200. Nobody has to wait no longer than 5 days for an answer.

The fund was opened on June 14, 2024. The fund is led by Ada Young. The grant may not be passed on.
"""


@pytest.fixture
def facts(tmp_path: Path) -> list[tuple[Source, list[Fact]]]:
    """One document, and the facts that it states."""
    (tmp_path / "facts.txt").write_text(FACTS, encoding="utf-8")
    (tmp_path / "rules.txt").write_text(RULES, encoding="utf-8")
    return load_facts(lambda _: Source("notes", "md", NOTES.encode()), tmp_path)


def plant(facts: list[tuple[Source, list[Fact]]], seed: int) -> list[Collection]:
    return list(generate(facts, [], seed, 12))


def file_contents(collections: list[Collection], folder: Path) -> dict[str, bytes]:
    for collection in collections:
        collection.save(folder)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


def test_a_seed_gives_the_same_bytes_and_another_seed_others(
    facts: list[tuple[Source, list[Fact]]], tmp_path: Path
) -> None:
    first = file_contents(plant(facts, 1), tmp_path / "first")
    again = file_contents(plant(facts, 1), tmp_path / "again")
    other = file_contents(plant(facts, 2), tmp_path / "other")

    assert first == again
    assert first != other


def test_as_many_conflicts_as_traps_are_planted_and_none_twice(
    facts: list[tuple[Source, list[Fact]]],
) -> None:
    collections = plant(facts, 1)
    planted = [(collection.name, one) for collection in collections for one in collection.planted]

    assert Counter(one.conflict for _, one in planted) == {True: 12, False: 12}
    assert len(set(planted)) == len(planted)
    assert {one.kind for _, one in planted if one.conflict} >= {"number", "date", "name", "negation", "unit"}


def test_sides_of_a_conflict_differ_and_stand_in_their_documents(
    facts: list[tuple[Source, list[Fact]]], tmp_path: Path
) -> None:
    for collection in plant(facts, 3):
        collection.save(tmp_path)
        for one in load_truth(tmp_path / collection.name):
            first, second = one.sides
            assert first.document != second.document
            if one.conflict:
                assert first.value != second.value
            for side in one.sides:
                content = collection.documents[side.document]
                blocks = content.blocks if isinstance(content, Source) else content
                assert side.value in " ".join(map(flatten, blocks)), side


def test_an_edition_leaves_out_what_other_documents_state_otherwise(
    facts: list[tuple[Source, list[Fact]]],
) -> None:
    for collection in plant(facts, 1):
        editions = [name for name in collection.documents if "-edition" in name]
        planted_in = {(one.sides[0].value, one.sides[1].document) for one in collection.planted}
        for name in editions:
            content = collection.documents[name]
            assert not isinstance(content, Source)
            text = " ".join(map(flatten, content))
            stated = {value for value, document in planted_in if document == name}
            elsewhere = {value for value, document in planted_in if document != name} - stated
            assert not [value for value in elsewhere if value in text]


def test_values_that_are_mined_stand_once_and_change_by_more_than_a_rounding() -> None:
    text = "The works had 4,812 employees at the end of the year, as the office was told by the owners.\n\n"
    text += "The old bridge was closed to all traffic in May 1931 after a long and costly dispute."
    source = Source("a", "md", text.encode())

    mined = mine_facts(source, random.Random(1))

    assert {value for _, value, _, _ in mined} == {"4,812", "May 1931"}
    for _, value, _, others in mined:
        assert others
        assert value not in others


def test_a_value_that_stands_twice_is_not_mined() -> None:
    text = "The works had 4,812 employees at the end of the year, as the office was told by the owners.\n\n"
    source = Source("a", "md", (text + "Of the 4,812 employees nobody lived in the town itself.").encode())

    assert mine_facts(source, random.Random(1)) == []


def test_markdown_loses_links_and_marks() -> None:
    blocks = list(
        read_markdown("# A *title*\n\nSee [the list](http://x.org/a_b) for **5 days**.\n* one\n* two\n")
    )

    assert blocks == [
        Heading("A title"),
        Paragraph("See the list for 5 days."),
        Paragraph("one"),
        Paragraph("two"),
    ]


def convert(folder: Path) -> dict[tuple[str, int], Item]:
    options = CorpusOptions(ocr="never")
    with_documents = Index.open_or_create(folder / "index", options)
    add(with_documents, [folder / "documents"], options)
    return read_items(folder / "index")


@pytest.mark.parametrize("format", ["txt", "md", "html", "pdf"])
def test_what_is_written_is_read_again(format: str, tmp_path: Path) -> None:
    check_reading(format, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("soffice"), reason="LibreOffice is not installed")
@pytest.mark.parametrize("format", ["docx", "xlsx"])
def test_what_is_written_for_an_office_program_is_read_again(format: str, tmp_path: Path) -> None:
    check_reading(format, tmp_path)


def check_reading(format: str, tmp_path: Path) -> None:
    rows = (("Item", "Value"), ("Rent of the flat", "€1,240"), ("Deposit", "2480"))
    blocks = [Heading("Fact sheet"), Paragraph("The lease ends on 3 May 2027. " * 40), Table(rows)]
    path = tmp_path / "documents" / f"sheet.{format}"
    write_document(path, blocks)
    written = path.read_bytes()
    write_document(path, blocks)

    assert path.read_bytes() == written
    items = convert(tmp_path)
    for value in ("€1,240", "2480", "3 May 2027"):
        in_page = [find_run(value, [i.text[w.start : w.end] for w in i.words]) for i in items.values()]
        in_text = [find_run(value, item.text.split()) for item in items.values()]
        assert any(map(any, in_page if format in PAGED else in_text)), value


@pytest.mark.parametrize("format", FORMATS)
def test_no_file_says_when_it_was_made(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [Heading("Fact sheet"), Paragraph("The lease ends soon."), Table((("Item", "Value"),))]
    write_document(tmp_path / f"first.{format}", blocks)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    write_document(tmp_path / f"later.{format}", blocks)

    assert (tmp_path / f"first.{format}").read_bytes() == (tmp_path / f"later.{format}").read_bytes()


def test_a_number_is_not_found_in_a_longer_one() -> None:
    assert list(find_run("12 weeks", ["112", "weeks"])) == []
    assert list(find_run("12 weeks", ["12", "weeks.4"])) == [(0, 2)]
    assert list(find_run("January 23, 2023", ["on", "January", "23,", "2023."])) == [(1, 4)]


def test_what_is_made_by_hand_is_sound() -> None:
    collections = list(read_by_hand(DATA / "by_hand.txt"))
    conflicts = [one for collection in collections for one in collection.planted if one.conflict]

    assert len(conflicts) == 20
    assert {one.kind for one in conflicts} == {"number", "date", "name", "unit", "negation"}
    assert any(one.style == "edition" and one.newer == 1 for one in conflicts)
    suffixes = [{Path(side.document).suffix for side in one.sides} for one in conflicts]
    assert sum(len(both) == 2 for both in suffixes) * 2 >= len(conflicts)
    for collection in collections:
        assert len(set(collection.planted)) == len(collection.planted)
        for side in (side for one in collection.planted for side in one.sides):
            content = collection.documents[side.document]
            assert not isinstance(content, Source)
            assert " ".join(map(flatten, content)).count(side.value) >= 1, side


@pytest.mark.parametrize(
    ("value", "told", "quote", "kind", "stated"),
    [
        ("$400,000", "400000 USD", "", "number", True),
        ("$400,000", "$450,000", "", "number", False),
        ("20 June 2026", "2026-06-20", "", "date", True),
        ("20 June 2026", "27 June 2026", "", "date", False),
        ("five days", "5 days", "", "number", True),
        ("12.4 million", "12,400,000", "", "number", True),
        ("Lena Brandt", "Ms Lena Brandt, treasurer", "", "name", True),
        ("Lena Brandt", "Brandt", "", "name", True),
        ("Lena Brandt", "a", "", "name", False),
        ("5 years", "5", "every 5 years of work", "unit", True),
        ("5 years", "5", "every 5 months of work", "unit", False),
        ("15 hours", "115 hours", "", "number", False),
        ("Pets may not be kept here", "may not", "Pets may not be kept here.", "negation", True),
        ("Pets may not be kept here", "no", "Dogs are welcome.", "negation", False),
    ],
)
def test_values_are_compared_by_what_they_say(
    value: str, told: str, quote: str, kind: str, *, stated: bool
) -> None:
    other = "5 months" if kind == "unit" else "nothing"

    assert is_stated(value, told, quote, kind, other) is stated


def test_words_that_only_begin_like_months_are_no_numbers() -> None:
    assert numbers("marked decision, maybe") == frozenset()
    assert numbers("12 Sept. 2024") == {Decimal(12), Decimal(9), Decimal(2024)}


RENT = Planted("number", "letter", True, (Side("a.pdf", "£1,180"), Side("b.html", "£1,280")))
PAST = Planted("number", "letter, past", False, (Side("a.pdf", "£1,180"), Side("b.html", "£900")))


def tell(first: FoundSide, second: FoundSide) -> FoundConflict:
    return FoundConflict(kind="number", sides=[first, second])


def page_of(*words: str) -> Item:
    """A page with one word below the other, each a tenth of its height."""
    text, placed = " ".join(words), list[Word]()
    for number, word in enumerate(words):
        start = sum(len(other) + 1 for other in words[:number])
        box = Box.unit(0.1, 0.1 * number, 0.3, 0.1 * number + 0.05)
        placed.append(Word(start, start + len(word), box))
    return Item(
        id="0" * 16 + "-1", document="0" * 64, document_name="a.pdf", kind=ItemKind.PAGE, ordinal=1,
        image="a.jpg", size=Size(100, 100), text=text, text_source=TextSource.LAYER, words=tuple(placed),
    )  # fmt: skip


RIGHT = FoundSide(
    document="a.pdf", page=1, box=(0.05, 0.08, 0.5, 0.17), value="£1,180", marks=[(0.1, 0.1, 0.3, 0.15)]
)
OTHER_SIDE = FoundSide(document="b.html", value="£1,280")


def test_told_conflicts_are_sorted_into_hits_traps_echoes_and_others() -> None:
    told = [
        tell(OTHER_SIDE, RIGHT),
        tell(RIGHT, OTHER_SIDE),
        tell(RIGHT, OTHER_SIDE.model_copy(update={"document": "c.html"})),
        tell(RIGHT, OTHER_SIDE.model_copy(update={"value": "£900"})),
        tell(RIGHT, OTHER_SIDE.model_copy(update={"value": "£7"})),
    ]

    judged = judge("x", told, [RENT, PAST], {("a.pdf", 1): page_of("rent", "£1,180,", "monthly")})

    assert [one.verdict for one in judged] == ["hit", "again", "echo", "trap", "other"]
    assert judged[0].placed == (True,)
    assert judged[0].marked == (True,)


@pytest.mark.parametrize(
    ("box", "right"),
    [
        ((0.05, 0.08, 0.5, 0.17), True),
        ((0.05, 0.18, 0.5, 0.27), False),
        ((0.0, 0.0, 1.0, 0.5), False),
        (None, False),
    ],
)
def test_a_rectangle_shows_the_value_and_not_much_else(
    box: tuple[float, float, float, float] | None, *, right: bool
) -> None:
    told, page = RIGHT.model_copy(update={"box": box}), page_of("rent", "£1,180,", "monthly")

    assert is_placed(told, "£1,180", page) is right
    assert not is_placed(told, "£1,280", page)
    assert not is_placed(told, "£1,180", None)


def test_marks_cover_each_word_of_the_value() -> None:
    page = page_of("12", "weeks", "off")
    marks = [(0.1, 0.0, 0.3, 0.05), (0.1, 0.1, 0.3, 0.15)]

    assert is_marked(RIGHT.model_copy(update={"marks": marks}), "12 weeks", page)
    assert not is_marked(RIGHT.model_copy(update={"marks": marks[:1]}), "12 weeks", page)


def test_the_report_names_what_was_missed_and_what_is_false() -> None:
    told = [tell(RIGHT, OTHER_SIDE), tell(RIGHT, OTHER_SIDE.model_copy(update={"value": "£900"}))]
    missed = replace(RENT, sides=(Side("a.pdf", "May"), Side("b.html", "June")), kind="date")
    planted = [RENT, PAST, missed]
    judged = judge("x", told, planted, {("a.pdf", 1): page_of("rent", "£1,180,", "monthly")})

    text = report([CollectionResult("x", planted, judged, 2, 3.0)])

    assert "found                1/2 = 0.500" in text
    assert "precision            1/2 = 0.500" in text
    assert "all rectangles right 1/1 = 1.000" in text
    assert "seconds a document   1.50" in text
    assert "x number (letter, past)" in text
    assert "x date, letter: a.pdf «May» / b.html «June»" in text
