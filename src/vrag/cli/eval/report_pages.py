"""What the pages of evaluations and comparisons are made from, and how they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.terminal.console import file_uri, plain, say
from vrag.cli.terminal.output import write_file
from vrag.errors import RunError
from vrag.render.text_format import count, size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from PIL.Image import Image

    from vrag.agent.runs.run_store import RunStore
    from vrag.evaluation.report import ComparisonPage, ReportPage, Thumbnails
    from vrag.evaluation.result_store import Conditions
    from vrag.factory import Session

__all__ = [
    "RUNS",
    "SHOWN",
    "Pictures",
    "page_image_of",
    "searched_of",
    "store_of",
    "tell_files",
    "thumbnails_asked",
    "write_page",
]

Pictures = typer.Option(
    None,
    "--pictures",
    metavar="all|evidence|none|SIZE",
    help="Pictures of pages in the page: all, those of evidence alone, none, or as many as fit into a size.",
    show_default="24MB",
)
RUNS = "runs"
SHOWN = (
    *("accuracy", "em", "f1", "anls", "mmlongbench", "recall@5", "ndcg@5", "seen_recall"),
    *("centre", "iou", "box_area"),
)
"""Measures that comparisons compare; the report has all of them."""


def tell_files(files: Sequence[Path], left: int, again: str = "") -> None:
    """Prints where a page is and how large, and how many pictures there was no room for.

    Args:
        files: The page first.
        left: Pictures that were left out.
        again: The command that has them, where it is another one.
    """
    for path in files[:1]:
        room = f", {count(left, 'picture')} left out: {again}--pictures all has them" if left else ""
        told = f" {plain(file_uri(path.resolve()))} ({size(path.stat().st_size)}{room})"
        say(("Written", "bold"), told)


def thumbnails_asked(wanted: str | None) -> Thumbnails | None:
    """The pictures that were asked for; None for as many as is usual."""
    from vrag.evaluation.report.thumbnails import thumbnails_of

    try:
        return None if wanted is None else thumbnails_of(wanted)
    except ValueError as error:
        raise typer.BadParameter(f"--pictures {error}.") from error


def searched_of(conditions: Conditions) -> Session | None:
    """What was searched; None where it is gone, is another one by now, or a server searched."""
    from vrag.errors import VragError
    from vrag.evaluation.blank_searcher import BLANK
    from vrag.factory import open_session
    from vrag.settings import load_settings

    if not conditions.places:
        return None
    try:
        session = open_session(load_settings(collections=conditions.places, search_url="").settings)
        version = session.searcher.version
    except VragError:  # it is for pictures alone
        return None
    return session if str(conditions.made_with.get("collection")).removesuffix(BLANK) == version else None


def store_of(folder: Path) -> RunStore | None:
    """The runs of an evaluation; None where they are gone."""
    from vrag.agent.runs.run_store import RunStore

    return RunStore(folder / RUNS) if (folder / RUNS).is_dir() else None


def page_image_of(session: Session | None) -> Callable[[str, int], Image | None] | None:
    """Pictures of pages by file name and number; None where nothing is there to draw them from."""
    if session is None:
        return None
    from vrag.errors import VragError
    from vrag.types import item_id

    ids = {document.name: document.id for document in session.documents if document.items}

    def page(name: str, number: int) -> Image | None:
        if (id := ids.get(name)) is None:
            return None
        try:
            return session.searcher.image(item_id(id, number))
        except VragError:  # a gold page that the document does not have, or that could not be drawn
            return None

    return page


def write_page(page: ReportPage | ComparisonPage, folder: Path, stem: str) -> tuple[Path, ...]:
    """Writes a page as HTML, Markdown and JSON, each whole or not at all; the HTML first."""
    texts = {
        "html": page.html,
        "md": page.markdown,
        "json": json.dumps(page.as_dict(), ensure_ascii=False, indent=1) + "\n",
    }
    try:
        for suffix, text in texts.items():
            write_file(str(folder / f"{stem}.{suffix}"), text.encode())
    except RunError as error:
        raise RunError(error.message, "Make room, or mend the rights of the folder.") from error
    return tuple(folder / f"{stem}.{suffix}" for suffix in texts)
