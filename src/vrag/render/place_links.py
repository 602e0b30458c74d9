"""Links from the evidence of a document to the place itself: at a server, and in a PDF file beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from vrag.agent.runs.run_store import StoredRun
from vrag.render.annotations.cited_place import cited_places

if TYPE_CHECKING:
    from vrag.render.annotations.evidence_export import EvidenceExport
    from vrag.render.annotations.evidence_sources import EvidenceSources

_ADDRESS = ":/?#[]@!$&'*+,;=%~"
"""Characters of addresses that stay as they are; parentheses would end a link in Markdown."""


class PlaceLink(NamedTuple):
    """A link to a place."""

    text: str
    address: str


@dataclass(frozen=True, slots=True)
class PlaceLinks:
    """The addresses at which the places of a document open."""

    server: str = ""
    """Address of a server that has the runs; empty if none is known."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Addresses of pages of PDF files, relative to the document, by the number of the citation."""

    def of(self, run: str, number: int, label: str = "") -> list[PlaceLink]:
        """Return the links of the evidence of a run by its number; `label` is that of its question."""
        links: list[PlaceLink] = []
        if self.server:
            address = f"{self.server.rstrip('/')}/#/runs/{run}?cite={number}"
            links.append(PlaceLink("Open the place", quote(address, safe=_ADDRESS)))
        if file := self.files.get(f"{label}{number}"):
            links.append(PlaceLink("Open the PDF file", file))
        return links


NO_LINKS = PlaceLinks()


def is_server_address(text: str) -> bool:
    """Return whether a text is the address of a server: `http://host` or `https://host`, perhaps with a path.

    >>> is_server_address("http://127.0.0.1:8000"), is_server_address("javascript://x")
    (True, False)
    """
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query + parts.fragment
    except ValueError:
        return False


def file_links(
    runs: Sequence[StoredRun], document: Path, sources: EvidenceSources, export: EvidenceExport | None
) -> dict[str, str]:
    """Return the addresses of the cited pages in PDF files, by the numbers of the citations.

    Args:
        runs: The runs of the document.
        document: The file that has the links. Only files in its folder are linked: they move with it.
        sources: The files of the collections.
        export: The evidence beside the document: its annotated copies come before the files themselves.
    """
    copies = {} if export is None else export.annotated_copies
    folder = document.resolve().parent
    sources_of: dict[str, Path | None] = {}
    links: dict[str, str] = {}
    for place in cited_places(runs):
        path, evidence = copies.get(place.number), place.evidence
        if path is None:
            if evidence.document_id not in sources_of:
                source = sources.pdf(evidence)
                sources_of[evidence.document_id] = None if isinstance(source, str) else source.path
            path = sources_of[evidence.document_id]
        if path is not None and path.resolve().is_relative_to(folder):
            relative = PurePosixPath(*path.resolve().relative_to(folder).parts)
            links[place.number] = f"{quote(f'./{relative}')}#page={evidence.page}"
    return links
