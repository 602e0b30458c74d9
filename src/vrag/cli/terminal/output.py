"""Documents on disk: whole or not at all, Markdown with its pictures in a folder beside it."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.terminal.console import file_uri, named_path, plain, say, warn
from vrag.errors import RunError
from vrag.render.exports import Format

if TYPE_CHECKING:
    from vrag.render.report import Report

__all__ = ["STDOUT", "Inline", "check_out", "format_of", "save_report", "tell_saved", "write_file"]

STDOUT = "-"
UNFINISHED = ".part"
"""What the name of a file ends with that is being written."""
REST_SECONDS = 60.0
"""Without a change, after which whoever wrote it was killed."""
SUFFIXES = {".html": Format.HTML, ".htm": Format.HTML, ".md": Format.MARKDOWN, ".markdown": Format.MARKDOWN}
Inline = typer.Option(
    False, "--inline", help="Markdown: the pictures in the file itself, as data, not in a folder beside it."
)


def format_of(out: str | None) -> Format | None:
    """What a file is written in, by its suffix; None where that says nothing."""
    suffix = Path(out or "").suffix.lower()
    return Format.JSON if suffix == ".json" else SUFFIXES.get(suffix)


def check_out(out: str, *, as_json: bool) -> None:
    """Refuses a place that cannot be written, before any work is done for it.

    Raises:
        RunError: If there is no such folder, or it is one.
    """
    if out == STDOUT and as_json:
        raise typer.BadParameter("Standard output has room for the document or for --json, not for both.")
    if out != STDOUT:
        target = named_path(out)
        if target.is_dir():
            raise _refused(target, IsADirectoryError(errno.EISDIR, ""))
        if not target.parent.is_dir():
            raise _refused(target, FileNotFoundError(errno.ENOENT, ""))


def save_report(report: Report, out: str, format: Format, *, inline: bool) -> dict[str, Any]:
    """Writes a report to a file, or prints it; Markdown that is printed has its pictures inside.

    Returns:
        What was written, for `--json`.

    Raises:
        RunError: If a place cannot be written.
    """
    facts: dict[str, Any] = {
        "pictures": len(report.image_store.stored_images),
        "missing": len(report.image_store.missing),
    }
    if format is Format.HTML:
        return write_file(out, report.html.encode()) | facts
    target = None if inline or out == STDOUT else named_path(out)
    folder = target.with_name(f"{target.stem}_files") if target else None
    text, files, pictures = report.markdown(folder.name if folder else "")
    if folder and files:
        _make(folder)
        for name, data in files.items():
            write_file(str(folder / name), data)
    beside = {"folder": str(folder) if folder and files else None}
    return write_file(out, text.encode()) | facts | {"pictures": pictures} | beside


def write_file(out: str, data: bytes) -> dict[str, Any]:
    """Writes a file whole or not at all, or prints it; what killed writers of it left is taken away.

    Raises:
        RunError: If the place cannot be written.
    """
    if out == STDOUT:
        sys.stdout.buffer.write(data)
        return {}
    target = named_path(out)
    beside = f".{target.name[:50]}."  # of four bytes each at most, and a name has 255
    unfinished = target.parent / f"{beside}{secrets.token_hex(4)}{UNFINISHED}"
    try:
        _sweep(target.parent, beside)
        unfinished.write_bytes(data)
        unfinished.replace(target)
    except OSError as error:
        raise _refused(target, error) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return {"file": str(target), "bytes": len(data)}


def _sweep(folder: Path, beside: str) -> None:
    """Takes away what was left unfinished; another process may be writing what is young."""
    for rest in folder.glob(f"{glob.escape(beside)}????????{UNFINISHED}"):
        with suppress(OSError):
            if time.time() - rest.stat().st_mtime > REST_SECONDS:
                rest.unlink()


def tell_saved(facts: dict[str, Any], reasons: tuple[str, ...]) -> None:
    """Prints what was written where, and which pictures are not in it.

    Args:
        facts: What writing returned; nothing is told of what was printed.
        reasons: Why pictures are missing.
    """
    from vrag.render.text_format import count, size

    if "file" in facts:
        where = f" to {plain(file_uri(Path(facts['file'])))}: {size(facts['bytes'])}"
        beside = f" in {plain(file_uri(Path(facts['folder'])))}" if facts.get("folder") else ""
        pictures = f", {count(facts['pictures'], 'picture')}{beside}" if "pictures" in facts else ""
        say(("Written", "bold"), where + pictures)
    if facts.get("missing"):
        warn(f"{facts['missing']} pictures are not in it. {' '.join(reasons)}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error


def _refused(target: Path, error: OSError) -> RunError:
    reason = os.strerror(error.errno or 0)
    return RunError(f"{target} cannot be written: {reason}.", "Choose another place with --out.")
