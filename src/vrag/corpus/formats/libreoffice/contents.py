"""Contents of an office document that its pages do not show as text: notes, comments, charts, descriptions.

They become passages after the pages, with the place and the kind as their heading: "Slide 3 › Speaker notes".
What nobody sees, such as hidden slides and hidden text, is kept apart.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.libreoffice.equations import Formula, read_stored_formulas
from vrag.corpus.formats.libreoffice.printed_text import CheckBox, find_checks, find_compounds, read_boxes
from vrag.corpus.formats.libreoffice.stored_comments import StoredComments
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
from vrag.corpus.formats.texts.table_lines import TableDraft

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
NO_COMMENTS = StoredComments()
STYLED = frozenset(map(xml_name, ("text:span", "text:p")))
"""Elements that a style may hide."""
CAN_HIDE = STYLED | {xml_name("text:section")}
MAX_HIDDEN_CHARS = 100_000
MAX_CHART_CELLS = 20_000
"""Cells of one chart beyond which its table is cut."""


class DocumentContents(NamedTuple):
    """Contents of a document that its pages do not show as text."""

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
    slide_titles: tuple[str, ...] = ()
    """Titles of the slides that are shown, in order; "" for one without."""
    boxes: tuple[str, ...] = ()
    """Texts of the boxes of a text document."""
    compounds: Mapping[str, int] = MappingProxyType({})
    """See `find_compounds`."""
    checks: tuple[CheckBox, ...] = ()
    """Check boxes of which the pages show only a drawing."""
    formulas: tuple[Formula, ...] = ()
    """Formulas among the text of the pages."""

    def add_to(self, facts: ItemFacts) -> ItemFacts:
        """Add what concerns the whole document to the facts of its first page."""
        hidden = "\n".join(filter(None, (facts.hidden_text, self.hidden_text)))
        return replace(facts, hidden_text=hidden, unread=(*facts.unread, *self.unread))


def read_contents(parts: XmlParts, comments: StoredComments = NO_COMMENTS) -> DocumentContents:
    """Read the contents of a document. Raises `CorpusError` if they are damaged.

    Args:
        parts: What LibreOffice stored of it.
        comments: Those that the file itself has and LibreOffice does not store.
    """
    root = parts.root("content.xml")
    if root is None:
        return DocumentContents()
    hidden = hidden_styles(root)
    if worksheets := read_worksheets(root, hidden):
        return _workbook_contents(worksheets, read_page_rows(parts.root("meta.xml")), comments)
    unseen = list(_list_unseen(root, hidden))
    hidden_objects = {each for part in unseen for each in find_all(part, "draw:object")}
    compounds, formulas = find_compounds(root), read_stored_formulas(root, parts, hidden_objects)
    if slides := list(find_all(root, "draw:page")):
        contents = _presentation_contents(slides, hidden, parts, comments)
        return contents._replace(compounds=compounds, formulas=formulas)
    lines = (shown_text(each) or "".join(each.itertext()) for each in unseen)
    sections = tuple(_part_sections((), root, parts))
    return DocumentContents(
        sections,
        _join_hidden(lines),
        boxes=read_boxes(root),
        compounds=compounds,
        formulas=formulas,
        checks=find_checks(root, set(unseen)),
    )


def _list_unseen(root: Element, hidden: frozenset[str]) -> Iterator[Element]:
    """Yield the sections, paragraphs and spans of a text that nobody sees, but none within another one."""
    stack = [root]
    while stack:
        element = stack.pop()
        is_hidden = (
            attribute(element, "text:display") == "none"
            or attribute(element, "text:is-hidden") == "true"
            or (element.tag in STYLED and attribute(element, "text:style-name") in hidden)
        )
        if is_hidden and element.tag in CAN_HIDE:
            yield element
        else:
            stack += reversed(element)


def _join_hidden(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, texts))[:MAX_HIDDEN_CHARS]


def _presentation_contents(
    slides: Sequence[Element], hidden: frozenset[str], parts: XmlParts, comments: StoredComments
) -> DocumentContents:
    """Read the contents of a presentation, whose pages are the slides that are shown."""
    unseen = [slide for slide in slides if attribute(slide, "draw:style-name") in hidden]
    shown = [slide for slide in slides if attribute(slide, "draw:style-name") not in hidden]
    sections = tuple(
        section
        for number, slide in enumerate(shown, 1)
        for section in _slide_sections(number, slide, parts, comments)
    )
    titles = tuple(map(_slide_title, shown))
    return DocumentContents(sections, _join_hidden(map(shown_text, unseen)), slide_titles=titles)


def _workbook_contents(
    worksheets: tuple[Worksheet, ...], rows: dict[int, list[int]], comments: StoredComments
) -> DocumentContents:
    sections = tuple(
        section
        for worksheet in worksheets
        if not worksheet.is_hidden
        for section in _cell_comments(worksheet, comments)
    )
    unseen = (
        cell.text
        for worksheet in worksheets
        for cell in worksheet.cells
        if worksheet.is_hidden or cell.is_hidden
    )
    return DocumentContents(sections, _join_hidden(unseen), (), worksheets, rows)


def _cell_comments(worksheet: Worksheet, stored: StoredComments) -> Iterator[Section]:
    comments = [
        f"{cell.address}: {text}"
        for cell in worksheet.cells
        if not cell.is_hidden
        for text in stored.cells.get((worksheet.name, cell.address)) or map(comment_text, cell.comments)
        if text
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


def _slide_sections(
    number: int, slide: Element, parts: XmlParts, comments: StoredComments
) -> Iterator[Section]:
    place = (f"Slide {number}",)
    yield from _notes(place, slide)
    stored = comments.slides.get(number, ())
    if len(stored) > len(list(find_all(slide, "office:annotation"))):
        yield Section((*place, COMMENTS), "\n\n".join(stored))
        yield from _frame_sections(place, slide, parts)
    else:
        yield from _part_sections(place, slide, parts)


def _slide_title(slide: Element) -> str:
    frames = slide.findall(xml_name("draw:frame")) + slide.findall(xml_name("draw:custom-shape"))
    titles = (shown_text(frame) for frame in frames if attribute(frame, "presentation:class") == "title")
    return next(filter(None, titles), "")


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
    yield from _frame_sections(place, element, parts)


def _frame_sections(place: tuple[str, ...], element: Element, parts: XmlParts) -> Iterator[Section]:
    for frame in find_all(element, "draw:frame"):
        if description := _description(frame):
            yield Section((*place, DESCRIPTION), description)
        yield from _chart_sections(place, frame, parts)


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


def _chart_sections(place: tuple[str, ...], frame: Element, parts: XmlParts) -> Iterator[Section]:
    """Yield the data of the charts in a frame as tables, with their titles as captions."""
    for embedded in frame.findall(xml_name("draw:object")):
        name = attribute(embedded, "xlink:href").removeprefix("./")
        root = parts.root(f"{name}/content.xml") if name else None
        for chart in find_all(root, "chart:chart") if root is not None else ():
            draft = TableDraft()
            draft.caption += (shown_text(title) for title in chart.findall(xml_name("chart:title")))
            _add_rows(draft, chart)
            if table := draft.finish():
                yield Section((*place, CHART), table.text, (table,))
            elif lines := draft.lines().strip():
                yield Section((*place, CHART), lines)


def _add_rows(draft: TableDraft, chart: Element) -> None:
    """Add the rows of a chart's data; the first row and the first column are heads."""
    rows = [row for table in find_all(chart, "table:table") for row in find_all(table, "table:table-row")]
    count = 0
    for number, row in enumerate(rows):
        count += len(row)
        if count > MAX_CHART_CELLS:
            return
        draft.begin_row(is_head=number == 0)
        for column, cell in enumerate(row):
            draft.begin_cell(is_head=number == 0 or column == 0)
            draft.add(shown_text(cell))
