"""`vrag ask`: index what is new, ask, show the steps, the answer and where it was seen."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.display import (
    Agent,
    BaseUrl,
    Collection,
    Json,
    Model,
    SearchUrl,
    add_progress,
    emit_json,
    model_writes,
    say,
    supported,
    tell_report,
    warn,
)
from vrag.cli.telling import Teller, tell_end
from vrag.cli.telling import as_json as run_as_json
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.events import Event, RunStarted
    from vrag.agent.runs import Recording
    from vrag.agent.trajectory import Trajectory
    from vrag.assemble import Adding, Workbench
    from vrag.embed.base import Embedder
    from vrag.settings import Settings, SettingsReport

__all__ = ["ask"]

ANSWERED, FAILED, ABSTAINED = 0, 1, 3
TRIES, PAUSE_SECONDS = 10, 0.2
"""While another process makes the collection."""


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
    search_url: str | None = SearchUrl,
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
    _check(report.settings)
    documents, embedder = _index(report, paths) if paths else (None, None)
    from vrag.assemble import open_workbench

    settings = report.settings
    if paths:  # what was just indexed lies in one collection
        settings = settings.model_copy(update={"collections": ()})
    bench = open_workbench(settings, embedder)
    trajectory, recording, started = _run(bench, question, documents, quiet=as_json)
    if as_json:
        emit_json(run_as_json(trajectory, recording))
    else:
        tell_end(trajectory, recording, started)
        _tell_where(settings, recording)
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


def _check(settings: Settings) -> None:
    """Opens what can be opened of the agent, so that a wrong setting shows before anything is indexed."""
    from vrag.agent.extension import load_extensions
    from vrag.assemble import LOCAL, open_chat, open_method, open_profile

    local = settings.model.startswith(LOCAL)
    if settings.profile != "auto":  # a family that has to be guessed is told of once, later
        open_profile(settings)
    if local:
        open_profile(settings.model_copy(update={"profile": "auto"}))  # opens the checkpoint
    open_method(settings)
    load_extensions(settings.actions)
    if settings.model and not local:
        open_chat(settings)


def _tell_where(settings: Settings, recording: Recording) -> None:
    """With a search server: the command that shows the run, which lies in no collection."""
    if settings.search_url:
        shown = settings.model_dump(mode="json", include={"search_url"})["search_url"]
        say((f"Show it again: vrag runs show {recording.id} --search-url {shlex.quote(shown)}", "dim"))


def _index(report: SettingsReport, paths: list[Path]) -> tuple[frozenset[str], Embedder | None]:
    """Indexes what is new; the ids of the documents that the paths name, and what made their vectors."""
    from vrag.assemble import documents_under
    from vrag.errors import CollectionBusy, CorpusError
    from vrag.index.build import add

    opened, options, embedder = _open(report)
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


def _open(report: SettingsReport) -> Adding:
    """The collection to add to; one that another process is just making is waited for.

    Raises:
        CollectionError: If it cannot be opened or made, or the other process takes too long.
    """
    from vrag.assemble import open_for_adding
    from vrag.errors import CollectionBusy, CollectionError

    for _ in range(TRIES):
        there = _made(report.settings)
        try:
            return open_for_adding(report)
        except CollectionBusy:
            time.sleep(PAUSE_SECONDS)
        except CollectionError:
            if there or not _made(report.settings):
                raise
    raise CollectionError("Another process is just making this collection.", "Try again.")


def _made(settings: Settings) -> bool:
    from vrag.index.header import Header

    return Header.read(Path(settings.collection)) is not None


def _run(
    bench: Workbench, question: str, documents: frozenset[str] | None, *, quiet: bool
) -> tuple[Trajectory, Recording, RunStarted]:
    from vrag.agent.events import RunStarted
    from vrag.agent.trajectory import Trajectory

    events: list[Event] = []
    teller, agent = Teller(), bench.agent(documents)
    waits = model_writes(bench.settings.model, quiet=quiet)
    with bench.runs.record() as recording, waits as waiting:
        try:
            for event in agent.stream(question, run_id=recording.id, save=recording.save):
                recording.write(event)
                events.append(event)
                waiting.follow(event)
                if not quiet and event.type != "thought_delta":
                    with waiting.aside():
                        teller.tell(event)
        except KeyboardInterrupt:
            warn(f"Stopped. What was done is kept: vrag runs show {recording.id}")
            raise
    started = events[0]
    assert isinstance(started, RunStarted)
    return Trajectory.of(events), recording, started


def _status(run: Trajectory) -> int:
    from vrag.agent.events import StopReason

    if run.answer is not None:
        return ANSWERED
    return ABSTAINED if run.stop_reason is StopReason.ABSTAINED else FAILED
