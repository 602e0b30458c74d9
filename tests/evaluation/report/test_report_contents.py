"""What a report tells of runs and benchmarks: frames, short answers, settings, benchmarks together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reported import FERRY, record, store_with_run, subject

from vrag.agent.events import AnswerGiven
from vrag.agent.runs.run_store import RunStore
from vrag.evaluation.prepare import PreparedPart
from vrag.evaluation.record import CaseOutcome, CaseRecord, EvidencePlace, Extraction
from vrag.evaluation.report import ReportPage, Thumbnails, report_page
from vrag.evaluation.report.labels import FAMILIES, facts_of, families, title_of
from vrag.evaluation.result_store import Conditions
from vrag.evaluation.summary import summarise
from vrag.reading.verification.claim import ClaimVerdict
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def report(told: Sequence[CaseRecord], **given: Any) -> ReportPage:  # noqa: ANN401 - as of `report_page`
    return report_page("Ferries", told, summarise(told, resamples=50), made=0.0, **given)


# Frames and pages


def filmed(
    place: Path, box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
) -> tuple[RunStore, str]:
    """A run whose evidence is a clip: that of a page, told as one."""
    first, run = store_with_run(place / "first")
    store = RunStore(place / "runs")
    with store.record() as recording:
        for name in first.file_names(run):
            recording.save(name, first.read_file(run, *name.split(".")))
        for event in first.read(run).events:
            if isinstance(event, AnswerGiven):
                told: dict[str, object] = {"kind": ItemKind.CLIP, "seconds": (72.0, 80.5), "box": box}
                if box != (0, 0, 1, 1):
                    told["crop_sha256"] = "0" * 64
                clips = (one.model_copy(update=told) for one in event.evidence)
                recording.write(event.model_copy(update={"evidence": tuple(clips)}))
            else:
                recording.write(event)
    return store, recording.id


def sights(store: RunStore, run: str, **given: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    (entry,) = report([record("c1", run=run, **given)], store=store).entries
    return [sight.as_dict() for sight in entry.sights]


def test_evidence_of_a_clip_is_shown_by_its_frame_and_its_time(tmp_path: Path) -> None:
    store, run = filmed(tmp_path)
    clip, gold = sights(store, run, evidence=(EvidencePlace(document="film.mp4", page=3, box=None),))
    assert (clip["document"], clip["when"], clip["picture"]) == ("film.mp4", "1:12–1:20.5", 0)
    assert (gold["document"], gold["when"]) == (FERRY, None)


def test_a_part_of_a_frame_is_drawn_on_the_whole_frame(tmp_path: Path) -> None:
    part = (0.25, 0.25, 0.5, 0.5)
    store, run = filmed(tmp_path, part)
    (clip, *_) = sights(store, run, evidence=(EvidencePlace(document="film.mp4", page=3, box=part),))
    assert clip["picture"] == 0
    assert clip["boxes"] == [["a", *part]]


def test_a_frame_that_is_gone_leaves_its_time(tmp_path: Path) -> None:
    store, run = filmed(tmp_path)
    store.files.blobs.delete(name.split(".")[0] for name in store.file_names(run))
    (clip, *_) = sights(store, run, evidence=(EvidencePlace(document="film.mp4", page=3, box=None),))
    assert (clip["when"], clip["picture"]) == ("1:12–1:20.5", None)


def test_a_page_has_its_picture_whatever_the_gold_calls_its_document(tmp_path: Path) -> None:
    store, run = store_with_run(tmp_path)
    renamed = EvidencePlace(document="copy.pdf", page=1, box=None)
    (page,) = sights(store, run, subject=subject("c1", gold=(renamed,)), evidence=(renamed,))
    assert page["picture"] == 0


def test_long_thoughts_are_whole() -> None:
    from vrag.evaluation.report.case_list import THOUGHT, cut

    assert cut("a" * THOUGHT, THOUGHT) == "a" * THOUGHT
    assert len(cut("a" * 20_000, THOUGHT)) == THOUGHT > 2000


def test_an_abstention_is_what_the_last_step_did(tmp_path: Path) -> None:
    from vrag.agent.runs.run_result import RunResult
    from vrag.evaluation.report.case_list import summarize_steps

    for said in ("48,200", "Not answerable"):
        store, run = store_with_run(tmp_path / said, said)
        *_, last = summarize_steps(RunResult.of(store.read(run).events))
        assert last.acts == (("answer", said),)


# Short answers


def test_what_rules_compared_stands_beside_the_answer() -> None:
    told = [
        record("c1"),
        record("c2", extracted=Extraction(answer="48200", form="integer")),
        record("c3", extracted=Extraction(answer=None, why="The model was away.")),
    ]
    found = [entry.as_dict()["sides"][0]["extracted"] for entry in report(told).entries]
    assert found == [None, "48200", "none: The model was away."]


# Settings


def part(name: str, *measures: str, title: str = "") -> PreparedPart:
    return PreparedPart(
        name=name,
        title=title or f"{name.title()} (arXiv 1)",
        licence="CC0",
        source="/data",
        split="test" if name == "slides" else None,
        cases=2,
        documents=1,
        measures=measures,
        notes=(),
    )


def conditions(*parts: PreparedPart, **given: Any) -> Conditions:  # noqa: ANN401 - as of `Conditions`
    usual: dict[str, Any] = {"cases": "ab" * 32, "samples": 1, "judge": "rules", "made_with": {}}
    return Conditions(version="1", benchmarks=parts, **{**usual, **given})


def test_what_was_run_is_told_in_words() -> None:
    told = facts_of(
        conditions(
            part("slides"),
            judge_identity="endpoint:qwen:0123",
            extractor="qwen:4567",
            made_with={
                "agent": "vrag",
                "policy": "qwen",
                "sampling": {"temperature": 0.7, "seed": 3},
                "limits": {"steps": 10, "tokens": 5000, "cost": None},
                "environment": {"hits": 3},
                "collection": "00ff-blank",
                "checkpoint": "cd" * 32,
                "deadline": 90.0,
            },
        )
    )
    assert told == {
        "agent": "vrag",
        "model": "qwen",
        "checkpoint": "SHA-256 cdcdcdcdcdcdcdcd…",
        "sampling": "temperature 0.7, seed 3",
        "judge": "endpoint:qwen:0123",
        "short answers": "extracted by qwen:4567",
        "runs of a question": "1",
        "steps at most": "10",
        "other limits": "tokens 5000",
        "hits of a search": "3",
        "deadline of a run": "1 min 30 s",
        "pages shown": "white images, to tell looking from guessing",
        "collection": "00ff-blank",
        "questions": "SHA-256 abababababababab…",
        "licence": "CC0",
        "vrag": "1",
        "whole": "yes",
    }


def test_conditions_of_former_versions_and_odd_ones_are_told_as_far_as_they_go() -> None:
    odd = {"limits": [1], "sampling": None, "environment": "x", "deadline": "soon", "checkpoint": 3}
    told = facts_of(conditions(part("slides"), made_with=odd, stopped=True))
    assert told["judge"] == "rules (short answers alone are right)"
    assert told["whole"].startswith("no")
    assert told.keys() == {"judge", "runs of a question", "questions", "licence", "vrag", "whole"}


def test_a_title_names_the_benchmarks() -> None:
    slides, decks, films, words = (part(name) for name in ("slides", "decks", "films", "words"))
    assert title_of([slides]) == "Slides (arXiv 1)"
    assert title_of([slides, decks]) == "Slides and Decks"
    assert title_of([slides, decks, films]) == "Slides, Decks and Films"
    assert title_of([slides, decks, films, words]) == "4 benchmarks: Slides, Decks, Films, Words"
    assert title_of([]) == "Evaluation"


# Benchmarks together


def test_each_benchmark_has_what_its_authors_report() -> None:
    told = [
        record("c1", measures={"slidevqa/f1": 0.25, "f1": 0.5}),
        record("c2", CaseOutcome.WRONG, subject=subject("c2", benchmark="films"), measures={"lvbench": 1.0}),
    ]
    reported = {"slides": ("slidevqa/f1", "slidevqa/em"), "films": ("accuracy", "lvbench")}
    page = report(told, reported=reported)
    rows = [line for line in page.markdown.splitlines() if line.startswith(("| slides", "| films"))]
    assert [row.split(" | ")[3].partition(" (")[0] for row in rows] == ["LVBench 1.000", "SlideVQA F1 0.250"]
    assert 'id="benchmarks"' in page.html
    assert "SlideVQA F1 <strong>0.250</strong>" in page.html
    assert 'id="benchmarks"' not in report(told[:1], reported=reported).html


def test_pages_documents_and_regions_are_told_apart() -> None:
    found = families(["region_precision@5", "recall@5", "region_recall@1", "document_recall@10", "accuracy"])
    assert list(found) == ["Answers", "Search: pages", "Search: documents", "Search: regions"]
    assert found["Search: regions"] == ["region_recall@1", "region_precision@5"]
    assert len([name for those in FAMILIES.values() for name in those]) == len(
        {name for those in FAMILIES.values() for name in those}
    )


def test_how_intervals_were_made_is_told_everywhere() -> None:
    page = report([record("c1")], thumbnails=Thumbnails(most_bytes=0))
    words = "95 %, by 50 draws of documents, seed 0"
    assert words in page.html
    assert words in page.markdown
    assert page.as_dict()["summary"]["intervals"] == {"level": 0.95, "resamples": 50, "seed": 0}


def test_gold_stretches_of_a_video_are_told_with_their_times() -> None:
    told = record("c1", subject=subject("c1", spans=((12.0, 95.0), (100.0, 130.5))))
    (entry,) = report([told]).entries
    assert entry.as_dict()["moments"] == ["0:12–1:35", "1:40–2:10.5"]


# Chains


def chained(
    uid: str, outcome: CaseOutcome, verdict: ClaimVerdict | None = None, **stages: float
) -> CaseRecord:
    measures = {f"chain_{name}": value for name, value in stages.items()}
    return record(uid, outcome, verdict=verdict, measures=measures)


CHAINS = [
    chained("a", CaseOutcome.RIGHT, ClaimVerdict.STATED, page=1, region=1, fact=1, answer=1, complete=1),
    chained("b", CaseOutcome.WRONG, ClaimVerdict.UNVERIFIED, page=1, region=0, answer=0, complete=0),
    chained("c", CaseOutcome.RIGHT, ClaimVerdict.UNVERIFIED, page=1, region=1, answer=1, complete=1),
    chained("d", CaseOutcome.ABSTAINED, page=0, region=0, fact=0, answer=0, complete=0),
    record("e", CaseOutcome.RIGHT),
]


def test_chains_are_drawn_stage_by_stage() -> None:
    page = report(CHAINS)
    assert page.stages == {
        "chain_page": {"holds": 3, "not measured": 0, "breaks here": 1, "broke before": 0},
        "chain_region": {"holds": 2, "not measured": 0, "breaks here": 1, "broke before": 1},
        "chain_fact": {"holds": 1, "not measured": 1, "breaks here": 0, "broke before": 2},
        "chain_answer": {"holds": 2, "not measured": 0, "breaks here": 0, "broke before": 2},
    }
    assert page.without_stages == "4 runs of 5, of questions with gold pages and an answer."
    assert "Region: 2 holds, 0 not measured, 1 breaks here, 1 broke before" in page.html
    assert "| Region | 2 | 0 | 1 | 1 |" in page.markdown
    assert page.as_dict()["stages"] == page.stages


def test_verdicts_stand_beside_outcomes() -> None:
    page = report(CHAINS)
    assert {outcome: list(row.values()) for outcome, row in page.verdicts.items()} == {
        "right": [0, 0, 1, 0, 1],
        "wrong": [0, 0, 0, 0, 1],
    }
    assert "| right | 0 | 0 | 1 | 0 | 1 |" in page.markdown
    assert ">Unverified</th>" in page.html


def test_stages_that_no_question_has_are_left_out_and_named() -> None:
    page = report([chained("a", CaseOutcome.RIGHT, page=1, answer=1)])
    assert list(page.stages) == ["chain_page", "chain_answer"]
    assert "No question has gold boxes: regions are left out." in page.html


def test_records_of_before_have_no_chains() -> None:
    line = record("a").model_dump(mode="json")
    del line["verdict"]
    page = report([CaseRecord.model_validate(line)])
    assert (page.stages, page.verdicts) == ({}, {})
    assert 'id="chains"' not in page.html
    assert "chains break" not in page.markdown
