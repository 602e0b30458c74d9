"""`vrag convert`: documents as Markdown or JSON."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from vrag.atomic_io import write_whole
from vrag.cli import options as opt
from vrag.cli.tables import convert_items, find_item_tables
from vrag.cli.terminal.console import echo, err, plain, warn
from vrag.errors import CorpusError
from vrag.factory.indexing import corpus_options
from vrag.item_facts import describe_unread
from vrag.scratch import scratch_directory
from vrag.text.numerals import count

if TYPE_CHECKING:
    from vrag.cli.convert.converted_document import ConvertedItem
    from vrag.corpus.converter import CorpusOptions


class DocumentFormat(StrEnum):
    """The format of a converted document."""

    MARKDOWN = "markdown"
    JSON = "json"


SUFFIXES = {DocumentFormat.MARKDOWN: ".md", DocumentFormat.JSON: ".json"}
"""Suffixes of the files that are written to a folder."""


def convert(
    files: Annotated[
        list[Path],
        typer.Argument(help="Documents of any kind that `vrag index add` reads."),
    ],
    format: Annotated[
        DocumentFormat, typer.Option("--format", "-f", help="Format of the output.")
    ] = DocumentFormat.MARKDOWN,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write to, in place of standard output; for several files, a folder.",
        ),
    ] = None,
    ocr: opt.OcrOption = None,
    dpi: opt.DpiOption = None,
    workers: opt.WorkersOption = None,
) -> None:
    """Convert documents to Markdown or JSON, without a model and without a collection.

    The text is what `vrag index add` reads, with OCR where a page has none. Headings, lists and tables are
    those of Markdown, and a comment `<!-- page 3 -->` begins each page. JSON has every word and cell with its
    box, as fractions of the page. What is seen and not read is named on standard error.

    Several files are written to a folder as <stem>.md (json); one that cannot be read does not stop the
    others.

    Examples:

    vrag convert report.pdf -o report.md

    vrag convert *.docx *.pdf -o converted
    """
    options = corpus_options(opt.load_flags(locals()).settings)
    if len(files) == 1 and not (output is not None and output.is_dir()):
        text = _convert_to_text(files[0], format, options)
        if output is None:
            print(text, end="")
        else:
            _write(output, text)
        return
    failed = 0
    for file, target in _targets(files, output, SUFFIXES[format]).items():
        try:
            _write(target, _convert_to_text(file, format, options))
        except CorpusError as error:
            warn(str(error))
            failed += 1
    if failed:
        raise CorpusError(f"{failed} of {count(len(files), 'file')} cannot be read.")


def _targets(files: list[Path], output: Path | None, suffix: str) -> dict[Path, Path]:
    """Return the file that is written for each of several files, in a folder that is made if needed.

    Raises `CorpusError` if no folder is named, or two files would be written to one.
    """
    if output is None:
        raise CorpusError("Several files need a folder to be written to.", "Name it with --output FOLDER.")
    if output.exists() and not output.is_dir():
        raise CorpusError(f"{output} is not a folder.", "Name a folder for several files with --output.")
    stems = Counter(file.stem.casefold() for file in files)
    targets: dict[Path, Path] = {}
    for file in files:
        name = file.stem if stems[file.stem.casefold()] == 1 else file.name
        if (target := output / f"{name}{suffix}") in targets.values():
            raise CorpusError(f"Two files would be written to {target}.", "Convert them one by one.")
        targets[file] = target
    output.mkdir(parents=True, exist_ok=True)
    return targets


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "replace"))
    echo(f"Wrote {plain(str(path))}.")


def _convert_to_text(file: Path, format: DocumentFormat, options: CorpusOptions) -> str:
    """Return a document as Markdown or JSON; warn of what is not read."""
    from vrag.cli.convert.converted_document import document_facts, write_document
    from vrag.reading.page_faults import collect_page_faults

    if str(file) == "-":
        raise CorpusError(
            "Standard input is not read: the kind of a document is known by its suffix.",
            "Save it to a file, such as report.pdf, and name that.",
        )
    with collect_page_faults() as faults:
        converted = _convert(file, options)
    for fault in faults:
        warn(fault)
    items = [one.item for one in converted]
    unread = {item.ordinal: item.facts.unread for item in items}
    for sentence in describe_unread(unread, {item.ordinal: item.kind for item in items}, len(items)):
        warn(f"{file.name}: {sentence}")
    if format is DocumentFormat.JSON:
        return json.dumps(document_facts(file.name, converted), ensure_ascii=False, indent=1) + "\n"
    return write_document(converted)


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
