"""`vrag eval report`: the results of a run, as a page to browse, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrag.agent.runs.run_store import RunStore
from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, print_table, relative_path, warn
from vrag.cli.terminal.files import write_file
from vrag.errors import RunError, VragError
from vrag.evaluation.measures.run_measures import TRUST
from vrag.evaluation.report import ComparisonPage, ReportPage, Thumbnails, report_page
from vrag.evaluation.report.images import thumbnails_of
from vrag.evaluation.report.labels import facts_of, title_of, unfinished_of
from vrag.evaluation.result_store import Conditions, Evaluation, read_evaluation
from vrag.evaluation.retrieval import BLANK
from vrag.evaluation.summary import summarise
from vrag.factory.session import Session, open_session
from vrag.render.text_format import size
from vrag.settings import load_settings
from vrag.text.numerals import count
from vrag.types import item_id

if TYPE_CHECKING:
    from PIL.Image import Image

RUNS = "runs"
"""Folder of the runs in the folder of an evaluation."""
MEASURES = (
    "accuracy",
    *TRUST,
    "em",
    "f1",
    "anls",
    "mmlongbench",
    "recall@5",
    "ndcg@5",
    "seen_recall",
    "centre",
    "iou",
    "box_area",
    "region_f1",
    "chain_complete",
)
"""Measures of the terminal and of comparisons; the report has all of them."""

PicturesOption = Annotated[
    str | None,
    typer.Option(
        "--pictures",
        metavar="all|evidence|none|SIZE",
        help="Pictures in the page: all, only those of evidence, none, or as many as fit into a size.",
        show_default="24MB",
    ),
]


@dataclass(frozen=True)
class WrittenReport:
    """A report on disk."""

    files: tuple[Path, ...]
    """The HTML page first."""
    summary: Mapping[str, Any]
    omitted_pictures: int = 0
    """Number of pictures that did not fit."""
    unfinished: str = ""
    """A sentence about a run that was stopped; else empty."""


def report(
    folder: opt.EvaluationArgument, pictures: PicturesOption = None, as_json: opt.JsonOption = False
) -> None:
    """Write the report of an evaluation again: report.html, report.md and report.json in its folder.

    Examples:

      vrag eval report results

      vrag eval report results --pictures 8MB
    """
    thumbnails = parse_pictures(pictures)
    evaluation = read_evaluation(folder)
    session = reopen_session(evaluation.conditions)
    written = write_report(evaluation, folder, session, thumbnails=thumbnails)
    if as_json:
        print_json({"files": list(map(str, written.files)), **written.summary})
    else:
        print_summary(written)


def write_report(
    evaluation: Evaluation,
    folder: Path,
    session: Session | None = None,
    *,
    thumbnails: Thumbnails | None = None,
) -> WrittenReport:
    """Write the report of an evaluation into its folder.

    `session` is the one that was searched, for pictures of gold pages that no run has seen. `thumbnails` says
    which pictures to include, and their total size; None stands for the default.
    """
    conditions, records = evaluation.conditions, evaluation.records
    summary, unfinished = summarise(records), unfinished_of(conditions, len(records))
    page = report_page(
        title_of(conditions.benchmarks),
        records,
        summary,
        facts=facts_of(conditions),
        notes=[note for part in conditions.benchmarks for note in part.notes],
        reported={part.name: part.measures for part in conditions.benchmarks},
        store=store_of(folder),
        page_image=page_image_of(session),
        thumbnails=thumbnails,
        unfinished=unfinished,
    )
    files = write_page(page, folder, "report")
    return WrittenReport(files, summary.as_dict(), page.thumbnails.left, unfinished)


def print_summary(written: WrittenReport, *, command: str = "") -> None:
    """Print the main measures of a report, and its file; `command` writes it with all pictures."""
    if not written.summary["records"]:
        echo("No question has been asked yet.")
        return
    rows: list[tuple[str, ...]] = []
    more = (
        "chain_complete_right",
        "region_recall@5",
        "region_precision@5",
        "abstention_precision",
        "abstention_recall",
    )
    for name in (*MEASURES, *more):
        if found := written.summary["measures"].get(name):
            interval = interval_text(found.get("low"), found.get("high"), few=bool(found.get("few")))
            rows.append((name, f"{found['mean']:.3f}", interval, str(found["n"])))
    print_table(["measure", "mean", "95 %", "n"], rows)
    if any(row[2].endswith("*") for row in rows):
        echo("* from fewer than six documents, which say little about others.")
    outcomes = written.summary["outcomes"].items()
    echo(f"{', '.join(f'{number} {name}' for name, number in outcomes if number)}.")
    if written.unfinished:
        warn(written.unfinished)
    print_files(written.files, written.omitted_pictures, command)


def interval_text(low: float | None, high: float | None, *, few: bool) -> str:
    """Format a confidence interval; a star marks one from few documents."""
    return "" if low is None or high is None else f"{low:.3f} – {high:.3f}{'*' if few else ''}"


def print_files(files: Sequence[Path], omitted_pictures: int, command: str = "") -> None:
    """Print the file and the size of a page, and how many pictures did not fit."""
    for path in files[:1]:
        pictures = count(omitted_pictures, "picture")
        omitted = f", without {pictures}; include all: {command}--pictures all" if omitted_pictures else ""
        text = f" {plain(relative_path(path.resolve()))} ({size(path.stat().st_size)}{omitted})"
        echo(("Written", "bold"), text)


def parse_pictures(text: str | None) -> Thumbnails | None:
    """Parse the option --pictures; None for the default size."""
    try:
        return None if text is None else thumbnails_of(text)
    except ValueError as error:
        raise typer.BadParameter(f"--pictures {error}.") from error


def reopen_session(conditions: Conditions) -> Session | None:
    """Open what an evaluation searched; None if it is gone or has changed, or a server searched."""
    if not conditions.places:
        return None
    try:
        session = open_session(load_settings(collections=conditions.places, search_url="").settings)
        version = session.searcher.version
    except VragError:  # the session is only needed for pictures
        return None
    return session if str(conditions.made_with.get("collection")).removesuffix(BLANK) == version else None


def store_of(folder: Path) -> RunStore | None:
    """Open the runs of an evaluation; None if they are gone."""
    return RunStore(folder / RUNS) if (folder / RUNS).is_dir() else None


def page_image_of(session: Session | None) -> Callable[[str, int], Image | None] | None:
    """Return a function that draws a page by file name and number; None without a session."""
    if session is None:
        return None

    ids = {document.name: document.id for document in session.documents if document.items}

    def page_image(name: str, number: int) -> Image | None:
        if (id := ids.get(name)) is None:
            return None
        try:
            return session.searcher.image(item_id(id, number))
        except VragError:  # the document does not have this gold page, or it could not be drawn
            return None

    return page_image


def write_page(page: ReportPage | ComparisonPage, folder: Path, stem: str) -> tuple[Path, ...]:
    """Write a page as HTML, Markdown and JSON, each completely or not at all; HTML is the first file."""
    texts = {
        "html": page.html,
        "md": page.markdown,
        "json": json.dumps(page.as_dict(), ensure_ascii=False, indent=1) + "\n",
    }
    try:
        for suffix, text in texts.items():
            write_file(str(folder / f"{stem}.{suffix}"), text.encode())
    except RunError as error:
        raise RunError(error.message, "Free some disk space or fix the permissions of the folder.") from error
    return tuple(folder / f"{stem}.{suffix}" for suffix in texts)
