"""`vrag report`: several questions become one document with sources."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.status import Status
from rich.text import Text

from vrag.agent.agent import Agent
from vrag.agent.events import Event, StopReason
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.cli import options as opt
from vrag.cli.options import parse_path
from vrag.cli.session import open_for_asking, read_run
from vrag.cli.terminal import files
from vrag.cli.terminal.console import add_location, echo, echo_stop, err, plain, print_json, warn
from vrag.cli.terminal.files import STDOUT
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.last_collection import remember_collection
from vrag.cli.terminal.process import DONE, FAILED, STOPPED
from vrag.errors import CaseError, RunError, VragError
from vrag.factory.session import evidence_sources, run_store
from vrag.render.annotations.cited_place import cited_places
from vrag.render.exports import Format
from vrag.render.report import Report, report_of
from vrag.render.text_format import outcome, seconds, step_line

if TYPE_CHECKING:
    from vrag.render.annotations.evidence_export import EvidenceExport, EvidenceFormat
    from vrag.settings import Settings

MAX_QUESTION_CHARS = 70
"""Characters of a question in a line of progress."""


@common_options("question", "questions", "run", "out", "pdf", "model", "collection", "as_json")
def report(
    paths: list[Path] = typer.Argument(
        None, metavar="[PATH]...", help="Files or folders to look in.", show_default="the collection"
    ),
    question: list[str] = typer.Option([], "--question", "-q", help="A question; repeatable."),
    questions: str | None = typer.Option(
        None,
        "--questions",
        help="File with one question per line, a data set of questions (.json, .jsonl or .parquet), or - "
        "for standard input. Empty lines and lines that begin with # are ignored.",
    ),
    run: list[str] = typer.Option(
        [], "--run", help="Id of a recorded run to include instead of a question; repeatable."
    ),
    out: str = typer.Option(
        "report.html", "--out", "-o", help="Output file: .html or .md; - for HTML on standard output."
    ),
    title: str = typer.Option("", "--title", help="Title of the report.", show_default="from the questions"),
    inline: opt.InlineOption = False,
    server: opt.ServerOption = "",
    pdf: opt.PdfOption = False,
    annotations: opt.AnnotationsOption = False,
    pictures: opt.PicturesOption = False,
    overwrite: opt.OverwriteOption = False,
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, max=64, help="Number of questions asked at a time."),
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    collection: opt.CollectionOption = None,
    max_steps: opt.MaxStepsOption = None,
    hits: opt.TopKOption = None,
    search_url: opt.SearchUrlOption = None,
    image_root: opt.ImageRootOption = None,
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Ask several questions and write one document with sources.

    Each answer has its pictures. Sources are numbered across the whole document. Questions without an answer
    and failed questions are listed with the reason. The pictures of a Markdown file are in a folder next to
    it. After Ctrl-C the report is written with the answers so far.

    With --pdf, --annotations and --pictures the evidence of all answers is written too, to the folder
    NAME_evidence next to the report. Citation 2.1 is the first one of the second question.

    Exit status: 0 every question was answered or has no answer in the documents, 1 some failed
    or were interrupted, or nothing could be written, 2 wrong usage, 130 stopped.

    Examples:

      vrag report ./reports -q "What was the revenue in 2023?" -q "Who signed the report?" -o review.md

      vrag report ./reports --questions questions.txt --title "Annual review" --jobs 4

      vrag report --run last --run 20260301-101500 -o review.html --pdf
    """
    settings = opt.load_flags(locals()) if paths else opt.load_reading_flags(locals())
    document_format = Format.HTML if out == STDOUT else files.format_of(str(parse_path(out)))
    if document_format is None or document_format is Format.JSON:
        raise typer.BadParameter(f"The name of a report ends in .html or .md, not in {out!r}.")
    files.check_out(out, as_json=as_json)
    formats = opt.evidence_formats(pdf=pdf, annotations=annotations, pictures=pictures)
    if formats:
        if out == STDOUT:
            raise typer.BadParameter("Evidence is written next to the report: give it a file with --out.")
        files.check_folder(_evidence_folder(out), overwrite=overwrite)
    questions_to_ask = [*question, *(_read_questions(questions) if questions else [])]
    _check_usage(paths or [], questions_to_ask, run)
    if run:
        store = run_store(settings.settings)
        done = FinishedRuns([read_run(store, id) for id in run])
    else:
        session = open_for_asking(settings, paths or [])
        remember_collection(session.settings)
        done = ask_all(session.agent(), session.runs, questions_to_ask, jobs)
    if done.runs:
        try:
            exported = _export_evidence(
                settings.settings, done.runs, out, formats, title=title, quiet=as_json
            )
            links = files.place_links(settings.settings, done.runs, out, server, exported)
            document = report_of(done.runs, title=title, unfinished=done.unfinished, links=links)
            facts = files.save_report(document, out, document_format, inline=inline)
            _print_report(done, document, out, facts, exported, as_json=as_json)
        except RunError as error:
            runs = " ".join(f"--run {finished.id}" for finished in done.runs)
            hint = add_location(f"The answers are kept: vrag report {runs} --out …", settings.settings)
            raise RunError(error.message, hint) from error
    elif done.stopped:
        echo_stop("No question was finished, and no report was written.")
    if done.error is not None:
        raise done.error
    if not done.runs and not done.stopped:
        raise RunError("No question was finished. No report was written.")
    raise typer.Exit(done.status)


def _check_usage(paths: list[Path], questions: list[str], runs: list[str]) -> None:
    if runs and (questions or paths):
        raise typer.BadParameter("--run includes recorded runs. Leave out paths and questions.")
    if not runs and not questions:
        raise typer.BadParameter("There are no questions. Add some with -q, --questions or --run.")
    if not all(map(str.strip, questions)):
        raise typer.BadParameter("A question is empty.")
    for path in paths:
        if not files.exists(path):
            raise typer.BadParameter(f"{str(path)!r} does not exist. Add questions with -q.")


def _read_questions(place: str) -> list[str]:
    if Path(place).suffix.lower() in {".json", ".jsonl", ".parquet"}:
        return [case.query for case in files.read_questions(Path(place))]
    try:
        data = sys.stdin.buffer.read() if place == STDOUT else parse_path(place).read_bytes()
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CaseError(f"{place} cannot be read: {reason}.") from error
    questions = [line for line in lines if line and not line.startswith("#")]
    if not questions:
        raise CaseError(f"{place} has no questions.", "Write one question per line.")
    return questions


def _evidence_folder(out: str) -> Path:
    report = parse_path(out)
    return report.with_name(f"{report.stem}_evidence")


def _export_evidence(
    settings: Settings,
    runs: Sequence[StoredRun],
    out: str,
    formats: Sequence[EvidenceFormat],
    *,
    title: str,
    quiet: bool,
) -> EvidenceExport | None:
    """Write the evidence of a report next to it; None where none was asked for, or no answer has any."""
    if not formats:
        return None
    if not cited_places(runs):
        warn("No answer has evidence, so none was written next to the report.")
        return None
    sources = evidence_sources(settings, runs)
    folder = _evidence_folder(out)
    return files.save_evidence(runs, sources, folder, formats, title=title, quiet=quiet)


def _print_report(
    done: FinishedRuns,
    document: Report,
    out: str,
    facts: dict[str, Any],
    exported: EvidenceExport | None,
    *,
    as_json: bool,
) -> None:
    """Print what was written."""
    if as_json:
        results = [stored.result for stored in done.runs]
        runs = [
            {
                "run": run.run_id,
                "question": run.question,
                "answer": run.answer,
                "stop_reason": run.stop_reason,
                "reading": run.reading and run.reading.model_dump(mode="json"),
            }
            for run in results
        ]
        about = {"title": document.title, "sources": len(document.sources.listed), "evidence": exported}
        print_json(facts | about | {"runs": runs, "left": done.unfinished})
        return
    if out != STDOUT:
        summary = f"{document.summary[:1].upper()}{document.summary[1:]}. "
        echo((summary, "bold"), f"{document.sources.summary} cited.")
    files.print_saved(facts, document.image_store.missing.values())
    if exported is not None:
        files.print_evidence(exported)


@dataclass
class FinishedRuns:
    """The runs of the questions."""

    runs: list[StoredRun]
    """Runs that came to an end, in the order of the questions."""
    unfinished: list[str] = field(default_factory=list[str])
    """Questions without a finished run."""
    stopped: bool = False
    """True if the user stopped the work."""
    error: BaseException | None = None
    """A bug of the program, to be raised once the finished runs are safe."""

    @property
    def status(self) -> int:
        """The exit status of the process."""
        good = {StopReason.ANSWERED, StopReason.ABSTAINED}
        failed = self.unfinished or any(run.result.stop_reason not in good for run in self.runs)
        return STOPPED if self.stopped else FAILED if failed else DONE


def ask_all(agent: Agent, store: RunStore, questions: list[str], jobs: int) -> FinishedRuns:
    """Ask questions, `jobs` at a time, and record the runs; a failure ends its own question only.

    Ctrl-C ends the questions in progress, and the runs that are finished are returned.
    """
    if err.is_terminal:
        with err.status("") as status:
            return asyncio.run(_Batch(agent, store, questions, status).ask(jobs))
    return asyncio.run(_Batch(agent, store, questions).ask(jobs))


@dataclass
class _Batch:
    agent: Agent
    store: RunStore
    questions: list[str]
    status: Status | None = None
    """The line at the foot of a terminal."""
    cancel: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, jobs: int) -> FinishedRuns:
        """Ask all; on Ctrl-C return what is finished."""
        slots = asyncio.Semaphore(jobs)
        tasks = [asyncio.create_task(self._ask_in_turn(n, slots)) for n in range(len(self.questions))]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:  # Ctrl-C
            self.cancel.set()
            await asyncio.wait(tasks)
        finally:
            await self.agent.aclose()
        errors = [error for task in tasks if (error := task.exception()) is not None]
        runs = [None if task.exception() else task.result() for task in tasks]
        unfinished = [question for question, run in zip(self.questions, runs, strict=True) if run is None]
        finished = [run for run in runs if run]
        return FinishedRuns(finished, unfinished, self.cancel.is_set(), next(iter(errors), None))

    async def _ask_in_turn(self, number: int, slots: asyncio.Semaphore) -> StoredRun | None:
        """Ask a question when a slot is free, and print how it ended; None if it did not finish."""
        async with slots:
            if self.cancel.is_set():
                return None
            label = f"[{number + 1}/{len(self.questions)}]"
            try:
                run = await self._record_run(label, self.questions[number])
            except VragError as error:
                warn(f"{label} {error}")
                return None
        ended = outcome(run.result)
        style = {"good": "green", "bad": "red"}.get(ended.mood, "yellow")
        line = f"{label} {plain(self.questions[number], MAX_QUESTION_CHARS)} "
        err.print(Text.assemble(line, (ended.name, style), (f" ({seconds(run.result.seconds)})", "dim")))
        if ended.mood == "bad":
            err.print(Text(f"    {plain(ended.text)}", "dim"))
        return None if run.result.stop_reason is StopReason.CANCELLED else run

    async def _record_run(self, label: str, question: str) -> StoredRun:
        events: list[Event] = []
        with self.store.record() as recording:
            async for event in self.agent.arecord(question, recording, cancel=self.cancel):
                events.append(event)
                if self.status is not None and (line := step_line(event)):
                    self.status.update(Text(f"{label} {plain(line, err.width - 16)}", "dim"))
        return StoredRun(recording.id, self.store, tuple(events))
