"""Runs as files: a page, Markdown, or JSON for machines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from vrag.agent.runs.run_store import StoredRun


class Format(StrEnum):
    """The format of a file."""

    HTML = "html"
    """One page that needs no other file."""
    MARKDOWN = "markdown"
    """Text with its images as data at its end."""
    JSON = "json"
    """All events, for machines; images by the hash of their file."""

    @property
    def suffix(self) -> str:
        """The suffix of a file."""
        return ".md" if self is Format.MARKDOWN else f".{self.value}"

    @property
    def media_type(self) -> str:
        """The media type for HTTP."""
        kind = "application" if self is Format.JSON else "text"
        return f"{kind}/{self.value}" + ("; charset=utf-8" if kind == "text" else "")


@dataclass(frozen=True, slots=True)
class Download:
    """A file."""

    data: bytes
    media_type: str
    name: str
    """File name: small letters, digits, hyphens and the suffix."""


def export_of(stored: StoredRun, format: Format | str = Format.HTML) -> Download:
    """Write a run as one file: its page with every step, a report of its question, or its events.

    Raises `ValueError` if the format does not exist.
    """
    from vrag.render.report import report_of
    from vrag.render.run_page import page_of

    match chosen := Format(format):
        case Format.HTML:
            text = page_of(stored).html
        case Format.MARKDOWN:
            text = report_of([stored]).markdown().text
        case Format.JSON:
            run = stored.result
            places = [
                {"number": number} | evidence.model_dump(mode="json")
                for number, evidence in enumerate(run.evidence, 1)
            ]
            value = {
                "run": stored.id,
                "question": run.question,
                "answer": run.answer,
                "marked": run.marked_answer.text or None,
                "withdrawn": run.withdrawn,
                "stop_reason": run.stop_reason,
                "reading": run.reading and run.reading.model_dump(mode="json"),
                "failure": run.failure,
                "citations": [citation.model_dump(mode="json") for citation in run.citations],
                "claims": [claim.model_dump(mode="json") for claim in run.claims],
                "evidence": places[: run.cited],
                "looked_at": places[run.cited :],
                "unsupported": run.unsupported,
                "usage": asdict(run.usage),
                "events": [event.model_dump(mode="json") for event in stored.events],
            }
            text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    return Download(text.encode(), chosen.media_type, f"{stored.id}{chosen.suffix}")


def report_document(
    runs: Sequence[StoredRun], title: str = "", format: Format | str = Format.HTML
) -> Download:
    """Write runs as one report in one file; see `report_of`.

    Raises `ValueError` if there are no runs, or the format is neither HTML nor Markdown.
    """
    from vrag.render.report import report_of

    chosen = Format(format)
    if chosen is Format.JSON:
        raise ValueError("a report is written as html or markdown")
    report = report_of(runs, title=title)
    text = report.markdown().text if chosen is Format.MARKDOWN else report.html
    name = "-".join(re.findall(r"[a-z0-9]+", report.title.lower()))[:60].strip("-") or "report"
    return Download(text.encode(), chosen.media_type, f"{name}{chosen.suffix}")
