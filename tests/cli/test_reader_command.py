"""`vrag reader` on small question sets made here, one in the format of each repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import require
from typer.testing import CliRunner, Result

from vrag.cli.root import create_app
from vrag.errors import CaseError, ModelError, TrainingError
from vrag.reading.reader import THRESHOLD
from vrag.reading.scorer import CandidateScorer, TrainingOptions
from vrag.reading.spans.reader import SpanModel
from vrag.reading.training import train_spans, train_tables
from vrag.reading.training.answer_measure import VARIANTS
from vrag.reading.training.question_sets import QUESTION_SETS, SPANS, TABLES, missing_sets

SHIPS = "Fulmar", "Petrel", "Gannet", "Puffin", "Skua", "Tern", "Heron"
BUILDERS = "Ada Holm", "Bo Lind", "Cai Berg", "Dag Moe", "Eva Dahl", "Finn Rask"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(create_app("reader"), ["reader", *map(str, arguments)])


def write_squad(path: Path, articles: int, *, language: str = "en") -> None:
    """Articles about ferries in the format of SQuAD."""
    data: list[dict[str, Any]] = []
    for number in range(articles):
        ship, builder = SHIPS[number % len(SHIPS)], BUILDERS[number % len(BUILDERS)]
        year = str(1950 + number)
        text, asked = f"The ferry {ship} was launched in {year} by {builder}.", f"When was {ship} launched?"
        if language == "zh":
            text, asked = f"渡轮{ship}于{year}年下水。", f"{ship}是哪一年下水的?"
        answers = [{"answer_start": text.index(year), "text": year}]
        paragraph = {"context": text, "qas": [{"id": str(number), "question": asked, "answers": answers}]}
        data.append({"title": ship, "paragraphs": [paragraph]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"data": data}), encoding="utf-8")


def write_wiki(folder: Path) -> None:
    for inner in ("csv", "data"):
        (folder / inner).mkdir(parents=True)
    rows = [f'"{name}","{1950 + at}","{90 + at}"' for at, name in enumerate(SHIPS)]
    (folder / "csv" / "0.csv").write_text("\n".join(['"Ship","Year","Cars"', *rows]) + "\n", "utf-8")
    lines = [
        f"n-{at}\thow many cars does {name} carry?\tcsv/0.csv\t{90 + at}" for at, name in enumerate(SHIPS)
    ]
    for split in ("training", "pristine-unseen-tables"):
        text = "\n".join(["id\tutterance\tcontext\ttargetValue", *lines])
        (folder / "data" / f"{split}.tsv").write_text(f"{text}\n", "utf-8")


def write_tat(folder: Path) -> None:
    folder.mkdir(parents=True)
    question = {
        "uid": "q",
        "question": "What are the sales in 2019?",
        "answer": ["44.1"],
        "answer_type": "span",
        "answer_from": "table",
        "scale": "million",
    }
    table = [["", "2019", "2018"], ["Sales", "$ 44.1", "$ 40.0"], ["Other", "3", "(2)"]]
    record = {
        "table": {"uid": "t", "table": table},
        "paragraphs": [{"uid": "p", "order": 1, "text": "Amounts are in millions."}],
        "questions": [question],
    }
    for split in ("dev", "test_gold"):
        (folder / f"tatqa_dataset_{split}.json").write_text(json.dumps([record]), "utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of every set, small."""
    folder = tmp_path / "sets"
    write_wiki(folder / "WikiTableQuestions")
    write_tat(folder / "TAT-QA" / "dataset_raw")
    for name in ("new_wiki", "reddit", "amazon_reviews"):
        write_squad(folder / "squadshifts" / "datasets" / f"{name}_v1.0.json", 14)
    write_squad(folder / "COVID-QA" / "data" / "question-answering" / "200423_covidQA.json", 14)
    for split in ("dev", "trial"):
        write_squad(folder / "cmrc2018" / "squad-style-data" / f"cmrc2018_{split}.json", 14, language="zh")
    for split in ("dev", "test"):
        write_squad(folder / "DRCD" / f"DRCD_{split}.json", 14, language="zh")
    for split in ("train", "dev"):
        write_squad(folder / "JaQuAD" / "data" / split / "0.json", 14)
    for code in ("en", "zh"):
        write_squad(folder / "xquad" / f"xquad.{code}.json", 5, language=code)
    return folder


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that are trained in a moment."""
    network = TrainingOptions(units=4, epochs=2)

    def shrink(options: type, module: Any) -> None:  # noqa: ANN401
        def make(**values: Any) -> Any:  # noqa: ANN401
            return options(**{"network": network} | values)

        monkeypatch.setattr(module, options.__name__, make)

    shrink(train_spans.SpanTrainingOptions, train_spans)
    shrink(train_tables.TableTrainingOptions, train_tables)


def test_the_sets_of_the_fixture_are_those_that_are_named(data: Path, tmp_path: Path) -> None:
    assert missing_sets(data, TABLES) == missing_sets(data, SPANS) == ()
    assert {each.folder for each in QUESTION_SETS} == {path.name for path in data.iterdir()}
    assert len(missing_sets(tmp_path, TABLES)) + len(missing_sets(tmp_path, SPANS)) == len(QUESTION_SETS)


def test_all_parts_are_trained_measured_and_written(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "weights"
    done = run("train", data, "--out", out, "--seed", "3")

    assert done.exit_code == 0, done.output
    for shown in (
        "WikiTableQuestions",
        "TAT-QA",
        "xquad-en",
        "cmrc-trial",
        "Learnt from",
        f"{out / 'span.npz'}",
        "right of these",
        f"{out / 'answer.npz'}",
    ):
        assert shown in done.stdout
    assert sorted(path.name for path in out.iterdir()) == ["answer.npz", "span.npz", "table.npz"]

    measured = run("measure", data, "--weights", out, "--json", "--questions", "4")
    facts = json.loads(measured.stdout)
    assert {"WikiTableQuestions", "TAT-QA", "xquad-en *", "cmrc-trial", "jaquad-dev"} <= set(facts)
    assert facts["xquad-en *"]["questions"] == facts["cmrc-trial"]["questions"] == 4
    assert 0 <= facts["jaquad-dev"]["f1"] <= 1


@pytest.mark.slow
def test_answers_are_measured_without_each_part_and_drawn(data: Path, tmp_path: Path) -> None:
    require("train", "matplotlib")
    picture = tmp_path / "new" / "picture.PNG"
    flags = "--part", "answers", "--ablations"
    facts = json.loads(run("measure", data, *flags, "--figure", picture, "--json").stdout)["answers"]
    assert next(iter(facts["variants"])) == "all"
    assert len(facts["variants"]) == len(VARIANTS)
    assert sum(one["answers"] for one in facts["reliability"]) == facts["questions"] > 0
    full = facts["variants"]["all"]
    assert full["right"] == facts["right"]
    assert full["at_threshold"]["threshold"] == THRESHOLD
    assert picture.read_bytes().startswith(b"\x89PNG")

    shown = run("measure", data, *flags, "--questions", "1").stdout
    assert all(variant.name in shown for variant in VARIANTS)
    assert "Wrote" not in shown
    one = json.loads(run("measure", data, "--part", "answers", "--questions", "1", "--json").stdout)
    assert list(one["answers"]["variants"]) == ["all"]
    assert one["answers"]["questions"] < facts["questions"]


def test_a_picture_has_a_known_format(data: Path, tmp_path: Path) -> None:
    done = run("measure", data, "--part", "answers", "--figure", tmp_path / "picture.gif")

    assert done.exit_code == 2
    assert ".png, .svg, .pdf" in done.stderr


@pytest.mark.slow
def test_equal_seeds_make_equal_weights(data: Path, tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        done = run("train", data, "--part", "spans", "--out", tmp_path / name, "--seed", seed, "--json")
        assert json.loads(done.stdout)["seed"] == int(seed)
    one, same, other = (SpanModel.load(tmp_path / name / "span.npz").scorer.hidden for name in "abc")

    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.slow
def test_a_quick_training_uses_a_part_of_the_questions(data: Path, tmp_path: Path) -> None:
    write_squad(data / "squadshifts" / "datasets" / "new_wiki_v1.0.json", 200)
    learnt = [
        json.loads(run("train", data, "--part", "spans", "--out", tmp_path, "--json", *more).stdout)["spans"]
        for more in ((), ("--quick",))
    ]

    assert 0 < learnt[1]["learnt"] < learnt[0]["learnt"] / 5


def test_a_missing_set_of_tables_is_named_with_its_repository(tmp_path: Path) -> None:
    write_tat(tmp_path / "TAT-QA" / "dataset_raw")
    done = run("train", tmp_path, "--part", "tables")

    assert isinstance(done.exception, CaseError)
    assert "no copy of WikiTableQuestions," in done.exception.message
    place = tmp_path / "WikiTableQuestions"
    assert (
        f"git clone --depth 1 https://github.com/ppasupat/WikiTableQuestions {place}" in done.exception.hint
    )


def test_running_text_is_learnt_from_the_sets_that_are_there(data: Path, tmp_path: Path) -> None:
    (data / "DRCD").rename(tmp_path / "away")
    done = run("train", data, "--part", "spans", "--out", tmp_path / "out")

    assert done.exit_code == 0, done.output
    assert "no copy of DRCD" in done.stderr
    assert "https://github.com/DRCKnowledgeTeam/DRCD" in done.stderr


@pytest.mark.parametrize("kept", [(), ("xquad",)])
def test_nothing_is_trained_without_a_set(data: Path, tmp_path: Path, kept: Sequence[str]) -> None:
    for path in list(data.iterdir()):
        if path.name not in kept:
            path.rename(tmp_path / path.name)
    done = run("train", data, "--part", "spans", "--out", tmp_path / "out")

    assert isinstance(done.exception, CaseError)
    assert "https://github.com/modestyachts/squadshifts-website" in done.exception.hint
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("xquad/xquad.en.json", '{"data": [{"para'),
        ("xquad/xquad.en.json", '{"data": [{"title": "x"}]}'),
        ("WikiTableQuestions/csv/0.csv", None),
    ],
)
def test_a_damaged_copy_is_an_error(data: Path, tmp_path: Path, file: str, text: str | None) -> None:
    if text is None:
        (data / file).unlink()
    else:
        (data / file).write_text(text, "utf-8")
    for arguments in (("train", data, "--out", tmp_path / "out"), ("measure", data)):
        done = run(*arguments)

        assert isinstance(done.exception, CaseError)
        assert "cannot be read" in done.exception.message
        assert "clone the repository again" in done.exception.hint


def test_questions_without_a_candidate_that_is_right_are_an_error(data: Path, tmp_path: Path) -> None:
    for split in ("dev", "test_gold"):
        (data / "TAT-QA" / "dataset_raw" / f"tatqa_dataset_{split}.json").write_text("[]", "utf-8")
    text = "id\tutterance\tcontext\ttargetValue\nn-0\twho knows?\tcsv/0.csv\tnobody at all\n"
    (data / "WikiTableQuestions" / "data" / "training.tsv").write_text(text, "utf-8")
    done = run("train", data, "--part", "tables", "--out", tmp_path / "out")

    assert isinstance(done.exception, TrainingError)
    assert "no question has a right candidate" in done.exception.message


@pytest.mark.slow
def test_weights_of_another_version_are_refused(data: Path, tmp_path: Path) -> None:
    run("train", data, "--out", tmp_path)
    path = tmp_path / "table.npz"
    scorer = CandidateScorer.load(path)
    replace(scorer, names=("other",) * len(scorer.names)).save(path)
    done = run("measure", data, "--weights", tmp_path)

    assert isinstance(done.exception, ModelError)
    assert "another version" in done.exception.message


@pytest.mark.parametrize("content", [None, b"", b"PK\x05\x06" + b"\x00" * 18])
def test_what_is_no_weights_is_an_error(data: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "span.npz").write_bytes(content)
    done = run("measure", data, "--part", "spans", "--weights", tmp_path)

    assert isinstance(done.exception, ModelError)
    assert "holds no weights" in done.exception.message


def test_measuring_without_a_set_names_one(tmp_path: Path) -> None:
    done = run("measure", tmp_path)

    assert isinstance(done.exception, CaseError)
    assert "git clone --depth 1 https://github.com/google-deepmind/xquad" in done.exception.hint


def test_a_pretrained_reader_is_measured_beside_ours(data: Path, tmp_path: Path) -> None:
    require("models", "torch", "transformers")
    done = run("measure", data, "--part", "spans", "--reader", tmp_path / "nowhere")

    assert isinstance(done.exception, ModelError)
    assert "Set VRAG_READER" in done.exception.hint
