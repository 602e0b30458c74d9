"""`vrag runs export`: a run as a file that can be handed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.terminal.console import Collection, Json, SearchUrl, emit_json, named_path
from vrag.cli.terminal.output import STDOUT, Inline, check_out, format_of, save_report, tell_saved, write_file
from vrag.errors import RunError
from vrag.render.exports import Format
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.runs.run_store import RunStore, StoredRun

__all__ = ["EXAMPLE", "NONE_YET", "export", "read_run", "store_of"]

NONE_YET = "No question has been asked yet."
EXAMPLE = 'Try: vrag ask ./my-documents "…"'


def store_of(collection: str | None, search_url: str | None) -> RunStore:
    """The runs of a collection, or those of search servers where one is set."""
    from vrag.factory import run_store

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
    html: bool = typer.Option(False, "--html", help="The same as --format html."),
    format: Format | None = typer.Option(
        None,
        "--format",
        "-f",
        help="`html`: one page with every step, that runs no script and fetches nothing; `markdown`: "
        "question, answer and what it rests on; `json`: every event, for machines.",
        show_default="by the suffix of --out, or html",
    ),
    out: str | None = typer.Option(
        None, "--out", "-o", help="File to write; - for standard output.", show_default="<id of the run>.html"
    ),
    inline: bool = Inline,
    collection: str | None = Collection,
    search_url: str | None = SearchUrl,
    as_json: bool = Json,
) -> None:
    """Write a run to a file: question, answer, evidence with its pictures, steps, memory and cost.

    Markdown has its pictures in a folder beside it, unless it is printed or --inline is given.

    Examples of use:

      vrag runs export last -o answer.html

      vrag runs export last --format markdown
    """
    chosen = _chosen(format, out, html=html)
    if out is not None:
        check_out(out, as_json=as_json)
    stored = read_run(store_of(collection, search_url), run)
    facts, reasons = _saved(
        stored, chosen, f"{stored.id}{chosen.suffix}" if out is None else out, inline=inline
    )
    if as_json:
        emit_json({"run": stored.id} | facts)
    else:
        tell_saved(facts, reasons)


def _chosen(format: Format | None, out: str | None, *, html: bool) -> Format:
    if html and format not in {None, Format.HTML}:
        raise typer.BadParameter(f"--html and --format {format} contradict each other.")
    if html or format is not None:
        return format or Format.HTML
    if out is None or out == STDOUT:
        return Format.HTML
    if named := format_of(str(named_path(out))):
        return named
    raise typer.BadParameter(
        f"A run is written to a file that ends in .html, .md or .json, not to {out!r}. "
        "A file of another name needs --format."
    )


def _saved(
    stored: StoredRun, format: Format, out: str, *, inline: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Writes a run; what was written, and why pictures are missing in it."""
    from vrag.render.exports import export_of
    from vrag.render.report import report_of
    from vrag.render.run_page import page_of

    match format:
        case Format.HTML:
            page = page_of(stored)
            facts = write_file(out, page.data) | {"pictures": page.pictures, "missing": page.absent}
            return facts, page.missing
        case Format.MARKDOWN:
            report = report_of([stored])
            reasons = tuple(dict.fromkeys(report.image_store.missing.values()))
            return save_report(report, out, format, inline=inline), reasons
        case Format.JSON:
            return write_file(out, export_of(stored, format).data), ()
