"""`vrag index export`: a collection as an index of the reference implementation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from vrag.cli.terminal.console import Collection, Json, emit_json, plain, say
from vrag.settings import load_settings

__all__ = ["export_index"]


def export_index(
    faiss: Path | None = typer.Option(
        None, metavar="DIR", help="Make this directory, with a FAISS index: for one vector per item."
    ),
    nodes: Path | None = typer.Option(
        None, metavar="DIR", help="Make this directory, with .node files: for many vectors per item."
    ),
    model: str = typer.Option(
        "", help="What the reference will be told as its model.", show_default="the embedder's own name"
    ),
    replace: bool = typer.Option(False, "--replace", help="Replace an index that is there."),
    collection: str | None = Collection,
    as_json: bool = Json,
) -> None:
    """Write a collection as an index that the reference implementation loads.

    Pictures and clips are written beside it, under media/. A directory that exists is refused; a process
    that is killed leaves no half index.

    Example: vrag index export --faiss ./image_index --collection visual; then, with the reference:
    engine.load_index("./image_index")
    """
    if (faiss is None) == (nodes is None):
        raise typer.BadParameter("Name one of --faiss DIR and --nodes DIR.")
    from vrag.index.collection import Collection as Store
    from vrag.index.reference.index_export import export_faiss, export_nodes

    opened = Store.open(load_settings(collection=collection).settings.collection)
    if faiss is not None:
        report = export_faiss(opened, faiss, model=model, replace=replace)
    else:
        assert nodes is not None
        report = export_nodes(opened, nodes, model=model, replace=replace)
    if as_json:
        emit_json(asdict(report) | {"directory": str(report.directory)})
        return
    say(f"Exported {report.items} items to {plain(str(report.directory))}")
    if report.without_vector:
        say(f"  {report.without_vector} items have no vector and were left out.")
    say(f"  model      {plain(report.model)}")
