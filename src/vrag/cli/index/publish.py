"""`vrag index publish`: make a collection readable from other machines."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from vrag.cli.terminal.console import Collection, Json, emit_json, err, say
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.index.collection import Collection as CollectionStore

__all__ = ["publish"]


def publish(
    address: str = typer.Argument(
        ..., help="s3://bucket/prefix for the whole collection, qdrant://host:port/name for its vectors."
    ),
    collection: str | None = Collection,
    prune: bool = typer.Option(
        False, "--prune", help="Delete from there what no recent publication refers to."
    ),
    keep: float = typer.Option(
        60.0, min=0, help="Minutes that readers may go on with a former publication, when pruning."
    ),
    as_json: bool = Json,
) -> None:
    """Bring the present state of a collection to object storage, or its vectors to Qdrant.

    Only what is missing there is sent, so that it can be stopped and repeated. Readers see the former
    state until the new one is complete. Keys and endpoint come from the environment: AWS_… as for any
    tool, or QDRANT_API_KEY.

    Example: vrag index publish s3://bucket/reports; then: vrag search "revenue" --collection s3://bucket/reports
    """
    from vrag.index.collection import Collection as Store
    from vrag.index.remote.qdrant import is_qdrant

    opened = Store.open(load_settings(collection=collection).settings.collection)
    if is_qdrant(address):
        _push(opened, address, as_json=as_json)
    else:
        _publish(opened, address, timedelta(minutes=keep) if prune else None, as_json=as_json)


def _publish(collection: CollectionStore, url: str, keep: timedelta | None, *, as_json: bool) -> None:
    from vrag.index.remote.publish import publish as publish_collection

    with _progress("Uploading") as bar:
        report = publish_collection(collection, url, prune=keep, progress=_follow(bar))
    if as_json:
        emit_json(asdict(report))
        return
    state = "Published" if report.fresh else "Nothing has changed since publication"
    say((f"{state} {report.number}", "bold"), f" at {report.url}")
    say(f"  uploaded   {report.files} files, {report.bytes / 1e6:.1f} MB; {report.present} were there")
    if keep is not None:
        say(f"  deleted    {report.pruned} objects")
    say(f"Search it: vrag search QUERY --collection {report.url}")


def _push(collection: CollectionStore, address: str, *, as_json: bool) -> None:
    from vrag.index.remote.qdrant import QdrantStore

    with _progress("Pushing") as bar:
        report = QdrantStore.at(address).push(collection, _follow(bar))
    if as_json:
        emit_json(asdict(report))
        return
    say(("Pushed", "bold"), f" to {address}")
    say(f"  points     {report.uploaded} sent, {report.present} were there, {report.deleted} deleted")
    if report.without:
        say(f"  without    {report.without} items have no vector")


def _progress(verb: str) -> Progress:
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=err, transient=True)


def _follow(bar: Progress) -> Callable[[int, int], None]:
    """Moves a bar."""
    task = bar.add_task("", total=None)

    def told(done: int, of: int) -> None:
        bar.update(task, completed=done, total=of)

    return told
