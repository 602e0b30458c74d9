"""Plain text, Markdown and JSON → sections: the text under one heading."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from vrag.corpus.formats.texts.html_tree import html_sections
from vrag.corpus.formats.texts.outline import Section, SectionOutline
from vrag.corpus.formats.texts.raised_text import lower_text, raise_text
from vrag.corpus.formats.texts.table_lines import TableDraft
from vrag.corpus.formats.texts.visibility import DELETED
from vrag.corpus.sniff import drop_invisible
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from markdown_it.token import Token

    JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | float | bool | None"

_NAME = re.compile(r"[\w.-]+[ \t]*:(?:\s|$)")
_DATA_LINE = re.compile(rf"{_NAME.pattern}|[ \t#-]|$")
MAX_DATA_LINES = 200
"""Lines of the data in front of a Markdown text."""
_HTML_TAG = re.compile(r"<(?P<end>/?)(?P<name>[a-zA-Z][\w-]*)")


def plain_sections(text: str) -> Iterator[Section]:
    """Yield the whole text as one section."""
    yield Section((), text.strip())


def markdown_sections(text: str) -> Iterator[Section]:
    """Parse Markdown with tables. Formatting and text that is struck through are dropped, words are kept.

    Data in front of the text (YAML) stays as it is.
    """
    from markdown_it import MarkdownIt

    page = _MarkdownPage()
    data, text = _split_front_matter(text)
    page.outline.add(data)
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        if section := page.read(token):
            yield section
    yield page.outline.end()


def _split_front_matter(text: str) -> tuple[str, str]:
    """Return the names and values (YAML) between two lines of dashes at the begin of a file, and the rest."""
    lines = text.removeprefix("\ufeff").split("\n", MAX_DATA_LINES + 2)
    if lines[0].rstrip() != "---":
        return "", text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."} and any(map(_NAME.match, lines[1:number])):
            data = "\n".join(each.rstrip() for each in lines[1:number])
            return f"{data}\n\n", "\n".join(lines[number + 1 :])
        if not _DATA_LINE.match(line) or line.rstrip() == "---" or number > MAX_DATA_LINES:
            break
    return "", text


TOKEN_TEXTS = {"bullet_list_close": "\n", "ordered_list_close": "\n", "blockquote_close": "\n"}
"""Markdown token → its replacement."""


class _MarkdownPage:
    """The sections of a Markdown file while it is read."""

    def __init__(self) -> None:
        self.outline = SectionOutline()
        self._table: TableDraft | None = None
        self._level = 0
        """Level of the heading that is open."""

    def read(self, token: Token) -> Section | None:
        """Read a token; return the section that ends with it."""
        match token.type:
            case "heading_open":
                self._level = int(token.tag[1])
            case "inline" if self._level:
                level, self._level = self._level, 0
                return self.outline.head(level, read_inline(token))
            case "table_open":
                self._table = TableDraft()
            case "table_close" if self._table is not None:
                self._end_table(self._table)
            case _ if self._table is not None:
                self._read_table(self._table, token)
            case "html_block":
                for section in html_sections(token.content):
                    self.outline.add_section(section)
                    self.outline.add("\n")
                self.outline.add("\n")
            case _:
                self.outline.add(_markdown_text(token))
        return None

    def _read_table(self, table: TableDraft, token: Token) -> None:
        match token.type:
            case "tr_open":
                table.begin_row()
            case "th_open" | "td_open":
                table.begin_cell(is_head=token.type == "th_open")
            case "inline":
                table.add(read_inline(token))
            case _:
                pass

    def _end_table(self, table: TableDraft) -> None:
        lined, self._table = table.finish(), None
        if lined is not None:
            self.outline.add_table(lined)
        else:
            self.outline.add(table.lines() + "\n\n")


def _markdown_text(token: Token) -> str:
    match token.type:
        case "inline":
            return read_inline(token)
        case "fence" | "code_block":
            return token.content.rstrip("\n") + "\n\n"
        case "paragraph_close":
            return "\n" if token.hidden else "\n\n"
        case "list_item_open":
            return f"{token.info}{token.markup} " if token.info else "- "
        case _:
            return TOKEN_TEXTS.get(token.type, "")


def read_inline(token: Token) -> str:
    """Return the words of a line of Markdown, and the description of each image in it."""
    text = ""
    struck = 0
    raised: tuple[str, int] | None = None
    for child in token.children or ():
        tag = _HTML_TAG.match(child.content) if child.type == "html_inline" else None
        name = tag["name"].lower() if tag else ""
        if child.type in {"s_open", "s_close"} or name in DELETED:
            is_end = child.type == "s_close" or bool(tag and tag["end"])
            struck = max(struck - 1, 0) if is_end else struck + 1
        elif struck:
            continue
        elif name in {"sup", "sub"}:
            if tag and not tag["end"]:
                raised = name, len(text)
            elif raised and raised[0] == name:
                before, inner = text[: raised[1]], text[raised[1] :]
                text = before + (raise_text(before, inner) if name == "sup" else lower_text(inner))
                raised = None
        elif name == "br":
            text += "\n"
        else:
            text += _inline_text(child)
    return text


def _inline_text(token: Token) -> str:
    match token.type:
        case "text" | "code_inline":
            return drop_invisible(token.content)
        case "image":
            return read_inline(token)
        case "softbreak" | "hardbreak":
            return "\n"
        case _:
            return ""


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
    return drop_invisible(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
