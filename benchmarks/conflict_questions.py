"""Ordinary questions about real documents, whose answers should show no conflict."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import vrag
from benchmarks.conflict_documents import Heading
from benchmarks.conflict_sources import Source
from benchmarks.planted_conflicts import PDFS, Fact, load_facts, read_source

_FACT_QUESTIONS = ("What is {topic} {where}?", "{where}: how much or what is {topic}?")
_HEADING_QUESTIONS = ("What does {title} say about {heading}?", "{heading}: what is the rule?")


def ask_questions(
    folder: Path, repositories: Path, dataset: Path | None, docs: Path | None, count: int
) -> None:
    """Ask questions of the real documents and of a data set, and print the conflicts that answers show."""
    asked: list[tuple[str, str, list[Any], float]] = []
    if dataset and docs:
        cases: list[dict[str, Any]] = json.loads(dataset.read_text(encoding="utf-8"))["examples"]
        questions = [str(case["query"]) for case in cases]
        asked += _ask(docs, folder / "questions-dataset-index", questions[:count])
    read = partial(read_source, repositories)
    named = load_facts(read)
    documents = folder / "questions" / "documents"
    documents.mkdir(parents=True, exist_ok=True)
    for source in [*(source for source, _ in named), *map(read, PDFS)]:
        (documents / f"{source.name}.{source.suffix}").write_bytes(source.content)
    questions = list(dict.fromkeys(make_questions(named)))
    asked += _ask(documents, folder / "questions" / "index", questions[: count - len(asked)])
    shown = [one for one in asked if one[2]]
    for place, question, conflicts, _ in shown:
        print(f"{place}: {question}")
        for conflict in conflicts:
            print(f"    {conflict}")
    seconds = sum(one[3] for one in asked) / max(len(asked), 1)
    print(f"{len(shown)} of {len(asked)} answers show a conflict; {seconds:.2f} s an answer")


def _ask(
    documents: Path, index: Path, questions: Sequence[str]
) -> Iterator[tuple[str, str, list[Any], float]]:
    session = vrag.open(documents, collection=str(index), show_progress=False)
    for question in questions:
        begun = time.monotonic()
        result: Any = session.ask(question)
        yield documents.name, question, list(result.conflicts), time.monotonic() - begun


def make_questions(named: Sequence[tuple[Source, Sequence[Fact]]]) -> Iterator[str]:
    """Yield questions for the facts, then for the headings of documents, one template after the other."""
    for template in _FACT_QUESTIONS:
        for _, facts in named:
            for fact in facts:
                if fact.kind != "negation":
                    where = f"at {fact.owner}" if template.startswith("What") else fact.owner
                    question = template.format(topic=fact.topic, where=where)
                    yield question[0].upper() + question[1:]
    for template in _HEADING_QUESTIONS:
        for source, _ in named:
            for block in source.blocks:
                if isinstance(block, Heading) and 8 < len(block.text) < 70 and block.text != source.title:
                    yield template.format(title=source.title, heading=block.text.strip(" .:"))
