"""`vrag ask`: index what is new, ask, show the steps, the answer and where it was seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.ask.prepare import ImageRoot, MaxSteps, TopK, open_for_asking
from vrag.cli.ask.run_printer import RunPrinter, tell_end
from vrag.cli.ask.run_printer import as_json as run_as_json
from vrag.cli.runs.export import read_run
from vrag.cli.terminal.console import (
    Agent,
    BaseUrl,
    Collection,
    Json,
    Model,
    Profile,
    SearchUrl,
    emit_json,
    model_writes,
    plain,
    say,
    warn,
)
from vrag.cli.terminal.hints import again
from vrag.cli.terminal.paths import exists
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.events import Event
    from vrag.agent.question import Question, QuestionImage
    from vrag.agent.runs.run_result import RunResult
    from vrag.agent.runs.run_store import StoredRun
    from vrag.factory import Session
    from vrag.settings import Settings, SettingsReport

__all__ = ["answer_question", "ask"]

ANSWERED, FAILED, ABSTAINED = 0, 1, 3


def ask(
    words: list[str] = typer.Argument(
        ..., metavar="[PATH]... QUESTION", help="The question, and files or folders to look in."
    ),
    docs: list[Path] = typer.Option([], "--docs", "-d", help="A file or folder to look in; may be repeated."),
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    profile: str | None = Profile,
    collection: str | None = Collection,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    search_url: str | None = SearchUrl,
    image_root: str | None = ImageRoot,
    after: str | None = typer.Option(
        None,
        "--after",
        metavar="RUN",
        help="The question follows on this run: its id, the beginning of one, or `last`. Without paths it "
        "looks in the documents of that run.",
    ),
    images: list[Path] = typer.Option(
        [], "--image", "-i", help="A picture that belongs to the question (JPEG, PNG, WebP); may be repeated."
    ),
    as_json: bool = Json,
) -> None:
    """Ask a question about documents.

    New and changed documents are indexed first; only the documents named are looked at, or the
    whole collection when none is named. Without a model the offline policy searches, crops and
    quotes, and abstains when it finds nothing to stand behind: no key, no network. With one, the
    agent reasons over what it sees: `vrag` in one conversation, `vimrag` with a graph that remembers.
    `rag` (one search, one answer) and `react` (search alone) are baselines to compare them with.

    Exit status: 0 answered, 3 abstained, 2 wrong use, 1 failed, 130 stopped.

    Examples of use:

      vrag ask ./reports "What was the revenue in 2023?"

      vrag ask "Who signed the letter?" --docs letter.pdf --docs scans/ --json

      vrag ask ./reports "Which year grew most?" --agent vimrag --model qwen3-vl-plus --base-url URL

      vrag ask ./reports "Which year grew most?" --model ollama:qwen3-vl:8b

      vrag ask ./reports "Which year grew most?" --model local:./Qwen2.5-VL-7B-Instruct

      vrag ask --after last "And in 2022?"

      vrag ask ./manuals "Which part is this?" --image photo.jpg --model qwen3-vl-plus --base-url URL
    """
    question, paths = _split(words, docs)
    report = load_settings(
        agent=agent,
        model=model,
        base_url=base_url,
        profile=profile,
        collection=collection,
        max_steps=max_steps,
        hits=top_k,
        search_url=search_url,
        image_root=image_root,
    )
    answer_question(report, question, paths, tuple(map(_picture, images)), after=after, as_json=as_json)


def answer_question(
    report: SettingsReport,
    question: str,
    paths: list[Path],
    pictures: tuple[QuestionImage, ...] = (),
    *,
    after: str | None = None,
    as_json: bool = False,
) -> None:
    """Answer a question in the terminal.

    Args:
        report: The settings.
        question: What is asked.
        paths: Files and folders to look in; without any, the whole collection.
        pictures: Pictures that belong to the question.
        after: The run that the question follows on, as `vrag ask --after` takes it.
        as_json: Whether to print one JSON object in place of steps and answer.

    Raises:
        typer.Exit: Always, with the exit status of `vrag ask`.
    """
    from vrag.agent.methods.conversation import follow_up
    from vrag.agent.question import Question
    from vrag.agent.runs.run_store import RunState
    from vrag.factory import run_store

    before = read_run(run_store(report.settings), after) if after else None
    session = _opened(report, paths, as_json=as_json)
    if before is not None and not paths:
        session.scope = _documents_of(before, session)
    whole = follow_up(before, question, pictures) if before else Question(question, images=pictures)
    done = _run(session, whole, quiet=as_json)
    if as_json:
        emit_json(run_as_json(done))
    else:
        tell_end(done, RunState.FINISHED, session.settings)
        _tell_where(session.settings, done)
    raise typer.Exit(_status(done.result))


def _split(words: list[str], docs: list[Path]) -> tuple[str, list[Path]]:
    """Tells the question from the paths: what exists on disk is a path, the one other is the question."""
    paths = [Path(word) for word in words[:-1] if exists(word)]
    others = [word for word in words[:-1] if not exists(word)]
    question = words[-1]
    if len(others) == 1 and exists(question):
        question, others, paths = others[0], [], [*paths, Path(question)]
    if not others and exists(question):
        raise typer.BadParameter(f"{question!r} is a file or folder. What is the question?")
    if others:
        raise typer.BadParameter(f"{others[0]!r} does not exist. Put the question in quotes, as one word.")
    if not question.strip():
        raise typer.BadParameter("The question is empty.")
    missing = [path for path in docs if not exists(path)]
    if missing:
        raise typer.BadParameter(f"{str(missing[0])!r} does not exist.")
    return question, [*docs, *paths]


def _opened(report: SettingsReport, paths: list[Path], *, as_json: bool) -> Session:
    """Open a session; see `open_for_asking`. Interrupted, it prints a JSON object where one is expected."""
    try:
        return open_for_asking(report, paths)
    except KeyboardInterrupt:
        if as_json:
            emit_json({"failure": "It was stopped before the question was asked.", "hint": "Ask again."})
        raise


def _picture(path: Path) -> QuestionImage:
    """A picture that belongs to the question.

    Raises:
        CorpusError: If it cannot be read, or is none that a model can be shown.
    """
    from vrag.agent.question import QuestionImage
    from vrag.errors import CorpusError

    try:
        return QuestionImage.of(path.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except CorpusError as error:
        raise CorpusError(f"{plain(str(path))}: {error.message}", error.hint) from error


def _documents_of(run: StoredRun, session: Session) -> frozenset[str] | None:
    """The documents that a run looked in, as far as they are as they were; None for all."""
    documents = run.started.settings.environment.documents
    if documents is None or not session.collections:
        return documents
    known = [document for place in session.collections.values() for document in place.documents()]
    left = documents & {document.id for document in known if document.status.served}
    if left != documents:
        where = "those that are as they were" if left else "the whole collection"
        warn(f"Documents of the run {run.id} have changed or are gone; looking in {where}.")
    return left or None


def _tell_where(settings: Settings, run: StoredRun) -> None:
    """With a search server: the command that shows the run, which lies in no collection."""
    if settings.search_url:
        say((again(f"Show it again: vrag runs show {run.id}", settings), "dim"))


def _run(session: Session, question: Question, *, quiet: bool) -> StoredRun:
    """Asks, and shows how it goes on unless it is to be quiet.

    Raises:
        KeyboardInterrupt: If somebody stops it. What was done by then is kept, and told.
    """
    from vrag.agent.runs.run_store import StoredRun
    from vrag.telemetry import observer_from_environment

    events: list[Event] = []
    watching = (events.append, *filter(None, [observer_from_environment()]))
    teller, agent = RunPrinter(), session.agent()
    waits = model_writes(session.settings.model, quiet=quiet)
    with session.runs.record() as recording, waits as waiting:
        try:
            for event in agent.record(question, recording):
                for watch in watching:
                    watch(event)
                waiting.follow(event)
                if not quiet and event.type != "thought_delta":
                    with waiting.aside():
                        teller.tell(event)
        except KeyboardInterrupt:
            warn(again(f"Stopped. What was done is kept: vrag runs show {recording.id}", session.settings))
            if quiet and events:
                emit_json(run_as_json(StoredRun(recording.id, recording.directory, tuple(events))))
            raise
    return StoredRun(recording.id, recording.directory, tuple(events))


def _status(run: RunResult) -> int:
    from vrag.agent.events import StopReason

    if run.answer is not None:
        return ANSWERED
    return ABSTAINED if run.stop_reason is StopReason.ABSTAINED else FAILED
