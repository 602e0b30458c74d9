"""Training of the scorer that compares answers of all sources, on small sets made here."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.answer import Reading, ReadingOptions
from vrag.reading.answer_features import ANSWER_FEATURES
from vrag.reading.labelled_values import LabelSide
from vrag.reading.page_candidates import PageCandidate
from vrag.reading.page_text import read_page_text
from vrag.reading.reader import load_text_reader
from vrag.reading.scorer import CandidateScorer, TrainingOptions
from vrag.reading.spans.reader import ScoredSpan
from vrag.reading.training.answer_data import PageCollection, change_question, read_answer_questions
from vrag.reading.training.answer_measure import (
    VARIANTS,
    ReaderVariant,
    WeighedQuestion,
    measure_answers,
    measure_variants,
)
from vrag.reading.training.table_data import make_table
from vrag.reading.training.train_answers import (
    AnswerTrainingOptions,
    limit_by_source,
    read_held_out,
    train_answer_scorer,
)
from vrag.reading.training.typeset_pages import ValueCard, split_paragraphs, typeset_cards, typeset_page

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [["Line", "2023", "2024"], ["Orla", "86,040", "84,210"], ["Fennick", "52,310", "55,180"]]
SHIPS = "Fulmar Petrel Gannet Puffin Skua Tern Heron Auk Gull Eider Rail Knot".split()


def squad() -> dict[str, Any]:
    made: list[dict[str, Any]] = []
    for number, ship in enumerate(SHIPS):
        year = str(1950 + number)
        text = f"The ferry {ship} was launched in {year}. It sails to Saltby and carries {number + 90} cars."
        answers = [{"answer_start": text.index(year), "text": year}]
        question = {"question": f"When was the {ship} launched?", "answers": answers}
        made.append({"context": text, "qas": [question]})
    return {"data": [{"title": "ships", "paragraphs": made}]}


def tat() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for number, ship in enumerate(SHIPS):
        fares = [f"Fares of the {ship}", str(400 + number), str(500 + number)]
        question = {
            "uid": str(number),
            "question": f"What were the fares of the {ship} in 2024?",
            "answer": [str(500 + number)],
            "scale": "",
            "answer_type": "span",
            "answer_from": "table",
        }
        table = {"table": [["", "2023", "2024"], fares, ["Cost", "7", "8"]]}
        records.append({"table": table, "paragraphs": [{"text": "All is well."}], "questions": [question]})
    return records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    contents: dict[str, object] = {
        "xquad/xquad.en.json": squad(),
        "xquad/xquad.zh.json": {"data": []},
        "xquad/xquad.de.json": {"data": []},
        "TAT-QA/dataset_raw/tatqa_dataset_dev.json": tat(),
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def test_questions_come_with_pages_that_a_search_would_show(folder: Path) -> None:
    questions = list(read_answer_questions(folder, 100, 0))
    assert {question.source for question in questions} == {"tat", "cards", "xquad-en"}
    assert len(questions) == 3 * len(SHIPS)
    shown = [question.gold in {page.item.id for page in question.pages} for question in questions]
    assert 0.5 < np.mean(shown) < 1
    assert list(read_answer_questions(folder, 100, 0))[3].pages[0].item == questions[3].pages[0].item


def test_a_scorer_is_trained_and_measured(folder: Path) -> None:
    options = AnswerTrainingOptions(network=TrainingOptions(units=4, epochs=60, rate=1e-2), held_out=0.25)
    training = train_answer_scorer(folder, options)
    figures = training.figures
    assert training.scorer.names == ANSWER_FEATURES
    assert figures.questions == len(read_held_out(folder, options))
    assert figures.right <= figures.possible <= 1
    coverage = [point.answered for point in figures.coverage]
    assert coverage == sorted(coverage, reverse=True)
    assert figures.coverage[0].answered == 1
    assert sum(one.answers for one in figures.reliability) == figures.questions


@pytest.mark.slow
def test_what_is_measured_again_is_what_the_training_held_out(folder: Path) -> None:
    options = AnswerTrainingOptions(network=TrainingOptions(units=4, epochs=2, seed=5), held_out=0.25)
    training = train_answer_scorer(folder, options)
    questions = read_held_out(folder, options)
    measured = dict(measure_variants(questions, training.scorer, load_text_reader(), None, VARIANTS))

    assert replace(measured[VARIANTS[0]], milliseconds=0) == training.figures
    assert measured[VARIANTS[0]].milliseconds > 0
    nothing = ReaderVariant("nothing", ReadingOptions(tables=False, values=False, text=False))
    ((_, figures),) = measure_variants(questions, training.scorer, load_text_reader(), None, [nothing])
    assert (figures.possible, figures.at_threshold.answered) == (0, 0)
    assert measured[VARIANTS[0]].possible > 0


def test_no_topic_is_both_learnt_from_and_measured(folder: Path) -> None:
    (folder / "xquad" / "xquad.zh.json").write_text(json.dumps(squad()), encoding="utf-8")
    options = AnswerTrainingOptions(held_out=0.5)
    held_out = read_held_out(folder, options)
    measured = {question.topic for question in held_out}
    everything = list(read_answer_questions(folder, options.cases, 0))
    learnt = [question for question in everything if question.topic not in measured]
    assert len(held_out) + len(learnt) == len(everything)
    assert 0.25 < len(held_out) / len(everything) < 0.75
    sources: dict[str, set[str]] = {}
    for question in everything:
        sources.setdefault(question.topic, set()).add(question.source)
    assert {frozenset(kinds) for kinds in sources.values()} == {
        frozenset({"tat", "cards"}),
        frozenset({"xquad-en", "xquad-zh"}),
    }

    (folder / "TAT-QA").rename(folder / "away")
    remaining = {question.topic for question in read_held_out(folder, options)}
    assert remaining == {topic for topic in measured if topic.startswith("xquad")}
    other = AnswerTrainingOptions(held_out=0.5, network=TrainingOptions(seed=1))
    assert {question.topic for question in read_held_out(folder, other)} != remaining


def test_the_first_questions_of_each_set_are_taken(folder: Path) -> None:
    questions = list(read_answer_questions(folder, 100, 0))
    assert limit_by_source(questions, None) == questions
    few = limit_by_source(questions, 2)
    assert [question.source for question in few] == ["tat", "tat", "cards", "cards", "xquad-en", "xquad-en"]
    assert few[2] is next(question for question in questions if question.source == "cards")


CANDIDATE = PageCandidate(
    reading=Reading(item="1", text="84,210", context="Orla 84,210"),
    page=0,
    source=ScoredSpan(0, 6, 0.0, 1.0, 0.5, (0, 11)),
    margin=0.0,
)


def weighed(score: float, *, gain: float, shown: bool) -> WeighedQuestion:
    """A question with one candidate, as likely as its score says."""
    features = np.zeros((2, 1), np.float32)
    features[1] = score
    return WeighedQuestion(features, np.asarray([0, gain], np.float32), shown, (CANDIDATE,))


def test_figures_of_answers_are_those_by_hand() -> None:
    one, none = np.ones(1, np.float32), np.zeros(1, np.float32)
    scorer = CandidateScorer(
        names=("score",), mean=none, scale=one, linear=one, hidden=np.zeros((1, 0), np.float32),
        bias=none[:0], output=none[:0],
    )  # fmt: skip
    likely, unlikely = 2.0, -2.0  # .88 and .12 beside the score 0 of having no answer
    figures = measure_answers(
        scorer,
        [
            weighed(likely, gain=1, shown=True),
            weighed(likely, gain=0, shown=False),
            weighed(unlikely, gain=1, shown=True),
            weighed(unlikely, gain=0, shown=False),
            WeighedQuestion(
                np.zeros((1, 1), np.float32), np.zeros(1, np.float32), shown=False, candidates=()
            ),
        ],
        threshold=0.5,
    )

    assert figures.questions == 5
    assert (figures.possible, figures.right) == (pytest.approx(0.4), pytest.approx(0.4))
    assert figures.at_threshold == (0.5, pytest.approx(0.4), 0.5, pytest.approx(2 / 3))
    assert figures.coverage[0][:2] == (0.0, 1.0)


def test_a_folder_without_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no question"):
        train_answer_scorer(tmp_path)


def test_a_page_holds_the_words_of_its_blocks_with_boxes() -> None:
    page = typeset_page("x", 1, ["Passengers by line.", make_table(ROWS, header_rows=1, header_columns=1)])
    (table,) = page.tables
    for cell in table.cells:
        assert cell.box is not None
        inside = [word for word in page.item.words if cell.box.covers(*word.box.center)]
        assert " ".join(page.item.text[word.start : word.end] for word in inside) == cell.text
    assert table.box is not None
    assert all(table.box.covers(*cell.box.center) for cell in table.cells if cell.box)


blocks = st.lists(st.text(max_size=300) | st.just("长" * 400), max_size=5)


@given(blocks)
def test_any_paragraphs_fit_on_a_page(paragraphs: list[str]) -> None:
    item = typeset_page("x", 1, paragraphs).item
    assert [item.text[word.start : word.end] for word in item.words] == item.text.split()
    for word in item.words:
        assert 0 <= word.box.x1 < word.box.x2 <= 1
        assert 0 <= word.box.y1 < word.box.y2 <= 1


@given(st.text(alphabet="ab. \n。", max_size=200), st.integers(1, 50))
def test_pieces_hold_all_words_in_order(text: str, size: int) -> None:
    assert "".join(split_paragraphs(text, size)).split() == text.split()


def test_a_card_has_its_value_beside_its_label() -> None:
    cards = [ValueCard("58 %", "miss the bakery on board"), ValueCard("312", "voices were heard")]
    for side in LabelSide:
        page = typeset_cards("x", 1, "What you told us", cards, side)
        found = {(one.text, one.label) for one in read_page_text(page.item).values if one.side is side}
        assert found >= {(card.value, card.label) for card in cards}, side


def test_a_question_is_changed_to_one_that_the_text_does_not_answer() -> None:
    chooser = random.Random(0)
    changed = change_question("What did the Fulmar cost in 2024?", "2020 2021 2022 2023 2024", [], chooser)
    assert changed is not None
    assert re.search(r"\d{4}", changed)
    assert not re.search(r"202[0-4]", changed)
    asked = "Who built the Fulmar?"
    assert change_question(asked, "Fulmar, Petrel", ["Petrel", "Skua"], chooser) == "Who built the Skua?"
    assert change_question("who built it?", "", ["Skua"], chooser) is None


def test_the_page_with_the_rare_words_comes_first() -> None:
    texts = ["The ferry sails.", "The ferry Fulmar sails."]
    pages = tuple(typeset_page("x", number, [text]) for number, text in enumerate(texts))
    found = PageCollection(pages).search("Where does the ferry Fulmar sail?", 2)
    assert found[0] is pages[1]
