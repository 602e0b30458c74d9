"""The Markdown of answers: read without HTML, and written as Markdown that is safe anywhere.

The markers of citations and the bounds of claims are set into the text as signs before it is read:
characters that Unicode gives no meaning. They come out again wherever they stand: in a cell of a table, in
code, in bold text. Blocks of which Markdown would drop words or signs (cells beyond the header of a table,
quotations nested without end) become paragraphs of their lines as they were written.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.runs.run_result import RunResult
from vrag.render.markdown_text import escape_text
from vrag.render.text_format import printable
from vrag.render.verdicts import answer_pieces

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

MAX_NESTING = 30
"""Lists, quotations and bold text within each other; MarkdownIt reads no further."""
BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
"""The one element that is read: models break lines with it within the cells of tables."""
SIGNS = re.compile(r"([\ue000\ue001]\d+\ue002|\ue003)")
"""A marker, and the start and the end of a claim."""
MARKER, _CLAIM, _CLOSE, _END = "\ue000", "\ue001", "\ue002", "\ue003"
_MARKERS, _CLAIMS = re.compile(r"\ue000(\d+)\ue002"), re.compile(r"\ue001\d+\ue002|\ue003")
_RESERVED = re.compile(r"[\ue000-\ue003]")
_LEAD = re.compile(r"\s*(?:[>#*+|-]\s*)*(?:\d{1,9}[.)]\s+)?[*_~`\[]*")
"""Syntax before the first word of a claim: a sign there would hide it."""
_TRAIL = re.compile(r"[\s*_~`|\]]*\Z")
_FENCE = re.compile(rf"^([ >]*(?:`{{3,}}|~{{3,}})[^\S\n]*)((?:\s?{SIGNS.pattern})+)[^\S\n]*$", re.MULTILINE)
"""The end of a block of code, and signs on the same line, where they would keep it open."""
_LANGUAGE = re.compile(r"[\w+#.-]{0,20}")
_FORMULA = re.compile(
    r"\$\$(?P<block>[^$]+)\$\$|\\\[(?P<display>.+?)\\\]|\\\((?P<inline>.+?)\\\)"
    r"|\$(?=\S)(?!\d(?=[^\\^_=+<>{}$]*\$)[^\s$]*\s)(?P<dollar>(?:\\.|[^$\\])+)(?<!\s)\$(?![\d$])",
    re.DOTALL,
)
"""A formula in LaTeX; a dollar before a figure and one before another, as of amounts, hold none."""
_MAX_FORMULA_CHARS = 2000
_MIN_FENCE = 3


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """An answer with signs for its markers and claims."""

    text: str
    claims: tuple[CheckedClaim, ...] = ()
    """The claims of the signs, by their numbers."""
    is_quote: bool = False
    """True if no model wrote it: its text has no Markdown."""


def sign_answer(run: RunResult, *, is_quote: bool = False) -> SignedAnswer:
    """Set signs into the answer of a run, or the one that was withdrawn."""
    claims: list[CheckedClaim] = []
    text = ""
    for piece in answer_pieces(run):
        words = clean(piece.text)
        if piece.number:
            text += f"{MARKER}{piece.number}{_CLOSE}"
        elif piece.claim is None:
            text += words
        else:
            begins_line = not text or text.endswith("\n")
            lead = _LEAD.match(words) if begins_line else re.match(r"[*_~`\[]*", words)
            start = lead.end() if lead else 0
            trail = _TRAIL.search(words, start)
            end = trail.start() if trail else len(words)
            text += f"{words[:start]}{_CLAIM}{len(claims)}{_CLOSE}{words[start:end]}{_END}{words[end:]}"
            claims.append(piece.claim)
    return SignedAnswer(text, tuple(claims), is_quote)


def clean(text: str) -> str:
    """Replace the characters that signs are made of."""
    return _RESERVED.sub("\ufffd", text)


def parse_answer(answer: SignedAnswer) -> SyntaxTreeNode:
    """Return the tree of an answer: paragraphs, lists, tables, quotations, code and what they hold.

    Links and pictures are nodes with their address, which is to be shown as text.
    """
    from markdown_it.tree import SyntaxTreeNode

    text = printable(answer.text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    tokens: list[Token] = []
    for block, source in [([], text)] if answer.is_quote else _blocks(text):
        is_whole = block and _is_whole(source, SyntaxTreeNode(block))
        tokens += block if is_whole else _plain(source)
    return SyntaxTreeNode(tokens)


def address_of(node: SyntaxTreeNode) -> str:
    """Return the address and title of a link or picture; empty if its text is the address."""
    address = str(node.attrs.get("href", node.attrs.get("src", "")))
    if address in {(words := visible_text(node.children)), f"mailto:{words}"}:
        return ""
    return ", ".join(filter(None, (address, str(node.attrs.get("title", "")))))


def code_of(node: SyntaxTreeNode) -> str:
    """Return the text of a block of code, below what stands beside its fence unless that names a language."""
    info = node.info.strip()
    return (
        node.content.removesuffix("\n")
        if _LANGUAGE.fullmatch(info)
        else f"{info}\n{node.content}".rstrip("\n")
    )


def visible_text(nodes: Iterable[SyntaxTreeNode]) -> str:
    """Return the text that is shown of nodes, with its signs."""
    return "".join(part for node in nodes for part in _visible(node))


def write_markdown(answer: SignedAnswer, cite: Callable[[int], str], *, formulas: bool = True) -> str:
    r"""Write an answer as Markdown that fetches and runs nothing, and stays within its place in a document.

    Headings are bold paragraphs, pictures and links are text with their address, all other text is escaped.
    `cite` returns the Markdown of the marker of a number. Without `formulas`, LaTeX is code, for programs
    that read dollar signs in other ways.

    >>> answer = SignedAnswer("# Sales\n\n| a | b |\n|---|---|\n| *x* | ![y](http://z) |")
    >>> print(write_markdown(answer, "[{}](#a)".format))
    **Sales**
    <BLANKLINE>
    | a | b |
    | --- | --- |
    | *x* | y (http\://z) |
    """
    return "\n\n".join(_MarkdownWriter(cite, formulas=formulas).blocks(parse_answer(answer).children))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"]).disable("reference")
    parser.inline.ruler.before("escape", "formula", _keep_formula)
    for name in ("normalizeLink", "normalizeLinkText"):  # addresses are shown, never opened
        setattr(parser, name, str)
    return parser


def _keep_formula(state: StateInline, silent: bool) -> bool:
    """Read a formula in LaTeX as one node: its backslashes, underscores and stars are its own."""
    limit = min(state.pos + _MAX_FORMULA_CHARS, state.posMax)
    match = _FORMULA.match(state.src, state.pos, limit) if state.src[state.pos] in "$\\" else None
    if match is None:
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _formula_of(node: SyntaxTreeNode) -> tuple[str, bool]:
    """Return a formula without its signs and markers, and whether it stands in a line of its own."""
    match = _FORMULA.fullmatch(node.content)
    if match is None:
        return node.content, False
    return SIGNS.sub("", match[match.lastgroup or 0]).strip(), match.lastgroup in {"block", "display"}


def _blocks(text: str) -> Iterator[tuple[list[Token], str]]:
    """Yield the tokens of each outermost block, and its lines."""
    if "\n" not in text:  # one line is no list, heading or quotation: `- 5 %` is a number
        yield list(_paragraph(_parser().parseInline(text))), text
        return
    text = _FENCE.sub(r"\1\n\2", text)
    lines = text.split("\n")
    block: list[Token] = []
    for token in _parser().parse(text):
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            start, end = block[0].map or (0, 0)
            yield block, "\n".join(lines[start:end])
            block = []


def _is_whole(source: str, tree: SyntaxTreeNode) -> bool:
    """Return whether a block shows all signs of its source in order, and all its letters and digits."""
    shown = visible_text(tree.children)
    if SIGNS.findall(source) != SIGNS.findall(shown):
        return False
    return not _letters(html.unescape(source)) - _letters(shown)


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, SIGNS.sub("", text)))


def _plain(text: str) -> Iterator[Token]:
    """Yield paragraphs of text without Markdown; lines stay lines."""
    from markdown_it.token import Token

    for block in re.split(r"\n[^\S\n]*(?:\n[^\S\n]*)+", text):
        line_tokens: list[Token] = []
        for line in block.split("\n"):
            line_tokens += [Token("hardbreak", "br", 0)] * bool(line_tokens)
            line_tokens.append(Token("text", "", 0, content=line))
        yield from _paragraph([Token("inline", "", 0, children=line_tokens)])


def _paragraph(tokens: Iterable[Token]) -> Iterator[Token]:
    from markdown_it.token import Token

    yield Token("paragraph_open", "p", 1)
    yield from tokens
    yield Token("paragraph_close", "p", -1)


def _visible(node: SyntaxTreeNode) -> Iterator[str]:
    match node.type:
        case "text" | "code_inline" | "formula":
            yield node.content
        case "fence" | "code_block":
            yield f"{node.info} {node.content}"
        case "list_item":
            yield node.info
        case _:
            pass
    yield from (part for child in node.children for part in _visible(child))
    if node.type in {"link", "image"}:
        yield address_of(node)


class _MarkdownWriter:
    """Writes trees of answers as Markdown."""

    def __init__(self, cite: Callable[[int], str], *, formulas: bool) -> None:
        self._cite = cite
        self._sets_formulas = formulas

    def blocks(self, nodes: Sequence[SyntaxTreeNode]) -> Iterator[str]:
        """Yield each block that is not empty; lists that follow each other have different marks."""
        previous, is_other = "", False
        for node in nodes:
            is_other = node.type == previous and not is_other
            previous = node.type
            if text := self._block(node, is_other=is_other):
                yield text

    def _block(self, node: SyntaxTreeNode, *, is_other: bool) -> str:  # noqa: PLR0911 - one case per kind
        match node.type:
            case "heading":
                text = self._lines(node, strong=True)
                return text and f"**{text}**"
            case "bullet_list" | "ordered_list":
                return self._list(node, is_other=is_other)
            case "blockquote":
                lines = "\n\n".join(self.blocks(node.children)).split("\n")
                return "\n".join(f"> {line}" if line else ">" for line in lines)
            case "fence" | "code_block":
                return self._code_block(code_of(node))
            case "hr":
                return "***"
            case "table":
                return "\n".join(self._rows(node))
            case _:
                return self._formula_block(node) or self._lines(node)

    def _formula_block(self, node: SyntaxTreeNode) -> str:
        """Write a paragraph that is one formula as a block of code, which some programs set as a formula."""
        nodes = [child for child in node.children for child in child.children or [child]]
        formulas = [child for child in nodes if child.type == "formula"]
        rest = "".join(visible_text([child]) for child in nodes if child.type != "formula")
        if not self._sets_formulas or len(formulas) != 1 or SIGNS.sub("", rest).strip(" ."):
            return ""
        tex, is_block = _formula_of(formulas[0])
        if not is_block or "`" in tex:
            return ""
        markers = self._markers(formulas[0].content + rest)
        return f"```math\n{tex}\n```" + (f"\n\n{markers}" if markers else "")

    def _list(self, node: SyntaxTreeNode, *, is_other: bool) -> str:
        gap = "\n" if all(map(_is_tight, node.children)) else "\n\n"
        bullet, dot = ("+", ")") if is_other else ("-", ".")
        items: list[str] = []
        for number, item in enumerate(node.children, int(node.attrs.get("start", 1))):
            mark = f"{min(number, 999_999_999)}{dot}" if node.type == "ordered_list" else bullet
            first, *others = gap.join(self.blocks(item.children)).split("\n")
            indent = " " * (len(mark) + 1)
            lines = (line and f"{indent}{line}" for line in others)
            items.append("\n".join([f"{mark} {first}".rstrip(), *lines]))
        return gap.join(items)

    def _rows(self, node: SyntaxTreeNode) -> Iterator[str]:
        heads, *bodies = node.children
        names = heads.children[0].children
        yield self._row(names)
        marks = {"left": ":---", "center": ":---:", "right": "---:"}
        yield f"| {' | '.join(marks.get(alignment_of(cell), '---') for cell in names)} |"
        yield from (self._row(row.children) for body in bodies for row in body.children)

    def _row(self, cells: Sequence[SyntaxTreeNode]) -> str:
        return f"| {' | '.join(self._lines(cell, in_cell=True) for cell in cells)} |"

    def _code_block(self, code: str) -> str:
        """Write a block of code; its markers follow it."""
        fence = "`" * max(_MIN_FENCE, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
        markers = self._markers(code)
        return f"{fence}\n{SIGNS.sub('', code)}\n{fence}" + (f"\n\n{markers}" if markers else "")

    def _lines(self, node: SyntaxTreeNode, *, strong: bool = False, in_cell: bool = False) -> str:
        """Write the text within a block."""
        text = ""
        for part in self._inline(node.children, strong=strong, in_cell=in_cell):
            begins_line = not text or text.endswith("\n")
            text += escape_text(part[1:], begins_line=begins_line) if part.startswith("\0") else part
        return re.sub(r"\A(?:\\\n)+|(?:\\\n)+\Z", "", text).strip(" ")

    def _inline(self, nodes: Iterable[SyntaxTreeNode], *, strong: bool, in_cell: bool) -> Iterator[str]:
        """Yield Markdown, and text behind a null character, which is to be escaped."""
        line_break = "<br>" if in_cell else "\\\n"
        for node in nodes:
            match node.type:
                case "text":
                    yield from self._text(node.content, line_break)
                case "softbreak" | "hardbreak":
                    yield line_break
                case "code_inline":
                    yield _code_span(SIGNS.sub("", node.content), in_cell=in_cell)
                    if markers := self._markers(node.content):
                        yield f" {markers}"
                case "formula":
                    yield self._formula(node, in_cell=in_cell)
                case "strong" | "em" | "s":
                    mark = (
                        ""
                        if node.type == "strong" and strong
                        else {"strong": "**", "em": "*", "s": "~~"}[node.type]
                    )
                    yield mark
                    yield from self._inline(
                        node.children, strong=strong or node.type == "strong", in_cell=in_cell
                    )
                    yield mark
                case "link" | "image":
                    yield from self._inline(node.children, strong=strong, in_cell=in_cell)
                    if address := address_of(node):
                        yield from self._text(f" ({address})", line_break)
                case _:
                    yield from self._inline(node.children, strong=strong, in_cell=in_cell)

    def _formula(self, node: SyntaxTreeNode, *, in_cell: bool) -> str:
        """Write a formula as code, which nothing runs or fetches; some programs set it as a formula."""
        tex, _ = _formula_of(node)
        is_plain = self._sets_formulas and "`" not in tex and "\n" not in tex and not in_cell
        source = " ".join(SIGNS.sub("", node.content).split())
        code = f"$`{tex}`$" if is_plain else _code_span(source, in_cell=in_cell)
        markers = self._markers(node.content)
        return f"{code} {markers}" if markers else code

    def _text(self, text: str, line_break: str) -> Iterator[str]:
        """Yield words and markers; what claims end is escaped with the words around it."""
        for index, part in enumerate(_MARKERS.split(_CLAIMS.sub("", text))):
            if index % 2:
                yield self._cite(int(part))
                continue
            for at, words in enumerate(BREAK.split(part)):
                yield from [line_break] * bool(at)
                yield f"\0{words}"

    def _markers(self, text: str) -> str:
        return "".join(self._cite(int(number)) for number in _MARKERS.findall(text))


def _is_tight(item: SyntaxTreeNode) -> bool:
    """Return whether an item is one paragraph, perhaps with a list below, in a list without empty lines."""
    kinds = [child.type for child in item.children]
    return not kinds or (
        kinds[0] == "paragraph"
        and item.children[0].hidden
        and not kinds[2:]
        and (not kinds[1:] or kinds[1].endswith("list"))
    )


def alignment_of(cell: SyntaxTreeNode) -> str:
    """Return the alignment of a cell: `left`, `center`, `right` or empty."""
    return str(cell.attrs.get("style", "")).removeprefix("text-align:")


def _code_span(code: str, *, in_cell: bool) -> str:
    runs = {len(run) for run in re.findall("`+", code)}
    ticks = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    space = " " if code.startswith(("`", " ")) or code.endswith(("`", " ")) else ""
    code = code.replace("|", "\\|") if in_cell else code
    return f"{ticks}{space}{code}{space}{ticks}"
