"""`vrag corpus`: pages and clips as files, without a collection."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from vrag.cli.terminal.console import Json, emit_json, err, plain, say, warn
from vrag.errors import CorpusError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from vrag.corpus.export import Exported, ExportProblem

__all__ = ["app"]

app = typer.Typer(help="Make files of documents: pages as pictures, videos as clips.", no_args_is_help=True)

Out = typer.Option(..., "--out", "-o", help="Folder to write to.")
Overwrite = typer.Option(False, "--overwrite", help="Replace files that are there already.")
Workers = typer.Option(None, help="Processes that read files; 0 for one per core.")


@app.command()
def convert(
    paths: list[Path] = typer.Argument(..., help="Documents, pictures, and folders of them."),
    out: Path = Out,
    dpi: float | None = typer.Option(None, help="Resolution of rendered pages, per inch."),
    workers: int | None = Workers,
    overwrite: bool = Overwrite,
    as_json: bool = Json,
) -> None:
    """Write every page of PDF files, office documents and pictures as <stem>_<page>.jpg, from 1.

    Where several documents have the same stem, those after the first are named <stem>-2 and so on.
    What cannot be read is listed with the reason; the exit status is 1 only when no file was written.
    """
    from vrag.corpus.export import export_pages
    from vrag.factory import corpus_options

    options = corpus_options(load_settings(dpi=dpi, workers=workers).settings)
    _tell(export_pages(paths, out, options, overwrite=overwrite), out, "pages", as_json=as_json)


@app.command()
def split(
    paths: list[Path] = typer.Argument(..., help="Videos, and folders of them."),
    out: Path = Out,
    seconds: float = typer.Option(60.0, "--seconds", "-d", min=1.0, help="Length that clips aim at."),
    workers: int | None = Workers,
    overwrite: bool = Overwrite,
    as_json: bool = Json,
) -> None:
    """Cut videos into clips named <stem>_<clip>.mp4 (mov, mkv, webm), from 1, without coding them anew.

    Clips begin at key frames and can be longer than asked for; none loses or repeats a frame.
    """
    from dataclasses import replace

    from vrag.corpus.export import export_clips
    from vrag.factory import corpus_options

    options = replace(corpus_options(load_settings(workers=workers).settings), clip_seconds=seconds)
    _tell(export_clips(paths, out, options, overwrite=overwrite), out, "clips", as_json=as_json)


def _tell(events: Iterator[Exported | ExportProblem], out: Path, what: str, *, as_json: bool) -> None:
    """Reports a run: progress while it goes on, then what was written and what was not."""
    from vrag.corpus.export import Exported

    written: list[Exported] = []
    problems: list[ExportProblem] = []
    with _progress(what) as report:
        for event in events:
            if isinstance(event, Exported):
                written.append(event)
                report(len(written), event.path.name)
            else:
                problems.append(event)
    written.sort(key=lambda file: (str(file.source), file.ordinal))
    if as_json:
        emit_json({"files": [_record(file) for file in written], "problems": [_trouble(p) for p in problems]})
    else:
        documents = Counter(file.source for file in written)
        say(f"Wrote {len(written)} {what} of {len(documents)} files to {plain(str(out))}.")
        for problem in problems:
            page = f" ({problem.ordinal})" if problem.ordinal else ""
            warn(f"{problem.source}{page}: {problem.reason}")
    if not written:
        raise CorpusError(f"No {what} could be made.", "See the reasons above." if problems else "")


def _record(file: Exported) -> dict[str, Any]:
    record: dict[str, Any] = {"path": str(file.path), "source": str(file.source), "number": file.ordinal}
    if file.size:
        record |= {"width": file.size.width, "height": file.size.height}
    if file.clip:
        record |= {"start": file.clip.start, "end": file.clip.end}
    return record


def _trouble(problem: ExportProblem) -> dict[str, Any]:
    return {"source": str(problem.source), "number": problem.ordinal, "reason": problem.reason}


@contextmanager
def _progress(what: str) -> Generator[Callable[[int, str], None]]:
    """A line on the standard error stream; nothing where that is no terminal."""
    if not err.is_terminal:
        yield _say_nothing
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("Reading", total=None)
        yield lambda count, name: bar.update(task, description=f"{count} {what} · {plain(name, 40)}")


def _say_nothing(count: int, name: str) -> None:
    """Progress where nobody looks."""
