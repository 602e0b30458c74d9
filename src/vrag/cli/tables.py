"""`vrag tables`: the tables of one document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from vrag.atomic_io import write_whole
from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, err, plain, warn
from vrag.errors import CorpusError
from vrag.factory.indexing import corpus_options
from vrag.scratch import scratch_directory
from vrag.text.numerals import count

if TYPE_CHECKING:
    from vrag.corpus.converter import CorpusOptions, SourceFile
    from vrag.reading.tables.table import DocumentTable
    from vrag.types import Item


class TableFormat(StrEnum):
    """The format of printed tables."""

    MARKDOWN = "markdown"
    CSV = "csv"
    HTML = "html"
    JSON = "json"


SUFFIXES = {
    TableFormat.MARKDOWN: ".md",
    TableFormat.CSV: ".csv",
    TableFormat.HTML: ".html",
    TableFormat.JSON: ".json",
}
"""Suffixes of the files that are written."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table and where it stands."""

    page: int
    """From 1."""
    number: int
    """Among the tables of its page, from 1."""
    table: DocumentTable


def tables(
    file: Annotated[Path, typer.Argument(help="A PDF file, office document, picture, web page or table.")],
    format: Annotated[
        TableFormat, typer.Option("--format", "-f", help="Format of the tables.")
    ] = TableFormat.MARKDOWN,
    page: Annotated[int | None, typer.Option(min=1, help="Only this page, counted from 1.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write one file per table to.")
    ] = None,
    ocr: opt.OcrOption = None,
    dpi: opt.DpiOption = None,
    workers: opt.WorkersOption = None,
) -> None:
    """Print the tables of a document, without a model.

    Tables are found from ruling lines and from words in aligned columns, in PDF files, office documents,
    scans and screenshots; those of HTML, Markdown, csv, mail and books are as the file has them. JSON holds
    every cell with its row, column, spans and box; HTML keeps spans; Markdown and CSV have the text of a
    spanning cell at its first place.

    With --output, the tables are written as <stem>_<page>_<table>.md (csv, html, json), both counted from 1.

    Example: vrag tables report.pdf --page 3 --format csv
    """
    from vrag.reading.page_faults import collect_page_faults

    options = corpus_options(opt.load_flags(locals()).settings)
    with collect_page_faults() as faults:
        found = _find(file, page, options)
    for fault in faults:
        warn(fault)
    if output is not None and found:
        _write(found, file, output, format)
    elif output is None and format is TableFormat.JSON:
        values = {"file": str(file), "tables": [_facts(table) for table in found]}
        print(json.dumps(values, ensure_ascii=False, indent=2))
    elif output is None:
        for number, table in enumerate(found):
            print(("\n" if number else "") + _text(table, format), end="")
    if not found and not faults:
        warn(f"There are no tables {f'on page {page} of' if page else 'in'} {file.name}.")


def _text(table: PageTable, format: TableFormat) -> str:
    from vrag.reading.tables.formats import format_csv, format_html, format_markdown

    if format is TableFormat.JSON:
        return json.dumps(_facts(table), ensure_ascii=False, indent=2) + "\n"
    formats = {
        TableFormat.CSV: format_csv,
        TableFormat.HTML: format_html,
        TableFormat.MARKDOWN: format_markdown,
    }
    return formats[format](table.table)


def _facts(table: PageTable) -> dict[str, object]:
    from vrag.reading.tables.formats import table_facts

    return {"page": table.page, "number": table.number, **table_facts(table.table)}


def _write(found: list[PageTable], file: Path, output: Path, format: TableFormat) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for table in found:
        path = output / f"{file.stem}_{table.page}_{table.number}{SUFFIXES[format]}"
        write_whole(path, _text(table, format).encode())
    echo(f"Wrote {count(len(found), 'table')} to {plain(str(output))}.")


def _find(file: Path, page: int | None, options: CorpusOptions) -> list[PageTable]:
    """Convert a file and find the tables of its pages, with the progress on a terminal."""
    found: list[PageTable] = []
    pages = 0
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar,
        scratch_directory() as folder,
    ):
        task = bar.add_task("Finding tables", total=None)
        for item, total in convert_items(file, page, options, folder):
            pages += 1
            tables = find_item_tables(item, folder)
            found += [PageTable(item.ordinal, number, table) for number, table in enumerate(tables, 1)]
            bar.update(task, completed=pages, total=total)
    if not pages and page:
        raise CorpusError(f"{file.name} has no page {page}.", "Pages are counted from 1.")
    return sorted(found, key=lambda table: (table.page, table.number))


def find_item_tables(item: Item, folder: Path) -> tuple[DocumentTable, ...]:
    """Find the tables of an item whose picture, if it has one, lies in a folder, and remove the picture."""
    from PIL import Image

    from vrag.reading.page_faults import UnreadPart, read_part
    from vrag.reading.tables.finder import find_tables

    if item.image is None:
        return read_part(UnreadPart.TABLES, item, lambda: find_tables(item, None), ())
    path = folder / item.image
    with Image.open(path, formats=("PNG", "JPEG")) as picture:
        found = read_part(UnreadPart.TABLES, item, lambda: find_tables(item, picture), ())
    path.unlink(missing_ok=True)
    return found


def convert_items(
    file: Path, page: int | None, options: CorpusOptions, folder: Path
) -> Iterator[tuple[Item, int]]:
    """Yield the pages of a file with the number of pages to come; warn of those that cannot be read.

    Raises `CorpusError` if the file cannot be read at all.
    """
    from vrag.corpus.convert import convert_all
    from vrag.corpus.converter import Converted, Failed, ItemCount
    from vrag.corpus.discover import read_source

    if not file.is_file():
        raise CorpusError(f"{file} is not a file.", "Give the path of one document.")

    def skip(_source: SourceFile) -> frozenset[int]:
        return frozenset(set(range(1, options.max_pages + 1)) - {page}) if page else frozenset()

    total = 1
    for event in convert_all([read_source(file)], folder, options, have=skip):
        if isinstance(event, Failed):
            if event.ordinal is None:
                raise CorpusError(f"{file.name} cannot be read: {event.reason}")
            warn(f"Page {event.ordinal} cannot be read: {event.reason}")
        elif isinstance(event, ItemCount):
            total = 1 if page else event.items
        elif isinstance(event, Converted):
            yield event.item, total
