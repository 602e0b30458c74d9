"""`vrag report`: several questions become one cited document."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from vrag.cli.ask.ask_many import FinishedRuns, ask_all
from vrag.cli.ask.prepare import ImageRoot, MaxSteps, TopK, open_for_asking
from vrag.cli.runs.export import read_run
from vrag.cli.terminal.console import (
    Agent,
    BaseUrl,
    Collection,
    Json,
    Model,
    SearchUrl,
    emit_json,
    named_path,
    say,
    warn,
)
from vrag.cli.terminal.hints import again
from vrag.cli.terminal.output import STDOUT, Inline, check_out, format_of, save_report, tell_saved
from vrag.cli.terminal.paths import exists
from vrag.cli.terminal.questions import read_questions
from vrag.errors import CaseError, RunError
from vrag.render.exports import Format
from vrag.settings import load_settings

__all__ = ["report"]


def report(
    paths: list[Path] = typer.Argument(
        None, metavar="[PATH]...", help="Files or folders to look in.", show_default="the collection"
    ),
    question: list[str] = typer.Option([], "--question", "-q", help="A question; may be repeated."),
    questions: str | None = typer.Option(
        None,
        "--questions",
        help="A file with a question on each line, a data set of questions (.json, .jsonl or .parquet), or - "
        "for standard input. Empty lines and those that begin with # are left out.",
    ),
    run: list[str] = typer.Option(
        [], "--run", help="Id of a recorded run to tell, in place of a question; may be repeated."
    ),
    out: str = typer.Option(
        "report.html", "--out", "-o", help="File to write: .html or .md; - for HTML on standard output."
    ),
    title: str = typer.Option("", "--title", help="Of the report.", show_default="the question, or how many"),
    inline: bool = Inline,
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, max=64, help="Questions that are asked at once."),
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    collection: str | None = Collection,
    max_steps: int | None = MaxSteps,
    top_k: int | None = TopK,
    search_url: str | None = SearchUrl,
    image_root: str | None = ImageRoot,
    as_json: bool = Json,
) -> None:
    """Ask several questions and write one document: each answer with the pictures and places it rests on.

    Places are numbered over the whole of it. What the documents do not answer is said, and so is
    what failed. Markdown has its pictures in a folder beside it. Ctrl-C ends the work; the report
    of what is done by then is still written.

    Exit status: 0 every question was answered or found to have no answer in the documents, 1 some failed
    or were interrupted, or nothing could be written, 2 wrong use, 130 stopped.

    Examples of use:

      vrag report ./reports -q "What was the revenue in 2023?" -q "Who signed the report?" -o review.md

      vrag report ./reports --questions questions.txt --title "Annual review" --jobs 4

      vrag report --run last --run 20260301-101500 -o review.html
    """
    written_as = _format(out)
    check_out(out, as_json=as_json)
    asked = [*question, *(_read(questions) if questions else [])]
    _check_use(paths or [], asked, run)
    settings = load_settings(
        agent=agent,
        model=model,
        base_url=base_url,
        collection=collection,
        max_steps=max_steps,
        hits=top_k,
        search_url=search_url,
        image_root=image_root,
    )
    if run:
        from vrag.factory import run_store

        store = run_store(settings.settings)
        done = FinishedRuns([read_run(store, one) for one in run])
    else:
        session = open_for_asking(settings, paths or [])
        done = ask_all(session.agent(), session.runs, asked, jobs)
    if done.runs:
        try:
            _write(done, title, out, written_as, inline=inline, as_json=as_json)
        except RunError as error:
            runs = " ".join(f"--run {one.id}" for one in done.runs)
            hint = f"The answers are kept: vrag report {runs} --out …"
            raise RunError(error.message, again(hint, settings.settings)) from error
    elif done.stopped:
        warn("Stopped before a question was asked to its end: there is no report.")
    if done.fault is not None:
        raise done.fault
    if not done.runs and not done.stopped:
        raise RunError("No question was asked to its end: there is no report.")
    raise typer.Exit(done.status)


def _format(out: str) -> Format:
    found = Format.HTML if out == STDOUT else format_of(str(named_path(out)))
    if found is None or found is Format.JSON:
        raise typer.BadParameter(f"A report is written to a file that ends in .html or .md, not to {out!r}.")
    return found


def _check_use(paths: list[Path], asked: list[str], runs: list[str]) -> None:
    if runs and (asked or paths):
        raise typer.BadParameter("--run tells recorded runs: leave out paths and questions.")
    if not runs and not asked:
        raise typer.BadParameter("What are the questions? Give them with -q or --questions, or --run.")
    if not all(map(str.strip, asked)):
        raise typer.BadParameter("A question is empty.")
    for path in paths:
        if not exists(path):
            raise typer.BadParameter(f"{str(path)!r} does not exist. A question is given with -q.")


def _read(place: str) -> list[str]:
    """The questions of a file.

    Raises:
        CaseError: If it cannot be read, or holds none.
    """
    if Path(place).suffix.lower() in {".json", ".jsonl", ".parquet"}:
        found = [case.query for case in read_questions(Path(place))]
    else:
        lines = (line.strip() for line in _text(place).splitlines())
        found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise CaseError(f"{place} holds no question.", "Write one on each line.")
    return found


def _text(place: str) -> str:
    try:
        data = sys.stdin.buffer.read() if place == STDOUT else named_path(place).read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CaseError(f"{place} cannot be read: {reason}.") from error


def _write(done: FinishedRuns, title: str, out: str, format: Format, *, inline: bool, as_json: bool) -> None:
    from vrag.render.report import report_of

    made = report_of(done.runs, title=title, unfinished=done.left)
    facts = save_report(made, out, format, inline=inline)
    if as_json:
        runs = [
            {
                "run": one.run_id,
                "question": one.question,
                "answer": one.answer,
                "stop_reason": one.stop_reason,
            }
            for one in (run.result for run in done.runs)
        ]
        about = {"title": made.title, "sources": len(made.sources.listed)}
        emit_json(facts | about | {"runs": runs, "left": done.left})
        return
    if out != STDOUT:
        say((f"{made.summary[:1].upper()}{made.summary[1:]}. ", "bold"), f"{made.sources.summary} cited.")
    tell_saved(facts, tuple(dict.fromkeys(made.image_store.missing.values())))
