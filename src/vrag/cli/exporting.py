"""`vrag runs export`: a run as one file that can be handed on."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.display import Collection, Json, SearchUrl, emit_json, file_uri, named_path, plain, say, warn
from vrag.errors import RunError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.runs import RunStore, StoredRun

__all__ = ["EXAMPLE", "NONE_YET", "export", "read_run", "store_of"]

NONE_YET = "No question has been asked yet."
EXAMPLE = 'Try: vrag ask ./my-documents "…"'


def store_of(collection: str | None, search_url: str | None) -> RunStore:
    """The runs of a collection, or those of search servers where one is set."""
    from vrag.assemble import run_store

    return run_store(load_settings(collection=collection, search_url=search_url).settings)


def read_run(store: RunStore, run: str) -> StoredRun:
    """Reads a run by its id, the beginning of one, or `last`.

    Raises:
        RunError: If there is none, or it cannot be read.
    """
    if run == "last" and not store.ids():
        raise RunError(NONE_YET, EXAMPLE)
    try:
        return store.read(run)
    except RunError as error:
        raise RunError(error.message, error.hint or "Ask again.") from error


def export(
    run: str = typer.Argument("last", help="Id of the run, or the beginning of one; `last` for the newest."),
    html: bool = typer.Option(  # noqa: ARG001 - the only form there is
        True,
        "--html",
        help="As one page that needs no other file, runs no script and fetches nothing; the usual form.",
        show_default=False,
    ),
    out: str | None = typer.Option(
        None, "--out", "-o", help="File to write; - for standard output.", show_default="<id of the run>.html"
    ),
    collection: str | None = Collection,
    search_url: str | None = SearchUrl,
    as_json: bool = Json,
) -> None:
    """Write a run with its pictures to one file: question, answer, evidence, steps, memory and cost.

    Example: vrag runs export last -o answer.html
    """
    from vrag.view.page import page_of
    from vrag.view.wording import size

    stored = read_run(store_of(collection, search_url), run)
    page = page_of(stored)
    if out == "-":
        sys.stdout.buffer.write(page.data)
        return
    target = named_path(f"{stored.id}.html" if out is None else out)
    _write(target, page.data)
    if as_json:
        facts = {"run": stored.id, "file": str(target), "bytes": len(page.data), "pictures": page.pictures}
        emit_json(facts | {"missing": page.absent})
        return
    say(
        ("Written", "bold"),
        f" to {plain(file_uri(target))}: {size(len(page.data))}, {page.pictures} pictures",
    )
    if page.absent:
        warn(f"{page.absent} pictures are not in it. {' '.join(page.missing)}")


def _write(target: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    unfinished = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    try:
        unfinished.write_bytes(data)
        unfinished.replace(target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise RunError(
            f"{target} cannot be written: {os.strerror(error.errno or 0)}.",
            "Choose another place with --out.",
        ) from error
