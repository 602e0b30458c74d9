"""HTML → sections with their tables, and its images: what a person sees of the file, in its order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.texts.formulas import read_math, write_formula
from vrag.corpus.formats.texts.outline import Section, SectionOutline, tidy_lines
from vrag.corpus.formats.texts.raised_text import find_setting, set_text
from vrag.corpus.formats.texts.table_lines import TableDraft
from vrag.corpus.formats.texts.visibility import OWN_LOOK, Look, is_removed, is_unseen
from vrag.corpus.formats.texts.web.empty_elements import VOID
from vrag.corpus.formats.texts.web.figures import Figure, FigureList
from vrag.corpus.formats.texts.web.form_fields import read_input, read_role_mark, read_select
from vrag.corpus.formats.texts.web.generated_text import MAX_PAGE_CHARS, read_generated
from vrag.corpus.formats.texts.web.list_marks import BULLET, LIST_PARTS, ListMarks
from vrag.corpus.formats.texts.web.missing_parts import (
    FRAMES,
    MissingParts,
    drop_head_notes,
    is_picture,
    name_framed_file,
    tell_missing,
)
from vrag.corpus.formats.texts.web.styles import PageStyles
from vrag.corpus.formats.texts.web.table_parts import (
    CELLS,
    TABLE_PARTS,
    find_table_part,
    has_rows,
    read_spans,
)
from vrag.corpus.sniff import drop_invisible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selectolax.lexbor import LexborNode

DROPPED = frozenset(
    "script style noscript noframes canvas datalist audio video rp "
    "annotation annotation-xml desc metadata".split()
)
"""HTML elements whose content is not read."""
BLOCKS = frozenset(
    "address article aside blockquote body br center dd details dialog div dl dt fieldset figcaption "
    "figure footer form header hr html legend li main menu nav ol optgroup option p pre section "
    "summary svg text textarea title ul".split()
)
"""HTML elements that begin and end a line; `text` is one of drawings."""
HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
PARAGRAPHS = frozenset("article blockquote div dl figure li ol p pre section ul".split())
"""HTML elements that an empty line follows."""
MAX_INNER_PAGES = 3
"""Pages within pages, as `srcdoc` of a frame has them."""
_SPACE = re.compile(r"\s+")


class WebPage(NamedTuple):
    """The contents of an HTML file."""

    sections: list[Section]
    figures: list[Figure]
    base: str
    """The address that references are relative to, or ""."""


def html_sections(text: str) -> list[Section]:
    """Parse HTML to what a reader sees, with its tables."""
    return html_page(text).sections


def html_page(text: str, *, with_scripts: bool = False, with_title: bool = True) -> WebPage:
    """Return sections and images of HTML.

    Args:
        text: The HTML.
        with_title: Whether its title is text, which a browser shows above the page.
        with_scripts: True if a browser shows it, which runs scripts: what they write is told as not read.
    """
    page = _HtmlPage(with_title=with_title)
    page.read(text, with_scripts=with_scripts)
    return WebPage(page.sections, page.images.figures, page.base)


class _OpenElement(NamedTuple):
    """An element that has begun and not ended."""

    id: int
    """Its address in the tree."""
    part: str
    """The element that it is read as: "table" for one that its style makes a table."""
    container: str
    """The part of a table that it is, or that it is in; "" outside of tables."""
    look: Look
    """How letters look in it."""
    setting: str = ""
    """"sup" or "sub" if its text is raised or lowered, "reversed" if it runs backwards."""
    after: str = ""
    """Text that a rule puts behind it."""


class _HtmlPage:
    def __init__(self, depth: int = 0, *, with_title: bool = True) -> None:
        self.sections: list[Section] = []
        self.images = FigureList()
        self.base = ""
        """The address that references are relative to, where the file has one."""
        self._depth = depth
        """Number of pages that this one is in."""
        self._with_title = with_title
        self._outline = SectionOutline(tidy_lines)
        self._styles = PageStyles()
        self._open: list[_OpenElement] = [_OpenElement(0, "", "", Look())]
        self._unseen: int | None = None
        """Address of the outermost open element that nobody sees."""
        self._generated = 0
        """Characters that rules have added."""
        self._missing = MissingParts()
        self._heading: list[str] | None = None
        """Text of the heading that is open."""
        self._pre = 0
        """Number of `<pre>` elements that are open."""
        self._tables: list[TableDraft | None] = []
        """The tables that are open, the inner ones last; None for those that lay out a page."""
        self._in_table_caption = False
        self._buffer: list[str] | None = None
        """The text of the element that is open and sets its letters in another way."""
        self._ruby: list[str] = []
        """The readings of the `<ruby>` element that is open."""
        self._in_reading = False
        self._lists = ListMarks()
        self._last: str = ""
        """The end of the text so far."""

    def read(self, text: str, *, with_scripts: bool = False) -> None:
        """Walk the tree without recursion, since elements may be nested by the thousands.

        lexbor takes a second for a depth of 16,000, and four times as long for twice the depth: the time
        limit of the worker bounds it.
        """
        from selectolax.lexbor import LexborHTMLParser

        tree = LexborHTMLParser(drop_head_notes(text) if with_scripts else text)
        self._styles = PageStyles(tree)
        self._open = [_OpenElement(0, "", "", Look(is_certain=self._styles.is_complete))]
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
        if with_scripts:
            has_pictures = bool(self.images.figures)
            tell_missing(
                self.sections, self._missing.describe(tree, self.sections, has_pictures=has_pictures)
            )
        else:
            tell_missing(self.sections, self._missing.describe_frames())

    def _begin(self, node: LexborNode) -> bool:
        """Begin a node; return whether its children are read."""
        tag = str(node.tag)
        if tag == "-text":
            text = drop_invisible(node.text_content or "")
            self._add(text if self._pre else _SPACE.sub(" ", text))
            return False
        is_left_out = tag == "title" and not self._with_title
        if is_left_out or tag in DROPPED or tag[0] in "-!":  # comments and the like
            self._missing.has_canvas |= tag == "canvas"
            return False
        attributes = node.attributes
        declared = self._styles.declared(node, tag, attributes)
        if _is_gone(node, tag, attributes) or is_removed(tag, attributes, declared):
            return False
        if tag in {"select", "template", "math"} or tag in FRAMES:
            return self._begin_replaced(node, tag, attributes)
        outer = self._open[-1]
        part = find_table_part(tag, attributes, declared, outer.container)
        if part == "table" and tag != "table" and not has_rows(node, self._styles):
            part = ""
        look = outer.look
        if declared or attributes or tag in OWN_LOOK:
            look = look.within(tag, attributes, declared)
        element = _OpenElement(node.mem_id, part or tag, part or outer.container, look)
        if self._unseen is None and is_unseen(tag, declared):
            self._unseen = element.id
        if self._buffer is None and (setting := find_setting(node, tag, attributes, declared)):
            self._buffer = []
            element = element._replace(setting=setting)
        self._open.append(element)
        self._begin_element(node, part or tag, attributes)
        if self._styles.makes_text:
            self._add(self._generate(node, tag, attributes, "before"))
            self._open[-1] = element._replace(after=self._generate(node, tag, attributes, "after"))
        return True

    def _begin_element(self, node: LexborNode, tag: str, attributes: Mapping[str, str | None]) -> None:
        if tag in TABLE_PARTS:
            self._begin_table_part(tag, attributes)
        elif tag in HEADINGS:
            self._end_mark()
            self._lay_out_table()
            self._heading = []
        elif tag in BLOCKS:
            self._pre += tag in {"pre", "textarea"}
            self._add("\n")
            self.images.begin(tag)
            if tag in LIST_PARTS:
                self._lists.begin(node, tag, in_table=bool(self._tables))
        else:
            self._begin_inline(tag, attributes)
        if "role" in attributes:
            self._add(read_role_mark(node, attributes))

    def _begin_replaced(self, node: LexborNode, tag: str, attributes: Mapping[str, str | None]) -> bool:
        """Begin an element that shows something else than its content, and tell of files that it shows."""
        if tag == "select":
            self._add(read_select(node))
        elif tag == "math":
            line = "\n" if attributes.get("display") == "block" else ""
            self._add(f"{line}{write_formula(read_math(node))}{line}")
        elif tag == "template":
            if "shadowrootmode" in attributes:
                self._add_inner_page((node.html or "").partition(">")[2].removesuffix("</template>"))
        elif tag == "iframe" and attributes.get("srcdoc"):
            self._add_inner_page(attributes["srcdoc"] or "")
        elif tag in {"object", "embed"} and is_picture(tag, attributes):
            self.images.add({**attributes, "src": attributes.get(FRAMES[tag])}, self._outline.headings)
        elif address := name_framed_file(tag, attributes):
            self._missing.frames.append(address)
        elif tag == "object":
            self._open.append(self._open[-1]._replace(id=node.mem_id, part="object", setting="", after=""))
            return True
        return False

    def _add_inner_page(self, text: str) -> None:
        """Add a page that stands within this one: its text and tables under the headings of this one."""
        if self._unseen is not None or self._depth >= MAX_INNER_PAGES:
            return
        page = _HtmlPage(self._depth + 1)
        page.read(text)
        self._lay_out_table()
        self._add("\n\n")
        for section in page.sections:
            self._outline.add_section(section)
            self._outline.add("\n\n")
        headings = self._outline.headings
        self.images.figures += [
            figure._replace(headings=headings + figure.headings) for figure in page.images.figures
        ]

    def _generate(self, node: LexborNode, tag: str, attributes: Mapping[str, str | None], place: str) -> str:
        """Return the text that rules put before or after the text of an element."""
        if tag in VOID or self._generated > MAX_PAGE_CHARS:
            return ""
        text = read_generated(self._styles.declared_beside(node, tag, attributes, place), attributes)
        self._generated += len(text)
        return text

    def _begin_inline(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        if tag == "rt":
            self._in_reading = True
        elif tag in {"img", "image"}:  # the latter within drawings
            self._add(drop_invisible(attributes.get("alt") or ""))
            if self._unseen is None:
                self.images.add(attributes, self._outline.headings)
        elif tag == "input":
            self._add(read_input(attributes))
        elif tag == "base":
            self.base = self.base or attributes.get("href") or ""

    def _end_mark(self) -> None:
        """End the wait for the text of an entry that begins with a heading or a table."""
        mark = self._lists.take_mark()
        if mark != BULLET:
            self._add(mark)

    def _begin_table_part(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        """Begin a table, its caption, a row or a cell."""
        table = self._tables[-1] if self._tables else None
        if tag == "table":
            self._end_mark()
            self._lay_out_table()
            self._add("\n")
            is_layout = attributes.get("role") in {"presentation", "none"} or self._heading is not None
            self._tables.append(None if is_layout else TableDraft())
        elif table is None:
            self._add("\n")
        elif tag == "caption":
            self._in_table_caption = True
        elif tag == "tr":
            table.begin_row(is_head=self._open[-2].container == "thead")
        elif tag in CELLS:
            rows, columns = read_spans(attributes)
            table.begin_cell(rows, columns, is_head=tag == "th")
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
        """End an element that has begun."""
        element = self._open[-1]
        if element.id != node.mem_id:  # the document itself
            return
        self._add(element.after)
        self._end_element(element.part)
        if element.setting:
            text, self._buffer = "".join(self._buffer or ()), None
            self._add(set_text(element.setting, self._last, text))
        self._open.pop()
        if self._unseen == element.id:
            self._unseen = None

    def _end_element(self, tag: str) -> None:
        if tag in HEADINGS and self._heading is not None:
            title = " ".join("".join(self._heading).split())
            self._heading = None
            if title:
                self.sections.append(self._outline.head(int(tag[1]), title))
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

    def _end_block(self, tag: str) -> None:
        if tag in LIST_PARTS:
            self._lists.end(tag)
        self._pre = max(self._pre - (tag in {"pre", "textarea"}), 0)
        self.images.end(tag)
        self._add("\n\n" if tag in PARAGRAPHS else "\n")

    def _add(self, text: str) -> None:
        """Add text to what is open: an element with a setting, a reading, a heading, a cell or a section."""
        if (self._unseen is not None or self._open[-1].look.hides_words) and text.strip():
            self._outline.add_hidden(text)
            return
        if self._buffer is not None:
            self._buffer.append(text)
            return
        if not self._pre and text.startswith(" ") and self._last.endswith((" ", "\n")):
            text = text[1:]
        if self._in_reading:
            self._ruby.append(text)
            return
        text = self._lists.put_before(text)
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
        self.images.add_text(text)
        self._last = (self._last + text)[-40:]


def _is_gone(node: LexborNode, tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Return whether a page does not show an element, such as the title of a drawing."""
    if tag == "dialog":
        return "open" not in attributes
    return tag == "title" and node.parent is not None and node.parent.tag not in {"head", "html", "body"}
