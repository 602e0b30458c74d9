"""Citations as a W3C Web Annotation collection (https://www.w3.org/TR/annotation-model/), in JSON-LD.

The rectangle of a citation is its first target; the words of the answer, where they are known, are further
ones. Rectangles are media fragments in percent (https://www.w3.org/TR/media-frags/), on a page of a PDF file
also in its points (RFC 3778), a stretch of a video in seconds.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from vrag import __version__
from vrag.agent.evidence import Evidence
from vrag.corpus.formats.image import SUFFIXES as IMAGE_SUFFIXES
from vrag.corpus.formats.pdfium import PageFrame
from vrag.geometry import Box
from vrag.reading.answer import MarkRole
from vrag.render.annotations.cited_place import CitedPlace
from vrag.types import ItemKind

CONTEXT = "http://www.w3.org/ns/anno.jsonld"
MEDIA_TYPE = f'application/ld+json;profile="{CONTEXT}"'
MEDIA_FRAGMENTS = "http://www.w3.org/TR/media-frags/"
PDF_FRAGMENTS = "http://tools.ietf.org/rfc/rfc3778"
_TYPES = {"application": "Text", "text": "Text", "image": "Image", "video": "Video", "audio": "Sound"}
"""Classes of the model, by the first half of a media type."""

Json = dict[str, Any]
PageFrames = Callable[[Evidence], PageFrame | None]
"""Returns the visible part of a page of a PDF file; None where the file is not at hand."""


def annotation_collection(
    places: Sequence[CitedPlace],
    *,
    title: str,
    frame: PageFrames,
    is_hash: Callable[[str], bool],
) -> Json:
    """Return the annotations of cited places as one collection with one page.

    Args:
        places: In order.
        title: Label of the collection.
        frame: Pages of PDF files.
        is_hash: Whether the id of a document is the hash of its file. Others are named by their file name.
    """
    runs = dict.fromkeys(place.run for place in places)
    id = f"urn:vrag:citations:{'+'.join(runs) or 'none'}"
    collection: Json = {
        "@context": CONTEXT,
        "id": id,
        "type": "AnnotationCollection",
        "label": title,
        "total": len(places),
    }
    if places:  # a collection without annotations has no page
        items = [_annotation(place, frame(place.evidence), is_hash) for place in places]
        page = {"id": f"{id}:page-1", "type": "AnnotationPage", "startIndex": 0, "items": items}
        collection["first"] = page
        collection["last"] = page["id"]
    return collection


def _annotation(place: CitedPlace, frame: PageFrame | None, is_hash: Callable[[str], bool]) -> Json:
    evidence = place.evidence
    asked = datetime.fromtimestamp(place.asked, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    bodies = [_text(f"[{place.number}]", "identifying"), _text(place.question, "questioning")]
    bodies += [_text(part, "commenting") for part in place.parts or (place.answer,)]
    bodies += [_text(line, "assessing") for line in place.verdict_lines]
    source = _source(evidence, is_hash)
    marks = [Box.unit(*mark.box) for mark in evidence.marks if mark.role is not MarkRole.HEAD]
    targets = [_target(source, [*_place_selectors(evidence, place.box, frame), *_quote_selectors(evidence)])]
    targets += [_target(source, _place_selectors(evidence, box, frame)) for box in marks]
    return {
        "id": f"urn:vrag:citation:{place.run}:{place.number}",
        "type": "Annotation",
        "motivation": ["commenting", "highlighting"],
        "created": asked,
        "generator": {"id": "urn:vrag:software", "type": "Software", "name": f"vrag {__version__}"},
        "body": bodies,
        "target": targets if len(targets) > 1 else targets[0],
    }


def _text(value: str, purpose: str) -> Json:
    return {"type": "TextualBody", "value": value, "format": "text/plain", "purpose": purpose}


def _target(source: Json, selectors: Sequence[Json]) -> Json:
    target: Json = {"type": "SpecificResource", "source": source}
    if selectors:
        target["selector"] = selectors[0] if len(selectors) == 1 else list(selectors)
    return target


def _source(evidence: Evidence, is_hash: Callable[[str], bool]) -> Json:
    """Return the document: by the hash of its bytes, or by its path as a relative reference."""
    media_type, _ = mimetypes.guess_type(evidence.document)
    hashed = is_hash(evidence.document_id)
    name = quote(evidence.document.encode("utf-8", "replace"), safe="/")
    source: Json = {"id": f"urn:sha256:{evidence.document_id}" if hashed else f"./{name}"}
    if media_type:
        source |= {"type": _TYPES.get(media_type.split("/")[0], "Text"), "format": media_type}
    return source | {"label": evidence.document}


def _place_selectors(evidence: Evidence, box: Box | None, frame: PageFrame | None) -> list[Json]:
    """Return selectors of a place, each of which selects it; none for a passage, which its quote selects."""
    if evidence.kind is ItemKind.PASSAGE:
        return []
    area = "" if box is None else _percent(box)
    if evidence.kind is ItemKind.CLIP:
        time = "" if evidence.seconds is None else f"t={_decimals(evidence.seconds)}"
        fragment = "&".join(filter(None, [time, area]))
        return [_fragment(fragment, MEDIA_FRAGMENTS)] if fragment else []
    if evidence.document.lower().endswith(IMAGE_SUFFIXES) and evidence.page == 1:
        return [_fragment(area, MEDIA_FRAGMENTS)] if area else []
    standard = PDF_FRAGMENTS if evidence.document.lower().endswith(".pdf") else ""
    page = _fragment(f"page={evidence.page}", standard)
    if box is None:
        return [page]
    by_share = page | {"refinedBy": _fragment(area, MEDIA_FRAGMENTS)}
    if frame is None:
        return [by_share]
    return [_fragment(f"page={evidence.page}&viewrect={_points(box, frame)}", standard), by_share]


def _fragment(value: str, conforms_to: str) -> Json:
    selector: Json = {"type": "FragmentSelector"}
    if conforms_to:
        selector["conformsTo"] = conforms_to
    return selector | {"value": value}


def _quote_selectors(evidence: Evidence) -> list[Json]:
    return [{"type": "TextQuoteSelector", "exact": evidence.quote}] if evidence.quote else []


def _percent(box: Box) -> str:
    """Return a box as a spatial media fragment: left, top, width and height in percent."""
    sides = (100 * side for side in (box.x1, box.y1, box.width, box.height))
    return f"xywh=percent:{_decimals(sides)}"


def _points(box: Box, frame: PageFrame) -> str:
    """Return left, top, width and height in points from the upper left corner of the page as shown."""
    width, height = frame.shown_size
    sides = (box.x1 * width, box.y1 * height, box.width * width, box.height * height)
    return _decimals(sides)


def _decimals(values: Iterable[float]) -> str:
    """Return numbers without exponents, as fragments have them.

    >>> _decimals((0.00001, 12.5, 100))
    '0,12.5,100'
    """
    return ",".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in values)
