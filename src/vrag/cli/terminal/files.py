"""Files on the command line: paths, files of questions, and output.

Output is written completely or not at all; Markdown has its pictures in a folder next to it.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.options import parse_path
from vrag.cli.terminal.console import echo, plain, relative_path, warn
from vrag.cli.terminal.progress import progress_line
from vrag.errors import CaseError, RunError
from vrag.factory.session import evidence_sources
from vrag.render.exports import Format
from vrag.render.place_links import PlaceLinks, file_links
from vrag.render.text_format import size
from vrag.text.numerals import count

if TYPE_CHECKING:
    from vrag.agent.runs.run_store import StoredRun
    from vrag.render.annotations.evidence_export import EvidenceExport, EvidenceFormat
    from vrag.render.annotations.evidence_sources import EvidenceSources
    from vrag.render.report import Report
    from vrag.settings import Settings
    from vrag.types import Case, Document

STDOUT = "-"
UNFINISHED = ".part"
"""Suffix of a file that is being written."""
STALE_SECONDS = 60.0
"""Age of an unfinished file after which its writer was killed."""
PDF_SUFFIX = ".pdf"
SUFFIXES = {
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".json": Format.JSON,
}


def exists(word: str | Path) -> bool:
    """Return whether a word names something on disk; a long question is too long for a file name."""
    try:
        return os.path.lexists(word)
    except (OSError, ValueError):
        return False


def read_questions(path: Path, limit: int | None = None) -> list[Case]:
    """Read the first `limit` questions of a file of any kind that `vrag data convert` reads."""
    from vrag.datasets.registry import open_cases

    cases = list(islice(open_cases(path)[1], limit))
    if not cases:
        raise CaseError(f"{path} has no questions.")
    return cases


def warn_missing_documents(cases: Sequence[Case], documents: Iterable[Document]) -> None:
    """Print how many questions are about documents that are not searched: asking them is a waste.

    Without documents nothing is known, as where a server searches.
    """
    from vrag.evaluation.result_store import searched_for

    searched = searched_for(cases, documents)
    if searched is None or not searched.absent:
        return
    questions = f"{count(searched.questions, 'question')} {'is' if searched.questions == 1 else 'are'}"
    names = ", ".join(plain(name, 80) for name in searched.absent[:3])
    more = " …" if len(searched.absent) > 3 else ""
    warn(f"{questions} about documents that could not be read or are not searched: {names}{more}")


def format_of(out: str | None) -> Format | None:
    """Return the format that the suffix of a file stands for, if any."""
    return SUFFIXES.get(Path(out or "").suffix.lower())


def check_out(out: str, *, as_json: bool) -> None:
    """Refuse a place that cannot be written, before any work is done for it."""
    if out == STDOUT and as_json:
        raise typer.BadParameter("Standard output can take the document or --json, not both.")
    if out != STDOUT:
        target = parse_path(out)
        if target.is_dir():
            raise _write_error(target, IsADirectoryError(errno.EISDIR, ""))
        if not target.parent.is_dir():
            raise _write_error(target, FileNotFoundError(errno.ENOENT, ""))


def save_report(report: Report, out: str, format: Format, *, inline: bool) -> dict[str, Any]:
    """Write a report to a file, or print it with its pictures inside; return the facts for `--json`."""
    facts: dict[str, Any] = {
        "pictures": len(report.image_store.stored_images),
        "missing": len(report.image_store.missing),
    }
    if format is Format.HTML:
        return write_file(out, report.html.encode()) | facts
    target = None if inline or out == STDOUT else parse_path(out)
    folder = target.with_name(f"{target.stem}_files") if target else None
    text, files, pictures = report.markdown(folder.name if folder else "")
    if folder and files:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise _write_error(folder, error) from error
        for name, data in files.items():
            write_file(str(folder / name), data)
    facts |= {"pictures": pictures, "folder": str(folder) if folder and files else None}
    return write_file(out, text.encode()) | facts


def place_links(
    settings: Settings,
    runs: Sequence[StoredRun],
    out: str,
    server: str,
    export: EvidenceExport | None = None,
) -> PlaceLinks:
    """Return the links of a document: to places at a server, and to PDF files in its folder."""
    if out == STDOUT or settings.search_url:
        return PlaceLinks(server)
    sources = evidence_sources(settings, runs)
    return PlaceLinks(server, file_links(runs, parse_path(out), sources, export))


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or that holds files already, before any work is done for it."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise _write_error(folder, NotADirectoryError(errno.ENOTDIR, ""))
    if not folder.parent.is_dir():
        raise _write_error(folder.parent, FileNotFoundError(errno.ENOENT, ""))
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise RunError(
            f"The folder {folder} holds files already.",
            "Choose another one with --out, or replace files of the same names with --overwrite.",
        )


def save_evidence(
    runs: Sequence[StoredRun],
    sources: EvidenceSources,
    folder: Path,
    formats: Sequence[EvidenceFormat],
    *,
    title: str = "",
    quiet: bool = False,
) -> EvidenceExport:
    """Write the evidence of runs to files in a folder, which is created, and show how far it is.

    Raises `RunError` if the runs cite nothing, nothing of it can be written, or the folder cannot be.
    """
    from vrag.render.annotations.evidence_export import export_evidence

    try:
        folder.mkdir(exist_ok=True)
        with progress_line(quiet=quiet) as progress:
            return export_evidence(runs, sources, folder, formats, title=title, progress=progress)
    except OSError as error:
        raise _write_error(folder, error) from error
    finally:
        with suppress(OSError):
            folder.rmdir()  # if nothing was written


def print_evidence(export: EvidenceExport) -> None:
    """Print which files of evidence were written, and what is to be known of them."""
    echo(("Written", "bold"), f" to {plain(relative_path(export.folder))}: {export.summary}")
    for file in export.files:
        if file.name.endswith(PDF_SUFFIX):
            numbers = " ".join(f"[{number}]" for number in file.citations)
            echo(f"  {plain(file.name)}  ", (plain(numbers, 100), "dim"))
    for note in export.notes:
        warn(note)


def write_file(out: str, data: bytes) -> dict[str, Any]:
    """Write a file completely or not at all, or print it; delete what killed writers of it left."""
    if out == STDOUT:
        sys.stdout.buffer.write(data)
        return {}
    target = parse_path(out)
    prefix = f".{target.name[:50]}."  # at most 4 bytes per character, and a name can have 255 bytes
    unfinished = target.parent / f"{prefix}{secrets.token_hex(4)}{UNFINISHED}"
    try:
        for stale in target.parent.glob(f"{glob.escape(prefix)}????????{UNFINISHED}"):
            with suppress(OSError):
                if time.time() - stale.stat().st_mtime > STALE_SECONDS:
                    stale.unlink()
        unfinished.write_bytes(data)
        unfinished.replace(target)
    except OSError as error:
        raise _write_error(target, error) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return {"file": str(target), "bytes": len(data)}


def print_saved(facts: dict[str, Any], reasons: Iterable[str] = ()) -> None:
    """Print which file was written, and why pictures are missing in it; nothing for printed documents."""
    if "file" in facts:
        where = f" to {plain(relative_path(Path(facts['file'])))}: {size(facts['bytes'])}"
        folder = f" in {plain(relative_path(Path(facts['folder'])))}" if facts.get("folder") else ""
        pictures = f", {count(facts['pictures'], 'picture')}{folder}" if "pictures" in facts else ""
        echo(("Written", "bold"), where + pictures)
    if facts.get("missing"):
        warn(f"{facts['missing']} pictures are missing. {' '.join(dict.fromkeys(reasons))}")


def _write_error(target: Path, error: OSError) -> RunError:
    reason = os.strerror(error.errno or 0)
    return RunError(f"{target} cannot be written: {reason}.", "Choose another place with --out.")
