"""`vrag index import`: indexes that the reference made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import (
    Collection,
    Device,
    Embedder,
    Json,
    add_progress,
    emit_json,
    out,
    plain,
    say,
    tell_report,
)
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.corpus.options import CorpusOptions
    from vrag.embed.embedder import Embedder as Model
    from vrag.index.reference.index_import import ImportReport
    from vrag.settings import Settings

__all__ = ["import_index"]

_MAX_TOLD = 20


def import_index(
    indexes: list[Path] = typer.Argument(..., help="Directories with a FAISS index or with .node files."),
    collection: str | None = Collection,
    files: Path | None = typer.Option(
        None, help="Where the pictures lie here, at any depth, if not below the folder of the index."
    ),
    embedder: str | None = Embedder,
    device: str | None = Device,
    ocr: bool | None = typer.Option(None, "--ocr/--no-ocr", help="Read the pictures by OCR."),
    workers: int | None = typer.Option(None, help="Processes that read files; 0 for one per core."),
    as_json: bool = Json,
) -> None:
    """Bring an index of the reference implementation into a collection, with its vectors as they are.

    Pictures are looked for below the folder of the index and that of --files, nowhere else. Those that are
    found are read as any others, so that words can be searched at once; items whose picture is missing
    come without it. To search the vectors, name the model that made them: it is tried
    on a few pictures first. Without one the vectors wait; the same command with --embedder binds them.

    Example: vrag index import search_engine/corpus/image_index --files search_engine/corpus/img
    """
    from vrag.index.reference.index_import import import_indexes

    settings = load_settings(
        collection=collection, embedder=embedder, device=device, ocr=ocr, workers=workers
    ).settings
    with add_progress() as progress:
        report = import_indexes(
            settings.collection,
            indexes,
            _options(settings),
            files=files,
            embedder=_embedder(settings),
            progress=progress,
        )
    if as_json:
        emit_json(_record(report))
    else:
        _tell(report)


def _embedder(settings: Settings) -> Model | None:
    """The one that was named, or else the one that the collection is bound to, unless that is a server.

    Somebody else's collection must not decide to whom pages and keys are sent: the import then says what
    to name.
    """
    from vrag.factory import load_embedder
    from vrag.index.collection_json import CollectionHeader

    header = CollectionHeader.read(Path(settings.collection))
    mark = header.embedder if header else None
    bound = mark is not None and not mark.imported and "://" not in mark.name
    spec = settings.embedder or (mark.name if mark and bound else "")
    return load_embedder(settings, spec, mark.settings if mark and bound else None) if spec else None


def _options(settings: Settings) -> CorpusOptions | None:
    """Those of the settings for a new collection; one that exists keeps its own."""
    from vrag.factory import corpus_options
    from vrag.index.collection_json import CollectionHeader

    return corpus_options(settings) if CollectionHeader.read(Path(settings.collection)) is None else None


def _tell(report: ImportReport) -> None:
    tell_report(report.added, to=out)
    say(
        f"Of {report.entries} entries {len(report.unusable)} cannot be used and {report.duplicates} say what "
        f"another one says; {report.without_file} name a picture or video that was not found."
    )
    for problem in report.unusable[:_MAX_TOLD]:
        say(("  ! ", "yellow"), f"{plain(problem.path.name, 80)}: {plain(problem.reason, 300)}")
    if len(report.unusable) > _MAX_TOLD:
        say(f"  … and {len(report.unusable) - _MAX_TOLD} more; see --json.")
    for note in report.notes:
        say(("Note: ", "yellow"), plain(note))
    mark = report.embedder
    if mark.imported:
        say(
            f"The vectors, made by {plain(mark.name)}, wait for their model: the same command with "
            "--embedder MODEL binds them. Words can be searched now."
        )
    else:
        say(f"The vectors are searched with {plain(mark.name)}.")


def _record(report: ImportReport) -> dict[str, object]:
    added = report.added
    return {
        "entries": report.entries,
        "items": added.items,
        "added": added.added,
        "changed": added.changed,
        "unchanged": added.unchanged,
        "failed": added.failed,
        "without_file": report.without_file,
        "duplicates": report.duplicates,
        "unusable": [{"path": str(one.path), "reason": one.reason} for one in report.unusable],
        "problems": [{"path": one.path, "reason": one.reason} for one in added.problems],
        "notes": list(report.notes),
        "embedder": {"name": report.embedder.name, "imported": report.embedder.imported},
        "seconds": round(added.seconds, 3),
    }
