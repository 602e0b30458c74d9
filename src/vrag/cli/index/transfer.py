"""`vrag index import | export | publish`: collections from and for other programs and machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from vrag.cli import options as opt
from vrag.cli.terminal import console
from vrag.cli.terminal.console import MAX_PROBLEMS, echo, echo_problem, plain, print_add_report, print_result
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.progress import index_progress
from vrag.embed.embedder import Embedder, VectorKind
from vrag.factory.indexing import corpus_options, load_embedder
from vrag.index.location import CollectionHeader
from vrag.index.opening import open_collection
from vrag.providers import is_embedding_server
from vrag.settings import Settings
from vrag.text.numerals import count

if TYPE_CHECKING:
    from vrag.index.build import AddReport


@common_options("collection", "files", "embedder", "as_json")
def import_index(
    indexes: list[Path] = typer.Argument(..., help="Directories with a FAISS index or with .node files."),
    collection: opt.CollectionOption = None,
    files: Path | None = typer.Option(
        None, help="Folder of the pictures, with subfolders.", show_default="the parent folder of the index"
    ),
    embedder: opt.EmbedderOption = None,
    device: opt.DeviceOption = None,
    ocr: opt.OcrOption = None,
    workers: opt.WorkersOption = None,
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Import an index of the reference implementation into a collection, with its vectors unchanged.

    Pictures are searched in the parent folder of the index and in --files, nowhere else. Their text is
    read, so that you can search words at once; items whose picture is missing are imported without it. To
    search the vectors, name the model that made them: it is compared on a few pictures first. You can also
    import without a model, and bind the vectors later with the same command and --embedder.

    Example: vrag index import search_engine/corpus/image_index --files search_engine/corpus/img
    """
    settings = opt.load_flags(locals()).settings
    from vrag.index.reference.index_import import import_indexes

    header = CollectionHeader.read(Path(settings.collection))
    with index_progress() as progress:
        report = import_indexes(
            settings.collection,
            indexes,
            corpus_options(settings) if header is None else None,  # an existing collection keeps its options
            files=files,
            embedder=_open_embedder(settings, header),
            wait=settings.wait,
            progress=progress,
        )

    def render() -> None:
        print_add_report(report.added, to=console.out)
        echo(
            f"{report.entries} entries: {len(report.unusable)} unusable, {report.duplicates} duplicates, "
            f"{report.without_file} whose picture or video was not found."
        )
        for problem in report.unusable[:MAX_PROBLEMS]:
            echo_problem(problem.path.name, problem.reason)
        if (more := len(report.unusable) - MAX_PROBLEMS) > 0:
            echo(f"  … and {more} more; --json lists all.")
        for note in report.notes:
            echo(("Note: ", "yellow"), plain(note))
        model = plain(report.embedder.name)
        if report.embedder.imported:
            echo(
                f"The vectors, made by {model}, cannot be searched yet: run the same command with "
                "--embedder MODEL. You can search words now."
            )
        else:
            echo(f"The vectors are searched with {model}.")

    facts = add_facts(report.added) | {
        "entries": report.entries,
        "without_file": report.without_file,
        "duplicates": report.duplicates,
        "unusable": [{"path": problem.path, "reason": problem.reason} for problem in report.unusable],
        "notes": report.notes,
        "embedder": {"name": report.embedder.name, "imported": report.embedder.imported},
    }
    print_result(facts, render, as_json=as_json)


def _open_embedder(settings: Settings, header: CollectionHeader | None) -> Embedder | None:
    """Open the embedder that was named, or else the one of the collection, unless that is a server.

    A collection from somebody else must not decide where pages and keys are sent: the import then says what
    to name.
    """
    recorded = header.embedder if header else None
    own = recorded and not recorded.imported and not is_embedding_server(recorded.name)
    bound = recorded if own else None
    name = settings.embedder or (bound.name if bound else "")
    return load_embedder(settings, name, bound.settings if bound else None) if name else None


def add_facts(added: AddReport) -> dict[str, Any]:
    """Return the result of indexing for `--json`."""
    return {
        "added": added.added,
        "changed": added.changed,
        "unchanged": added.unchanged,
        "failed": added.failed,
        "items": added.items,
        "seconds": round(added.seconds, 3),
        "problems": [{"path": document.path, "reason": document.reason} for document in added.problems],
    }


def export_index(
    faiss: Path | None = typer.Option(
        None, metavar="DIR", help="Output directory for a FAISS index: one vector per item."
    ),
    nodes: Path | None = typer.Option(
        None, metavar="DIR", help="Output directory for .node files: many vectors per item."
    ),
    model: str = typer.Option(
        "", help="Model name to store for the reference implementation.", show_default="the embedder's name"
    ),
    replace: bool = typer.Option(False, "--replace", help="Replace an existing index."),
    collection: opt.CollectionOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Write a collection as an index that the reference implementation loads.

    Pictures and clips are written to media/ in the same directory. An existing directory is refused, and a
    killed process leaves no partial index.

    Example: vrag index export --faiss ./image_index --collection visual; then, with the reference:
    engine.load_index("./image_index")
    """
    if (faiss is None) == (nodes is None):
        raise typer.BadParameter("Choose one of --faiss DIR and --nodes DIR.")
    settings = opt.load_flags({"collection": collection}).settings
    from vrag.index.reference import index_export

    opened, target = open_collection(settings.collection), faiss or nodes
    assert target is not None
    kind = VectorKind.SINGLE if faiss else VectorKind.MULTI
    report = index_export.export_index(opened, target, kind, model=model, replace=replace)

    def render() -> None:
        echo(f"Exported {report.items} items to {plain(str(report.directory))}")
        if report.without_vector:
            echo(f"  {report.without_vector} items have no vector and were left out.")
        echo(f"  model      {plain(report.model)}")

    print_result(report, render, as_json=as_json)


def publish(
    address: str = typer.Argument(
        ...,
        help="s3://bucket/prefix or file:///directory for the whole collection, "
        "qdrant://host:port/name for its vectors.",
    ),
    collection: opt.CollectionOption = None,
    prune: bool = typer.Option(False, "--prune", help="Delete objects that no recent publication uses."),
    keep: float = typer.Option(
        60.0, min=0, help="With --prune: minutes for which earlier publications remain readable."
    ),
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Upload a collection to object storage, or its vectors to Qdrant.

    Only missing data is uploaded, so you can stop and repeat the command. Readers see the earlier
    publication until the new one is complete. Keys and endpoint come from the environment: AWS_…, or
    QDRANT_API_KEY.

    Example: vrag index publish s3://bucket/reports; then: vrag search "revenue" --collection s3://bucket/reports
    """
    settings = opt.load_flags({"collection": collection, "wait": wait}).settings
    from vrag.index.remote.publish import publish as publish_collection
    from vrag.index.remote.qdrant import QdrantStore, is_qdrant

    opened = open_collection(settings.collection, wait=settings.wait, durable=settings.durable)
    columns = (TextColumn("Uploading"), BarColumn(), MofNCompleteColumn())
    if is_qdrant(address):
        with Progress(*columns, console=console.err, transient=True) as bar:
            pushed = QdrantStore.at(address).push(opened, _updater(bar))

        def render_push() -> None:
            counts = f"{pushed.uploaded} sent, {pushed.present} present, {pushed.deleted} deleted"
            echo(("Uploaded", "bold"), f" to {address}")
            echo(f"  points     {counts}")
            if pushed.without:
                echo(f"  without    {pushed.without} items have no vector")

        print_result(asdict(pushed), render_push, as_json=as_json)
        return
    with Progress(*columns, console=console.err, transient=True) as bar:
        age = timedelta(minutes=keep) if prune else None
        report = publish_collection(opened, address, prune=age, progress=_updater(bar))

    def render() -> None:
        state = "Nothing has changed since publication"
        if report.fresh:
            state = "Published"
        elif report.files:
            state = "What was missing has been uploaded again to publication"
        echo((f"{state} {report.number}", "bold"), f" at {report.url}")
        files = f"{count(report.files, 'file')}, {report.bytes / 1e6:.1f} MB"
        echo(f"  uploaded   {files}; {report.present:,} already there")
        if prune:
            echo(f"  deleted    {count(report.pruned, 'object')}")
        echo(f"Search it: vrag search QUERY --collection {report.url}")

    print_result(asdict(report), render, as_json=as_json)


def _updater(bar: Progress) -> Callable[[int, int], None]:
    task = bar.add_task("", total=None)
    return lambda done, total: bar.update(task, completed=done, total=total)
