"""Plain text, Markdown, HTML and JSON → sections: the text under one heading."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, NamedTuple

from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from markdown_it.token import Token

    JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | float | bool | None"

__all__ = [
    "Figure",
    "Section",
    "html_page",
    "html_sections",
    "json_lines",
    "json_sections",
    "markdown_sections",
    "plain_sections",
]

CELL = " | "
CELL_END = "\ufdd0"
"""End of a table cell while HTML is read: a Unicode noncharacter, which text must not contain."""
DROPPED = frozenset({"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas"})
"""HTML elements whose content is not text to read."""
BLOCKS = frozenset(
    "address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption "
    "figure footer form header hr html legend li main menu nav ol option p pre section summary table tbody "
    "tfoot thead title tr ul".split()
)
"""HTML elements that begin and end a line."""
PARAGRAPHS = frozenset("article blockquote div dl figure li ol p pre section table ul".split())
"""Those after which comes an empty line."""


class Section(NamedTuple):
    """Text under one heading, which is its first line."""

    headings: tuple[str, ...]
    """Outermost first, the section's own last; "" where a level is skipped."""
    text: str


class Figure(NamedTuple):
    """A picture in an HTML file."""

    reference: str
    """Where it is, as the file says."""
    text: str
    """Its description and caption."""
    headings: tuple[str, ...]
    """Above it, outermost first."""


class SectionOutline:
    """Collects sections as headings and text come along."""

    def __init__(self) -> None:
        self._headings: tuple[str, ...] = ()
        self._parts: list[str] = []

    @property
    def headings(self) -> tuple[str, ...]:
        """The current heading and those above it."""
        return self._headings

    def add(self, text: str) -> None:
        """Adds text under the current heading."""
        self._parts.append(text)

    def head(self, level: int, title: str) -> Section:
        """Begins a section under a heading of a level from 1; returns the section that ends."""
        ended = self.end()
        above = (*self._headings, *[""] * level)[: level - 1]
        self._headings = (*above, title)
        self._parts = [title, "\n\n"]
        return ended

    def end(self) -> Section:
        """The section as far as it has come."""
        return Section(self._headings, "".join(self._parts).strip())


def plain_sections(text: str) -> Iterator[Section]:
    """The whole text as one section."""
    yield Section((), text.strip())


def markdown_sections(text: str) -> Iterator[Section]:
    """Sections of Markdown with tables. Formatting is dropped, words are kept."""
    from markdown_it import MarkdownIt

    outline = SectionOutline()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for index, token in enumerate(tokens):
        if token.type == "inline" and index and tokens[index - 1].type == "heading_open":
            yield outline.head(int(tokens[index - 1].tag[1]), _inline(token))
        else:
            outline.add(_markdown_text(token))
    yield outline.end()


CLOSED = {
    "td_close": CELL,
    "th_close": CELL,
    "tr_close": "\n",
    "table_close": "\n",
    "bullet_list_close": "\n",
    "ordered_list_close": "\n",
    "blockquote_close": "\n",
}
"""Markdown token → what is written in its place."""


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
            return CLOSED.get(token.type, "")


def _inline(token: Token) -> str:
    """The words of a line of Markdown, and the description of each picture in it."""
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


class _MarkupParser(HTMLParser):
    """Folds HTML into sections; survives whatever is not closed, or closed twice."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: list[Section] = []
        self.outline = SectionOutline()
        self.figures: list[Figure] = []
        self.base = ""
        """What references are relative to, when the file says so."""
        self._figure: int | None = None
        """Number of figures before the `<figure>` that is open."""
        self._caption: list[str] = []
        """What stands in its caption."""
        self._captioned = False
        """Whether the caption is open."""
        self._dropped = ""
        """The element whose content is being dropped; "" for none."""
        self._depth = 0
        """How often that element is open within itself."""
        self._heading: list[str] | None = None
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Begins an element."""
        if self._dropped:
            self._depth += tag == self._dropped
        elif tag in DROPPED:
            self._dropped, self._depth = tag, 1
        elif _level(tag):
            self._heading = []
        elif tag == "img":
            self._show(dict(attrs))
        elif tag == "base":
            self.base = self.base or dict(attrs).get("href") or ""
        elif tag in BLOCKS:
            self._pre += tag == "pre"
            self._add("\n")
            self._frame(tag)

    def handle_endtag(self, tag: str) -> None:
        """Ends an element."""
        if self._dropped:
            self._depth -= tag == self._dropped
            self._dropped = self._dropped if self._depth else ""
        elif level := _level(tag):
            self._end_heading(level)
        elif tag in {"td", "th"}:
            self._add(CELL_END)
        elif tag in BLOCKS:
            self._pre = max(0, self._pre - (tag == "pre"))
            self._unframe(tag)
            self._add("\n\n" if tag in PARAGRAPHS else "\n")

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """An element such as `<br/>`; `<script/>` counts as closed, as its writer meant."""
        if tag not in DROPPED:
            self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        """Takes text in."""
        if not self._dropped:
            self._add(data if self._pre else re.sub(r"\s+", " ", data))

    def finish(self) -> list[Section]:
        """All sections."""
        self.close()
        self._end_heading(6)
        return [*self.sections, self.outline.end()]

    def _show(self, attrs: dict[str, str | None]) -> None:
        """Notes a picture; pages that load pictures late name them in `data-src`."""
        text = attrs.get("alt") or attrs.get("title") or ""
        self._add(attrs.get("alt") or "")
        if reference := (attrs.get("data-src") or attrs.get("src") or "").strip():
            self.figures.append(Figure(reference, " ".join(text.split()), self.outline.headings))

    def _frame(self, tag: str) -> None:
        if tag == "figure":
            self._figure, self._caption = len(self.figures), []
        self._captioned = tag == "figcaption" or (self._captioned and tag != "figure")

    def _unframe(self, tag: str) -> None:
        """Ends a figure: its caption goes to every picture in it."""
        self._captioned = self._captioned and tag not in {"figcaption", "figure"}
        if tag != "figure" or self._figure is None:
            return
        caption = _join_words(self._caption)
        for number in range(self._figure, len(self.figures)):
            figure = self.figures[number]
            text = "\n".join(dict.fromkeys(filter(None, (figure.text, caption))))
            self.figures[number] = figure._replace(text=text)
        self._figure = None

    def _end_heading(self, level: int) -> None:
        if self._heading is not None:
            title = _join_words(self._heading)
            self._heading = None
            if title:
                self.sections.append(self.outline.head(level, title))

    def _add(self, text: str) -> None:
        (self.outline.add if self._heading is None else self._heading.append)(text)
        if self._captioned:
            self._caption.append(text)


def _join_words(parts: Sequence[str]) -> str:
    """Join the text of an element into one line."""
    return " ".join("".join(parts).replace(CELL_END, CELL).split())


def _level(tag: str) -> int:
    """1 to 6 for a heading, 0 for anything else."""
    return int(tag[1]) if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456" else 0


def html_sections(text: str) -> Iterator[Section]:
    """Sections of HTML: what a reader sees, cells of a table row on one line."""
    yield from html_page(text)[0]


def html_page(text: str) -> tuple[list[Section], list[Figure], str]:
    """Sections and pictures of HTML, and what references are relative to, where it says so."""
    page = _MarkupParser()
    page.feed(text.replace(CELL_END, "\ufffd"))
    sections = [Section(section.headings, _tidy(section.text)) for section in page.finish()]
    return sections, page.figures, page.base


def _tidy(text: str) -> str:
    """Remove spaces and empty cells at the ends of lines, and all but one of several empty lines."""
    lines = (
        re.sub(rf"[\s{CELL_END}]+$", "", line).replace(CELL_END, CELL).strip() for line in text.split("\n")
    )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def json_sections(text: str) -> Iterator[Section]:
    """JSON, or JSON Lines in which all are good, as lines "path.to.key: value", records apart.

    Raises:
        CorpusError: If it is neither, or nested too deeply.
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
    """The good lines of JSON Lines as `json_sections` has them, and what is wrong with the others, or "".

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
    """One line per value that is neither a list nor an object; lists of such values share one."""
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
