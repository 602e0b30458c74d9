"""The benchmark of trust: which answers are right, and what is counted of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks import trust
from benchmarks.trust import NAMED_PLACE, QUESTIONS, is_right_by_rule, load, main
from benchmarks.trust_figures import Share, TrustRecord, TrustReport, count, curve, reliability
from benchmarks.trust_rules import Accepted, accepted_forms, amounts_of, is_accepted, lacks_scale
from vrag.types import AnswerFormat, Case


def make_record(**changes: Any) -> TrustRecord:  # noqa: ANN401 - of any field
    fields: dict[str, Any] = {
        "source": "questions", "uid": "1", "document": "a.pdf", "question": "How many?", "kind": "cell",
        "expected": ("9",), "result": "places", "answer": None, "is_right": False,
    }  # fmt: skip
    return TrustRecord(**fields | changes)


RIGHT = make_record(result="answer", answer="9", is_right=True)
WRONG = make_record(result="answer", answer="8", verdicts=("seen", "computed"))


@pytest.mark.parametrize(
    ("expected", "answer", "question", "right"),
    [
        ("51,934", "51 934", "", False),  # two numbers
        ("51,934", "51'934", "", True),
        ("51,934", "519,342", "", False),
        ("14,672.85 (14.672,85)", "EUR 14.672,85", "", True),
        ("490.50", "490", "", False),
        ("490.50", "0.490", "", False),
        ("-795 (thousand euros)", "-795", "", True),
        ("-795 (thousand euros)", "795", "", False),
        ("-795 (thousand euros)", "-795 thousand euros", "", True),
        ("(425) thousand euros, a loss", "(425)", "", True),
        ("(425) thousand euros, a loss", "425 thousand euros", "", False),
        ("9,605 (or -9,605) thousand euros", "-9,605", "", True),
        ("45.8 %", "45.8%", "", True),
        ("45.8 %", "-45.8 %", "", False),
        ("9,180 with its scale: thousand euros", "9,180", "", False),
        ("9,180 with its scale: thousand euros", "9.18 million euros", "", True),
        ("9,180,000", "9,180", "What were sales in euros?", False),
        ("9,180,000", "9,180 thousand", "What were sales in euros?", True),
        ("9,180", "9,180 million", "What were sales in million euros?", True),
        ("9,180", "9,180 million", "What were sales?", False),
        ("11", "In 2024 it was 11.", "How many in 2024?", True),
        ("11", "7 of 11", "How many?", False),
        ("5,200 m2", "5,200", "", True),
        ("30 September 2026", "September 30, 2026", "", True),
        ("30 September 2026", "2026-09-30", "", True),
        ("30 September 2026", "1 September 2026", "", False),
        ("Fire brigade", "the fire brigade, 1,000.68", "", True),
        ("Fire brigade", "Fire", "", False),
        ("13 11 20", "call 13 11 20", "", True),
        ("hide & flight", "to hide, or flight", "", True),
        ("hide & flight", "to hide", "", False),
        ("no answer, or a warning", "Guillemot", "", False),
    ],
)
def test_answers_are_right_as_a_person_would_say(
    expected: str, answer: str, question: str, right: bool
) -> None:
    assert is_accepted(question, answer, accepted_forms(expected)) is right


def test_a_long_text_is_no_answer_to_a_question_for_a_value() -> None:
    forms = [Accepted("Hong Kong")]
    assert is_accepted("", "Hong Kong " + "and others " * 20, forms)
    assert not is_accepted("", "Hong Kong " + "and others " * 40, forms)


def test_a_scale_that_is_left_out_is_noted() -> None:
    forms = accepted_forms("9,467 million CHF")
    assert is_accepted("", "9,467", forms)
    assert lacks_scale("9,467", forms)
    assert not lacks_scale("9,467 million", forms)
    assert not lacks_scale("9,467", accepted_forms("9,467"))


def test_a_number_after_a_letter_or_in_a_word_is_none() -> None:
    assert [str(amount.value) for amount in amounts_of("737-8, m2, Q3, 3rd, −4")] == ["737", "-8", "-4"]


def test_all_accepted_forms_of_the_questions_are_accepted() -> None:
    data = json.loads(QUESTIONS.read_text("utf-8"))
    assert len(data["questions"]) == 60
    assert not {row["document"] for row in data["questions"]} & {
        row["document"] for row in data["calibration"]
    }
    for row in (*data["questions"], *data["calibration"]):
        forms = [Accepted(form) for form in row["accepted"]]
        assert all(is_accepted(row["question"], form, forms) for form in row["accepted"]), row["id"]
        assert row["document"] in data["documents"]
        assert bool(forms) == bool(row["pages"]) == (row["kind"] != "unanswerable")


@pytest.mark.parametrize(
    ("form", "answer", "right"),
    [
        (AnswerFormat.INTEGER, "12%", True),
        (AnswerFormat.INTEGER, "12 of 30", False),
        (AnswerFormat.TEXT, "about 12", False),
    ],
)
def test_the_only_number_of_an_answer_is_compared_too(form: AnswerFormat, answer: str, right: bool) -> None:
    case = Case(
        uid="1",
        query="?",
        reference_answer="12",
        file_name="a.pdf",
        answer_format=form,
        benchmark="mmlongbench",
    )
    assert is_right_by_rule(case, answer) is right


def test_every_question_counts_once() -> None:
    void = make_record(expected=(), kind="unanswerable")
    figures = count([RIGHT, WRONG, make_record(), make_record(result="none"), void])
    outcomes = (figures.right, figures.wrong, figures.places, figures.nothing)
    assert outcomes == (1, 1, 2, 1)
    assert figures.precision == Share(1, 2)
    assert figures.silent_unanswerable == Share(1, 1)
    assert figures.wrong_but_seen == Share(1, 5)


@pytest.mark.parametrize("verdicts", [(), ("seen", "stated"), ("doubted",)])
def test_a_wrong_answer_is_seen_if_all_its_claims_are(verdicts: tuple[str, ...]) -> None:
    wrong = make_record(result="answer", answer="8", verdicts=verdicts)
    assert count([wrong, RIGHT]).wrong_but_seen == Share(0, 2)


def test_right_answers_may_be_doubted() -> None:
    doubted = make_record(result="answer", answer="9", is_right=True, verdicts=("seen", "doubted"))
    assert count([RIGHT, doubted, WRONG]).right_but_doubted == Share(1, 2)


def test_a_gold_page_counts_among_the_first_ten_distinct_places() -> None:
    pages = [("a.pdf", 1), ("a.pdf", 1), *(("b.pdf", number) for number in range(2, 12))]
    tenth = make_record(gold=(10,), places=(*pages[:9], ("a.pdf", 10)), looked_at=(("a.pdf", 10),))
    eleventh = make_record(gold=(12,), places=(*pages, ("a.pdf", 12)))
    elsewhere = make_record(gold=(2,), places=(("b.pdf", 2),))
    figures = count([tenth, eleventh, elsewhere, make_record(), RIGHT])
    assert figures.gold_among_places == Share(1, 3)
    assert figures.gold_looked_at == Share(1, 3)


def test_a_named_page_is_to_be_among_the_first_five_looked_at() -> None:
    pages = tuple(("a.pdf", number) for number in range(1, 7))
    records = [make_record(gold=(page,), looked_at=pages, names_page=True) for page in (5, 6)]
    assert count([*records, make_record(gold=(1,), looked_at=pages)]).named_looked_at == Share(1, 2)


def test_the_curve_gives_what_is_as_likely_as_its_threshold() -> None:
    records = [
        make_record(candidate="9", probability=0.9, candidate_is_right=True, is_certain=True),
        make_record(candidate="8", probability=0.5, candidate_kind="span"),
        make_record(candidate="9", probability=0.1, candidate_is_right=True, candidate_kind="span"),
        make_record(),
    ]
    every = {point.threshold: point.precision for point in curve(records)}
    assert (every[0.0], every[0.5], every[0.9], every[0.95]) == (
        Share(2, 3), Share(1, 2), Share(1, 1), Share(0, 0),
    )  # fmt: skip
    assert curve(records, certain=True)[0].precision == Share(1, 1)
    bins = reliability(records, "span")
    assert [(row.low, row.mean, row.right) for row in bins] == [
        (0.1, 0.1, Share(1, 1)),
        (0.5, 0.5, Share(0, 1)),
    ]


def test_answers_given_are_listed_by_the_kind_of_what_was_read() -> None:
    cell = make_record(
        result="answer", answer="8", candidate="8", candidate_kind="cell", verdicts=("doubted",)
    )
    lines = TrustReport([cell, RIGHT]).lines()
    assert "| cell | 0 of 1 (0.0 %, 0–79) | 0 | 1 |" in lines
    assert "| not read | 1 of 1 (100.0 %, 21–100) | 0 | 0 |" in lines


def test_shares_are_written_with_wilsons_interval() -> None:
    assert str(Share(8, 10)) == "8 of 10 (80.0 %, 49–94)"
    assert str(Share(0, 0)) == "–"


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What does Table 4 say?", True),
        ("on the second page", True),
        ("Who is on the cover?", True),
        ("In section 6.2, what is it?", True),
        ("What is on the 3rd slide?", True),
        ("How many pages has it?", False),
        ("Which table is the largest?", False),
    ],
)
def test_questions_that_name_a_page_are_known(question: str, names: bool) -> None:
    assert (NAMED_PLACE.search(question) is not None) is names


def test_a_kept_report_is_counted_again(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    record = make_record(places=(("a.pdf", 3),), gold=(3,), area=0.1, verdicts=("seen",))
    trust.keep(TrustReport([record, RIGHT], {"ndcg@5": 0.5}), file)
    report = load(file)
    assert list(report.records) == [record, RIGHT]
    assert report.search == {"ndcg@5": 0.5}


def test_cases_are_asked_each_on_its_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cases"
    (folder / "scales").mkdir(parents=True)
    (folder / "scales" / "ferry.txt").write_text("The ferry Fulmar was launched in 1911.\n", "utf-8")
    (folder / "scales" / "crane.txt").write_text("The crane Ibis lifts 480 tonnes.\n", "utf-8")
    questions = [
        ("1", "scales/ferry.txt", "When was the ferry Fulmar launched?", "1911"),
        ("2", "scales/ferry.txt", "What does the crane Ibis lift?", "no answer"),
        ("3", "forms/other.txt", "Who?", "nobody"),
    ]
    rows = [
        {"id": uid, "files": [file], "question": question, "expected": expected}
        for uid, file, question, expected in questions
    ]
    (folder / "cases.json").write_text(json.dumps(rows), "utf-8")
    kept = tmp_path / "kept.json"
    main(["cases", "--cases", str(folder), "--work", str(tmp_path / "work"), "--json", str(kept)])
    first, second = load(kept).records
    assert (first.uid, first.candidate, first.candidate_is_right) == ("1", "1911", True)
    assert second.uid == "2"
    assert "480" not in f"{second.answer} {second.candidate}"  # the other file is not searched
    assert not second.candidate_is_right
    assert "questions: 2;" in capsys.readouterr().out


def test_a_picture_is_drawn_of_a_kept_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, picture = tmp_path / "kept.json", tmp_path / "new" / "trust.png"
    read = make_record(candidate="9", candidate_kind="cell", probability=0.6, is_certain=True)
    trust.keep(TrustReport([read, RIGHT] * 6), kept)
    main(["--from", str(kept), "--figure", str(picture)])
    with Image.open(picture) as drawn:
        assert drawn.width > 2 * drawn.height
    assert "questions: 12;" in capsys.readouterr().out
