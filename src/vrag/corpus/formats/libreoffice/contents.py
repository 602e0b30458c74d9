"""Contents of an office document that its pages do not show as text: notes, comments, charts, descriptions.

They become passages after the pages, with the place and the kind as their heading: "Slide 3 › Speaker notes".
What nobody sees, such as hidden slides and hidden text, is kept apart.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.libreoffice.worksheet_pages import read_page_rows
from vrag.corpus.formats.libreoffice.worksheets import Worksheet, read_worksheets
from vrag.corpus.formats.libreoffice.xml_parts import (
    XmlParts,
    attribute,
    find_all,
    shown_text,
    xml_name,
)
from vrag.corpus.formats.texts.outline import Section
from vrag.corpus.formats.texts.table_lines import CELL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from vrag.types import ItemFacts

NOTES, COMMENTS, DESCRIPTION, CHART = (
    "Speaker notes",
    "Comments",
    "Description of a picture",
    "Data of a chart",
)
FIELDS = frozenset({"page", "page-number", "header", "footer", "date-time"})
"""Classes of the frames on a page of notes that its author has not written."""
MAX_HIDDEN_CHARS = 100_000
MAX_CHART_CELLS = 20_000
"""Cells of one chart beyond which its table is cut."""


class DocumentContents(NamedTuple):
    """What the pages of a document do not show as text."""

    sections: tuple[Section, ...] = ()
    """Notes, comments, data of charts and descriptions of pictures, in the order of the document."""
    hidden_text: str = ""
    """Text that the document has and nobody sees."""
    unread: tuple[str, ...] = ()
    """Sentences for people: what was not read, and what would read it."""
    worksheets: tuple[Worksheet, ...] = ()
    """Sheets of a workbook, in order."""
    page_rows: Mapping[int, Sequence[int]] = MappingProxyType({})
    """See `read_page_rows`."""

    def add_to(self, facts: ItemFacts) -> ItemFacts:
        """Add what concerns the whole document to the facts of its first page."""
        hidden = "\n".join(filter(None, (facts.hidden_text, self.hidden_text)))
        return replace(facts, hidden_text=hidden, unread=(*facts.unread, *self.unread))


def read_contents(parts: XmlParts) -> DocumentContents:
    """Read the contents of a text or a presentation. Raises `CorpusError` if they are damaged."""
    root = parts.root("content.xml")
    if root is None:
        return DocumentContents()
    hidden = hidden_styles(root)
    if worksheets := read_worksheets(root, hidden):
        return _workbook_contents(worksheets, read_page_rows(parts.root("meta.xml")))
    if slides := list(find_all(root, "draw:page")):
        sections = tuple(_slide_sections(slides, hidden, parts))
        lines = [shown_text(slide) for slide in slides if attribute(slide, "draw:style-name") in hidden]
    else:
        sections = tuple(_part_sections((), root, parts))
        lines = [
            "".join(each.itertext())
            for name in ("text:span", "text:p")
            for each in find_all(root, name)
            if attribute(each, "text:style-name") in hidden
        ]
    return DocumentContents(sections, "\n".join(filter(None, lines))[:MAX_HIDDEN_CHARS])


def _workbook_contents(worksheets: tuple[Worksheet, ...], rows: dict[int, list[int]]) -> DocumentContents:
    sections = tuple(
        section
        for worksheet in worksheets
        if not worksheet.is_hidden
        for section in _cell_comments(worksheet)
    )
    unseen = (
        cell.text
        for worksheet in worksheets
        for cell in worksheet.cells
        if worksheet.is_hidden or cell.is_hidden
    )
    return DocumentContents(
        sections, "\n".join(filter(None, unseen))[:MAX_HIDDEN_CHARS], (), worksheets, rows
    )


def _cell_comments(worksheet: Worksheet) -> Iterator[Section]:
    comments = [
        f"{cell.address}: {text}"
        for cell in worksheet.cells
        if not cell.is_hidden
        for comment in cell.comments
        if (text := comment_text(comment))
    ]
    if comments:
        yield Section((f"Sheet {worksheet.name}", COMMENTS), "\n\n".join(comments))


def hidden_styles(root: Element) -> frozenset[str]:
    """Return the names of the styles that hide what has them: text, slides, sheets."""
    return frozenset(
        attribute(style, "style:name")
        for style in find_all(root, "style:style")
        for properties in style
        if attribute(properties, "text:display") == "none"
        or attribute(properties, "presentation:visibility") == "hidden"
        or attribute(properties, "table:display") == "false"
    )


def _slide_sections(slides: Iterable[Element], hidden: frozenset[str], parts: XmlParts) -> Iterator[Section]:
    """Yield the sections of the slides that are shown, whose numbers are those of their pages."""
    shown = [slide for slide in slides if attribute(slide, "draw:style-name") not in hidden]
    for number, slide in enumerate(shown, 1):
        place = (f"Slide {number}",)
        yield from _notes(place, slide)
        yield from _part_sections(place, slide, parts)


def _notes(place: tuple[str, ...], slide: Element) -> Iterator[Section]:
    frames = [
        frame
        for notes in slide.findall(xml_name("presentation:notes"))
        for frame in find_all(notes, "draw:frame")
        if attribute(frame, "presentation:class") not in FIELDS
        and attribute(frame, "presentation:placeholder") != "true"
    ]
    if text := "\n".join(filter(None, map(shown_text, frames))):
        yield Section((*place, NOTES), text)


def _part_sections(place: tuple[str, ...], element: Element, parts: XmlParts) -> Iterator[Section]:
    if comments := "\n\n".join(filter(None, map(comment_text, find_all(element, "office:annotation")))):
        yield Section((*place, COMMENTS), comments)
    for frame in find_all(element, "draw:frame"):
        if description := _description(frame):
            yield Section((*place, DESCRIPTION), description)
        for table in _chart_tables(frame, parts):
            yield Section((*place, CHART), table)


def comment_text(annotation: Element) -> str:
    """Return a comment with its author and its day: "Ada, 2025-05-03: Checked."."""
    text = "\n".join(filter(None, (shown_text(child) for child in annotation)))
    author = annotation.findtext(xml_name("dc:creator"), "").strip()
    day = annotation.findtext(xml_name("dc:date"), "").partition("T")[0]
    head = ", ".join(filter(None, (author, day)))
    return f"{head}: {text}" if head and text else text


def _description(frame: Element) -> str:
    """Return the title and the description of a picture, as its author has written them."""
    texts = [frame.findtext(xml_name(name), "").strip() for name in ("svg:title", "svg:desc")]
    return "\n".join(dict.fromkeys(filter(None, texts)))


def _chart_tables(frame: Element, parts: XmlParts) -> Iterator[str]:
    """Yield the tables of the charts in a frame, below their titles."""
    for embedded in frame.findall(xml_name("draw:object")):
        name = attribute(embedded, "xlink:href").removeprefix("./")
        root = parts.root(f"{name}/content.xml") if name else None
        for chart in find_all(root, "chart:chart") if root is not None else ():
            titles = [shown_text(title) for title in chart.findall(xml_name("chart:title"))]
            rows = [row for table in find_all(chart, "table:table") for row in _rows(table)]
            if rows:
                yield "\n".join([*filter(None, titles), *rows])


def _rows(table: Element) -> Iterator[str]:
    """Yield the rows of a table as lines."""
    count = 0
    for row in find_all(table, "table:table-row"):
        cells = [shown_text(cell) for cell in row]
        count += len(cells)
        if count > MAX_CHART_CELLS:
            return
        if any(cells):
            yield CELL.join(cells)
