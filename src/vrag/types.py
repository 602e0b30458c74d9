"""The types that cross several layers. All are frozen.

A file becomes a `Document`; a document becomes `Item`s, which are what is embedded, searched and
shown; a `Query` finds `Hit`s; a `Case` is a question whose answer is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from vrag.geometry import Box, Size

LOST_PATH = "lost:/"
"""Beginning of the path of a document whose entry in the manifest was lost, so that its file is not known."""
ABSENT = -1
"""Modification time of a document that has no file of its own here: it was imported without one."""


class ItemKind(StrEnum):
    """The kind of an item."""

    PAGE = "page"
    """An image: a page, a slide, a scan, a photograph."""
    CLIP = "clip"
    """A part of a video."""
    PASSAGE = "passage"
    """A part of a text, without an image."""


class TextSource(StrEnum):
    """The source of an item's text."""

    LAYER = "layer"
    """The text layer of a PDF."""
    OCR = "ocr"
    """Optical character recognition of the picture."""
    FILE = "file"
    """The file is text."""
    NONE = "none"
    """The item has no text, or OCR is off."""


def item_id(document: str, ordinal: int) -> str:
    """Return the id of the item with this number, from 1, in a document.

    It is safe in file names, URLs and SQL literals: 16 hexadecimal digits, a hyphen, a number.

    >>> item_id("00ff" * 16, 3)
    '00ff00ff00ff00ff-3'
    """
    return f"{document[:16]}-{ordinal}"


OcrMode = Literal["auto", "always", "never"]
"""What OCR reads: what is seen and not in the text of the file; all of every page; nothing."""


def parse_ocr_mode(value: object) -> OcrMode:
    """Return the mode of OCR that a setting names; true and false, of earlier versions, are auto and never.

    Raises `ValueError` if it is none.

    >>> parse_ocr_mode("always"), parse_ocr_mode(True), parse_ocr_mode("off")
    ('always', 'auto', 'never')
    """
    text = str(value).strip().lower()
    if text in {"auto", "always", "never"}:
        return cast("OcrMode", text)
    if text in {"true", "on", "yes", "1"}:
        return "auto"
    if text in {"false", "off", "no", "0"}:
        return "never"
    raise ValueError("it is auto, always or never")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an item's text: `item.text[start:end]`, and where it stands on the picture."""

    start: int
    end: int
    box: Box
    """In `Space.UNIT`."""


@dataclass(frozen=True, slots=True)
class TurnedText:
    """A part of an item's text, `item.text[start:end]`, whose lines do not run to the right."""

    start: int
    end: int
    angle: int
    """Degrees clockwise by which they are turned: 90 if they run down, 180 if upside down, 270 if up."""


class TextCell(NamedTuple):
    """A cell of a table in an item's text: `item.text[start:end]`, and the place it takes."""

    row: int
    """Number of its first row, from 0."""
    column: int
    """Number of its first column, from 0."""
    rows: int
    """Rows that it spans."""
    columns: int
    """Columns that it spans."""
    start: int
    end: int


MAX_TABLE_PLACES = 200_000
"""Rows times columns of all cells of a table in a text."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table in an item's text, as its file has it. No two of its cells take the same place.

    Raises `ValueError` if a cell takes no place, or all together take too many.
    """

    cells: tuple[TextCell, ...]
    """Cells with words, by row and column."""
    header_rows: int | None = None
    """Rows at the top that hold the heads of columns; None where the file does not say."""
    header_columns: int | None = None
    """Columns at the left that hold the heads of rows; None where the file does not say."""
    caption: tuple[int, int] | None = None
    """Where its caption stands in the text; None if it has none."""
    is_part: bool = False
    """True if other items have more rows of it: what is counted or added up here is not that of the table."""

    def __post_init__(self) -> None:
        """Check the places of the cells: they may come from a file that means harm."""
        for cell in self.cells:
            if min(cell.row, cell.column, cell.start) < 0 or min(cell.rows, cell.columns) < 1:
                raise ValueError("a cell without a place")
        reach = max((max(cell.row + cell.rows, cell.column + cell.columns) for cell in self.cells), default=0)
        if max(reach, sum(cell.rows * cell.columns for cell in self.cells)) > MAX_TABLE_PLACES:
            raise ValueError("a table with too many places")


@dataclass(frozen=True, slots=True)
class AddressedCell:
    """A cell of a sheet in an item's text: `item.text[start:end]` is what it shows."""

    start: int
    end: int
    address: str
    """Its address in the sheet: "C14"."""
    value: str = ""
    """The stored value of a number or a date, where it is not what is shown."""


OF_WHOLE_DOCUMENT = "The document"
"""Beginning of the sentences of `ItemFacts.unread` that concern more than their item."""


@dataclass(frozen=True, slots=True)
class MarkedHeading:
    """A heading in the text of a page that its file marks as one: `item.text[start:end]`."""

    start: int
    end: int
    level: int
    """From 1, the outermost."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form in an item's text, as its file has it."""

    label: tuple[tuple[int, int], ...] = ()
    """Where the words beside it that name it stand in the text; empty where none do for certain."""
    values: tuple[tuple[int, int], ...] = ()
    """Where what is filled in stands: a range for each entry that is chosen, none if nothing is."""
    name: str = ""
    """What its file calls it for people."""
    is_check: bool = False
    """True for a box to tick: its value is the mark in it."""


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """Facts of an item besides its text and its picture. They are stored together, as JSON."""

    label: str = ""
    """Printed number of the page, where its file says it: "iv", "A-3"."""
    hidden_text: str = ""
    """Words that the file has at this page and nobody sees on it, or that are struck out. Neither searched
    nor answered from."""
    unread: tuple[str, ...] = ()
    """Sentences that say what is seen and not in the text, and what would read it. Those about the whole
    document are facts of one of its items, and begin with `OF_WHOLE_DOCUMENT`."""
    turned: tuple[TurnedText, ...] = ()
    """Parts of the text whose lines are turned, in order."""
    worksheet: str = ""
    """Name of the sheet that the page shows, if it is one of a workbook."""
    cells: tuple[AddressedCell, ...] = ()
    """Cells of the sheet that were found in the text, in order."""
    tables: tuple[TextTable, ...] = ()
    """Tables of the text that the file itself has as tables, in order."""
    headings: tuple[MarkedHeading, ...] = ()
    """Headings of a page by the outline of its file, in order."""
    fields: tuple[FormField, ...] = ()
    """Fields of a form that are shown, filled in or not, in the order of the file."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A part of a video."""

    path: str
    """Path of the stored clip relative to the collection's `items/`."""
    start: float
    """Begin in the video, in seconds."""
    end: float
    """End in the video, in seconds."""
    frames: tuple[float, ...] = ()
    """Its key frames, in seconds from the beginning of the video."""
    checksum: int = field(default=0, compare=False)
    """Checksum of the stored clip; 0 where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A page, a clip or a passage, which is searched and shown."""

    id: str
    """See `item_id`."""
    document: str
    """Id of its document."""
    document_name: str
    """File name of its document, for people; never used to open anything."""
    kind: ItemKind
    ordinal: int
    """Position in its document, from 1: the page number of a page."""
    text: str = ""
    words: tuple[Word, ...] = ()
    """Words with boxes, in the order of the text; empty for passages."""
    text_source: TextSource = TextSource.NONE
    size: Size | None = None
    """Size of the stored picture in pixels; None when the item has no picture."""
    image: str | None = None
    """Path of the stored picture relative to the collection's `items/`; None when there is none."""
    clip: Clip | None = None
    """The stretch of video, for items of kind `clip`; their picture is one frame of it."""
    heading: str = ""
    """The headings above a passage, outermost first, joined by " › "."""
    uid: str = ""
    """Its name outside of the collection, if it has one; for people and other programs."""
    facts: ItemFacts = ItemFacts()
    checksum: int = field(default=0, compare=False)
    """Checksum of the stored picture; 0 where it is not known."""
    shown_name: str = field(default="", compare=False)
    """Path of its document below the folder that is asked, for people; empty where that is not known."""

    @property
    def title(self) -> str:
        """The name of its document in citations: the path below the folder asked, or the file name."""
        return self.shown_name or self.document_name

    @property
    def name(self) -> str:
        """`<stem>_<page from 1>`, the name under which the item is known outside."""
        return f"{self.document_name.rsplit('.', 1)[0]}_{self.ordinal}"


class DocumentStatus(StrEnum):
    """The progress of a file."""

    PENDING = "pending"
    """Begun and not finished: the next `add` continues."""
    READY = "ready"
    """All its items are in the index."""
    PARTIAL = "partial"
    """Some of its items could not be made, or something that they show not read; the reason names them."""
    FAILED = "failed"
    """Nothing could be made of it; the reason says why."""

    @property
    def served(self) -> bool:
        """True if the document has searchable items: all of them, or some."""
        return self in {DocumentStatus.READY, DocumentStatus.PARTIAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One file as the collection knows it: a row of its manifest."""

    path: str
    """Absolute path of the file, or a substitute where it is `ABSENT`; the key of the manifest."""
    id: str
    """SHA-256 of its bytes in hexadecimal; empty when the file could not be read."""
    name: str
    size: int
    """Bytes."""
    mtime_ns: int
    """Modification time in nanoseconds: with `size`, tells quickly that nothing changed. Or `ABSENT`."""
    status: DocumentStatus
    items: int = 0
    """Number of items in its content."""
    reason: str = ""
    """The reason that it failed or is partial, for people."""

    @property
    def shown_path(self) -> str:
        """The path, for people; the name and the beginning of the id where the path was lost."""
        if not self.path.startswith(LOST_PATH):
            return self.path
        return f"{self.name} (path unknown, id {self.id[:16]})"


@dataclass(frozen=True, slots=True)
class Query:
    """A text to search for, and where."""

    text: str
    documents: frozenset[str] | None = None
    """Ids of the documents to look in; None for all."""
    kinds: frozenset[ItemKind] | None = None
    """Kinds of items to look for; None for all."""
    corpora: frozenset[str] | None = None
    """Names of the collections to look in, where several are searched; None for all."""
    preferred: str | None = None
    """Id of the document whose items come first unless the text names another; None for none."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that was found."""

    item: str
    """Id of the item."""
    score: float
    """Higher is better; comparable within one result list only."""
    rank: int
    """From 1."""
    document: str
    document_name: str
    ordinal: int
    kind: ItemKind
    row: int = -1
    """Number of the item in the version that was searched; -1 where items have no numbers."""
    shown_name: str = field(default="", compare=False)
    """Path of its document below the folder that is asked, for people; empty where that is not known."""

    @property
    def title(self) -> str:
        """The name of its document for people, as `Item.title`."""
        return self.shown_name or self.document_name


@dataclass(frozen=True, slots=True)
class Region:
    """A gold rectangle: a page from 1 and a box in `Space.UNIT`."""

    page: int
    box: Box
    document: str = ""
    """File name of its document, where that is not the one of the case."""
    annotator: str = ""
    """The annotator who drew it, where several drew the same thing (ViDoRe v3)."""


@dataclass(frozen=True, slots=True)
class GoldFact:
    """A gold statement that the answer follows from, and the page that says it."""

    text: str
    page: int
    """From 1, of the document of the case."""


@dataclass(frozen=True, slots=True)
class GoldPage:
    """A page with an answer, in data sets whose questions need several documents, or grade their pages."""

    document: str
    """File name of the document."""
    page: int | None = None
    """From 1; None where the data set names the document alone: every item of it is gold."""
    relevance: int = 1
    """From 1; the more, the better (ViDoRe v3 has 1 and 2)."""


class AnswerFormat(StrEnum):
    """The type of an answer, where a data set has it; the values are those of MMLongBench-Doc."""

    UNKNOWN = ""
    INTEGER = "Int"
    FLOAT = "Float"
    TEXT = "Str"
    LIST = "List"
    NONE = "None"
    """The question cannot be answered."""
    LETTER = "Letter"
    """One of the options that the question lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question whose answer is known."""

    uid: str
    query: str
    reference_answer: str
    file_name: str
    """File name of the document that holds the answer."""
    reference_page: tuple[int, ...] = ()
    """Gold pages of that document, from 1; empty when there is no answer or the page is unknown."""
    source_type: tuple[str, ...] = ()
    query_type: str = ""
    regions: tuple[Region, ...] = field(default=())
    """Gold rectangles, where annotated."""
    gold: tuple[GoldPage, ...] = ()
    """Gold pages that `reference_page` cannot express; if set, they replace it: `vrag.cases.annotations`."""
    facts: tuple[GoldFact, ...] = ()
    """Gold statements, where annotated (DocScope)."""
    spans: tuple[tuple[float, float], ...] = ()
    """Gold parts of its video, in seconds from the beginning."""
    alternatives: tuple[str, ...] = ()
    """Other right answers."""
    answer_format: AnswerFormat = AnswerFormat.UNKNOWN
    document_type: str = ""
    benchmark: str = ""
    """Name of the data set that it comes from; empty for the user's own."""

    @property
    def references(self) -> tuple[str, ...]:
        """All right answers, the usual one first."""
        return (self.reference_answer, *self.alternatives)
