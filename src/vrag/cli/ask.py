"""`vrag ask`: index what is new, ask, show the steps, the answer and where it was seen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.display import (
    Collection,
    Json,
    add_progress,
    emit_json,
    file_uri,
    plain,
    say,
    supported,
    tell_report,
    warn,
)
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.agent.evidence import Evidence
    from vrag.agent.runs import Recording, StoredRun
    from vrag.agent.trajectory import Trajectory
    from vrag.assemble import Workbench
    from vrag.embed.base import Embedder
    from vrag.settings import SettingsReport

__all__ = ["ask", "tell_end", "tell_event"]

ANSWERED, FAILED, ABSTAINED = 0, 1, 3


def ask(
    words: list[str] = typer.Argument(
        ..., metavar="[PATH]... QUESTION", help="The question, and files or folders to look in."
    ),
    docs: list[Path] = typer.Option([], "--docs", "-d", help="A file or folder to look in; may be repeated."),
    collection: str | None = Collection,
    max_steps: int | None = typer.Option(None, "--max-steps", help="Model calls at most."),
    as_json: bool = Json,
) -> None:
    """Ask a question about documents.

    New and changed documents are indexed first; only the documents named are looked at, or the
    whole collection when none is named. Works without a model, a key or a network: the offline
    policy searches, crops and quotes, and abstains when it finds nothing to stand behind.

    Exit status: 0 answered, 3 abstained, 2 wrong use, 1 failed.

    Examples of use:

      vrag ask ./reports "What was the revenue in 2023?"

      vrag ask "Who signed the letter?" --docs letter.pdf --docs scans/ --json
    """
    question, paths = _split(words, docs)
    report = load_settings(collection=collection, max_steps=max_steps)
    documents, embedder = _index(report, paths) if paths else (None, None)
    from vrag.assemble import open_workbench

    settings = report.settings
    if paths:  # what was just indexed lies in one collection
        settings = settings.model_copy(update={"collections": ()})
    bench = open_workbench(settings, embedder)
    trajectory, recording = _run(bench, question, documents, quiet=as_json)
    if as_json:
        emit_json(_as_json(trajectory, recording))
    else:
        tell_end(trajectory, recording, bench.agent().policy.name)
    raise typer.Exit(_status(trajectory))


def _split(words: list[str], docs: list[Path]) -> tuple[str, list[Path]]:
    """Tells the question from the paths: what exists on disk is a path, the one other is the question."""
    paths = [Path(word) for word in words[:-1] if _exists(word)]
    others = [word for word in words[:-1] if not _exists(word)]
    question = words[-1]
    if len(others) == 1 and _exists(question):
        question, others, paths = others[0], [], [*paths, Path(question)]
    if not others and _exists(question):
        raise typer.BadParameter(f"{question!r} is a file or folder. What is the question?")
    if others:
        raise typer.BadParameter(f"{others[0]!r} does not exist. Put the question in quotes, as one word.")
    if not question.strip():
        raise typer.BadParameter("The question is empty.")
    missing = [path for path in docs if not _exists(path)]
    if missing:
        raise typer.BadParameter(f"{str(missing[0])!r} does not exist.")
    return question, [*docs, *paths]


def _exists(word: str | Path) -> bool:
    """Whether a word names something on disk; a long question is too long for a name."""
    try:
        return os.path.lexists(word)
    except (OSError, ValueError):
        return False


def _index(report: SettingsReport, paths: list[Path]) -> tuple[frozenset[str], Embedder | None]:
    """Indexes what is new; the ids of the documents that the paths name, and what made their vectors."""
    from vrag.assemble import documents_under, open_for_adding
    from vrag.errors import CollectionBusy, CorpusError
    from vrag.index.build import add

    opened, options, embedder = open_for_adding(report)
    try:
        with add_progress() as progress:
            done = add(opened, paths, options, embedder=embedder, progress=progress)
        tell_report(done, quiet_when_unchanged=True)
    except CollectionBusy as busy:
        warn(f"{busy.message} What is new has to wait; answering from what is indexed.")
    documents = frozenset(document.id for document in documents_under(opened, paths))
    if not documents:
        raise CorpusError(
            f"Nothing could be read in {', '.join(map(str, paths))}.",
            supported(),
        )
    return documents, embedder


def _run(
    bench: Workbench, question: str, documents: frozenset[str] | None, *, quiet: bool
) -> tuple[Trajectory, Recording]:
    from vrag.agent.trajectory import Trajectory

    events: list[Event] = []
    with bench.runs.record() as recording:
        for event in bench.agent(documents).stream(question, run_id=recording.id, save=recording.save):
            recording.write(event)
            events.append(event)
            if not quiet:
                tell_event(event)
    return Trajectory.of(events), recording


def tell_event(event: Event) -> None:
    """Prints an event as it happens."""
    from vrag.agent.events import (
        CropRequested,
        ImageShown,
        InvalidAction,
        PassageShown,
        SearchRequested,
        ThoughtGiven,
    )

    match event:
        case ThoughtGiven():
            say((f"{event.step}. ", "bold"), (plain(event.text, 400), "dim"))
        case SearchRequested():
            say("   search  ", (plain(event.query), "cyan"))
        case CropRequested():
            sides = ", ".join(f"{side:g}" for side in event.box)
            say("   crop    ", (f"[{sides}]", "cyan"), f" of image {event.image or 'shown last'}")
        case ImageShown():
            what = "enlarged" if event.crop else "looking at"
            say(
                f"   {what} ",
                (f"{plain(event.document)}, page {event.page}", "magenta"),
                f" ({event.width}×{event.height})",
            )
        case PassageShown():
            say("   reading ", (f"{plain(event.document)}, passage {event.page}", "magenta"))
        case InvalidAction():
            say("   ", ("refused ", "yellow"), plain(event.reason))
        case _:
            return


def tell_end(run: Trajectory, recording: Recording | StoredRun, policy: str) -> None:
    """Prints how a run ended, and where its answer was seen."""
    from vrag.agent.events import StopReason

    say("")
    if run.answer is not None:
        say(("Answer: ", "bold green"), plain(run.answer))
        if policy == "extractive":
            say(("Quoted from the page by the offline policy, not read by a model.", "dim"))
    elif run.stop_reason is StopReason.ABSTAINED:
        nearest = " The nearest:" if run.evidence else ""
        say(
            ("No answer: ", "bold yellow"),
            f"nothing found answers this well enough to stand behind.{nearest}",
        )
    else:
        why = run.failure or ("it was cut off" if run.stop_reason is None else f"it ended {run.stop_reason}")
        say(("Failed: ", "bold red"), plain(why))
    for number, evidence in enumerate(run.evidence, 1):
        if number == 2:
            say(("Also looked at:", "dim"))
        _tell_evidence(number, evidence, recording)
    cost = f"{len(run.steps)} steps, {run.usage.visual_tokens} visual tokens, {run.usage.seconds:.1f} s"
    files = f" · pictures in {file_uri(recording.directory / 'files')}" if run.usage.visual_tokens else ""
    say((f"{cost} · run {recording.id}{files}", "dim"))


def _tell_evidence(number: int, evidence: Evidence, recording: Recording | StoredRun) -> None:
    """Prints a piece of evidence: document, page, box; of the first also the picture and its words."""
    where = "" if evidence.box is None else f", box [{', '.join(f'{side:.3f}' for side in evidence.box)}]"
    unit = "passage" if evidence.box is None else "page"
    say(f"  [{number}] ", (plain(evidence.document, 100), "magenta"), f", {unit} {evidence.page}{where}")
    if number > 1:
        return
    if evidence.crop_sha256:
        say("      ", (file_uri(recording.file(evidence.crop_sha256)), "dim"))
    if evidence.quote:
        say("      ", (f"“{plain(evidence.quote, 400)}”", "dim"))


def _as_json(run: Trajectory, recording: Recording) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "question": run.question,
        "answer": run.answer,
        "stop_reason": run.stop_reason,
        "evidence": [
            {
                "item": evidence.item,
                "document": evidence.document,
                "page": evidence.page,
                "kind": evidence.kind,
                "box": None if evidence.box is None else list(evidence.box),
                "crop": str(recording.file(evidence.crop_sha256)) if evidence.crop_sha256 else None,
                "quote": evidence.quote,
            }
            for evidence in run.evidence
        ],
        "steps": [
            {
                "step": step.number,
                "thought": step.thought,
                "search": step.query,
                "crop": step.crop,
                "invalid": step.invalid,
                "shown": [
                    {
                        "item": shown.item,
                        "document": shown.document,
                        "page": shown.page,
                        "box": list(shown.box),
                    }
                    for shown in step.shown
                ],
            }
            for step in run.steps
        ],
        "usage": {
            "steps": len(run.steps),
            "prompt_tokens": run.usage.prompt_tokens,
            "completion_tokens": run.usage.completion_tokens,
            "visual_tokens": run.usage.visual_tokens,
            "seconds": round(run.usage.seconds, 4),
        },
        "failure": run.failure,
        "run": recording.id,
    }


def _status(run: Trajectory) -> int:
    from vrag.agent.events import StopReason

    if run.answer is not None:
        return ANSWERED
    return ABSTAINED if run.stop_reason is StopReason.ABSTAINED else FAILED
