"""`vrag eval report|compare|table`, of evaluations that lie there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from reported import record, store_with_run, subject
from typer.testing import CliRunner

from vrag.cli.eval import app
from vrag.errors import CaseError, RunError
from vrag.evaluation.prepare import PreparedPart
from vrag.evaluation.record import CaseOutcome, EvidencePlace
from vrag.evaluation.result_store import Conditions, write_evaluation
from vrag.factory.indexing import open_for_adding
from vrag.factory.session import open_session
from vrag.index.build import add
from vrag.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from vrag.evaluation.record import CaseRecord


def invoked(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def evaluation(folder: Path, records: list[CaseRecord], **given: Any) -> Path:  # noqa: ANN401
    parts = tuple(
        PreparedPart(name=name, title=name.title(), licence="CC0", source="/", split=None, cases=1,
             documents=1, measures=("slidevqa/f1", "cited_f1", "recall@1"), notes=(f"{name} was mended.",))
        for name in dict.fromkeys(one.subject.benchmark for one in records)
    )  # fmt: skip
    usual: dict[str, Any] = {
        "cases": "ab" * 32,
        "samples": 1,
        "judge": "rules",
        "made_with": {"agent": "vrag"},
    }
    folder.mkdir()
    write_evaluation(folder, Conditions(version="1", benchmarks=parts, **{**usual, **given}), records)
    return folder


def asked(uid: str, outcome: CaseOutcome, **measures: float) -> CaseRecord:
    name = uid.partition("-")[0]
    about = subject(uid, benchmark=name, query_type="Single-Hop")
    return record(uid, outcome, subject=about, measures=measures, evidence=())


SLIDES = [
    asked("slidevqa-1", CaseOutcome.RIGHT, **{"slidevqa/f1": 1.0}),
    asked("slidevqa-2", CaseOutcome.WRONG),
]
DECKS = [asked("vidoseek-1", CaseOutcome.RIGHT), asked("vidoseek-2", CaseOutcome.RIGHT)]
PAGES = [asked("mmlongbench-1", CaseOutcome.WRONG)]


def test_a_report_of_several_benchmarks(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "merged", [*SLIDES, *DECKS], made_with={"collection": "1-blank"})
    done = invoked("report", folder)
    assert done.exit_code == 0, done.output
    assert "kB)" in " ".join(done.stdout.split())
    markdown = (folder / "report.md").read_text()
    assert markdown.startswith("# Slidevqa and Vidoseek\n")
    for told in ("white images", "SlideVQA F1 1.000", "slidevqa was mended", "draws of documents, seed 0"):
        assert told in markdown
    told = json.loads((folder / "report.json").read_text())
    assert told["summary"]["intervals"] == {"level": 0.95, "resamples": 2000, "seed": 0}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"asked": 120}, "2 of 120 questions: it was stopped before the others were asked."),
        ({"asked": 120, "samples": 2}, "2 of 240 runs: it was stopped before the others were asked."),
        ({}, "Stopped before all questions were asked."),
    ],
)
def test_a_report_of_a_run_that_was_stopped_says_so_first(
    given: dict[str, int], told: str, tmp_path: Path
) -> None:
    folder = evaluation(tmp_path / "out", SLIDES, stopped=True, **given)
    assert told in " ".join(invoked("report", folder).output.split())
    heading = (folder / "report.html").read_text().partition("</header>")[0]
    assert heading.endswith(f'<p class="note">{told}</p>')
    assert f"**{told}**" in (folder / "report.md").read_text()
    assert json.loads((folder / "report.json").read_text())["unfinished"] == told


def test_pictures_are_as_many_as_were_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    _, run = store_with_run(tmp_path / "runs")
    evaluation(folder, [record("c1", run=run)])
    (tmp_path / "runs").rename(folder / "runs")

    def page(*words: str) -> str:
        done = invoked("report", folder, *words)
        assert done.exit_code == 0, done.output
        return " ".join(done.stdout.split())

    assert "--pictures all" not in page()
    assert "data:image/jpeg" in (folder / "report.html").read_text()
    assert "--pictures all" not in page("--pictures", "none")
    assert "data:image/jpeg" not in (folder / "report.html").read_text()
    assert "without 1 picture; include all: --pictures all" in page("--pictures", "1k")
    assert invoked("report", folder, "--pictures", "some").exit_code == 2


def test_runs_of_one_name_are_a_row_of_a_paper_s_table(tmp_path: Path) -> None:
    slides, decks = evaluation(tmp_path / "a", SLIDES), evaluation(tmp_path / "b", [*DECKS, *PAGES])
    done = invoked("table", f"x={slides}", f"x={decks}", f"y={decks}", "--layout", "vrag", "--markdown")
    assert done.exit_code == 0, done.output
    rows = [line.strip("|").split("|") for line in done.stdout.splitlines()]
    assert [cell.strip() for cell in rows[0]][:4] == [
        "",
        "SlideVQA Single-hop",
        "SlideVQA Multi-hop",
        "ViDoSeek Extraction",
    ]
    assert [cell.strip() for cell in (rows[2][1], rows[2][3], rows[2][-1])] == [
        "**50.0**",
        "100.0",  # of both
        "**60.0**",
    ]
    assert rows[3][-1].strip() == "–"
    assert isinstance(invoked("table", f"x={slides}", f"x={slides}").exception, CaseError)
    assert invoked("table", slides, slides).exit_code == 2
    assert invoked("table", slides, "--layout", "other").exit_code == 2


def test_a_table_tells_what_makes_its_rows_hard_to_compare(tmp_path: Path) -> None:
    rules = evaluation(tmp_path / "a", SLIDES)
    model = evaluation(tmp_path / "b", SLIDES[:1], judge="qwen", judge_identity="endpoint:qwen:1")
    judged, asked_ = "Judged by different judges: R by rules, M by qwen.", "Asked different questions: R 2"
    line = ("table", f"R={rules}", f"M={model}")
    told = json.loads(invoked(*line, "--json").stdout)
    assert told["judges"] == {"R": "rules", "M": "qwen"}
    assert [note.partition(",")[0] for note in told["notes"]] == [
        judged.partition(",")[0],
        f"{asked_} questions",
    ]
    for more in ((), ("--markdown",)):
        done = " ".join(invoked(*line, *more).output.split())
        assert judged in done
        assert asked_ in done
    assert "Judged" not in invoked("table", f"R={rules}", f"S={rules}").output


def test_a_comparison_tells_what_makes_it_hard(tmp_path: Path) -> None:
    one = evaluation(tmp_path / "one", SLIDES, extractor="a:1")
    other = evaluation(tmp_path / "other", SLIDES, stopped=True)
    done = invoked("compare", one, other, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["a"], told["b"]) == ("one", "other")
    assert [line.partition(" ")[0] for line in told["differences"]] == ["Rules", "One"]
    assert "slidevqa/f1" in told["measures"]
    page = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert page["title"] == "Slidevqa: one and other"
    assert page["notes"] == told["differences"]
    assert page["intervals"] == {"level": 0.95, "resamples": 2000, "seed": 0}


def test_a_comparison_shows_gold_pages_that_no_run_looked_at_and_links_to_runs(tmp_path: Path) -> None:
    slide = tmp_path / "slide.png"
    Image.new("RGB", (60, 80), "white").save(slide)
    collection = tmp_path / "collection"
    settings = load_settings(collection=str(collection))
    opened, options, model = open_for_adding(settings)
    add(opened, [slide], options, embedder=model)
    version = open_session(settings.settings).searcher.version
    gold = (EvidencePlace(document=slide.name, page=1, box=None),)
    about = subject("slides-1", gold=gold, document=slide.name)
    unseen = [record("slides-1", CaseOutcome.WRONG, subject=about, evidence=())]
    given: dict[str, Any] = {"places": (str(collection),), "made_with": {"collection": version}}
    one, other = (evaluation(tmp_path / name, unseen, **given) for name in ("one", "other"))
    (other / "runs").mkdir()
    assert invoked("compare", one, other, "--out", tmp_path / "out" / "deep").exit_code == 0
    page = (tmp_path / "out" / "deep" / "comparison.html").read_text()
    data = json.loads(
        page.partition('type="application/json"')[2].partition(">")[2].partition("</script>")[0]
    )
    assert data["runs"] == ["", "../../other/runs"]
    assert [sight["picture"] for sight in data["entries"][0]["sights"]] == [0]


def test_what_its_authors_report_of_answers_and_evidence_is_compared(tmp_path: Path) -> None:
    told = {"slidevqa/f1": 1.0, "cited_f1": 0.5, "cited_em": 0.0, "recall@1": 1.0}
    one, other = (
        evaluation(tmp_path / name, [asked("slidevqa-1", CaseOutcome.RIGHT, **told)])
        for name in ("one", "other")
    )
    found = json.loads(invoked("compare", one, other, "--json").stdout)
    assert list(found["measures"]) == ["accuracy", "slidevqa/f1", "cited_f1"]


def test_a_small_p_is_never_0(tmp_path: Path) -> None:
    one, other = (
        evaluation(tmp_path / outcome, [asked(f"slidevqa-{at}", outcome) for at in range(20)])
        for outcome in (CaseOutcome.WRONG, CaseOutcome.RIGHT)
    )
    done = invoked("compare", one, other)
    assert "< 0.001" in done.stdout
    assert "0.000" in done.stdout  # the accuracy of the first


def test_runs_that_were_judged_by_others_are_refused(tmp_path: Path) -> None:
    one = evaluation(tmp_path / "one", SLIDES, judge_identity="endpoint:a:1")
    other = evaluation(tmp_path / "other", SLIDES, judge_identity="endpoint:a:2")
    assert isinstance(invoked("compare", one, other).exception, CaseError)


def test_what_is_no_evaluation_is_refused(tmp_path: Path) -> None:
    for command in ("report", "table"):
        assert isinstance(invoked(command, tmp_path).exception, RunError)
    with pytest.raises(RunError):
        raise invoked("compare", tmp_path, tmp_path).exception or AssertionError
