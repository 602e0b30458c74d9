"""HTML → sections with their tables, and its images: what a person sees of the file, in its order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.texts.outline import Section, SectionOutline, tidy_lines
from vrag.corpus.formats.texts.raised_text import lower_text, raise_text
from vrag.corpus.formats.texts.table_lines import TableDraft
from vrag.corpus.formats.texts.visibility import StyleRules
from vrag.corpus.sniff import drop_invisible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selectolax.lexbor import LexborNode

DROPPED = frozenset(
    "script style noscript template iframe object canvas datalist audio video rp "
    "annotation annotation-xml desc metadata".split()
)
"""HTML elements whose content is not read."""
BLOCKS = frozenset(
    "address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption "
    "figure footer form header hr html legend li main menu nav ol optgroup option p pre section select "
    "summary svg text textarea title ul".split()
)
"""HTML elements that begin and end a line; `text` is one of drawings."""
HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
PARAGRAPHS = frozenset("article blockquote div dl figure li ol p pre section ul".split())
"""HTML elements that an empty line follows."""
BULLET = "• "
SEEN_INPUTS = frozenset("text search email url tel number date datetime-local month week time".split())
"""Types of fields whose value is seen."""
CELLS = frozenset({"td", "th"})
TABLE_PARTS = CELLS | {"table", "caption", "thead", "tbody", "tfoot", "tr"}
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""HTML elements that have no end."""
_SPACE = re.compile(r"\s+")
_EMPTY_ELEMENT = re.compile(
    r"""<(?P<name>[A-Za-z][\w:.-]*+)(?P<attributes>(?:[^<>"'/]|/(?!>)|"[^"]*+"|'[^']*+')*+)/>"""
)
MAX_ICON = 48
"""Pixels of the longest side that an icon has by the attributes of its element."""
MAX_SPAN = 65_534
"""Rows that a cell may span, by the standard."""


class Figure(NamedTuple):
    """An image in an HTML file."""

    reference: str
    """Its address, as written in the file."""
    text: str
    """Its description and caption."""
    headings: tuple[str, ...]
    """The headings above it, outermost first."""
    is_hidden: bool = False
    """True if its element says that it is decoration: without a role, hidden, or as small as an icon."""

    @property
    def is_decorative(self) -> bool:
        """True if the file names nothing that it shows: nothing is lost where it is missing."""
        return self.is_hidden or not self.text


def html_sections(text: str) -> list[Section]:
    """Parse HTML to what a reader sees, with its tables."""
    return html_page(text)[0]


def html_page(text: str) -> tuple[list[Section], list[Figure], str]:
    """Return sections and images of HTML, and the address that references are relative to, or ""."""
    page = _HtmlPage()
    page.read(text)
    return page.sections, page.figures, page.base


def close_empty_elements(xml: str) -> str:
    """Give empty elements of XML an end, since HTML ignores the slash that ends them.

    >>> close_empty_elements("<title/><p id='a>'/>a<br/>")
    "<title></title><p id='a>'></p>a<br/>"
    """
    return _EMPTY_ELEMENT.sub(_close_element, xml)


def _close_element(match: re.Match[str]) -> str:
    name = match["name"]
    return match[0] if name in VOID else f"<{name}{match['attributes']}></{name}>"


class _HtmlPage:
    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.figures: list[Figure] = []
        self.base = ""
        """The address that references are relative to, where the file has one."""
        self._outline = SectionOutline(tidy_lines)
        self._style = StyleRules()
        self._heading: list[str] | None = None
        """Text of the heading that is open."""
        self._first_image: int | None = None
        """Number of images before the `<figure>` that is open."""
        self._caption: list[str] = []
        """Text of its caption."""
        self._in_caption = False
        self._pre = 0
        """Number of `<pre>` elements that are open."""
        self._tables: list[TableDraft | None] = []
        """The tables that are open, the inner ones last; None for those that lay out a page."""
        self._in_table_caption = False
        self._buffer: tuple[str, list[str]] | None = None
        """The raised or lowered element that is open, and its text."""
        self._ruby: list[str] = []
        """The readings of the `<ruby>` element that is open."""
        self._in_reading = False
        self._lists: list[int | None] = []
        """For each list that is open the number of its next entry; None where entries have none."""
        self._mark: str = ""
        """Bullet or number of the entry that has begun and has no text yet."""
        self._last: str = ""
        """The end of the text so far."""

    def read(self, text: str) -> None:
        """Walk the tree without recursion, since elements may be nested by the thousands.

        lexbor takes a second for a depth of 16,000, and four times as long for twice the depth: the time
        limit of the worker bounds it.
        """
        from selectolax.lexbor import LexborHTMLParser

        tree = LexborHTMLParser(text)
        self._style = StyleRules("\n".join(node.text() for node in tree.css("style")))
        node = tree.root
        while node is not None:
            is_read = self._begin(node)
            child = node.first_child if is_read else None
            if child is not None:
                node = child
                continue
            if is_read:
                self._end(node)
            while node.next is None and node.parent is not None:
                node = node.parent
                self._end(node)
            node = node.next
        while self._tables:
            self._end_table()
        self.sections.append(self._outline.end())

    def _begin(self, node: LexborNode) -> bool:
        """Begin a node; return whether its children are read."""
        tag = str(node.tag)
        if tag == "-text":
            text = drop_invisible(node.text_content or "")
            self._add(text if self._pre else _SPACE.sub(" ", text))
            return True
        if tag in DROPPED or tag[0] in "-!" or self._is_unseen(node, tag):  # comments and the like
            return False
        if tag in HEADINGS:
            self._end_mark()
            self._lay_out_table()
            self._heading = []
        elif tag in TABLE_PARTS:
            self._begin_table_part(node, tag)
        elif tag in BLOCKS:
            self._begin_block(tag)
            if tag in {"ol", "ul", "menu", "li"}:
                self._begin_list(node, tag)
        else:
            self._begin_inline(node, tag)
        return True

    def _begin_list(self, node: LexborNode, tag: str) -> None:
        """Begin a list, or an entry with its number."""
        attributes = node.attributes
        if tag != "li":
            is_numbered = tag == "ol" and "none" not in (attributes.get("style") or "")
            self._lists.append(_read_number(attributes.get("start"), 1) if is_numbered else None)
            return
        number = self._lists[-1] if self._lists else None
        if number is not None:
            number = _read_number(attributes.get("value"), number)
            self._mark = f"{number}. "
            self._lists[-1] = number + 1
        elif self._lists and self._has_bullets(node):
            self._mark = BULLET

    def _end_mark(self) -> None:
        """End the wait for the text of an entry that begins with a heading or a table."""
        mark, self._mark = self._mark, ""
        if mark != BULLET:
            self._add(mark)

    def _has_bullets(self, entry: LexborNode) -> bool:
        """Return whether entries of a list have bullets: those of menus and in cells mostly have none."""
        listed = entry.parent
        style = (listed.attributes.get("style") or "") if listed is not None else ""
        return not self._tables and listed is not None and listed.tag == "ul" and "none" not in style

    def _is_unseen(self, node: LexborNode, tag: str) -> bool:
        """Return whether nobody sees an element, such as the title of a drawing."""
        if tag == "dialog" and "open" not in node.attributes:
            return True
        is_in_page = node.parent is None or node.parent.tag in {"head", "html", "body"}
        return (tag == "title" and not is_in_page) or self._style.hides(node, tag)

    def _begin_inline(self, node: LexborNode, tag: str) -> None:
        attributes = node.attributes
        if tag in {"sup", "sub"} and self._buffer is None:
            self._buffer = tag, []
        elif tag == "rt":
            self._in_reading = True
        elif tag in {"img", "image"}:  # the latter within drawings
            self._begin_image(node)
        elif tag == "input" and (attributes.get("type") or "text").lower() in SEEN_INPUTS:
            self._add(f" {attributes.get('value') or ''} ")
        elif tag == "base":
            self.base = self.base or attributes.get("href") or ""

    def _begin_block(self, tag: str) -> None:
        self._pre += tag in {"pre", "textarea"}
        self._add("\n")
        self._in_caption = self._in_caption or tag == "figcaption"
        if tag == "figure":
            self._first_image, self._caption = len(self.figures), []

    def _begin_image(self, node: LexborNode) -> None:
        """Add an image; pages that load images late name them in `data-src`."""
        attributes = node.attributes
        late, description, title = (attributes.get(name) or "" for name in ("data-src", "alt", "title"))
        address = attributes.get("src") or attributes.get("xlink:href") or attributes.get("href") or ""
        self._add(drop_invisible(description))
        text = " ".join(drop_invisible(description or title).split())
        if reference := (late or address).strip():
            hidden = _is_hidden(node.attributes)
            self.figures.append(Figure(reference, text, self._outline.headings, hidden))

    def _begin_table_part(self, node: LexborNode, tag: str) -> None:
        """Begin a table, its caption, a row or a cell."""
        table = self._tables[-1] if self._tables else None
        if tag == "table":
            self._end_mark()
            self._lay_out_table()
            self._add("\n")
            is_layout = node.attributes.get("role") in {"presentation", "none"} or self._heading is not None
            self._tables.append(None if is_layout else TableDraft())
        elif table is None:
            self._add("\n")
        elif tag == "caption":
            self._in_table_caption = True
        elif tag == "tr":
            parent = node.parent
            table.begin_row(is_head=parent is not None and parent.tag == "thead")
        elif tag in CELLS:
            attributes = node.attributes
            rows, columns = _read_span(attributes.get("rowspan")), _read_span(attributes.get("colspan"))
            table.begin_cell(rows or MAX_SPAN, columns or 1, is_head=tag == "th")
            self._last = "\n"

    def _lay_out_table(self) -> None:
        """Read the open table as the layout of a page, as those around it are: what it holds is text."""
        table = self._tables[-1] if self._tables else None
        if table is not None:
            self._tables[-1] = None
            self._outline.add(table.lines() + "\n")

    def _end_table(self) -> None:
        table = self._tables.pop()
        if table is None:
            self._add("\n\n")
            return
        lined = table.finish()
        if lined is None:
            self._outline.add(f"\n{table.lines()}\n\n")
        else:
            self._outline.add_table(lined)
        self._last = "\n"

    def _end(self, node: LexborNode) -> None:
        tag = str(node.tag)
        if tag in HEADINGS and self._heading is not None:
            title = " ".join("".join(self._heading).split())
            self._heading = None
            if title:
                self.sections.append(self._outline.head(int(tag[1]), title))
        elif tag in {"sup", "sub"} and self._buffer is not None and self._buffer[0] == tag:
            self._end_raised()
        elif tag == "rt":
            self._in_reading = False
        elif tag == "ruby" and self._ruby:
            readings, self._ruby = "".join(self._ruby), []
            self._add(f"（{readings.strip()}）" if readings.strip() else "")
        elif tag == "caption":
            self._in_table_caption = False
        elif tag == "table":
            if self._tables:
                self._end_table()
        elif tag in BLOCKS and tag not in {"br", "hr"}:
            self._end_block(tag)

    def _end_raised(self) -> None:
        tag, parts = self._buffer or ("", [])
        self._buffer = None
        text = "".join(parts)
        self._add(raise_text(self._last, text) if tag == "sup" else lower_text(text))

    def _end_block(self, tag: str) -> None:
        if tag in {"ol", "ul", "menu"} and self._lists:
            self._lists.pop()
        if tag in {"ol", "ul", "menu", "li"}:
            self._mark = ""
        self._pre = max(self._pre - (tag in {"pre", "textarea"}), 0)
        self._in_caption = self._in_caption and tag != "figcaption"
        if tag == "figure" and self._first_image is not None:  # else an inner figure has ended
            self._add_caption(self._first_image)
            self._first_image = None
        self._add("\n\n" if tag in PARAGRAPHS else "\n")

    def _add_caption(self, first: int) -> None:
        """Add the caption of a `<figure>` to its images, which begin with number `first`."""
        caption = " ".join("".join(self._caption).split())
        for number in range(first, len(self.figures)):
            figure = self.figures[number]
            text = "\n".join(dict.fromkeys(filter(None, (figure.text, caption))))
            self.figures[number] = figure._replace(text=text)

    def _add(self, text: str) -> None:
        """Add text to what is open: a raised element, a reading, a heading, a cell or a section."""
        if self._buffer is not None:
            self._buffer[1].append(text)
            return
        if not self._pre and text.startswith(" ") and self._last.endswith((" ", "\n")):
            text = text[1:]
        if self._in_reading:
            self._ruby.append(text)
            return
        if self._mark and text.strip():
            text, self._mark = self._mark + text.lstrip(), ""
        table = self._tables[-1] if self._tables else None
        if self._heading is not None:
            self._heading.append(text)
        elif table is not None:
            if self._in_table_caption:
                table.caption.append(text)
            else:
                table.add(text)
        else:
            self._outline.add(text)
        if self._in_caption:
            self._caption.append(text)
        self._last = (self._last + text)[-40:]


def _is_hidden(attributes: Mapping[str, str | None]) -> bool:
    """Return whether the attributes of an image say that it is decoration."""
    if attributes.get("role") in {"presentation", "none"} or attributes.get("aria-hidden") == "true":
        return True
    sides = (attributes.get(name) or "" for name in ("width", "height"))
    return any(re.fullmatch(r"\d{1,4}", side, re.ASCII) and int(side) <= MAX_ICON for side in sides)


def _read_number(value: str | None, otherwise: int) -> int:
    """Return the number of an entry of a list that an attribute says."""
    text = (value or "").strip()
    return int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else otherwise


def _read_span(value: str | None) -> int:
    """Return the number of rows or columns of a cell; 0 for all that follow."""
    if value is None:
        return 1
    text = value.strip()
    return min(int(text), MAX_SPAN) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 1
