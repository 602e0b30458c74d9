"""Answers as elements of a page: paragraphs, lists, tables, quotations and code.

All text is text; there are no pictures, and the only links are the markers of citations, which lead to
evidence of the same page. Addresses stand behind what they belong to, as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from vrag.render.answer_markdown import (
    BREAK,
    MARKER,
    SIGNS,
    SignedAnswer,
    address_of,
    alignment_of,
    clean,
    code_of,
    parse_answer,
    sign_answer,
)
from vrag.render.run_view import RunView
from vrag.render.verdicts import VERDICT_NAMES

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_TEXT_DIRECTION = {"dir": "auto"}
"""The direction of a block is that of its first letter."""
_MAX_HEADING = 6
_VOID = frozenset({"br", "hr"})


@dataclass(frozen=True, slots=True)
class AnswerElement:
    """An element of an answer."""

    tag: str
    content: tuple[AnswerElement | str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])

    def __html__(self) -> str:
        """Return the element as HTML, all text escaped."""
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in self.attributes.items())
        if self.tag in _VOID:
            return f"<{self.tag}{attributes}>"
        return f"<{self.tag}{attributes}>{''.join(map(escape, self.content))}</{self.tag}>"

    def as_list(self) -> list[Any]:
        """Return the element as JSON: tag, attributes, and content."""
        content = [part if isinstance(part, str) else part.as_list() for part in self.content]
        return [self.tag, dict(self.attributes), content]


def answer_html(run: RunView, anchor: str = "evidence-", label: str = "", heading: int = 3) -> Markup:
    """Return the answer of a run, or the one that was withdrawn, as HTML.

    Its markers are links to the evidence; `anchor` and `label` stand before its numbers. Its uppermost
    headings are of the level `heading`.
    """

    def cite(number: int) -> AnswerElement:
        name = f"{label}{number}"
        attributes = {"class": "cite", "href": f"#{anchor}{number}", "aria-label": f"Evidence {name}"}
        return AnswerElement("a", (f"[{name}]",), attributes)

    return _markup(answer_elements(sign_answer(run.result, is_quote=run.is_without_model), cite, heading))


def turn_html(answer: str) -> Markup:
    """Return an answer of an earlier turn, without citations, as HTML."""
    return _markup(answer_elements(SignedAnswer(clean(answer))))


def answer_elements(
    answer: SignedAnswer, cite: Callable[[int], AnswerElement] | None = None, heading: int = 0
) -> list[AnswerElement | str]:
    """Return an answer as elements; `cite` makes those of markers.

    Headings are of the level `heading` and below; 0 makes them paragraphs of the class `heading`.
    """
    tree = parse_answer(answer)
    levels = [int(node.tag[1:]) for node in tree.walk() if node.type == "heading"]
    builder = _ElementBuilder(answer, cite, heading, min(levels, default=1))
    return list(builder.of_all(tree.children))


def _markup(content: Sequence[AnswerElement | str]) -> Markup:
    return Markup().join(content)


class _ElementBuilder:
    """Builds the elements of one answer, in order: a claim may begin in one and end in another."""

    def __init__(
        self, answer: SignedAnswer, cite: Callable[[int], AnswerElement] | None, heading: int, uppermost: int
    ) -> None:
        self._answer, self._cite = answer, cite
        self._heading, self._uppermost = heading, uppermost
        self._claim: int | None = None
        """Number of the claim that the next words belong to."""

    def of_all(self, nodes: Iterable[SyntaxTreeNode]) -> Iterator[AnswerElement | str]:
        """Yield the elements and texts of nodes."""
        for node in nodes:
            yield from self._of(node)

    def _of(self, node: SyntaxTreeNode) -> Iterator[AnswerElement | str]:  # noqa: C901, PLR0912 - one case per kind
        match node.type:
            case "text":
                yield from self._text(node.content, has_breaks=True)
            case "softbreak" | "hardbreak":
                yield AnswerElement("br")
            case "code_inline":
                yield AnswerElement("code", tuple(self._text(node.content)))
            case "formula":
                attributes = {"class": "formula", "dir": "ltr"}
                yield AnswerElement("code", tuple(self._text(node.content)), attributes)
            case "fence" | "code_block":
                code = AnswerElement("code", tuple(self._text(code_of(node))))
                yield AnswerElement("pre", (code,), _TEXT_DIRECTION)
            case "link" | "image":
                yield from self.of_all(node.children)
                if address := address_of(node):
                    yield AnswerElement("span", tuple(self._text(f" ({address})")), {"class": "address"})
            case "heading":
                yield self._heading_of(node)
            case "table":
                name = {
                    "class": "wide",
                    "role": "region",
                    "tabindex": "0",
                    "aria-label": "Table of the answer",
                }
                yield AnswerElement("div", (self._element("table", node),), name)
            case "th" | "td":
                alignment = alignment_of(node)
                classes = {"class": alignment} if alignment in {"center", "right"} else {}
                scope = {"scope": "col"} if node.type == "th" else {}
                yield self._element(node.type, node, _TEXT_DIRECTION | scope | classes)
            case "paragraph" if not node.hidden:
                yield self._element("p", node, _TEXT_DIRECTION)
            case "inline" | "paragraph":
                yield from self.of_all(node.children)
            case "list_item":
                yield self._element("li", node, _TEXT_DIRECTION)
            case "ordered_list":
                yield self._element("ol", node, {name: str(value) for name, value in node.attrs.items()})
            case _:  # of the tags that MarkdownIt knows: ul, blockquote, strong, em, s, hr, thead, tbody, tr
                yield self._element(node.tag, node)

    def _element(
        self, tag: str, node: SyntaxTreeNode, attributes: Mapping[str, str] | None = None
    ) -> AnswerElement:
        return AnswerElement(tag, tuple(self.of_all(node.children)), attributes or {})

    def _heading_of(self, node: SyntaxTreeNode) -> AnswerElement:
        if not self._heading:
            return self._element("p", node, _TEXT_DIRECTION | {"class": "heading"})
        level = min(self._heading + int(node.tag[1:]) - self._uppermost, _MAX_HEADING)
        return self._element(f"h{level}", node, _TEXT_DIRECTION)

    def _text(self, text: str, *, has_breaks: bool = False) -> Iterator[AnswerElement | str]:
        """Yield words, markers, and the words of claims."""
        for index, part in enumerate(SIGNS.split(text)):
            if index % 2 == 0:
                for at, words in enumerate(BREAK.split(part) if has_breaks else [part]):
                    yield from [AnswerElement("br")] * bool(at)
                    yield from self._words(words)
            elif part[0] == MARKER:
                yield from [] if self._cite is None else [self._cite(int(part[1:-1]))]
            else:
                self._claim = int(part[1:-1]) if part[1:] else None

    def _words(self, words: str) -> Iterator[AnswerElement | str]:
        if not words:
            return
        if self._claim is None:
            yield words
            return
        verdict = self._answer.claims[self._claim].verdict
        attributes = {"class": f"claim {verdict.value}", "title": VERDICT_NAMES[verdict]}
        yield AnswerElement("span", (words,), attributes)
