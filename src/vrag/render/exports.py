"""Runs as files: a page, Markdown, JSON for machines, or a ZIP archive of their evidence."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vrag.agent.runs.run_store import StoredRun
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from vrag.render.annotations.evidence_export import EvidenceExport, EvidenceFormat
    from vrag.render.annotations.evidence_sources import EvidenceSources

MAX_EVIDENCE_BYTES = 128 * 2**20
"""Size of an archive of evidence, which is made in memory."""
NOTES_FILE = "notes.txt"
"""File of an archive that says what is to be known of the others."""


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


def export_of(stored: StoredRun, format: Format | str = Format.HTML, *, server: str = "") -> Download:
    """Write a run as one file: its page with every step, a report of its question, or its events.

    `server` is the address of a server that has the runs: links open the places there. Raises `ValueError`
    if the format does not exist.
    """
    from vrag.render.place_links import PlaceLinks
    from vrag.render.report import report_of
    from vrag.render.run_page import page_of

    links = PlaceLinks(server)
    match chosen := Format(format):
        case Format.HTML:
            text = page_of(stored, links).html
        case Format.MARKDOWN:
            text = report_of([stored], links=links).markdown().text
        case Format.JSON:
            run = stored.result
            places = [
                {"number": number} | evidence.model_dump(mode="json")
                for number, evidence in enumerate(run.evidence, 1)
            ]
            value = {
                "run": stored.id,
                "question": run.question,
                "kind": run.kind,
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
    runs: Sequence[StoredRun], title: str = "", format: Format | str = Format.HTML, *, server: str = ""
) -> Download:
    """Write runs as one report in one file; see `report_of`.

    `server` is the address of a server that has the runs: links open the places there. Raises `ValueError`
    if there are no runs, or the format is neither HTML nor Markdown.
    """
    from vrag.render.place_links import PlaceLinks
    from vrag.render.report import report_of

    chosen = Format(format)
    if chosen is Format.JSON:
        raise ValueError("a report is written as html or markdown")
    report = report_of(runs, title=title, links=PlaceLinks(server))
    text = report.markdown().text if chosen is Format.MARKDOWN else report.html
    name = "-".join(re.findall(r"[a-z0-9]+", report.title.lower()))[:60].strip("-") or "report"
    return Download(text.encode(), chosen.media_type, f"{name}{chosen.suffix}")


def evidence_document(
    runs: Sequence[StoredRun],
    sources: EvidenceSources,
    format: EvidenceFormat | str,
    title: str = "",
) -> Download:
    """Write the evidence of runs as one file: the annotations, or a ZIP archive of PDF files or pictures.

    Raises `RunError` if nothing is cited or nothing of it can be drawn, and `FileTooLargeError` if it takes
    more than `MAX_EVIDENCE_BYTES`.
    """
    from vrag.render.annotations.evidence_export import EvidenceFormat, export_evidence
    from vrag.render.annotations.web_annotation import MEDIA_TYPE

    chosen = EvidenceFormat(format)
    name = f"{runs[0].id if len(runs) == 1 else 'report'}-{chosen.value}"
    with scratch_directory() as scratch:
        place = scratch / "evidence"
        place.mkdir()
        export = export_evidence(runs, sources, place, [chosen], title=title, max_bytes=MAX_EVIDENCE_BYTES)
        if chosen is EvidenceFormat.ANNOTATIONS:
            return Download((place / export.files[0].name).read_bytes(), MEDIA_TYPE, f"{name}.jsonld")
        return Download(_archive(export), "application/zip", f"{name}.zip")


def _archive(export: EvidenceExport) -> bytes:
    """Return the files of an export, which are compressed already, as a ZIP archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for file in export.files:
            archive.write(export.folder / file.name, file.name)
        if export.notes:
            archive.writestr(NOTES_FILE, "\n".join([*export.notes, ""]))
    return buffer.getvalue()
