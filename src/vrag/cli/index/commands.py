"""`vrag index`: bring documents in, look after the collection."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.index.export_index import export_index
from vrag.cli.index.import_index import import_index
from vrag.cli.index.publish import publish
from vrag.cli.terminal.console import (
    Collection,
    Collections,
    Device,
    DocumentInstruction,
    Embedder,
    Json,
    VisualTokens,
    add_progress,
    emit_json,
    named_path,
    out,
    plain,
    say,
    tell_report,
)
from vrag.cli.terminal.hints import again
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.index.build import AddReport
    from vrag.index.collection import Collection as CollectionStore
    from vrag.index.collection_json import EmbedderRecord
    from vrag.index.maintenance import CollectionStatus, PageVectors, RemoveReport
    from vrag.types import Document

__all__ = ["app"]


class IndexEngine(StrEnum):
    """Where files become items."""

    LOCAL = "local"
    RAY = "ray"


app = typer.Typer(help="Bring documents into a collection, and look after it.", no_args_is_help=True)
app.command("import")(import_index)
app.command("publish")(publish)
app.command("export")(export_index)


@app.command()
def add(
    paths: list[Path] = typer.Argument(
        ..., parser=named_path, metavar="PATHS...", help="Files and folders, searched at any depth."
    ),
    collection: str | None = Collection,
    dpi: float | None = typer.Option(None, help="Resolution of rendered pages, per inch."),
    ocr: bool | None = typer.Option(None, "--ocr/--no-ocr", help="Read pages without text by OCR."),
    workers: int | None = typer.Option(None, help="Processes that read files; 0 for one per core."),
    embedder: str | None = Embedder,
    document_instruction: str | None = DocumentInstruction,
    visual_tokens: int | None = VisualTokens,
    device: str | None = Device,
    engine: IndexEngine = typer.Option(IndexEngine.LOCAL, help="Work on this machine, or on a Ray cluster."),
    retry_failed: bool = typer.Option(
        False, "--retry-failed", help="Try files again that failed and have not changed."
    ),
    as_json: bool = Json,
) -> None:
    """Index files and folders: what is new or has changed, and what an earlier run left unfinished.

    It can be stopped at any time: what was finished is kept, and the same command goes on. Files
    that cannot be read are listed with the reason and stop nothing; the exit status is 1 only
    when nothing at all could be read.

    Words are always indexed. With an embedder a new collection also holds vectors of what its pages
    look like, made by that model for good.

    Examples of use:

      vrag index add ./reports ./slides

      vrag index add ./reports --collection visual --embedder colqwen2 --device cuda
    """
    from vrag.factory import (
        documents_under,
        missing_paths_error,
        open_for_adding,
        open_ray,
        unreadable_error,
    )
    from vrag.index.build import add as add_files
    from vrag.index.embed_items import local

    report = load_settings(
        collection=collection,
        dpi=dpi,
        ocr=ocr,
        workers=workers,
        embedder=embedder,
        embed_document_instruction=document_instruction,
        visual_tokens=visual_tokens,
        device=device,
    )
    if fault := missing_paths_error(paths):
        raise fault
    opened, options, model = open_for_adding(report)
    batch = report.settings.batch
    producer = open_ray(report.settings, model) if engine is IndexEngine.RAY else local(model, batch)
    with add_progress() as progress:
        done = add_files(
            opened,
            paths,
            options,
            embedder=model,
            producer=producer,
            progress=progress,
            retry_failed=retry_failed,
        )
    if as_json:
        emit_json(_report_record(done))
    else:
        tell_report(done, to=out)
    if not documents_under(opened, paths):
        raise unreadable_error(paths)


@app.command()
def status(collection: list[str] | None = Collections, as_json: bool = Json) -> None:
    """Show what collections hold, and which files failed and why.

    --json prints an object for one collection, a list for several.
    """
    names = collection or [None]
    statuses = [_status_of(name) for name in names]
    if as_json:
        values = [asdict(now) for now in statuses]
        emit_json(values if len(values) > 1 else values[0])
        return
    for now in statuses:
        _print_status(now)


def _status_of(collection: str | None) -> CollectionStatus:
    from vrag.factory import vector_options
    from vrag.index.build import status as status_of

    settings = load_settings(collection=collection).settings
    return status_of(_open(collection), vector_options(settings))


def _print_status(now: CollectionStatus) -> None:
    say(("Collection ", "bold"), now.address)
    files = ", ".join(f"{count} {state}" for state, count in now.files.items()) or "none"
    say(f"  files      {files}")
    say(f"  documents  {now.documents}")
    say(f"  items      {now.items}")
    say(f"  size       {now.bytes / 1e6:.1f} MB")
    say(f"  pages at   {now.options.dpi:g} dpi, OCR {'on' if now.options.ocr else 'off'}")
    if now.embedder is not None:
        say(
            f"  vectors    {now.embedder.kind}, {now.embedder.dimension} numbers each, by {now.embedder.name}"
        )
    if now.page_vectors is not None:
        say(f"  a page     {_describe_page_vectors(now.page_vectors, now.embedder)}")
    if now.tier is not None:
        recall = "" if now.tier.recall is None else f"; finds {now.tier.recall:.1%} of the exact best ten"
        say(f"  searched   {now.tier.name}: {now.tier.reason}{recall}")
    say(f"  version    {now.content_version}")
    _tell_problems("Problems", now.problems)
    _tell_problems(again("Begun and not finished; run the same `vrag index add` again"), now.pending)


@app.command()
def verify(
    collection: str | None = Collection,
    repair: bool = typer.Option(
        False, "--repair", help="Mend what can be; the next add makes the rest anew."
    ),
    as_json: bool = Json,
) -> None:
    """Check every row and every picture of a collection. Exit status 1 when something is wrong."""
    from vrag.index.build import verify as verify_collection

    report = verify_collection(_open(collection), repair=repair)
    if as_json:
        emit_json({**asdict(report), "ok": report.ok})
    else:
        say(f"Checked {report.files} files, {report.items} items, {report.pictures} pictures.")
        for problem in report.problems:
            say(("  ! ", "yellow"), f"{plain(problem.subject)}: {plain(problem.detail)}")
        if report.ok:
            say(("All is as it should be.", "green"))
        elif report.repaired:
            say(again("Repaired. Run `vrag index add` on the same paths to make again what is missing."))
        else:
            say(again("To mend it: vrag index verify --repair"))
    raise typer.Exit(0 if report.ok or report.repaired else 1)


@app.command()
def remove(
    targets: list[str] = typer.Argument(..., help="Paths, folders, file names or ids of documents."),
    collection: str | None = Collection,
    as_json: bool = Json,
) -> None:
    """Take documents out of the collection. The files themselves stay where they are."""
    from vrag.index.build import remove as remove_documents

    _tell_removed(remove_documents(_open(collection), targets), as_json=as_json)


@app.command()
def prune(collection: str | None = Collection, as_json: bool = Json) -> None:
    """Take out those documents whose files are gone from the disk."""
    from vrag.index.build import prune as prune_documents

    _tell_removed(prune_documents(_open(collection)), as_json=as_json)


@app.command()
def compact(collection: str | None = Collection, as_json: bool = Json) -> None:
    """Give back disk space: merge small pieces, delete old versions and what nothing refers to."""
    from vrag.index.build import compact as compact_collection

    report = compact_collection(_open(collection))
    if as_json:
        emit_json(asdict(report))
    else:
        say(f"{report.bytes_before / 1e6:.1f} MB before, {report.bytes_after / 1e6:.1f} MB now.")


def _open(collection: str | None) -> CollectionStore:
    from vrag.index.collection import Collection as Store

    return Store.open(load_settings(collection=collection).settings.collection)


def _describe_page_vectors(found: PageVectors, embedder: EmbedderRecord | None) -> str:
    """How many vectors pages have, and how many visual tokens the embedder was opened for."""
    count = str(found.most) if found.least == found.most else f"{found.least} to {found.most}"
    limit = embedder.settings.get("visual_tokens") if embedder else None
    shown = f"at most {limit} visual tokens" if limit else "visual tokens as the model allows"
    return f"{count} vectors ({found.pages} counted), {shown}"


def _tell_problems(title: str, documents: tuple[Document, ...]) -> None:
    if documents:
        say((f"{title}:", "bold"))
    for document in documents:
        reason = f": {plain(document.reason)}" if document.reason else ""
        say(("  ! ", "yellow"), plain(document.path), reason)


def _tell_removed(report: RemoveReport, *, as_json: bool) -> None:
    names = [document.path for document in report.documents]
    if as_json:
        emit_json({"documents": names, "items": report.items})
        return
    say(f"Removed {len(names)} files, {report.items} items.")
    for name in names:
        say(f"  {plain(name)}")


def _report_record(done: AddReport) -> dict[str, object]:
    return {
        "added": done.added,
        "changed": done.changed,
        "unchanged": done.unchanged,
        "failed": done.failed,
        "items": done.items,
        "seconds": round(done.seconds, 3),
        "problems": [{"path": document.path, "reason": document.reason} for document in done.problems],
        "skipped": [{"path": str(skipped.path), "reason": skipped.reason} for skipped in done.skipped],
    }
