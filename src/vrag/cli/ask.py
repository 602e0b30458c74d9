"""`vrag ask`: index what is new, ask, print the steps, the answer and its evidence, or all as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from vrag.agent.events import DraftMode, Event, StopReason, UsageReported
from vrag.agent.evidence import Evidence
from vrag.agent.question import Question, QuestionImage
from vrag.agent.runs.run_result import ResultKind, RunUsage
from vrag.agent.runs.run_store import RunState, StoredRun
from vrag.cli import options as opt
from vrag.cli.run_printer import RunPrinter, print_end
from vrag.cli.session import open_for_asking, read_run
from vrag.cli.terminal.console import (
    add_location,
    echo,
    echo_stop,
    plain,
    print_json,
    print_result,
    quote_argument,
    relative_path,
    warn,
)
from vrag.cli.terminal.files import exists
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.last_collection import remember_collection
from vrag.cli.terminal.progress import FLOWING, model_status
from vrag.errors import CorpusError
from vrag.factory.session import Session, run_store
from vrag.settings import SettingsReport
from vrag.telemetry import observer_from_environment

ANSWERED, FAILED, ABSTAINED = 0, 1, 3
"""Exit statuses."""
NODE_FIELDS = ("id", "kind", "parents", "query", "summary")
IMAGE_FIELDS = ("item", "document", "page", "label", "box", "seconds")


@common_options("docs", "agent", "model", "base_url", "collection", "after", "images", "as_json")
def ask(
    words: list[str] = typer.Argument(
        ..., metavar="[PATH]... QUESTION", help="The question, and files or folders to look in."
    ),
    docs: list[Path] = typer.Option([], "--docs", "-d", help="File or folder to look in; repeatable."),
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    profile: opt.ProfileOption = None,
    collection: opt.CollectionOption = None,
    max_steps: opt.MaxStepsOption = None,
    hits: opt.TopKOption = None,
    search_url: opt.SearchUrlOption = None,
    image_root: opt.ImageRootOption = None,
    after: str | None = typer.Option(
        None,
        "--after",
        metavar="RUN",
        help="Ask a follow-up question to this run: its id, the beginning of one, or `last`. Without paths, "
        "the documents of that run are searched.",
    ),
    wait: opt.WaitOption = None,
    images: list[Path] = typer.Option(
        [], "--image", "-i", help="Picture that belongs to the question (JPEG, PNG, WebP); repeatable."
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Ask a question about documents.

    New and changed documents are indexed first. The agent looks in the documents you name, or in the
    whole collection if you name none.

    Without a model, cells that the question names and plain statements are found on the page; for other
    questions the places that may answer are shown. That needs no key and no network. With a model, the agent
    reasons over what it sees: `vrag` in one conversation, `vimrag` with a memory graph. `rag` (one search,
    one answer) and `react` (search only) are baselines to compare with.

    If another process is writing to the collection, new documents wait for it (--wait), and after that the
    answer comes from what is indexed already.

    Exit status: 0 answered or places that may answer, 3 nothing found, 2 wrong usage, 1 failed, 4 another
    process is writing to the collection, which has nothing to answer from yet, 130 stopped.

    Examples:

      vrag ask ./reports "What was the revenue in 2023?"

      vrag ask "Who signed the letter?" --docs letter.pdf --docs scans/ --json

      vrag ask ./reports "Which year grew most?" --agent vimrag --model qwen3-vl-plus --base-url URL

      vrag ask ./reports "Which year grew most?" --model ollama:qwen3-vl:8b

      vrag ask ./reports "Which year grew most?" --model local:./Qwen2.5-VL-7B-Instruct

      vrag ask --after last "And in 2022?"

      vrag ask ./manuals "Which part is this?" --image photo.jpg --model qwen3-vl-plus --base-url URL
    """
    flags = locals()
    question, paths = _split_words(words, docs)
    report = opt.load_flags(flags) if paths else opt.load_reading_flags(flags)
    answer_question(report, question, paths, tuple(map(_open_image, images)), after=after, as_json=as_json)


def answer_question(
    report: SettingsReport,
    question: str,
    paths: list[Path],
    images: tuple[QuestionImage, ...] = (),
    *,
    after: str | None = None,
    as_json: bool = False,
) -> None:
    """Answer a question in the terminal; without paths, from the whole collection."""
    previous_run = read_run(run_store(report.settings), after) if after else None
    try:
        session = open_for_asking(report, paths)
    except KeyboardInterrupt:
        if as_json:
            print_json({"failure": "Stopped before the question was asked.", "hint": "Ask again."})
        raise
    remember_collection(session.settings)
    if previous_run is not None and not paths:
        session.scope = _find_unchanged_documents(previous_run, session)
    if previous_run:
        full_question = previous_run.follow_up(question, images)
    else:
        full_question = Question(question, images=images)
    run = _run(session, full_question, quiet=as_json)

    def render() -> None:
        print_end(run, RunState.FINISHED, session.settings)
        if command := _ask_one_document(run, session):
            echo((add_location(command, session.settings), "dim"))
        if session.settings.search_url:  # the run is not in a collection
            echo((add_location(f"Show it again: vrag runs show {run.id}", session.settings), "dim"))

    print_result(run_as_json(run), render, as_json=as_json)
    abstained = run.result.stop_reason is StopReason.ABSTAINED
    answered = run.result.kind is not ResultKind.NONE
    raise typer.Exit(ANSWERED if answered else ABSTAINED if abstained else FAILED)


def _split_words(words: list[str], docs: list[Path]) -> tuple[str, list[Path]]:
    """Return the question and the paths: existing words are paths, the remaining one is the question."""
    paths = [Path(word) for word in words[:-1] if exists(word)]
    others = [word for word in words[:-1] if not exists(word)]
    question = words[-1]
    if len(others) == 1 and exists(question):
        question, others, paths = others[0], [], [*paths, Path(question)]
    if not others and exists(question):
        raise typer.BadParameter(f"{question!r} is a file or folder. Add a question.")
    if others:
        raise typer.BadParameter(
            f"{others[0]!r} does not exist. If it is part of the question, put the whole question in quotes."
        )
    if not question.strip():
        raise typer.BadParameter("The question is empty.")
    if missing := [path for path in docs if not exists(path)]:
        raise typer.BadParameter(f"{str(missing[0])!r} does not exist.")
    return question, [*docs, *paths]


def _open_image(path: Path) -> QuestionImage:
    try:
        return QuestionImage.of(path.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except CorpusError as error:
        raise CorpusError(f"{plain(str(path))}: {error.message}", error.hint) from error


def _ask_one_document(run: StoredRun, session: Session) -> str:
    """Return the command that asks the likeliest of several documents; empty where there is no choice."""
    likeliest = next((choice.document for choice in run.result.choices), None)
    known = (document for place in session.collections.values() for document in place.documents())
    path = next((relative_path(Path(each.path)) for each in known if each.id == likeliest), None)
    if likeliest is None or path is None:
        return ""
    return f"Ask one of them: vrag ask {quote_argument(path)} {quote_argument(run.result.question)}"


def _find_unchanged_documents(run: StoredRun, session: Session) -> frozenset[str] | None:
    """Return the ids of the documents that a run looked in and that have not changed; None for all."""
    documents = run.started.settings.environment.documents
    if documents is None or not session.collections:
        return documents
    known = [document for collection in session.collections.values() for document in collection.documents()]
    unchanged = documents & {document.id for document in known if document.status.served}
    if unchanged != documents:
        scope = "only the unchanged ones are searched" if unchanged else "the whole collection is searched"
        warn(f"Some documents of the run {run.id} have changed or are gone; {scope}.")
    return unchanged or None


def _run(session: Session, question: Question, *, quiet: bool) -> StoredRun:
    """Ask the question, and print the steps unless `quiet`."""
    events: list[Event] = []
    observers = (events.append, *filter(None, [observer_from_environment()]))
    printer, agent = RunPrinter(), session.agent()
    status_line = model_status(session.settings.model, quiet=quiet)
    store = session.runs
    with store.record() as recording, status_line as status:
        agent = replace(agent, draft=DraftMode.TEXT if status.is_shown else DraftMode.OFF)
        try:
            for event in agent.record(question, recording):
                for observe in observers:
                    observe(event)
                status.follow(event)
                if not quiet and event.type not in FLOWING:
                    with status.hidden():
                        printer.print_event(event)
        except KeyboardInterrupt:
            note = f"Finished steps are kept: vrag runs show {recording.id}"
            echo_stop(add_location(note, session.settings))
            if quiet and events:
                print_json(run_as_json(StoredRun(recording.id, store, tuple(events))))
            raise
    return StoredRun(recording.id, store, tuple(events))


def run_as_json(stored: StoredRun) -> dict[str, Any]:
    """Return question, answer, evidence, steps, memory graph and cost of a run."""
    run = stored.result
    places = [_evidence(number, evidence, stored) for number, evidence in enumerate(run.evidence, 1)]
    return {
        "question": run.question,
        "kind": run.kind,
        "answer": run.answer,
        "marked": run.marked_answer.text or None,
        "withdrawn": run.withdrawn,
        "stop_reason": run.stop_reason,
        "reading": run.reading and run.reading.model_dump(mode="json"),
        "citations": [citation.model_dump(mode="json") for citation in run.citations],
        "claims": [claim.model_dump(mode="json") for claim in run.claims],
        "conflicts": [conflict.model_dump(mode="json") for conflict in run.conflicts],
        "evidence": places[: run.cited],
        "looked_at": places[run.cited :],
        "unsupported": list(run.unsupported),
        "steps": [
            {
                "step": step.number,
                "thought": step.thought,
                "search": None if step.action else step.query,
                **_fields(step, ("crop", "action", "node", "invalid")),
                "repaired": list(step.repairs),
                "usage": step.usage
                and {**_usage(step.usage), **_fields(step.usage, ("memory_tokens", "fresh_tokens"))},
                "shown": [_fields(image, IMAGE_FIELDS) for image in step.shown],
            }
            for step in run.steps
        ],
        "graph": run.graph and [_fields(node, NODE_FIELDS) for node in run.graph.nodes],
        "usage": {"steps": run.calls, **_usage(run.usage), "seconds": round(run.seconds, 4)},
        "absence": run.absence,
        "failure": run.failure,
        "notices": list(run.notices),
        "choices": [choice.model_dump() for choice in run.choices],
        "run": stored.id,
    }


def _fields(record: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _evidence(number: int, evidence: Evidence, run: StoredRun) -> dict[str, Any]:
    crop = evidence.crop_sha256
    return {
        "number": number,
        **_fields(evidence, ("item", "document", "page", "page_label", "kind", "box", "seconds", "node")),
        "crop": str(run.path(crop)) if crop else None,
        "quote": evidence.quote,
        "marks": [mark.model_dump(mode="json") for mark in evidence.marks],
        "located": evidence.located,
        "cells": evidence.cells,
    }


def _usage(usage: RunUsage | UsageReported) -> dict[str, Any]:
    tokens = ("prompt_tokens", "completion_tokens", "cached_tokens", "visual_tokens", "pixels")
    return {
        **_fields(usage, tokens),
        "seconds": round(usage.seconds, 4),
        "model_seconds": round(usage.model_seconds, 4),
        "cost": usage.cost,
    }
