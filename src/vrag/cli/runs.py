"""`vrag runs`: recorded runs, listed, shown, replayed, exported, renamed, deleted and purged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrag.agent.events import SCHEMA_VERSION
from vrag.agent.runs.replay import differences
from vrag.agent.runs.replay import replay as replay_run
from vrag.agent.runs.retention import (
    DAY_SECONDS,
    RunOutcome,
    RunPurge,
    RunSelection,
    check_clock,
    delete_runs,
    format_minute,
    select_runs,
)
from vrag.agent.runs.run_meta import clean_title
from vrag.agent.runs.run_store import RunRow, RunState, RunStore, StoredRun
from vrag.cli import options as opt
from vrag.cli.audit import open_audit_log
from vrag.cli.options import parse_path
from vrag.cli.run_printer import RunPrinter, print_end
from vrag.cli.session import NO_RUNS, NO_RUNS_HINT, read_run
from vrag.cli.terminal import files as output
from vrag.cli.terminal.console import add_location, echo, plain, print_json, print_result, print_table
from vrag.cli.terminal.help import common_options
from vrag.errors import RunError
from vrag.factory.models import open_text_reader
from vrag.factory.session import evidence_sources, open_session, run_store
from vrag.render.exports import Format, export_of
from vrag.render.place_links import PlaceLinks
from vrag.render.report import report_of
from vrag.render.run_page import page_of
from vrag.render.text_format import size
from vrag.server.http.audit_log import AuditAction, audited_change, local_entry
from vrag.text.numerals import count

if TYPE_CHECKING:
    from vrag.render.annotations.evidence_export import EvidenceFormat
    from vrag.settings import Settings

COLUMNS = ("run", "ended", "question", "answer")
META_COLUMNS = ("user", "via", "title", "pinned", "shared")
"""Further fields of the JSON list; the table has the title in place of the question."""

app = typer.Typer(help="List, show, export and delete recorded questions.", no_args_is_help=True)

RunArgument = Annotated[
    str, typer.Argument(help="Id of a run, or the beginning of one; `last` for the newest.")
]


@app.command("list")
def list_runs(
    limit: int = typer.Option(20, "--limit", "-n", min=1, help="Maximum number of runs."),
    collection: opt.CollectionOption = None,
    search_url: opt.SearchUrlOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """List recorded runs, newest first.

    Example: vrag runs list --limit 5
    """
    store = run_store(opt.load_reading_flags(locals()).settings)
    rows = [(*_summary(store, row), row) for row in store.rows(limit=limit)]
    if as_json:
        columns = (*COLUMNS, *META_COLUMNS)
        values = ((*cells, r.owner, r.via, r.title, r.pinned, r.shared) for *cells, r in rows)
        print_json([dict(zip(columns, value, strict=True)) for value in values])
    elif rows:
        shown = ((*cells[:2], row.title or cells[2], cells[3]) for *cells, row in rows)
        print_table(COLUMNS, ([plain(cell, 60) for cell in row] for row in shown))
    else:
        echo(add_location(f"{NO_RUNS} {NO_RUNS_HINT}"))


def _summary(store: RunStore, row: RunRow) -> tuple[str, str, str, str]:
    ended = row.stop_reason or store.state_of(row).value
    if ended == RunState.RUNNING and not row.events:
        return row.id, "starting", row.question, ""
    return row.id, ended, row.question, row.answer or ""


@app.command()
def show(
    run: RunArgument = "last",
    collection: opt.CollectionOption = None,
    search_url: opt.SearchUrlOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Show a run step by step: what the agent saw, and how the run ended.

    Example: vrag runs show last
    """
    store = run_store(opt.load_reading_flags(locals()).settings)
    stored, state = store.settled(read_run(store, run).id)
    if as_json:
        print_json([event.model_dump(mode="json") for event in stored.events])
        return
    echo(("Question: ", "bold"), plain(stored.started.question))
    if earlier := len(stored.started.history):
        echo((f"Follows on {count(earlier, 'earlier question')}.", "dim"))
    printer = RunPrinter()
    for event in stored.events:
        printer.print_event(event)
    print_end(stored, state)


@app.command()
def rename(
    run: RunArgument,
    title: str = typer.Argument(help="Title of its conversation; empty for the question."),
    collection: opt.CollectionOption = None,
    search_url: opt.SearchUrlOption = None,
) -> None:
    """Give the conversation of a run a title, which lists show in place of its first question.

    Example: vrag runs rename last "Fares in 2024"
    """
    settings = opt.load_flags(locals()).settings
    store = run_store(settings)
    first = store.conversation(read_run(store, run).id)[0]
    with audited_change(open_audit_log(settings), local_entry(AuditAction.CHANGE_RUN, run=first)):
        meta = store.change_meta(first, title=clean_title(title))
    echo("Title: ", plain(meta.title or store.started(first).question))


@app.command()
def delete(
    run: RunArgument,
    conversation: bool = typer.Option(False, "--conversation", help="Delete its whole conversation."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    collection: opt.CollectionOption = None,
    search_url: opt.SearchUrlOption = None,
) -> None:
    """Delete a run with its pictures. This cannot be undone.

    Examples:

      vrag runs delete last

      vrag runs delete 20260314 --conversation
    """
    settings = opt.load_flags(locals()).settings
    store = run_store(settings)
    id, question = _find_run(store, run)
    runs = store.conversation(id)
    if not conversation:
        if runs[0] == id and len(runs) > 1:
            message = f"{count(len(runs) - 1, 'later question')} of the conversation follow on this one."
            raise RunError(message, "Delete all of it with --conversation.")
        runs = (id,)
    if not yes:
        typer.confirm(f"{plain(question, 60)}\nDelete {count(len(runs), 'run')}?", abort=True)
    entry = local_entry(AuditAction.DELETE_RUN, run=id)
    with audited_change(open_audit_log(settings), entry) as logged:
        with store.changing() as connection:
            store.delete_all(connection, runs)
        store.erase()
        logged["runs"] = len(runs)
    echo(f"Deleted: {count(len(runs), 'run')}.")


def _find_run(store: RunStore, run: str) -> tuple[str, str]:
    """Return the id of a run and its question, also if its events cannot be read."""
    id = store.find(run)
    row = store.row(id)
    return id, row.question if row else ""


@app.command()
@common_options("older_than", "before", "user", "outcome", "dry_run", "yes", "collection")
def purge(
    older_than: str | None = typer.Option(
        None,
        "--older-than",
        help="Only conversations whose last question is older: 30d, 12h, 4w.",
        show_default="the setting keep_runs",
    ),
    before: str | None = typer.Option(
        None,
        "--before",
        help="Only conversations whose last question is older than a time: 2026-03-14, 2026-03-14T09:00Z.",
    ),
    user: str | None = typer.Option(
        None, "--user", help="Only runs of a user; empty (--user '') for runs without an owner."
    ),
    outcome: RunOutcome | None = typer.Option(None, "--outcome", help="Only runs that ended in this way."),
    pinned: bool = typer.Option(False, "--pinned", help="Also delete pinned and shared conversations."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only show what would be deleted."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    collection: opt.CollectionOption = None,
    search_url: opt.SearchUrlOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Delete runs with their pictures, by age, user or outcome. This cannot be undone.

    The age of a conversation is that of its last question. With --user or --outcome, single runs of a
    conversation are deleted; its first run stays while others follow on it. Runs in progress stay.

    By --older-than and keep_runs nothing is deleted while the runs contradict the clock of this machine: one
    began in the future, or the newest one before today began more than 30 days ago. --before does not depend
    on the clock.

    Examples:

      vrag runs purge --older-than 30d --dry-run

      vrag runs purge --before 2026-03-14

      vrag runs purge --user alice --pinned --yes
    """
    settings = opt.load_flags(locals()).settings
    now = time.time()
    age, bound = _parse_bounds(older_than, before, now)
    if age is None and bound is None and user is None and outcome is None:
        if not settings.keep_runs:
            raise typer.BadParameter("Say which runs: --older-than 30d, --user NAME or --outcome failed.")
        age = settings.keep_runs * DAY_SECONDS
    if age is not None:
        bound = now - age
    selection = RunSelection(before=bound, owner=user, outcome=outcome, with_pinned=pinned)
    store = run_store(settings)
    found = select_runs(store, selection)
    if not as_json:
        echo(_describe_purge(found, "Would delete" if dry_run else "Found"))
    deleted = RunPurge()
    if found.runs and not dry_run:
        if age is not None:
            gap_hint = f"If the clock is right, give the time: --before {format_minute(now - age)}"
            check_clock(store.ids(), now, 0, gap_hint)
        if not yes:
            typer.confirm(f"Delete {count(len(found.runs), 'run')}?", abort=True, err=as_json)
        entry = local_entry(AuditAction.PURGE_RUNS, subject=user or "")
        with audited_change(open_audit_log(settings), entry) as logged:
            deleted = delete_runs(store, found, selection)
            logged["runs"] = len(deleted.runs)
    facts = {
        "found": len(found.runs),
        "deleted": len(deleted.runs),
        "bytes": deleted.bytes if not dry_run else found.bytes,
        "oldest": found.oldest,
        "newest": found.newest,
        "runs": found.runs if dry_run else deleted.runs,
    }
    if as_json:
        print_json(facts)
    elif found.runs and not dry_run:
        echo(f"Deleted: {count(len(deleted.runs), 'run')}. Freed: {size(deleted.bytes)}.")


def _parse_bounds(
    older_than: str | None, before: str | None, now: float
) -> tuple[float | None, float | None]:
    """Parse an age, in seconds, and a time, in seconds since 1970, of which a user gives one at most."""
    if older_than is not None and before is not None:
        raise typer.BadParameter("--older-than and --before contradict each other.")
    age = None if older_than is None else opt.parse_age(older_than).total_seconds()
    if age == 0:
        message = "--older-than 0 means runs of any age. Write an age such as 1m, or leave --older-than out "
        raise typer.BadParameter(f"{message}and say which runs: --user NAME or --outcome failed.")
    bound = None if before is None else opt.parse_time(before).timestamp()
    if bound is not None and bound > now:
        raise typer.BadParameter(f"--before {before} is in the future: the clock says {format_minute(now)}.")
    return age, bound


def _describe_purge(found: RunPurge, verb: str) -> str:
    if found.oldest is None or found.newest is None:
        return "No runs match."
    first, last = (f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}" for time in (found.oldest, found.newest))
    return f"{verb} {count(len(found.runs), 'run')}, {first} to {last}, {size(found.bytes)}."


@app.command()
def replay(
    run: RunArgument = "last",
    collection: opt.CollectionOption = None,
    search_url: opt.SearchUrlOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Replay the recorded model replies in the environment, and compare all events with the recorded ones.

    Exit status: 0 all events are equal, 1 some differ.

    Example: vrag runs replay last
    """
    session = open_session(opt.load_reading_flags(locals()).settings)
    stored = read_run(session.runs, run)
    reader = open_text_reader(session.settings) if session.settings.reader else None
    replayed = list(replay_run(stored, session.searcher, text_reader=reader))
    found = [
        {
            "recorded": difference.recorded and difference.recorded.model_dump(mode="json"),
            "replayed": difference.replayed and difference.replayed.model_dump(mode="json"),
        }
        for difference in differences(stored.events, replayed)
    ]

    def render() -> None:
        if not found:
            echo((f"All {len(stored.events)} events are equal.", "green"))
            return
        echo((f"{len(found)} of {len(stored.events)} events differ.", "yellow"))
        if stored.started.schema_version != SCHEMA_VERSION:
            echo("An earlier version of vrag recorded this run; prompts and events have changed since.")
        for difference in found[:5]:
            echo("  ", plain(str(difference), 300))

    facts = {"run": stored.id, "events": len(stored.events), "differences": found}
    print_result(facts, render, as_json=as_json)
    raise typer.Exit(1 if found else 0)


@app.command()
@common_options("format", "out", "html", "pdf", "pictures", "collection")
def export(
    run: RunArgument = "last",
    html: bool = typer.Option(False, "--html", help="Short for --format html."),
    format: Format | None = typer.Option(
        None,
        "--format",
        "-f",
        help="`html`: a page with every step, without scripts or network access; `markdown`: "
        "question, answer and evidence; `json`: every event, for programs.",
        show_default="by the suffix of --out, or html",
    ),
    out: str | None = typer.Option(
        None,
        "--out",
        "-o",
        help="Output file, - for standard output; of evidence the folder.",
        show_default="<run id>.html, or <run id>-evidence",
    ),
    inline: opt.InlineOption = False,
    server: opt.ServerOption = "",
    pdf: opt.PdfOption = False,
    annotations: opt.AnnotationsOption = False,
    pictures: opt.PicturesOption = False,
    overwrite: opt.OverwriteOption = False,
    collection: opt.CollectionOption = None,
    search_url: opt.SearchUrlOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Write a run to a file: question, answer, evidence with pictures, steps, memory and cost.

    The pictures of a Markdown file are in a folder next to it, unless it is printed or --inline is given.

    With --pdf, --annotations and --pictures the evidence alone is written, to files in a folder. A PDF file
    is annotated in a copy and never changed itself. Where it is gone, changed or protected, its stored pages
    are used, as those of other documents are.

    Examples:

      vrag runs export last -o answer.html

      vrag runs export last --format markdown

      vrag runs export last --pdf

      vrag runs export last --pdf --annotations --pictures -o evidence
    """
    settings = opt.load_reading_flags(locals()).settings
    if formats := opt.evidence_formats(pdf=pdf, annotations=annotations, pictures=pictures):
        if html or format is not None or inline or server:
            raise typer.BadParameter(
                "Evidence options exclude --html, --format, --inline and --server: leave out the latter."
            )
        _export_evidence(settings, run, out, formats, overwrite=overwrite, as_json=as_json)
        return
    chosen = _choose_format(format, out, html=html)
    if out is not None:
        output.check_out(out, as_json=as_json)
    stored = read_run(run_store(settings), run)
    target = f"{stored.id}{chosen.suffix}" if out is None else out
    links = output.place_links(settings, [stored], target, server)
    facts, reasons = _write_run(stored, chosen, target, links, inline=inline)
    print_result({"run": stored.id} | facts, lambda: output.print_saved(facts, reasons), as_json=as_json)


def _export_evidence(
    settings: Settings,
    run: str,
    out: str | None,
    formats: Sequence[EvidenceFormat],
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    if out == output.STDOUT:
        raise typer.BadParameter("Evidence is written to several files: give a folder with --out.")
    stored = read_run(run_store(settings), run)
    folder = parse_path(f"{stored.id}-evidence" if out is None else out)
    output.check_folder(folder, overwrite=overwrite)
    sources = evidence_sources(settings, [stored])
    export = output.save_evidence([stored], sources, folder, formats, quiet=as_json)
    facts = {"run": stored.id, "folder": folder, "files": export.files, "omitted": export.omitted}
    print_result(facts, lambda: output.print_evidence(export), as_json=as_json)


def _choose_format(format: Format | None, out: str | None, *, html: bool) -> Format:
    if html and format not in {None, Format.HTML}:
        raise typer.BadParameter(f"--html and --format {format} contradict each other.")
    if html or format is not None:
        return format or Format.HTML
    if out is None or out == output.STDOUT:
        return Format.HTML
    if by_suffix := output.format_of(str(parse_path(out))):
        return by_suffix
    raise typer.BadParameter(f"{out!r} does not end in .html, .md or .json. Choose a format with --format.")


def _write_run(
    stored: StoredRun, format: Format, out: str, links: PlaceLinks, *, inline: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Write a run; return what was written, and why pictures are missing in it."""
    match format:
        case Format.HTML:
            page = page_of(stored, links)
            facts = output.write_file(out, page.data) | {"pictures": page.pictures, "missing": page.absent}
            return facts, page.missing
        case Format.MARKDOWN:
            report = report_of([stored], links=links)
            facts = output.save_report(report, out, format, inline=inline)
            return facts, tuple(report.image_store.missing.values())
        case Format.JSON:
            return output.write_file(out, export_of(stored, format).data), ()
