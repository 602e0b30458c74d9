"""Training of the reader of running text on small question sets made here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vrag.reading.scorer import TrainingOptions
from vrag.reading.spans.reader import SpanModel, best_spans, load_span_model
from vrag.reading.training.span_sets import pair_with_wrong_paragraphs, read_span_sets
from vrag.reading.training.text_data import TextQuestion
from vrag.reading.training.train_spans import (
    SpanTrainingOptions,
    add_agreement,
    prepare_question,
    thin_question,
    train_span_reader,
)

if TYPE_CHECKING:
    from pathlib import Path

NAMES = "Ada Holm", "Bo Lind", "Cai Berg", "Dag Moe", "Eva Dahl", "Finn Rask"
SHIPS = "Fulmar", "Petrel", "Gannet", "Puffin", "Skua", "Tern", "Heron"


def make_squad(articles: int, paragraphs: int = 2) -> dict[str, Any]:
    """Articles about ferries, with a question for the year and one for the builder of each."""
    data: list[dict[str, Any]] = []
    for article in range(articles):
        made: list[dict[str, Any]] = []
        for number in range(paragraphs):
            at = article * paragraphs + number
            ship, builder, year = SHIPS[at % len(SHIPS)], NAMES[at % len(NAMES)], str(1950 + at)
            text = (
                f"The ferry {ship} was launched in {year} by {builder} in Saltby. It carries {at + 90} cars."
            )
            asked = {f"When was the ferry {ship} launched?": year, f"Who launched the {ship}?": builder}
            qas = [
                {"question": question, "answers": [{"answer_start": text.index(answer), "text": answer}]}
                for question, answer in asked.items()
            ]
            made.append({"context": text, "qas": qas})
        data.append({"title": str(article), "paragraphs": made})
    return {"data": data}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, articles in (("squadshifts/datasets/new_wiki_v1.0.json", 26), ("xquad/xquad.en.json", 3)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(make_squad(articles)), encoding="utf-8")
    for name in ("reddit", "amazon_reviews"):
        (tmp_path / f"squadshifts/datasets/{name}_v1.0.json").write_text('{"data": []}', encoding="utf-8")
    return tmp_path


def test_a_reader_is_trained_measured_and_survives_its_file(folder: Path) -> None:
    options = SpanTrainingOptions(network=TrainingOptions(units=8, epochs=40))

    training = train_span_reader(folder, options)
    training.model.save(folder / "span.npz")
    again = SpanModel.load(folder / "span.npz")

    assert training.report.figures["xquad-en"].exact > 0.8
    assert training.report.calibration is not None
    assert training.report.calibration.area > 0.8
    text = "The ferry Petrel was launched in 1998 by Ada Holm in Saltby. It carries 60 cars."
    best = best_spans("When was the ferry Petrel launched?", text, again)
    assert text[best[0].start : best[0].end] == "1998"
    assert best == best_spans("When was the ferry Petrel launched?", text, training.model)


def test_training_twice_gives_the_same_weights(folder: Path) -> None:
    options = SpanTrainingOptions(share=0.4, network=TrainingOptions(units=4, epochs=2))

    first, second = (train_span_reader(folder, options).model.scorer for _ in range(2))

    assert (first.hidden == second.hidden).all()
    assert (first.linear == second.linear).all()


def test_thinned_candidates_are_the_best_the_hardest_and_some_that_stand_for_the_others() -> None:
    text = " ".join(
        f"The ferry {ship} was launched in {1950 + at} by Ada Holm." for at, ship in enumerate(SHIPS)
    )
    question = TextQuestion("made", 0, text, "When was the Skua launched?", ((text.index("1954"), "1954"),))
    model = load_span_model()
    prepared = prepare_question(question, model.statistics)
    features = add_agreement(prepared.features, model.statistics.agreement)
    hardest = np.argsort(-model.scorer.scores(features, prepared.codes))[:20]

    kept = thin_question(prepared, 50, np.random.default_rng(0), model)
    spans = set(zip(kept.starts.tolist(), kept.ends.tolist(), strict=True))

    assert len(spans) == len(kept.f1) == 50 < len(prepared.f1)
    assert (text.index("1954"), text.index("1954") + 4) in spans
    assert {(int(prepared.starts[at]), int(prepared.ends[at])) for at in hardest} <= spans
    assert np.exp(kept.offsets).sum() == pytest.approx(len(prepared.f1), rel=1e-4)


def test_uses_of_the_sets_share_no_paragraph(folder: Path) -> None:
    sets = read_span_sets(folder)

    learnt, kept = ({question.text for question in part} for part in (sets.training, sets.calibration))
    assert learnt
    assert kept
    assert learnt.isdisjoint(kept)


def test_a_folder_without_sets_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="squadshifts"):
        read_span_sets(tmp_path)


def test_a_wrong_paragraph_is_another_one_of_the_same_set() -> None:
    questions = [
        TextQuestion("made", number, f"text {number}", "Who?", ((0, "text"),), number // 3)
        for number in range(6)
    ]
    other = TextQuestion("lonely", 0, "alone", "Who?", ((0, "alone"),))

    paired = pair_with_wrong_paragraphs([*questions, other])

    assert len(paired) == 6
    assert all(pair.text != question.text for pair, question in zip(paired, questions, strict=True))
    assert all(pair.text != "alone" and not pair.answers for pair in paired)
