"""`vrag ask`: index what is new, ask, show the steps, the answer and where it was seen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.display import (
    Agent,
    BaseUrl,
    Collection,
    Json,
    Model,
    add_progress,
    emit_json,
    model_writes,
    supported,
    tell_report,
    warn,
)
from vrag.cli.telling import as_json as run_as_json
from vrag.cli.telling import tell_end, tell_event
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.agent.runs import Recording
    from vrag.agent.trajectory import Trajectory
    from vrag.assemble import Workbench
    from vrag.embed.base import Embedder
    from vrag.settings import SettingsReport

__all__ = ["ask"]

ANSWERED, FAILED, ABSTAINED = 0, 1, 3


def ask(
    words: list[str] = typer.Argument(
        ..., metavar="[PATH]... QUESTION", help="The question, and files or folders to look in."
    ),
    docs: list[Path] = typer.Option([], "--docs", "-d", help="A file or folder to look in; may be repeated."),
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    collection: str | None = Collection,
    max_steps: int | None = typer.Option(None, "--max-steps", min=1, help="Model calls at most."),
    search_url: str | None = typer.Option(
        None, help="Search server to use in place of a collection.", show_default="VRAG_SEARCH_URL"
    ),
    image_root: str | None = typer.Option(
        None,
        help="Folder of the pictures that a server of the reference names.",
        show_default="VRAG_IMAGE_ROOT",
    ),
    as_json: bool = Json,
) -> None:
    """Ask a question about documents.

    New and changed documents are indexed first; only the documents named are looked at, or the
    whole collection when none is named. Without a model the offline policy searches, crops and
    quotes, and abstains when it finds nothing to stand behind: no key, no network. With one, the
    agent reasons over what it sees: `vrag` in one conversation, `vimrag` with a graph that remembers.

    Exit status: 0 answered, 3 abstained, 2 wrong use, 1 failed.

    Examples of use:

      vrag ask ./reports "What was the revenue in 2023?"

      vrag ask "Who signed the letter?" --docs letter.pdf --docs scans/ --json

      vrag ask ./reports "Which year grew most?" --agent vimrag --model qwen3-vl-plus --base-url URL

      vrag ask ./reports "Which year grew most?" --model local:./Qwen2.5-VL-7B-Instruct
    """
    question, paths = _split(words, docs)
    report = load_settings(
        agent=agent,
        model=model,
        base_url=base_url,
        collection=collection,
        max_steps=max_steps,
        search_url=search_url,
        image_root=image_root,
    )
    if paths and report.settings.search_url:
        raise typer.BadParameter("A search server has its own documents: name no paths, or no server.")
    documents, embedder = _index(report, paths) if paths else (None, None)
    from vrag.assemble import open_workbench

    settings = report.settings
    if paths:  # what was just indexed lies in one collection
        settings = settings.model_copy(update={"collections": ()})
    bench = open_workbench(settings, embedder)
    trajectory, recording, policy = _run(bench, question, documents, quiet=as_json)
    if as_json:
        emit_json(run_as_json(trajectory, recording))
    else:
        tell_end(trajectory, recording, policy)
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
) -> tuple[Trajectory, Recording, str]:
    from vrag.agent.trajectory import Trajectory

    events: list[Event] = []
    agent = bench.agent(documents)
    with bench.runs.record() as recording, model_writes(quiet=quiet) as writes:
        for event in agent.stream(question, run_id=recording.id, save=recording.save):
            recording.write(event)
            events.append(event)
            writes(event)
            if not quiet:
                tell_event(event)
    return Trajectory.of(events), recording, agent.policy.name


def _status(run: Trajectory) -> int:
    from vrag.agent.events import StopReason

    if run.answer is not None:
        return ANSWERED
    return ABSTAINED if run.stop_reason is StopReason.ABSTAINED else FAILED
