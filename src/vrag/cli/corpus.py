"""`vrag corpus`: pages and clips as files, without a collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, err, plain, print_result, warn
from vrag.corpus.export import Exported, ExportProblem, export_clips, export_pages
from vrag.errors import CorpusError
from vrag.factory.indexing import corpus_options

app = typer.Typer(help="Export documents as files: pages as pictures, videos as clips.", no_args_is_help=True)

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Output folder.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]


@app.command()
def convert(
    out: OutOption,
    paths: list[Path] = typer.Argument(..., help="Documents, pictures, and folders of them."),
    dpi: opt.DpiOption = None,
    workers: opt.WorkersOption = None,
    overwrite: OverwriteOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Write every page of PDF files, office documents and pictures as <stem>_<page>.jpg, counted from 1.

    If several documents have the same stem, the second one is named <stem>-2, and so on. Files that cannot
    be read are listed with the reason; the exit status is 1 only if no file was written.

    Example: vrag corpus convert ./reports --out pages
    """
    options = corpus_options(opt.load_flags(locals()).settings)
    _export(export_pages(paths, out, options, overwrite=overwrite), out, "pages", as_json=as_json)


@app.command()
def split(
    out: OutOption,
    paths: list[Path] = typer.Argument(..., help="Videos, and folders of them."),
    seconds: float = typer.Option(
        60.0, "--seconds", "-d", min=1.0, help="Target length of a clip, in seconds."
    ),
    workers: opt.WorkersOption = None,
    overwrite: OverwriteOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Cut videos into clips named <stem>_<clip>.mp4 (mov, mkv, webm), counted from 1, without re-encoding.

    Clips begin at key frames, so they can be longer than requested; no frame is lost or repeated.

    Example: vrag corpus split ./videos --out clips --seconds 30
    """
    options = replace(corpus_options(opt.load_flags(locals()).settings), clip_seconds=seconds)
    _export(export_clips(paths, out, options, overwrite=overwrite), out, "clips", as_json=as_json)


def _export(events: Iterator[Exported | ExportProblem], out: Path, noun: str, *, as_json: bool) -> None:
    """Export files: show the progress on a terminal, then print what was written and what failed."""
    written: list[Exported] = []
    problems: list[ExportProblem] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("Reading", total=None)
        for event in events:
            if isinstance(event, Exported):
                written.append(event)
                bar.update(task, description=f"{len(written)} {noun} · {plain(event.path.name, 40)}")
            else:
                problems.append(event)
    written.sort(key=lambda file: (str(file.source), file.ordinal))

    def render() -> None:
        documents = Counter(file.source for file in written)
        echo(f"Wrote {len(written)} {noun} of {len(documents)} files to {plain(str(out))}.")
        for problem in problems:
            page = f" ({problem.ordinal})" if problem.ordinal else ""
            warn(f"{problem.source}{page}: {problem.reason}")

    failures = [{"source": str(p.source), "number": p.ordinal, "reason": p.reason} for p in problems]
    facts = {"files": [_file_facts(file) for file in written], "problems": failures}
    print_result(facts, render, as_json=as_json)
    if not written:
        raise CorpusError(f"No {noun} were written.", "See the reasons above." if problems else "")


def _file_facts(file: Exported) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": str(file.path), "source": str(file.source), "number": file.ordinal}
    if file.size:
        facts |= {"width": file.size.width, "height": file.size.height}
    if file.clip:
        facts |= {"start": file.clip.start, "end": file.clip.end}
    return facts
