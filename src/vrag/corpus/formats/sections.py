"""Plain text, Markdown, HTML and JSON → sections: the text under one heading."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from markdown_it.token import Token
    from selectolax.lexbor import LexborNode

    JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | float | bool | None"

CELL = " | "
CELL_END = "\ufdd0"
"""End of a table cell while HTML is read: a Unicode noncharacter, which text must not contain."""
DROPPED = frozenset({"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas"})
"""HTML elements whose content is not read."""
BLOCKS = frozenset(
    "address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption "
    "figure footer form header hr html legend li main menu nav ol option p pre section summary table tbody "
    "tfoot thead title tr ul".split()
)
"""HTML elements that begin and end a line."""
HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
PARAGRAPHS = frozenset("article blockquote div dl figure li ol p pre section table ul".split())
"""HTML elements that an empty line follows."""


MAX_ICON = 48
"""Pixels of the longest side that an icon has by the attributes of its element."""


class Section(NamedTuple):
    """Text under one heading, which is its first line."""

    headings: tuple[str, ...]
    """Outermost first, the section's own last; "" where a level is skipped."""
    text: str


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


def _is_hidden(attributes: Mapping[str, str | None]) -> bool:
    """Return whether the attributes of an image say that it is decoration."""
    if attributes.get("role") in {"presentation", "none"} or attributes.get("aria-hidden") == "true":
        return True
    sides = (attributes.get(name) or "" for name in ("width", "height"))
    return any(re.fullmatch(r"\d{1,4}", side, re.ASCII) and int(side) <= MAX_ICON for side in sides)


class SectionOutline:
    """A section in the making, and the headings above it."""

    def __init__(self) -> None:
        self._headings: tuple[str, ...] = ()
        self._parts: list[str] = []

    @property
    def headings(self) -> tuple[str, ...]:
        """The current heading and those above it."""
        return self._headings

    def add(self, text: str) -> None:
        """Add text under the current heading."""
        self._parts.append(text)

    def head(self, level: int, title: str) -> Section:
        """Begin a section under a heading of a level from 1; return the section that ends."""
        ended = self.end()
        above = (*self._headings, *[""] * level)[: level - 1]
        self._headings = (*above, title)
        self._parts = [title, "\n\n"]
        return ended

    def end(self) -> Section:
        """Return the current section."""
        return Section(self._headings, "".join(self._parts).strip())


def plain_sections(text: str) -> Iterator[Section]:
    """Yield the whole text as one section."""
    yield Section((), text.strip())


def markdown_sections(text: str) -> Iterator[Section]:
    """Parse Markdown with tables. Formatting is dropped, words are kept."""
    from markdown_it import MarkdownIt

    outline = SectionOutline()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for index, token in enumerate(tokens):
        if token.type == "inline" and index and tokens[index - 1].type == "heading_open":
            yield outline.head(int(tokens[index - 1].tag[1]), _inline(token))
        else:
            outline.add(_markdown_text(token))
    yield outline.end()


TOKEN_TEXTS = {
    "td_close": CELL,
    "th_close": CELL,
    "tr_close": "\n",
    "table_close": "\n",
    "bullet_list_close": "\n",
    "ordered_list_close": "\n",
    "blockquote_close": "\n",
}
"""Markdown token → its replacement."""


def _markdown_text(token: Token) -> str:
    match token.type:
        case "inline":
            return _inline(token)
        case "fence" | "code_block":
            return token.content.rstrip("\n") + "\n\n"
        case "html_block":
            return "\n".join(section.text for section in html_sections(token.content)) + "\n\n"
        case "paragraph_close":
            return "\n" if token.hidden else "\n\n"
        case "list_item_open":
            return f"{token.info}{token.markup} " if token.info else "- "
        case _:
            return TOKEN_TEXTS.get(token.type, "")


def _inline(token: Token) -> str:
    """Return the words of a line of Markdown, and the description of each image in it."""
    parts: list[str] = []
    for child in token.children or ():
        match child.type:
            case "text" | "code_inline":
                parts.append(child.content)
            case "image":
                parts.append(_inline(child))
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case _:
                pass
    return "".join(parts)


class _HtmlPage:
    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.figures: list[Figure] = []
        self.base = ""
        """The address that references are relative to, where the file has one."""
        self._outline = SectionOutline()
        self._heading: list[str] | None = None
        """Text of the heading that is open."""
        self._first_image: int | None = None
        """Number of images before the `<figure>` that is open."""
        self._caption: list[str] = []
        """Text of its caption."""
        self._in_caption = False
        self._pre = 0
        """Number of `<pre>` elements that are open."""

    def read(self, text: str) -> None:
        """Walk the tree without recursion, since elements may be nested by the thousands.

        lexbor takes a second for a depth of 16,000, and four times as long for twice the depth: the time
        limit of the worker bounds it.
        """
        from selectolax.lexbor import LexborHTMLParser

        node = LexborHTMLParser(text).root
        while node is not None:
            child = node.first_child if self._begin(node) else None
            if child is not None:
                node = child
                continue
            self._end(node)
            while node.next is None and node.parent is not None:
                node = node.parent
                self._end(node)
            node = node.next
        self.sections.append(self._outline.end())

    def _begin(self, node: LexborNode) -> bool:
        """Begin a node; return whether its children are read."""
        tag = str(node.tag)
        if tag == "-text":
            text = node.text_content or ""
            self._add(text if self._pre else re.sub(r"\s+", " ", text))
        elif tag in DROPPED or tag[0] in "-!":  # comments and the like
            return False
        elif tag in HEADINGS:
            self._heading = []
        elif tag == "img":  # pages that load images late name them in `data-src`
            names = ("data-src", "src", "alt", "title")
            late, address, description, title = (node.attributes.get(name) or "" for name in names)
            self._add(description)
            text = " ".join((description or title).split())
            if reference := (late or address).strip():
                hidden = _is_hidden(node.attributes)
                self.figures.append(Figure(reference, text, self._outline.headings, hidden))
        elif tag == "base":
            self.base = self.base or node.attributes.get("href") or ""
        elif tag in BLOCKS:
            self._pre += tag == "pre"
            self._add("\n")
            self._in_caption = self._in_caption or tag == "figcaption"
            if tag == "figure":
                self._first_image, self._caption = len(self.figures), []
        return True

    def _end(self, node: LexborNode) -> None:
        tag = str(node.tag)
        if tag in HEADINGS and self._heading is not None:
            title = _join_words(self._heading)
            self._heading = None
            if title:
                self.sections.append(self._outline.head(int(tag[1]), title))
        elif tag in {"td", "th"}:
            self._add(CELL_END)
        elif tag in BLOCKS and tag not in {"br", "hr"}:
            self._pre -= tag == "pre"
            self._in_caption = self._in_caption and tag != "figcaption"
            if tag == "figure" and self._first_image is not None:  # else an inner figure has ended
                caption = _join_words(self._caption)
                for number in range(self._first_image, len(self.figures)):
                    figure = self.figures[number]
                    text = "\n".join(dict.fromkeys(filter(None, (figure.text, caption))))
                    self.figures[number] = figure._replace(text=text)
                self._first_image = None
            self._add("\n\n" if tag in PARAGRAPHS else "\n")

    def _add(self, text: str) -> None:
        if self._heading is None:
            self._outline.add(text)
        else:
            self._heading.append(text)
        if self._in_caption:
            self._caption.append(text)


def _join_words(parts: list[str]) -> str:
    return " ".join("".join(parts).replace(CELL_END, CELL).split())


def html_sections(text: str) -> list[Section]:
    """Parse HTML to what a reader sees, cells of a table row on one line."""
    return html_page(text)[0]


def html_page(text: str) -> tuple[list[Section], list[Figure], str]:
    """Return sections and images of HTML, and the address that references are relative to, or ""."""
    page = _HtmlPage()
    page.read(text.replace(CELL_END, "\ufffd"))
    sections: list[Section] = []
    for headings, section_text in page.sections:  # without empty cells at the ends of lines
        lines = (re.sub(rf"[\s{CELL_END}]+$", "", line) for line in section_text.split("\n"))
        tidy = "\n".join(line.replace(CELL_END, CELL).strip() for line in lines)
        sections.append(Section(headings, re.sub(r"\n{3,}", "\n\n", tidy).strip()))
    return sections, page.figures, page.base


def json_sections(text: str) -> Iterator[Section]:
    """Convert JSON, or JSON Lines without a fault, to lines "path.to.key: value", records apart.

    Raises `CorpusError` if it is neither, or nested too deeply.
    """
    try:
        yield _records(json.loads(text))
    except ValueError as error:
        section, bad = json_lines(text)
        if bad or len(text.split("\n", 1)) == 1:
            raise CorpusError(f"This is not valid JSON: {error}.") from error
        yield section
    except RecursionError as error:
        raise CorpusError("The JSON is nested too deeply.") from error


def json_lines(text: str) -> tuple[Section, str]:
    """Convert the valid lines of JSON Lines as `json_sections` does; describe the faults of others, or "".

    Records are numbered from 0 and lines, as editors do, from 1; empty lines are left out.
    """
    values: dict[str, JsonValue] = {}
    faults: list[str] = []
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for place, (number, line) in enumerate(lines):
        try:
            values[f"[{place}]"] = json.loads(line)
        except json.JSONDecodeError as error:
            faults.append(f"Line {number} is not valid JSON: {error.msg} at character {error.pos + 1}.")
        except (ValueError, RecursionError):
            faults.append(f"Line {number} is not JSON that can be read.")
    more = f" Nor are {len(faults) - 1:,} more of {len(lines):,} lines." if len(faults) > 1 else ""
    return _records(values), f"{faults[0]}{more}" if faults else ""


def _records(value: JsonValue) -> Section:
    records: Iterator[tuple[str, JsonValue]]
    match value:
        case list():
            records = ((f"[{number}]", record) for number, record in enumerate(value))
        case dict():
            records = ((str(key), record) for key, record in value.items())
        case _:
            records = iter([("", value)])
    return Section((), "\n\n".join(filter(None, ("\n".join(_leaves(*record)) for record in records))))


def _leaves(path: str, value: JsonValue) -> Iterator[str]:
    """Yield a line per value that is neither a list nor an object; lists of such values share one."""
    stack: list[tuple[str, JsonValue]] = [(path, value)]
    while stack:
        path, value = stack.pop()
        match value:
            case dict():
                stack += reversed([(f"{path}.{key}" if path else str(key), v) for key, v in value.items()])
            case list() if any(isinstance(part, dict | list) for part in value):
                stack += reversed([(f"{path}[{number}]", part) for number, part in enumerate(value)])
            case list():
                yield f"{path}: {', '.join(map(_scalar, value))}"
            case _:
                yield f"{path}: {_scalar(value)}" if path else _scalar(value)


def _scalar(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
