"""The reader: what it quotes stands in the item, where it points is on the page, and it can say nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vrag.geometry import Box, Size
from vrag.reading import SelectedAnswer, best_quote, search_query
from vrag.reading.query_analysis import AnswerType, Pointer, ask_of, parse
from vrag.reading.text_layout import layout, one_edit_apart, stem, tokens
from vrag.types import Item, ItemKind, Word

PLACED = tuple[float, float, str]
"""Left, baseline from the top, and the words of one line, in fractions of the page."""


def page(*lines: PLACED, ordinal: int = 1, name: str = "file.pdf", height: float = 0.02) -> Item:
    """A page on which each line is set in letters as wide as half their height."""
    text, words = "", list[Word]()
    for left, top, line in lines:
        for word in line.split():
            x = left + len(line[: line.index(word)]) * height / 2
            box = Box.unit(x, top, min(x + len(word) * height / 2, 1.0), top + height)
            words.append(Word(len(text), len(text) + len(word), box))
            text += word + " "
        text = text[:-1] + "\n"
    return Item(
        id=f"{name}-{ordinal}", document=name, document_name=name, kind=ItemKind.PAGE, ordinal=ordinal,
        text=text, words=tuple(words), size=Size(1000, 1000),
    )  # fmt: skip


def passage(text: str, heading: str = "") -> Item:
    return Item(
        id="notes-1", document="n", document_name="notes.md", kind=ItemKind.PASSAGE, ordinal=1, text=text,
        heading=heading,
    )  # fmt: skip


def quote(question: str, *items: Item) -> SelectedAnswer:
    found = best_quote(question, items)
    assert found is not None
    return found


LETTER = page(
    (0.1, 0.10, "Harbour Office of Lindholm"),
    (0.1, 0.20, "Dear Ms Okafor, the harbour of Lindholm was opened in 1962 and"),
    (0.1, 0.225, "handles mostly timber. Its two cranes lift up to forty tonnes each."),
    (0.1, 0.25, "The ferry to Sandvik leaves at a quarter past nine from the north pier"),
    (0.1, 0.275, "and takes about two hours. Dogs travel free of charge."),
    (0.1, 0.60, "For questions write to office@lindholm.example"),
    (0.4, 0.96, "Lindholm 7"),
    name="letter.pdf",
)
TABLE = page(
    (0.1, 0.10, "Table 2: Cargo by port, thousand tonnes"),
    (0.1, 0.15, "Port"), (0.4, 0.15, "2021"), (0.6, 0.15, "2022"), (0.8, 0.15, "2023"),
    (0.1, 0.18, "Lindholm"), (0.4, 0.18, "410"), (0.6, 0.18, "433"), (0.8, 0.18, "457"),
    (0.1, 0.21, "Sandvik"), (0.4, 0.21, "120"), (0.6, 0.21, "118"), (0.8, 0.21, "131"),
    (0.1, 0.24, "Oster"), (0.4, 0.24, "88"), (0.6, 0.24, "90"), (0.8, 0.24, "97"),
    (0.1, 0.60, "The weather was mild and the winter short in most of the region."),
    name="cargo.pdf",
)  # fmt: skip
COLUMNS = page(
    (0.05, 0.20, "The lighthouse keeper writes down"),
    (0.05, 0.225, "the wind every four hours and sends"),
    (0.05, 0.25, "the figures to the office."),
    (0.55, 0.20, "Ferries are repaired in the dry"),
    (0.55, 0.225, "dock of Oster, where a crew of"),
    (0.55, 0.25, "nineteen people works all winter."),
    name="magazine.pdf",
    height=0.016,
)
SLIDE = page(
    (0.1, 0.10, "Three goals for next year"),
    (0.12, 0.40, "Double the berths at Sandvik"),
    (0.12, 0.50, "Electric ferries by spring"),
    (0.12, 0.60, "One ticket for all routes"),
    name="plan.pdf",
    height=0.04,
)
CHINESE = page(
    (0.1, 0.2, "林德港于1962年开放。"),
    (0.1, 0.3, "渡轮每天上午九点从北码头出发。"),
    (0.1, 0.4, "港口有两台起重机。"),
    name="港口.pdf",
    height=0.03,
)
ITEMS = (LETTER, TABLE, COLUMNS, SLIDE, CHINESE)
ASKED = (
    "When does the ferry to Sandvik leave?",
    "What was the cargo of Lindholm in 2023?",
    "How many people work in the dry dock of Oster?",
    "What are the goals for next year?",
    "渡轮几点出发？",
)


@pytest.mark.parametrize(
    ("question", "item", "words"),
    [
        ("When does the ferry to Sandvik leave?", LETTER, "leaves at a quarter past nine"),
        ("How much can the cranes lift?", LETTER, "Its two cranes lift up to forty tonnes each."),
        ("What is the email address for questions?", LETTER, "office@lindholm.example"),
        ("How many people work in the dry dock of Oster?", COLUMNS, "nineteen people"),
        ("What does the lighthouse keeper write down?", COLUMNS, "lighthouse keeper writes down"),
        ("渡轮几点从北码头出发？", CHINESE, "渡轮每天上午九点从北码头出发。"),
        ("港口有多少台起重机?", CHINESE, "港口有两台起重机。"),
    ],
)
def test_the_sentence_that_answers_is_quoted_from_among_all_items(
    question: str, item: Item, words: str
) -> None:
    found = quote(question, *ITEMS)
    assert found.item == item.id
    assert words in found.text.replace("\n", " ")


def test_a_sentence_over_two_lines_is_quoted_whole_and_without_its_neighbours() -> None:
    found = quote("When does the ferry to Sandvik leave?", LETTER)
    assert (
        found.text.split() == LETTER.text[LETTER.text.index("The ferry") : LETTER.text.index(" Dogs")].split()
    )


def test_the_crop_of_a_table_row_holds_its_header() -> None:
    found = quote("What was the cargo of Lindholm in 2023?", TABLE)
    assert found.box is not None
    assert found.box.covers(0.11, 0.19)  # Lindholm
    assert found.box.covers(0.81, 0.16)  # 2023
    assert not found.box.covers(0.11, 0.61)


def test_a_table_row_in_separate_cells_is_quoted_whole() -> None:
    assert quote("How much did Sandvik handle?", TABLE).text == "Sandvik\n120\n118\n131"


def test_columns_are_blocks_of_their_own_in_whatever_order_the_text_runs() -> None:
    by_row = page((0.05, 0.2, "one two"), (0.55, 0.2, "five"), (0.05, 0.225, "three"), (0.55, 0.225, "six"))
    assert layout(COLUMNS).blocks == [[0, 1, 2], [3, 4, 5]]
    assert layout(by_row).blocks == [[0, 2], [1, 3]]


def test_a_heading_that_only_repeats_the_question_is_quoted_with_what_follows() -> None:
    assert "Double the berths" in quote("What are the three goals for next year?", SLIDE).text


def test_the_answer_box_is_tight_and_lies_within_the_crop() -> None:
    for question in ASKED:
        found = quote(question, *ITEMS)
        assert found.box is not None
        assert found.answer_box is not None
        assert found.box.intersect(found.answer_box).area == pytest.approx(found.answer_box.area)
        assert found.box.area <= 0.25


@pytest.mark.parametrize(
    "question",
    [
        "Who won the chess tournament of Reykjavik?",  # nothing of it
        "When does the ferry to Marstrand leave?",  # another name
        "What was the cargo of Lindholm in 2031?",  # another year
        "What does Table 9 show about the cargo of Lindholm?",  # another table
        "国际象棋冠军是谁？",
        "",
        "???",
    ],
)
def test_a_question_about_something_absent_is_not_answered(question: str) -> None:
    assert best_quote(question, ITEMS) is None


def test_nothing_is_quoted_from_nothing() -> None:
    empty = page()
    assert best_quote("When does the ferry leave?", []) is None
    assert best_quote("When does the ferry leave?", [empty], threshold=0) is None


@pytest.mark.parametrize("question", ["Who won the chess tournament?", "What colour is Lindholm?", "???"])
def test_threshold_zero_points_at_a_part_of_a_page_for_any_question(question: str) -> None:
    found = best_quote(question, [TABLE], threshold=0)
    assert found is not None
    assert found.box is not None
    assert found.answer_box is not None
    _covers(found.box, found.answer_box)
    assert found.box.area <= 0.25


def test_of_equal_items_the_better_ranked_one_is_quoted() -> None:
    twins = [page((0.1, 0.2, "The ferry leaves at nine."), ordinal=number) for number in (4, 2, 3)]
    assert quote("When does the ferry leave?", *twins).item == twins[0].id
    assert quote("When does the ferry leave?", *twins[::-1]).item == twins[2].id


def test_a_passage_is_quoted_without_a_box() -> None:
    found = quote(
        "Where are the ferries repaired?", passage("The winter is long. Ferries are repaired in Oster.")
    )
    assert found.text == "Ferries are repaired in Oster."
    assert found.box is None
    assert found.answer_box is None


def test_names_in_the_heading_of_a_passage_count_as_present() -> None:
    text = "It was opened in 1962."
    assert best_quote("When was Lindholm opened?", [passage(text)]) is None
    assert best_quote("When was Lindholm opened?", [passage(text, "Ports › Lindholm")]) is not None


def test_a_caption_pointed_at_wins_over_mentions() -> None:
    item = page(
        (0.1, 0.10, "Prices of timber rose in spring, see Figure 3."),
        (0.1, 0.80, "Figure 2: Prices of timber"),
        (0.1, 0.95, "Figure 3: Exports of timber"),
    )
    assert quote("What do exports of timber look like in Figure 3?", item).text.startswith("Figure 3")


def test_counts_colours_and_sums_are_marked_as_not_literal() -> None:
    assert not quote("How many tables show the cargo by port?", TABLE).literal
    assert not quote("What is the difference in cargo between Lindholm and Sandvik in 2023?", TABLE).literal
    assert quote("What was the cargo of Lindholm in 2023?", TABLE).literal


def test_recognition_without_spaces_is_read_through() -> None:
    item = page((0.1, 0.2, "TheferrytoSandvikleaves atnine"), (0.1, 0.5, "Timber is shipped in autumn"))
    assert quote("When does the ferry to Sandvik leave?", item).text.startswith("Theferry")


sides = st.floats(-0.5, 1.5) | st.sampled_from([float("nan"), float("inf"), 0.0, 1.0])
boxes = st.builds(Box.unit, sides, sides, sides, sides)
spans = st.integers(-3, 40)
texts = st.text(max_size=60) | st.lists(
    st.sampled_from(["ferry", "Sandvik", "leaves", "9", "Figure 3", "\n", ". ", " ", "渡轮", "。", "the"]),
    max_size=25,
).map(" ".join)
items = st.builds(
    Item,
    id=st.just("x-1"),
    document=st.just("x"),
    document_name=st.text(max_size=5),
    kind=st.just(ItemKind.PAGE),
    ordinal=st.integers(1, 60),
    text=texts,
    words=st.lists(st.builds(Word, spans, spans, boxes), max_size=12).map(tuple),
    size=st.none() | st.builds(Size, st.integers(0, 3000), st.integers(0, 3000)),
    heading=st.text(max_size=5),
)


@given(question=texts, found=st.lists(items, max_size=3))
@example(question="Figure 3", found=[page((0.1, 0.1, "Figure 3"))])
def test_any_question_on_any_items_gives_a_quote_that_stands_in_an_item_or_nothing(
    question: str, found: list[Item]
) -> None:
    for threshold in (0.0, 0.3):
        best = best_quote(question, found, threshold=threshold)
        assert best == best_quote(question, found, threshold=threshold)
        if best is None:
            continue
        assert any(item.text[best.start : best.end] == best.text for item in found)
        assert best.text.strip()
        assert 0 <= best.score <= 1
        assert (best.box is None) == (best.answer_box is None)
        if best.box and best.answer_box:
            _covers(best.box, best.answer_box)


def _covers(outer: Box, inner: Box) -> None:
    assert 0 <= outer.x1 <= inner.x1 < inner.x2 <= outer.x2 <= 1
    assert 0 <= outer.y1 <= inner.y1 < inner.y2 <= outer.y2 <= 1


@given(
    placed=st.lists(st.tuples(st.floats(0, 0.6), st.floats(0, 0.9), st.sampled_from(["ferry", "north pier"])))
)
def test_the_answer_box_covers_every_quoted_word(placed: list[PLACED]) -> None:
    item = page(*placed)
    best = best_quote("Does the ferry leave from the north pier?", [item], threshold=0)
    if best is None:
        assert not placed
        return
    assert best.answer_box is not None
    for word in item.words:
        if best.start <= word.start and word.end <= best.end:
            _covers(best.answer_box, word.box)


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is the USCA case number? Answer in int format.", "USCA case number"),
        ('Who signed it? Please write the answer in list format, e.g., ["3","2"]', "signed"),
        ("How high was the tax in 2023?Answer in percentage term, round to one decimal.", "high tax 2023"),
        ("2023年的营业收入是多少?", "2023年 营业收入"),
        ('What does "to be or not to be" mean?', "mean"),
        ("What is it?", "What is it?"),
        ("", ""),
    ],
)
def test_instructions_and_words_of_asking_are_not_searched_for(question: str, query: str) -> None:
    assert search_query(question) == query


@given(st.text(max_size=80))
def test_any_question_has_a_query_unless_it_is_blank(question: str) -> None:
    assert bool(search_query(question)) == bool(question.strip())


@pytest.mark.parametrize(
    ("question", "pointers"),
    [
        ("What do Figure 5 and Fig. 6 show?", (Pointer("figure", "5"), Pointer("figure", "6"))),
        ("Which item is blue in Table1-1 on page 7?", (Pointer("table", "1-1"), Pointer("page", "7"))),
        ("图3和表2在第5页吗？", (Pointer("figure", "3"), Pointer("table", "2"), Pointer("page", "5"))),
        ("Which tables are there?", ()),
    ],
)
def test_numbered_things_are_pointers(question: str, pointers: tuple[Pointer, ...]) -> None:
    assert parse(question).pointers == pointers


@pytest.mark.parametrize(
    ("question", "ask"),
    [
        ("What colour is the roof?", AnswerType.COLOR),
        ("What is the sum of both?", AnswerType.COMPUTE),
        ("How many pages contain tables?", AnswerType.COUNT),
        ("How many square miles does it cover?", AnswerType.NUMBER),
        ("When was it built?", AnswerType.DATE),
        ("Whose letter is it?", AnswerType.NAME),
        ("Which dog barks?", AnswerType.TEXT),
        ("营业收入是多少？", AnswerType.NUMBER),
    ],
)
def test_the_words_of_asking_tell_what_is_wanted(question: str, ask: AnswerType) -> None:
    assert ask_of(question) is ask


def test_inflected_words_share_a_stem() -> None:
    for forms in (
        ("report", "Reports", "reported", "reporting"),
        ("city", "cities"),
        ("cause", "causes", "causing"),
    ):
        assert len({stem(form) for form in forms}) == 1, forms


@given(st.text(max_size=80))
def test_tokens_stand_where_they_say(text: str) -> None:
    for token in tokens(text):
        assert 0 <= token.start < token.end <= len(text)
        assert token.term


@given(st.text(alphabet="abc", min_size=1, max_size=5), st.integers(0, 4), st.sampled_from("abc"))
def test_one_lost_letter_is_one_edit(word: str, at: int, letter: str) -> None:
    longer = word[:at] + letter + word[at:]
    assert one_edit_apart(word, longer)
    assert one_edit_apart(longer, word)
