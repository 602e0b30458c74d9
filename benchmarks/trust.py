"""Right, or silent: what answers without a model are worth, and what their verdicts are worth.

    python -m benchmarks.trust [SET ...] [--work DIR] [--json FILE]
    python -m benchmarks.trust --from FILE [--figure FILE]

Every question is put to the agent as `vrag ask` builds it, without a model. The sets are:

- mmlongbench: the questions of `--dataset`, each about its own document; `merged` asks them of all documents
  together. Both take the collection `--collection`, or index the folder `pdf` beside the questions;
- cases: small inputs of `--cases` that once failed (`cases.json`), each on a collection of its own, of the
  groups of `GROUPS`;
- questions: `trust_questions.json`, written from the pages of public documents before anything was asked.
  `--documents` holds these, each below the name of its repository:
  DIR/jsvine/pdfplumber/tests/pdfs/issue-53-example.pdf;
- calibration: further questions of that file about other documents, by which the probabilities may be chosen
  from which answers are given, so that `questions` stays for measuring.

An answer of the first is right by the rule of MMLongBench-Doc, for the number alone as well if there is but
one in it; of the others by `trust_rules.py`. What a run would have answered is read again from the pages that
it looked at: the likeliest reading and its probability, also where no answer was given. Search is measured
over all documents together and within the document of the question, there also for those that name a page,
figure, table or section.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

import vrag
from benchmarks.grounding import open_documents
from benchmarks.reading import is_right
from benchmarks.trust_chart import draw_trust
from benchmarks.trust_figures import TrustRecord, TrustReport
from benchmarks.trust_rules import Accepted, accepted_forms, amounts_of, is_accepted, lacks_scale
from vrag.agent.events import AnswerGiven
from vrag.agent.page_reading import open_page
from vrag.datasets.registry import read_cases
from vrag.evaluation.retrieval import QuestionScore, evaluate_retrieval
from vrag.geometry import Box
from vrag.reading.answer_features import fold_answer
from vrag.reading.page_candidates import PageCandidate
from vrag.reading.page_text import read_page_text
from vrag.reading.places.field_answers import find_field_answer
from vrag.reading.places.named_cells import find_named_cell
from vrag.reading.questions.query_analysis import without_form
from vrag.reading.reader import (
    load_answer_scorer,
    load_text_reader,
    rank_different_answers,
    read,
    weigh_candidates,
)
from vrag.reading.spans.reader import ScoredSpan
from vrag.reading.spans.span_types import SpanType, type_of_span
from vrag.reading.table_answers.candidates import RankedAnswer
from vrag.reading.table_answers.operations import TableOperation
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from vrag.agent.agent import Agent
    from vrag.agent.runs.run_result import RunResult
    from vrag.factory.session import Session
    from vrag.reading.answer import Reading, ReadPage
    from vrag.types import Case

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATASET = SHARED / "data" / "mmlongbench-dev" / "rag_dataset.json"
CASES = SHARED / "cases" / "bugs"
QUESTIONS = Path(__file__).with_name("trust_questions.json")
GROUPS = ("numbers", "varied", "continued", "scales", "raised", "unseen")
"""The folders of the cases that are asked."""
SETS = ("mmlongbench", "cases", "questions", "calibration", "merged")
DEFAULT_SETS, OWN_SETS = SETS[:3], SETS[2:4]
SEARCH_MEASURES = ("ndcg@5", "recall@1", "recall@5")
NAMES = frozenset(
    {
        SpanType.NAME,
        SpanType.PERSON,
        SpanType.ORGANISATION,
        SpanType.PLACE,
        SpanType.ACRONYM,
        SpanType.CAPITAL,
    }
)
DATES = frozenset({SpanType.DATE, SpanType.YEAR})
NAMED_PLACE = re.compile(
    r"""\b(?:pages?|slides?|figures?|fig\.|tables?|sections?|charts?|chapters?|appendix|exhibits?)
        (?:\s*\#?\s*\d | \s+(?-i:[A-Z])\b)
    | \b(?:first|second|third|fourth|fifth|last|title|final|\d+(?:st|nd|rd|th))\s+
        (?:page|slide|figure|table|section|chart)\b
    | \bcover\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""A place in a document that a question points at by its number or as the first, the last, the cover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustQuestion:
    """A question with all that is needed to ask it and to judge its answer."""

    source: str
    uid: str
    document: str
    """File name of its document."""
    text: str
    kind: str
    expected: tuple[str, ...]
    gold: tuple[int, ...]
    is_right: Callable[[str], bool]
    session: Session
    scope: frozenset[str] | None
    """Ids of the documents that may be looked at; None for all of the session."""
    lacks_scale: Callable[[str], bool] = lambda _: False


def ask(question: TrustQuestion) -> TrustRecord:
    """Put a question to the agent, and read again what it looked at."""
    agent = question.session.agent(question.scope)
    begun = time.perf_counter()
    run = agent.run(question.text)
    seconds = time.perf_counter() - begun
    candidate, kind = _likeliest(agent, question.text, run)
    answer = run.answer
    evidence = run.evidence
    boxes = [Box.unit(*piece.box) for piece in evidence[:1] if piece.box]
    items = [question.session.searcher.item(item) for item in run.pages_shown]
    claims = run.end.claims if isinstance(run.end, AnswerGiven) else ()
    has_answer = bool(question.expected)
    return TrustRecord(
        source=question.source,
        uid=question.uid,
        document=question.document,
        question=question.text,
        kind=question.kind,
        expected=question.expected,
        result=run.kind.value,
        answer=answer,
        is_right=answer is not None and has_answer and question.is_right(answer),
        lacks_scale=answer is not None and question.lacks_scale(answer),
        verdicts=tuple(claim.verdict.value for claim in claims),
        candidate=None if candidate is None else candidate.text,
        candidate_kind=kind,
        probability=0.0 if candidate is None else candidate.probability,
        is_certain=candidate is not None and candidate.is_certain,
        candidate_is_right=candidate is not None and has_answer and question.is_right(candidate.text),
        gold=question.gold,
        places=tuple((piece.document, piece.page) for piece in evidence),
        looked_at=tuple((item.document_name, item.ordinal) for item in items),
        area=boxes[0].area if boxes else None,
        names_page=NAMED_PLACE.search(without_form(question.text)) is not None,
        seconds=seconds,
    )


def _likeliest(agent: Agent, question: str, run: RunResult) -> tuple[Reading | None, str]:
    """Return the likeliest reading of the pages that a run looked at, and its kind."""
    searcher = agent.environment.searcher
    items = dict.fromkeys((*run.pages_shown, *(piece.item for piece in run.evidence)))  # passages too
    pages = [open_page(searcher, searcher.item(item)) for item in items]
    readings = read(question, pages)
    if not readings:
        return None, ""
    return readings[0], kind_of(question, readings[0], pages)


def kind_of(question: str, reading: Reading, pages: Sequence[ReadPage]) -> str:
    """Return the kind of a reading: computed, field, cell, labelled value, date, name or span."""
    if reading.arithmetic:
        return "computed"
    items = [page.item for page in pages]
    texts = [read_page_text(item) for item in items]
    placed = [(text, text.tables(page.picture)) for page, text in zip(pages, texts, strict=True)]
    stated = find_field_answer(question, items)
    stated = stated or find_named_cell(question, zip(items, (tables for _, tables in placed), strict=True))
    if stated is not None and fold_answer(stated.text) == fold_answer(reading.text):
        return "field"
    candidates, features = weigh_candidates(question, placed, load_text_reader())
    ranked = rank_different_answers(candidates, features, load_answer_scorer())
    same = (candidates[number] for number, _ in ranked)
    found = next(
        (one for one in same if (one.reading.item, one.reading.frame) == (reading.item, reading.frame)), None
    )
    return _source_kind(found)


def _source_kind(candidate: PageCandidate | None) -> str:
    """Return the kind of a candidate by its source; other where it is not known."""
    if candidate is None:
        return "other"
    if isinstance(candidate.source, RankedAnswer):
        return "cell" if candidate.source.candidate.operation is TableOperation.LOOKUP else "computed"
    if not isinstance(candidate.source, ScoredSpan):
        return "labelled value"
    type_ = type_of_span(candidate.reading.text)
    return "date" if type_ in DATES else "name" if type_ in NAMES else "span"


def mmlongbench_questions(
    session: Session, dataset: Path, *, merged: bool = False
) -> Iterator[TrustQuestion]:
    """Yield the questions of MMLongBench-Doc, each about its own document, or all documents together."""
    documents = {document.name: document.id for document in session.documents}
    for case in read_cases(dataset):
        void = case.query_type.casefold() == "unanswerable"
        yield TrustQuestion(
            source="merged" if merged else "mmlongbench",
            uid=case.uid,
            document=case.file_name,
            text=case.query,
            kind="unanswerable" if void else case.answer_format.value or "text",
            expected=() if void else case.references,
            gold=case.reference_page,
            is_right=partial(is_right_by_rule, case),
            session=session,
            scope=None if merged else frozenset([documents[case.file_name]]),
        )


def is_right_by_rule(case: Case, answer: str) -> bool:
    """Return whether an answer is right by the rule of the questions, or its only number is."""
    if is_right(case, answer):
        return True
    amounts = amounts_of(answer)
    is_number = case.answer_format in {AnswerFormat.INTEGER, AnswerFormat.FLOAT}
    return is_number and len(amounts) == 1 and is_right(case, str(amounts[0].value))


def case_questions(folder: Path, work: Path) -> Iterator[TrustQuestion]:
    """Yield the handed-over cases, each on a collection of its own files."""
    rows: list[dict[str, Any]] = json.loads((folder / "cases.json").read_text("utf-8"))
    for row in rows:
        files: list[str] = row["files"]
        if not files or files[0].split("/")[0] not in GROUPS:
            continue
        forms = accepted_forms(row["expected"])
        yield _written_question(
            source="cases",
            uid=row["id"],
            kind=files[0].split("/")[0],
            text=row["question"],
            forms=forms,
            paths=[folder / name for name in files],
            collection=work / "cases" / re.sub(r"\W+", "-", " ".join(files)),
        )


def own_questions(documents: Path, work: Path, name: str = "questions") -> Iterator[TrustQuestion]:
    """Yield a list of `trust_questions.json`, each question on a collection of its document."""
    data: dict[str, Any] = json.loads(QUESTIONS.read_text("utf-8"))
    for row in data[name]:
        place = data["documents"][row["document"]]
        yield _written_question(
            source=name,
            uid=row["id"],
            kind=row["kind"],
            text=row["question"],
            forms=[Accepted(form) for form in row["accepted"]],
            paths=[documents / place["repository"] / place["path"]],
            collection=work / "documents" / row["document"],
            gold=tuple(row["pages"]),
        )


def _written_question(
    *,
    source: str,
    uid: str,
    kind: str,
    text: str,
    forms: list[Accepted],
    paths: Sequence[Path],
    collection: Path,
    gold: tuple[int, ...] = (),
) -> TrustQuestion:
    """Return a question with accepted forms, with its documents indexed."""
    return TrustQuestion(
        source=source,
        uid=uid,
        document=paths[0].name,
        text=text,
        kind=kind,
        expected=tuple(form.text for form in forms),
        gold=gold,
        is_right=lambda answer: is_accepted(text, answer, forms),
        session=vrag.open(*paths, show_progress=False, collection=collection, model=""),
        scope=None,
        lacks_scale=lambda answer: lacks_scale(answer, forms),
    )


def measure_search(session: Session, dataset: Path) -> dict[str, float]:
    """Return the figures of search: of all documents together, and of named pages within their document."""
    cases = read_cases(dataset)
    together = evaluate_retrieval(cases, session.searcher, session.documents).measures
    scores: list[QuestionScore] = []
    for document in session.documents:
        own = [case for case in cases if case.file_name == document.name]
        scores += evaluate_retrieval(own, session.searcher, [document]).scores
    named = [score for score in scores if NAMED_PLACE.search(without_form(score.case.query))]
    groups = {
        f"of {len(scores)} questions, in their document": scores,
        f"of {len(named)} questions that name a place, in their document": named,
    }
    return {f"{name}, all documents": together[name] for name in SEARCH_MEASURES} | {
        f"{name} {group}": mean([score.measures[name] for score in members] or [0.0])
        for group, members in groups.items()
        for name in SEARCH_MEASURES
    }


def ask_all(questions: Iterator[TrustQuestion]) -> list[TrustRecord]:
    """Ask questions one after the other."""
    records: list[TrustRecord] = []
    for question in questions:
        records.append(ask(question))
        print(f"\r{question.source}: {len(records)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return records


def run_sets(names: Sequence[str], options: argparse.Namespace) -> TrustReport:
    """Ask the questions of some sets."""
    records: list[TrustRecord] = []
    search: dict[str, float] = {}
    if {"mmlongbench", "merged"} & set(names):
        folder = None if options.collection else options.dataset.parent / "pdf"
        session = open_documents(folder, options.collection or options.work / "mmlongbench")
        search = measure_search(session, options.dataset)
        for name in [name for name in names if name in {"mmlongbench", "merged"}]:
            records += ask_all(mmlongbench_questions(session, options.dataset, merged=name == "merged"))
    if "cases" in names:
        records += ask_all(case_questions(options.cases, options.work))
    for name in [name for name in names if name in OWN_SETS]:
        records += ask_all(own_questions(options.documents, options.work, name))
    return TrustReport(records, search)


def keep(report: TrustReport, file: Path) -> None:
    """Write the records of a report, to count them again."""
    kept = {"search": report.search, "records": [asdict(record) for record in report.records]}
    file.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def load(file: Path) -> TrustReport:
    """Read a report that was kept."""
    kept: dict[str, Any] = json.loads(file.read_text("utf-8"))
    records = TypeAdapter(list[TrustRecord]).validate_python(kept["records"])
    return TrustReport(records, kept["search"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Asks the questions of the sets, prints one report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trust", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument(
        "sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; default: the first three"
    )
    parser.add_argument("--dataset", type=Path, default=DATASET, help="questions of MMLongBench-Doc")
    parser.add_argument("--collection", type=Path, help="the collection of their documents")
    parser.add_argument("--cases", type=Path, default=CASES, help="folder with cases.json")
    parser.add_argument("--documents", type=Path, help="folder of repositories, for `questions`")
    parser.add_argument("--work", type=Path, default=Path("trust"), help="folder for collections; kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all records in a file")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="kept", help="count records that were kept")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw reliability and precision")
    options = parser.parse_args(arguments)
    if unknown := set(options.sets) - set(SETS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(SETS)}")
    names = options.sets or DEFAULT_SETS
    if set(OWN_SETS) & set(names) and not (options.documents or options.kept):
        parser.error(f"the documents of {' and '.join(OWN_SETS)} are needed: --documents DIR")
    report = load(options.kept) if options.kept else run_sets(names, options)
    if options.json:
        keep(report, options.json)
    if options.figure:
        draw_trust(report.records, options.figure)
    print("\n".join(report.lines()))


if __name__ == "__main__":
    main()
