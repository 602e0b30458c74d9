"""Questions that are suggested: in the language of a document, and only such that the reader answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.reading.answer import ReadPage
from vrag.reading.reader import read
from vrag.reading.suggested_questions import MAX_QUESTION_CHARS, Language, find_language, suggest_questions
from vrag.types import Item, ItemKind, Word

HEIGHT = 0.02


def page(*lines: tuple[float, float, str], ordinal: int = 1) -> Item:
    """A page of lines at their left and top."""
    text, words = "", list[Word]()
    for left, top, line in lines:
        at = 0
        for word in line.split():
            at = line.index(word, at)
            width = sum(HEIGHT if ord(character) > 0x2E80 else HEIGHT / 2 for character in word)
            x = left + at * HEIGHT / 2
            box = Box.unit(x, top, min(x + width, 1.0), top + HEIGHT)
            words.append(Word(len(text) + at, len(text) + at + len(word), box))
            at += len(word)
        text += line + "\n"
    return Item(
        id=f"report-{ordinal}", document="report", document_name="report.pdf", kind=ItemKind.PAGE,
        ordinal=ordinal, text=text, words=tuple(words), size=Size(1000, 1000),
    )  # fmt: skip


def table(*rows: tuple[str, ...], prose: str, ordinal: int = 1) -> Item:
    lines = [(0.08, 0.06, prose)]
    for number, row in enumerate(rows):
        lines += [(0.08 + 0.26 * at, 0.2 + 0.04 * number, cell) for at, cell in enumerate(row)]
    return page(*lines, ordinal=ordinal)


ENGLISH = table(
    ("", "2023", "2024"),
    ("Total revenue", "8,203", "9,114"),
    ("Net profit", "412", "530"),
    ("Passengers", "184,220", "191,004"),
    prose="The table shows how the revenue and the passengers of the line have changed in these years.",
)
FLEET = table(
    ("Ship", "Length", "Cars"),
    ("Sanderling", "46.2 m", "28"),
    ("Kittiwake", "38.5 m", "16"),
    ("Fulmar", "22.0 m", "4"),
    prose="The fleet of the company and what each of the ships can carry on board.",
    ordinal=2,
)
SHARES = table(
    ("Property", "Archive", "Standard"),
    ("Minimum duration", "90 days", "30 days"),
    ("Retrieval time", "12 hours", "1 hour"),
    prose="The classes of storage of the service and what each of them is for.",
)
GERMAN = table(
    ("", "2023", "2024"),
    ("Umsatz", "8.203", "9.114"),
    ("Gewinn", "412", "530"),
    ("Fahrgäste", "184.220", "191.004"),
    prose="Die Tabelle zeigt, wie sich der Umsatz und die Zahl der Fahrgäste im Vergleich zu früher ändern.",
)
CHINESE = table(
    ("航线", "首班", "末班"),
    ("赫塞尔港", "06:30", "21:10"),
    ("芬尼克岛", "07:15", "20:40"),
    ("奥拉岛", "08:05", "19:20"),
    prose="下表列出各条航线的首班与末班时间，请提前十五分钟到达码头候船。",
)


@pytest.mark.parametrize(
    ("item", "language", "some"),
    [
        (ENGLISH, Language.ENGLISH, "What was the total revenue in 2023?"),
        (FLEET, Language.ENGLISH, "What is the length of Fulmar?"),
        (SHARES, Language.ENGLISH, "What is the minimum duration of Archive?"),
        (CHINESE, Language.CHINESE, "赫塞尔港的首班是几点？"),
    ],
)
def test_tables_are_asked_about_in_the_language_of_the_document(
    item: Item, language: Language, some: str
) -> None:
    assert find_language(item.text) is language
    found = suggest_questions([ReadPage(item)], 6)
    assert some in [question.text for question in found]


def test_every_question_is_one_that_the_reader_answers_on_its_page() -> None:
    pages = [ReadPage(ENGLISH), ReadPage(FLEET)]
    found = suggest_questions(pages, 6)
    assert {question.item for question in found} == {"report-1", "report-2"}
    assert found[0].item != found[1].item, "of different pages first"
    for question in found:
        best, *_ = read(question.text, pages)
        assert (best.item, best.text) == (question.item, question.answer)


@pytest.mark.parametrize(
    "item",
    [
        page(
            (
                0.1,
                0.1,
                "Dear Ms Okafor, the harbour of Lindholm was opened in 1962 and handles mostly timber.",
            )
        ),
        table(
            ("", "2023"),
            ("Hordville", "191"),
            ("Marquette", "318"),
            prose="The towns and the people of the county.",
        ),
        table(
            ("Step", "Increase to 9"),
            ("Raise", "5"),
            ("Lower", "7"),
            prose="The steps and the levels of the plan.",
        ),
    ],
    ids=["prose", "names in years", "heads with figures"],
)
def test_what_makes_no_good_question_is_left_alone(item: Item) -> None:
    assert suggest_questions([ReadPage(item)]) == []


def test_languages_whose_questions_need_more_grammar_have_none() -> None:
    french = table(
        ("", "2023", "2024"),
        ("Chiffre", "8203", "9114"),
        ("Effectif", "412", "530"),
        prose="Les voyageurs prennent la ligne toute la semaine.",
    )
    for item, language in ((french, Language.OTHER), (GERMAN, Language.GERMAN)):
        assert find_language(item.text) is language
        assert suggest_questions([ReadPage(item)]) == []


def test_rows_that_say_what_happened_and_bare_words_are_not_asked_for() -> None:
    item = table(
        ("", "2023", "2024"),
        ("Energy", "8,203", "9,114"),
        ("Traffic", "412", "530"),
        prose="The energy and the traffic of the line in these years, and what became of it.",
    )
    options = table(
        ("Options", "Shares", "Exercise price"),
        ("Exercised", "28", "34.83"),
        ("Outstanding", "16", "35.12"),
        prose="The options of the company and what each of the shares can be bought for.",
    )
    assert suggest_questions([ReadPage(item)]) == suggest_questions([ReadPage(options)]) == []


CELLS = st.sampled_from(
    ["", "8,203", "Revenue", "2024", "a?b", "<script>", "—", "$ 3", "Total", "12 m", "收入", "ab " * 40]
)


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5), prose=st.text(max_size=60))
def test_any_page_gives_short_questions_that_it_answers(rows: list[tuple[str, str, str]], prose: str) -> None:
    item = table(*rows, prose=prose.replace("\n", " "))
    for question in suggest_questions([ReadPage(item)]):
        assert question.answer in item.text.replace("\n", " ") or question.answer
        assert len(question.text) <= MAX_QUESTION_CHARS
        assert "\n" not in question.text
