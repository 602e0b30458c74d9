"""`vrag report`: several questions become one document with sources."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.ask.ask_many import FinishedRuns, ask_all
from vrag.cli.indexing import open_for_asking
from vrag.cli.runs import read_run
from vrag.cli.terminal.console import echo, print_json, warn
from vrag.cli.terminal.hints import add_location
from vrag.cli.terminal.inputs import exists, parse_path, read_questions
from vrag.cli.terminal.output import STDOUT, check_out, format_of, print_saved, save_report
from vrag.errors import CaseError, RunError
from vrag.render.exports import Format
from vrag.settings import SettingsReport


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
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, max=64, help="Number of questions asked at a time."),
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    collection: opt.CollectionOption = None,
    max_steps: opt.MaxStepsOption = None,
    hits: opt.TopKOption = None,
    search_url: opt.SearchUrlOption = None,
    image_root: opt.ImageRootOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Ask several questions and write one document: each answer with pictures and sources.

    Sources are numbered across the whole document. Questions without an answer and failed questions are
    listed with the reason. The pictures of a Markdown file are in a folder next to it. After Ctrl-C the
    report is written with the answers so far.

    Exit status: 0 every question was answered or has no answer in the documents, 1 some failed
    or were interrupted, or nothing could be written, 2 wrong usage, 130 stopped.

    Examples:

      vrag report ./reports -q "What was the revenue in 2023?" -q "Who signed the report?" -o review.md

      vrag report ./reports --questions questions.txt --title "Annual review" --jobs 4

      vrag report --run last --run 20260301-101500 -o review.html
    """
    settings = opt.load_flags(locals())
    document_format = _choose_format(out)
    check_out(out, as_json=as_json)
    asked = [*question, *(_read_questions(questions) if questions else [])]
    _check_usage(paths or [], asked, run)
    done = _read_runs(settings, run) if run else _ask(settings, paths or [], asked, jobs)
    if done.runs:
        try:
            _write(done, title, out, document_format, inline=inline, as_json=as_json)
        except RunError as error:
            runs = " ".join(f"--run {finished.id}" for finished in done.runs)
            hint = add_location(f"The answers are kept: vrag report {runs} --out …", settings.settings)
            raise RunError(error.message, hint) from error
    elif done.stopped:
        warn("Stopped before the first question was finished. No report was written.")
    if done.error is not None:
        raise done.error
    if not done.runs and not done.stopped:
        raise RunError("No question was finished. No report was written.")
    raise typer.Exit(done.status)


def _choose_format(out: str) -> Format:
    by_suffix = Format.HTML if out == STDOUT else format_of(str(parse_path(out)))
    if by_suffix is None or by_suffix is Format.JSON:
        raise typer.BadParameter(f"The name of a report ends in .html or .md, not in {out!r}.")
    return by_suffix


def _check_usage(paths: list[Path], asked: list[str], runs: list[str]) -> None:
    if runs and (asked or paths):
        raise typer.BadParameter("--run includes recorded runs. Leave out paths and questions.")
    if not runs and not asked:
        raise typer.BadParameter("There are no questions. Add some with -q, --questions or --run.")
    if not all(map(str.strip, asked)):
        raise typer.BadParameter("A question is empty.")
    for path in paths:
        if not exists(path):
            raise typer.BadParameter(f"{str(path)!r} does not exist. Add questions with -q.")


def _read_questions(place: str) -> list[str]:
    """Read the questions of a file.

    Raises:
        CaseError: If it cannot be read, or has none.
    """
    if Path(place).suffix.lower() in {".json", ".jsonl", ".parquet"}:
        return [case.query for case in read_questions(Path(place))]
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


def _read_runs(settings: SettingsReport, runs: list[str]) -> FinishedRuns:
    from vrag.factory import run_store

    store = run_store(settings.settings)
    return FinishedRuns([read_run(store, run) for run in runs])


def _ask(settings: SettingsReport, paths: list[Path], questions: list[str], jobs: int) -> FinishedRuns:
    session = open_for_asking(settings, paths)
    return ask_all(session.agent(), session.runs, questions, jobs)


def _write(done: FinishedRuns, title: str, out: str, format: Format, *, inline: bool, as_json: bool) -> None:
    from vrag.render.report import report_of

    document = report_of(done.runs, title=title, unfinished=done.unfinished)
    facts = save_report(document, out, format, inline=inline)
    if as_json:
        runs = [
            {
                "run": run.run_id,
                "question": run.question,
                "answer": run.answer,
                "stop_reason": run.stop_reason,
            }
            for run in (stored.result for stored in done.runs)
        ]
        about = {"title": document.title, "sources": len(document.sources.listed)}
        print_json(facts | about | {"runs": runs, "left": done.unfinished})
        return
    if out != STDOUT:
        echo(
            (f"{document.summary[:1].upper()}{document.summary[1:]}. ", "bold"),
            f"{document.sources.summary} cited.",
        )
    print_saved(facts, document.image_store.missing.values())
