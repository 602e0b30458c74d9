"""`vrag eval report`: what came of runs, as a page to browse, Markdown and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.eval.report_pages import (
    SHOWN,
    Pictures,
    page_image_of,
    searched_of,
    store_of,
    tell_files,
    thumbnails_asked,
    write_page,
)
from vrag.cli.terminal.console import Json, emit_json, say, show_table, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.evaluation.report import Thumbnails
    from vrag.evaluation.result_store import Evaluation
    from vrag.factory import Session

__all__ = ["WrittenReport", "report", "tell_report_of", "write_report"]

TOLD = (*SHOWN, "region_recall@5", "region_precision@5", "abstention_precision", "abstention_recall")
"""Measures that the terminal shows."""


@dataclass(frozen=True)
class WrittenReport:
    """A report on disk."""

    files: tuple[Path, ...]
    summary: Mapping[str, Any]
    left: int = 0
    """Pictures that there was no room for."""
    unfinished: str = ""
    """How far it came, in a sentence, where it was stopped."""


def report(
    folder: Path = typer.Argument(..., help="A folder of `vrag eval run`."),
    pictures: str | None = Pictures,
    as_json: bool = Json,
) -> None:
    """Write the report of an evaluation anew: report.html, report.md and report.json in its folder.

    Examples of use:

      vrag eval report results

      vrag eval report results --pictures 8MB
    """
    from vrag.evaluation.result_store import read_evaluation

    thumbnails = thumbnails_asked(pictures)
    done = read_evaluation(folder)
    written = write_report(done, folder, searched_of(done.conditions), thumbnails=thumbnails)
    if as_json:
        emit_json({"files": list(map(str, written.files)), **written.summary})
    else:
        tell_report_of(written)


def write_report(
    done: Evaluation, folder: Path, session: Session | None = None, *, thumbnails: Thumbnails | None = None
) -> WrittenReport:
    """Writes the report of an evaluation into its folder.

    Args:
        done: The evaluation.
        folder: Its folder.
        session: What was searched, for pictures of gold pages that no run was shown.
        thumbnails: Which pictures go in, and how many bytes of them.
    """
    from vrag.evaluation.report import report_page
    from vrag.evaluation.report.run_facts import facts_of, title_of, unfinished_of
    from vrag.evaluation.statistics.summary import summarise

    summary = summarise(done.records)
    parts, unfinished = done.conditions.benchmarks, unfinished_of(done.conditions, len(done.records))
    page = report_page(
        title_of(parts),
        done.records,
        summary,
        facts=facts_of(done.conditions),
        notes=[note for part in parts for note in part.notes],
        reported={part.name: part.measures for part in parts},
        store=store_of(folder),
        page_image=page_image_of(session),
        thumbnails=thumbnails,
        unfinished=unfinished,
    )
    files = write_page(page, folder, "report")
    return WrittenReport(files, summary.as_dict(), page.thumbnails.left, unfinished)


def tell_report_of(written: WrittenReport, *, again: str = "") -> None:
    """Prints the headline of a report, and where it is."""
    if not written.summary["records"]:
        say("No question was asked yet.")
        return
    rows: list[tuple[str, ...]] = []
    for name in TOLD:
        if found := written.summary["measures"].get(name):
            low, high = found.get("low"), found.get("high")
            star = "*" if found.get("few") else ""
            spread = "" if low is None or high is None else f"{low:.3f} – {high:.3f}{star}"
            rows.append((name, f"{found['mean']:.3f}", spread, str(found["n"])))
    show_table(["measure", "mean", "95 %", "n"], rows)
    if any(row[2].endswith("*") for row in rows):
        say("* of fewer than six documents, which say little about others.")
    told = ", ".join(f"{count} {name}" for name, count in written.summary["outcomes"].items() if count)
    say(f"{told}.")
    if written.unfinished:
        warn(written.unfinished)
    tell_files(written.files, written.left, again)
