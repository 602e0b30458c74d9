"""`vrag convert`: one document as Markdown or JSON."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from vrag.atomic_io import write_whole
from vrag.cli import options as opt
from vrag.cli.tables import convert_items, find_item_tables
from vrag.cli.terminal.console import echo, err, plain, warn
from vrag.factory.indexing import corpus_options
from vrag.item_facts import describe_unread
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from vrag.cli.convert.converted_document import ConvertedItem
    from vrag.corpus.converter import CorpusOptions


class DocumentFormat(StrEnum):
    """The format of a converted document."""

    MARKDOWN = "markdown"
    JSON = "json"


def convert(
    file: Annotated[Path, typer.Argument(help="A document of any kind that `vrag index add` reads.")],
    format: Annotated[
        DocumentFormat, typer.Option("--format", "-f", help="Format of the output.")
    ] = DocumentFormat.MARKDOWN,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write to, in place of standard output.")
    ] = None,
    ocr: opt.OcrOption = None,
    dpi: opt.DpiOption = None,
    workers: opt.WorkersOption = None,
) -> None:
    """Convert a document to Markdown or JSON, without a model and without a collection.

    The text is what `vrag index add` reads: of PDF files and office documents page by page, with OCR where a
    page has no text; of web pages, mail and books section by section. Tables are Markdown tables. A comment
    `<!-- page 3 -->` begins each page. JSON has every word and cell with its box, as fractions of the page.

    What is seen and not read is named on standard error.

    Examples:

    vrag convert report.pdf -o report.md

    vrag convert mail.eml --format json
    """
    from vrag.cli.convert.converted_document import document_facts, write_document
    from vrag.reading.page_faults import collect_page_faults

    options = corpus_options(opt.load_flags(locals()).settings)
    with collect_page_faults() as faults:
        converted = _convert(file, options)
    for fault in faults:
        warn(fault)
    items = [one.item for one in converted]
    unread = {item.ordinal: item.facts.unread for item in items}
    for sentence in describe_unread(unread, {item.ordinal: item.kind for item in items}, len(items)):
        warn(sentence)
    if format is DocumentFormat.JSON:
        text = json.dumps(document_facts(file.name, converted), ensure_ascii=False, indent=1) + "\n"
    else:
        text = write_document(converted)
    if output is None:
        print(text, end="")
        return
    write_whole(output, text.encode("utf-8", "replace"))
    echo(f"Wrote {plain(str(output))}.")


def _convert(file: Path, options: CorpusOptions) -> list[ConvertedItem]:
    """Convert a file and find its tables, with the progress on a terminal."""
    from vrag.cli.convert.converted_document import ConvertedItem

    converted: list[ConvertedItem] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar,
        scratch_directory() as folder,
    ):
        task = bar.add_task("Converting", total=None)
        for item, total in convert_items(file, None, options, folder):
            converted.append(ConvertedItem(item, find_item_tables(item, folder)))
            bar.update(task, completed=len(converted), total=total)
    return sorted(converted, key=lambda one: one.item.ordinal)
