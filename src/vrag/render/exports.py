"""Runs as files that can be handed on: a page, Markdown, or JSON for machines."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from vrag.render.formats import Format
from vrag.render.report import report_of
from vrag.render.run_page.page import page_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.runs.run_store import StoredRun
    from vrag.render.report import Report

__all__ = ["Download", "Format", "document_of", "export_of", "report_document"]

_NAME = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Download:
    """A file."""

    data: bytes
    media_type: str
    name: str
    """How it is called when it is saved: small letters, digits, hyphens and the suffix."""


def export_of(stored: StoredRun, format: Format | str = Format.HTML) -> Download:
    """A run as one file: its page with every step, a report of its one question, or its events.

    Args:
        stored: The run.
        format: What to write.

    Raises:
        ValueError: If there is no such format.
    """
    match Format(format):
        case Format.HTML:
            return _document(page_of(stored).html, Format.HTML, stored.id)
        case Format.MARKDOWN:
            return _document(report_of([stored]).markdown().text, Format.MARKDOWN, stored.id)
        case Format.JSON:
            return _document(_json(stored), Format.JSON, stored.id)


def report_document(
    runs: Sequence[StoredRun], title: str = "", format: Format | str = Format.HTML
) -> Download:
    """Runs as one report in one file.

    Args:
        runs: In the order in which they are told.
        title: Of the report; see `report_of`.
        format: `html` or `markdown`.

    Raises:
        ValueError: If there are no runs, or a report cannot be written in this format.
    """
    if Format(format) is Format.JSON:
        raise ValueError("a report is written as html or markdown")
    return document_of(report_of(runs, title=title), Format(format))


def document_of(report: Report, format: Format) -> Download:
    """A report in one file."""
    text = report.markdown().text if format is Format.MARKDOWN else report.html
    name = "-".join(_NAME.findall(report.title.lower()))[:60].strip("-")
    return _document(text, format, name or "report")


def _document(text: str, format: Format, name: str) -> Download:
    return Download(text.encode(), format.media_type, f"{name}{format.suffix}")


def _json(stored: StoredRun) -> str:
    run = stored.trajectory
    value = {
        "run": stored.id,
        "question": run.question,
        "answer": run.answer,
        "stop_reason": run.stop_reason,
        "failure": run.failure,
        "evidence": [one.model_dump(mode="json") for one in run.evidence],
        "unsupported": run.unsupported,
        "usage": asdict(run.usage),
        "events": [event.model_dump(mode="json") for event in stored.events],
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
