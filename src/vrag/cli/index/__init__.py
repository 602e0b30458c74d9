"""`vrag index`: collections, created, maintained, backed up, imported, exported and published."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli import options as opt
from vrag.cli.index.backups import backup, list_backups, restore_backup
from vrag.cli.index.transfer import add_facts, export_index, import_index, publish
from vrag.cli.options import parse_path
from vrag.cli.terminal import console
from vrag.cli.terminal.console import add_location, echo, echo_problem, plain, print_json, print_result
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.last_collection import remember_collection
from vrag.cli.terminal.progress import count_progress, index_progress
from vrag.errors import REPAIR_COMMAND
from vrag.factory.indexing import (
    documents_under,
    missing_paths_error,
    open_ray,
    open_when_created,
    unreadable_error,
)
from vrag.factory.search import ranking_note, vector_options
from vrag.factory.verification import verify_collection
from vrag.index import maintenance
from vrag.index.collection import Collection
from vrag.index.integrity.problems import ProblemKind, VerifyProblem
from vrag.index.maintenance import CollectionStatus, RemoveReport
from vrag.index.opening import open_collection
from vrag.settings import load_settings
from vrag.text.numerals import count
from vrag.types import Document, DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_HIDDEN_NAMES = 20
"""Documents with hidden words that a status names."""
MAX_REASONS = 20
"""Lines of the reason of a document that a status prints."""


class IndexEngine(StrEnum):
    """The place where documents are converted and embedded."""

    LOCAL = "local"
    RAY = "ray"


_STATUSES = {None: 0, ProblemKind.LEFTOVER: 3, ProblemKind.DAMAGE: 1}
"""Exit statuses of a verification, by the worst that was found."""
_ADVICE = {
    ProblemKind.LEFTOVER: f"Not damaged. To remove leftovers: {REPAIR_COMMAND}",
    ProblemKind.DAMAGE: f"To repair it: {REPAIR_COMMAND}",
}
app = typer.Typer(help="Add documents to a collection, and maintain it.", no_args_is_help=True)
app.command()(backup)
app.command("backups")(list_backups)
app.command("restore")(restore_backup)
app.command("import")(import_index)
app.command("publish")(publish)
app.command("export")(export_index)


@app.command()
@common_options("collection", "ocr", "embedder", "retry_failed", "wait", "as_json")
def add(
    paths: list[Path] = typer.Argument(
        ..., parser=parse_path, metavar="PATHS...", help="Files, and folders with their subfolders."
    ),
    collection: opt.CollectionOption = None,
    dpi: opt.DpiOption = None,
    ocr: opt.OcrOption = None,
    workers: opt.WorkersOption = None,
    durability: opt.DurabilityOption = None,
    embedder: opt.EmbedderOption = None,
    embed_document_instruction: opt.DocumentInstructionOption = None,
    visual_tokens: opt.VisualTokensOption = None,
    device: opt.DeviceOption = None,
    engine: IndexEngine = typer.Option(IndexEngine.LOCAL, help="Index on this machine or on a Ray cluster."),
    retry_failed: opt.RetryFailedOption = False,
    force_read: bool = typer.Option(
        False, "--force-read", help="Read files even if their size, times and inode have not changed."
    ),
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Index new and changed files, and what an earlier run left unfinished.

    You can stop the command at any time: finished work is kept, and the same command continues. Files that
    cannot be read are listed with the reason and do not stop the others.

    Exit status: 0 done, 1 no file could be read, 2 wrong usage, 4 another process is still writing to the
    collection after --wait, 130 stopped. 4 means the same with all commands that write to a collection.

    Text is always indexed. With an embedder, a new collection also stores vectors of its pages; the
    embedder of a collection cannot be changed later.

    Examples:

      vrag index add ./reports ./slides

      vrag index add ./reports --collection visual --embedder colqwen2 --device cuda
    """
    report = opt.load_flags(locals())
    from vrag.index import build  # with the converters of all formats
    from vrag.index.vectors.embed_items import local

    if error := missing_paths_error(paths):
        raise error
    opened, options, model = open_when_created(report)
    batch = report.settings.batch
    producer = open_ray(report.settings, model) if engine is IndexEngine.RAY else local(model, batch)
    with index_progress() as progress:
        added = build.add(
            opened,
            paths,
            options,
            embedder=model,
            producer=producer,
            progress=progress,
            retry_failed=retry_failed,
            force_read=force_read,
        )
    skipped = [{"path": str(file.path), "reason": file.reason} for file in added.skipped]
    facts = add_facts(added) | {"skipped": skipped}
    print_result(facts, lambda: console.print_add_report(added, to=console.out), as_json=as_json)
    if note := ranking_note(report.settings, opened.header.embedder):
        console.warn(note)
    if not documents_under(opened, paths):
        raise unreadable_error(paths)
    remember_collection(report.settings.model_copy(update={"collections": ()}))


@app.command()
def status(collection: opt.CollectionsOption = None, as_json: opt.JsonOption = False) -> None:
    """Show what collections contain, which files were read in part or not at all, and why.

    --json prints one object for one collection, and a list for several.

    Example: vrag index status
    """
    statuses: list[CollectionStatus] = []
    notes: list[str] = []
    for name in collection or [None]:
        settings = load_settings(collection=name).settings
        statuses.append(maintenance.status(_open(name), vector_options(settings)))
        notes.append(ranking_note(settings, statuses[-1].embedder))
    if as_json:
        print_json(statuses if len(statuses) > 1 else statuses[0])
        return
    for found, note in zip(statuses, notes, strict=True):
        _print_status(found, note)


def _print_status(status: CollectionStatus, ranking: str) -> None:
    """Print a status; `ranking` is the note of `ranking_note`."""
    echo(("Collection ", "bold"), status.address)
    files = ", ".join(f"{count} {state}" for state, count in status.files.items()) or "none"
    echo(f"  files      {files}")
    echo(f"  documents  {status.documents}")
    echo(f"  items      {status.items}")
    echo(f"  size       {status.bytes / 1e6:.1f} MB")
    echo(f"  pages at   {status.options.dpi:g} dpi, OCR {status.options.ocr}")
    if (embedder := status.embedder) is not None:
        echo(f"  vectors    {embedder.kind}, {embedder.dimension} numbers each, by {embedder.name}")
        if status.without_vector:
            items = f"{status.without_vector} items, of which the embedder takes nothing"
            echo(f"  no vector  {items}; words find them where they have any")
    if (pages := status.page_vectors) is not None:
        vectors = str(pages.most) if pages.least == pages.most else f"{pages.least} to {pages.most}"
        limit = embedder.settings.get("visual_tokens") if embedder else None
        tokens = f"at most {limit} visual tokens" if limit else "visual tokens as the model allows"
        echo(f"  a page     {vectors} vectors ({pages.pages} counted), {tokens}")
    if (tier := status.tier) is not None:
        recall = "" if tier.recall is None else f"; finds {tier.recall:.1%} of the exact best ten"
        echo(f"  searched   {tier.name}: {tier.reason}{recall}")
    if ranking:
        echo("  ranked     ", plain(ranking.removeprefix("Ranked ")))
    echo(f"  version    {status.content_version}")
    _print_hidden_words(status.hidden_words)
    in_part = [document for document in status.problems if document.status is DocumentStatus.PARTIAL]
    _print_documents("Read in part", in_part)
    _print_documents("Not read", [document for document in status.problems if document not in in_part])
    _print_documents(add_location("Unfinished; run the same `vrag index add` again"), status.pending)
    if status.problems:
        echo(
            add_location("To read them again unchanged: `vrag index add --retry-failed` with the same paths.")
        )


def _print_hidden_words(counts: dict[str, int]) -> None:
    if counts:
        echo(("Words that are hidden or struck out, which are not searched:", "bold"))
    for name, words in islice(counts.items(), MAX_HIDDEN_NAMES):
        echo(f"  - {plain(name)}: {count(words, 'word')}")
    if (more := len(counts) - MAX_HIDDEN_NAMES) > 0:
        echo(add_location(f"  … and {more} more: `vrag index status --json` lists all."))


def _print_documents(title: str, documents: Sequence[Document]) -> None:
    """Print documents, each with its reason; one of several lines is below its name."""
    if documents:
        echo((f"{title}:", "bold"))
    for document in documents:
        lines = [plain(line) for line in document.reason.splitlines()]
        reason = f": {lines[0]}" if len(lines) == 1 else ""
        echo(("  ! ", "yellow"), plain(document.shown_path), reason)
        for line in lines[1:] and lines[:MAX_REASONS]:
            echo(f"      {line}")
        if (more := len(lines) - MAX_REASONS) > 0:
            echo(add_location(f"      … and {more} more: `vrag index status --json` lists all."))


@app.command()
def verify(
    collection: opt.CollectionOption = None,
    repair: bool = typer.Option(
        False, "--repair", help="Repair what can be repaired, from the documents' own files where needed."
    ),
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Check every byte of a collection: database, pictures, vectors, caches and runs.

    With --repair, what is damaged is made again from the documents' own files. A damaged database is written
    anew, and kept beside it as collection.db.damaged. What cannot be repaired is listed. A collection that
    cannot be written to is checked without a lock. Runs that the settings keep elsewhere (VRAG_RUNS_DIR) are
    checked too.

    Exit status: 0 sound or repaired, 1 damaged, 3 only leftovers of a killed process, which are not damage,
    4 another process is writing.

    Example: vrag index verify --repair
    """
    settings = load_settings(collection=collection, wait=wait).settings
    with count_progress("Checking") as progress:
        report = verify_collection(settings, repair=repair, progress=progress)

    def render() -> None:
        runs = f", {count(report.runs, 'run')}" if report.runs or report.runs_dir else ""
        runs += f" (also those in {plain(report.runs_dir)})" if report.runs_dir else ""
        items = f"{count(report.files, 'file')}, {count(report.items, 'item')}"
        echo(f"Checked {items}, {count(report.pictures, 'picture')}{runs}.")
        for problem in report.problems:
            note = _note(problem)
            detail = f"{problem.detail} ({note})" if note else problem.detail
            echo_problem(problem.subject, detail)
        if not report.problems:
            echo(("No problems.", "green"))
        elif not report.open:
            echo(("Repaired.", "green"))
        elif not repair and report.worst and not all(problem.advice for problem in report.open):
            echo(add_location(_ADVICE[report.worst]))
        elif not report.ok:
            echo("The rest cannot be repaired here: see above.")

    facts = {**asdict(report), "ok": report.ok, "state": report.worst or "sound"}
    print_result(facts, render, as_json=as_json)
    raise typer.Exit(_STATUSES[report.worst])


def _note(problem: VerifyProblem) -> str:
    """Return what was done about a problem, what to do about it, or which file has it."""
    if problem.advice:
        return add_location(problem.advice)
    if problem.repaired:
        return "deleted" if problem.deleted else "repaired"
    return problem.file if problem.file != problem.subject else ""


@app.command()
def remove(
    targets: list[str] = typer.Argument(..., help="Paths, folders, file names or ids of documents."),
    collection: opt.CollectionOption = None,
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Remove documents from the collection. The files themselves are not deleted.

    Example: vrag index remove ./reports/draft.pdf
    """
    _print_removed(maintenance.remove(_open(collection, wait), targets), as_json=as_json)


@app.command()
def prune(
    collection: opt.CollectionOption = None, wait: opt.WaitOption = None, as_json: opt.JsonOption = False
) -> None:
    """Remove documents whose files no longer exist.

    Example: vrag index prune
    """
    _print_removed(maintenance.prune(_open(collection, wait)), as_json=as_json)


def _print_removed(report: RemoveReport, *, as_json: bool) -> None:
    def render() -> None:
        echo(f"Removed {count(len(report.documents), 'file')}, {count(report.items, 'item')}.")
        for document in report.documents:
            echo(f"  {plain(document.shown_path)}")

    paths = [document.path for document in report.documents]
    print_result({"documents": paths, "items": report.items}, render, as_json=as_json)


@app.command()
def compact(
    collection: opt.CollectionOption = None, wait: opt.WaitOption = None, as_json: opt.JsonOption = False
) -> None:
    """Free disk space: merge small files, delete old versions and unused data.

    Example: vrag index compact
    """
    report = maintenance.compact(_open(collection, wait))
    text = f"{report.bytes_before / 1e6:.1f} MB before, {report.bytes_after / 1e6:.1f} MB now."
    print_result(report, lambda: echo(text), as_json=as_json)


def _open(collection: str | None, wait: float | None = None) -> Collection:
    settings = load_settings(collection=collection, wait=wait).settings
    return open_collection(settings.collection, wait=settings.wait, durable=settings.durable)
