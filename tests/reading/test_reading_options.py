"""The reader without one of its parts: no answer comes from it, and the others remain."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from vrag.geometry import Box, Size
from vrag.reading.answer import FULL_READING, Reading, ReadPage
from vrag.reading.answer_features import ANSWER_FEATURES
from vrag.reading.certainty import THRESHOLDS, CandidateKind, CertaintyCheck
from vrag.reading.labelled_values import MatchedValue
from vrag.reading.line_scoring import FITTING, RANK
from vrag.reading.page_candidates import PageCandidate
from vrag.reading.page_text import read_page_text
from vrag.reading.reader import ABSENT_FACTOR, load_text_reader, read, score_by_lines, weigh_candidates
from vrag.reading.spans.reader import ScoredSpan
from vrag.reading.table_answers.candidates import RankedAnswer
from vrag.reading.table_answers.operations import TableOperation
from vrag.reading.table_answers.question import analyse_question
from vrag.reading.tables.finder import find_tables
from vrag.reading.tables.table import DocumentTable
from vrag.testing import passage
from vrag.types import Item, ItemFacts, ItemKind, Word

QUESTION = "What was the change in passengers of Orla from 2023 to 2024?"
LINES = [
    (0.1, 0.05, "Passengers of Orla are counted in 2024 as in 2023, by hand."),
    (0.1, 0.12, "Line"), (0.4, 0.12, "2023"), (0.7, 0.12, "2024"),
    (0.1, 0.15, "Orla"), (0.4, 0.15, "86,040"), (0.7, 0.15, "84,210"),
    (0.1, 0.18, "Fennick"), (0.4, 0.18, "52,310"), (0.7, 0.18, "55,180"),
    (0.1, 0.21, "Brae"), (0.4, 0.21, "12,310"), (0.7, 0.21, "15,180"),
    (0.1, 0.70, "Passengers of Orla in 2024:"), (0.5, 0.70, "71"),
]  # fmt: skip


def make_page() -> Item:
    text, words = "", list[Word]()
    for left, top, line in LINES:
        x = left
        for word in line.split():
            words.append(
                Word(len(text), len(text) + len(word), Box.unit(x, top, x + len(word) / 100, top + 0.02))
            )
            text, x = f"{text}{word} ", x + (len(word) + 1) / 100
        text = text[:-1] + "\n"
    return Item(
        id="p-1", document="p", document_name="p.pdf", kind=ItemKind.PAGE, ordinal=1, text=text,
        words=tuple(words), size=Size(1000, 1000),
    )  # fmt: skip


PAGE = make_page()


def weigh(**parts: bool) -> list[PageCandidate]:
    placed = [(read_page_text(PAGE), find_tables(PAGE, None))]
    options = replace(FULL_READING, **parts)
    return weigh_candidates(QUESTION, placed, load_text_reader(), options=options)[0]


def key(candidate: PageCandidate) -> tuple[type, Reading]:
    return type(candidate.source), candidate.reading


@pytest.mark.parametrize(
    ("part", "kind"), [("tables", RankedAnswer), ("values", MatchedValue), ("text", ScoredSpan)]
)
def test_a_source_that_is_left_out_gives_nothing(part: str, kind: type) -> None:
    full = weigh()
    assert kind in {type(candidate.source) for candidate in full}
    rest = [key(candidate) for candidate in full if not isinstance(candidate.source, kind)]
    assert [key(candidate) for candidate in weigh(**{part: False})] == rest


def test_without_operations_cells_are_looked_up() -> None:
    def arithmetic(candidates: list[PageCandidate]) -> list[str]:
        return [candidate.reading.arithmetic for candidate in candidates if candidate.reading.arithmetic]

    assert arithmetic(weigh())
    looked_up = weigh(operations=False)
    assert not arithmetic(looked_up)
    assert RankedAnswer in {type(candidate.source) for candidate in looked_up}


def test_without_the_scorer_the_lines_decide() -> None:
    _, features = weigh_candidates(
        QUESTION, [(read_page_text(PAGE), find_tables(PAGE, None))], load_text_reader()
    )
    readings = read(QUESTION, [ReadPage(PAGE)], options=replace(FULL_READING, learnt=False))
    probabilities, scores = [reading.probability for reading in readings], score_by_lines(features).tolist()
    assert probabilities == sorted(probabilities, reverse=True)
    assert probabilities[0] == max(scores)
    assert set(probabilities) <= set(scores)  # equal answers have the score of the best of them
    assert readings != read(QUESTION, [ReadPage(PAGE)])


def rows(**values: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Having no answer, and two candidates of the second page that differ in their kind."""
    made = np.zeros((3, len(ANSWER_FEATURES)), np.float32)
    given = {"support": [0.0, 0.5, 0.5], "agrees": [0.0, 1.0, 0.0], "rank": [0.0, np.log(2), np.log(2)]}
    for name, column in (given | {name: [value, 0.0, 0.0] for name, value in values.items()}).items():
        made[:, ANSWER_FEATURES.index(name)] = column
    return made


def test_lines_are_scored_by_support_kind_and_page() -> None:
    assert score_by_lines(rows()) == pytest.approx([0.5 + FITTING - RANK, 0.5 - RANK])


@pytest.mark.parametrize(
    ("values", "absent"),
    [
        ({"none_missing_names": 0.5}, 1),
        ({"none_missing_numbers": 1.0, "none_missing_names": 1.0}, 1),
        ({"none_missing_words": 1.0}, 0),
        ({"none_not_pointed": 1.0, "none_missing_names": 0.1}, 2),
    ],
)
def test_what_stands_nowhere_lowers_all_scores(values: dict[str, float], absent: int) -> None:
    expected = score_by_lines(rows()) * ABSENT_FACTOR**absent
    assert score_by_lines(rows(**values)) == pytest.approx(expected)


def test_without_a_candidate_there_is_no_score() -> None:
    assert score_by_lines(np.zeros((1, len(ANSWER_FEATURES)), np.float32)).shape == (0,)


@pytest.mark.parametrize(
    ("question", "is_certain"),
    [
        ("How many passengers did Orla have in 2024?", True),
        ("How many passengers did Orla have in 2024? Answer in int format.", True),
        ("How many passengers did Orla have in 2025?", False),  # a year that no head has
        ("What was the change in passengers of Orla from 2023 to 2024?", False),  # to be computed
        ("What was the average of Orla in 2024?", False),
        ("How did the captain of the old ship to Orla feel in 2024?", False),  # about something else
    ],
)
def test_only_a_cell_that_the_question_names_is_certain(question: str, is_certain: bool) -> None:
    best = read(question, [ReadPage(make_page())])[0]
    assert best.is_certain == is_certain
    if is_certain:
        assert best.text.replace(",", "") == "84210"


@pytest.mark.parametrize(
    ("hidden", "is_certain"),
    [
        ("Sailings\n11", False),  # what the question names is hidden
        ("Passengers of Orla in 2024", True),  # it is shown too
        ("Fares of the ferries", True),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_value_is_not_given_for_one_whose_name_is_hidden(hidden: str, place: int, is_certain: bool) -> None:
    items = [make_page(), passage("a.md", 1, "Nothing else.")]
    items[place] = replace(items[place], facts=ItemFacts(hidden_text=hidden))
    best = read("How many sailings did Orla have in 2024?", [ReadPage(item) for item in items])[0]
    assert best.text.replace(",", "") == "84210"
    assert best.is_certain == is_certain


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "What was the change from 2023 to 2024?",
            {TableOperation.DIFFERENCE, TableOperation.PERCENT_CHANGE},
        ),
        ("What is the total of both?", {TableOperation.SUM}),
        ("How many lines are there?", {TableOperation.COUNT, TableOperation.COUNT_DISTINCT}),
        ("What is the fare of Orla?", set[TableOperation]()),
    ],
)
def test_nothing_is_computed_that_the_question_does_not_ask_for(
    question: str, asked: set[TableOperation]
) -> None:
    computed = {
        TableOperation.SUM, TableOperation.AVERAGE, TableOperation.DIFFERENCE, TableOperation.RATIO,
        TableOperation.PERCENT_CHANGE, TableOperation.SHARE, TableOperation.COUNT,
        TableOperation.COUNT_DISTINCT, TableOperation.RANGE, TableOperation.COUNT_DIFFERENCE,
    }  # fmt: skip
    analysed = analyse_question(question)
    assert {operation for operation in computed if analysed.asks_for(operation)} == asked
    assert analysed.asks_for(TableOperation.LOOKUP)


@pytest.mark.parametrize(
    ("text", "is_certain"),
    [("The ferry carried 48,200 passengers in 2024.", True), ("The old pier was closed in 1999.", False)],
)
def test_running_text_is_certain_where_its_probability_is_high(text: str, is_certain: bool) -> None:
    best = read("How many passengers did the ferry carry in 2024?", [ReadPage(passage("a.md", 1, text))])
    assert [reading.is_certain for reading in best[:1]] == [is_certain] * min(len(best), 1)
    least = THRESHOLDS[CandidateKind.VALUE]
    assert all(reading.is_certain <= (reading.probability >= least) for reading in best)


@pytest.mark.parametrize(
    ("kind", "text", "question"),
    [
        ("value", "The sales tax is 9.25 % of the price.", "What is the sales tax in percent?"),
        ("other", "The total sales tax is 9.25 % of the price.", "What is the total sales tax?"),
        ("value", "Of all participants, 43 dropped out.", "How many participants dropped out?"),
        ("span", "In each arm there will be 43 participants.", "How many participants dropped out?"),
        ("span", "Enrolment of students grew by 43 percent.", "How many students were enrolled?"),
        ("other", "A family pays 43 crowns, a guest less.", "How much more does a family pay than a guest?"),
        ("other", "Growth was below 43 percent in 2013.", "What was the percentage of unemployment in 2013?"),
        ("other", "At a cap of $6m, $43 was raised.", "How much was raised at a cap of $5m?"),
        ("other", "There are 43 shares of the club.", "What is the price of shares of the club?"),
        ("other", "It stands for a level 43 contributor.", "How many levels does a contributor have?"),
        ("other", "The range of salaries is 43 to 61 crowns.", "What is the range of salaries?"),
        (
            "other",
            "The Senior Notes GG were sold for 43 crowns.",
            "For how much were the Senior Notes FF sold?",
        ),
        (
            "value",
            "The Senior Notes FF were sold for 43 crowns.",
            "For how much were the Senior Notes FF sold?",
        ),
    ],
)
def test_a_value_is_certain_where_it_is_what_the_question_asks_for(
    kind: str, text: str, question: str
) -> None:
    check = CertaintyCheck.of(question, [passage("a.md", 1, text)])
    placed = [(read_page_text(passage("a.md", 1, text)), list[DocumentTable]())]
    candidates, _ = weigh_candidates(question, placed, load_text_reader())
    numbers = [one for one in candidates if re.match(r"9\.25|\$?43", one.reading.text)]
    assert numbers
    assert {check.find_source(one) for one in numbers} == {kind}
