"""The page reads Markdown as markdown-it-py does: CommonMark with tables and strikethrough, without HTML."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from javascript import NODE
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

import vrag.server
from vrag.render.answer_markdown import SignedAnswer, parse_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

pytestmark = pytest.mark.slow


RUN = Path(vrag.server.__file__).parent / "static" / "js" / "run"
PROGRAM = """
import { readFileSync } from "node:fs";
import { readMarkdown } from "./markdown.js";
const span = (node) => {
  if (node.type === "break") return ["br"];
  if (node.type === "image") return ["image"];
  if (node.type === "link") return ["link", node.address, ...inline(node.children)];
  if ("children" in node) return [node.type, ...inline(node.children)];
  return node.type === "code" ? ["code", node.text] : node.text;
};
const inline = (nodes) => nodes.map(span).reduce((all, one) => {
  if (typeof one === "string" && typeof all.at(-1) === "string") all.push(all.pop() + one);
  else all.push(one);
  return all;
}, []);
const parted = (items) => items.some(({ children }) => children.some((one) => one.type === "paragraph"));
const READ = {
  paragraph: ({ children }) => ["p", ...inline(children)],
  heading: ({ level, children }) => [`h${level}`, ...inline(children)],
  code: ({ info, pieces }) => ["pre", info, pieces.map(({ text }) => text).join("").replace(/\\n+$/, "")],
  rule: () => ["hr"],
  table: ({ aligns, rows }) => ["table", aligns, rows.map((row) => aligns.map((_, at) => (row[at] ? inline(row[at].children) : [])))],
  quote: ({ children }) => ["quote", ...children.map(block)],
  item: ({ children }) => ["item", ...children.map(block)],
  list: ({ ordered, first, tight, children }) => [ordered ? "ol" : "ul", ordered ? first : 1, tight || !parted(children), ...children.map(block)],
};
const block = (one) => READ[one.type](one);
const texts = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => readMarkdown(text).map(block))));
"""  # noqa: E501
FORMULAS = """
import { readFileSync } from "node:fs";
import { readInline } from "./inline-markdown.js";
const formulas = (nodes) => nodes.flatMap((one) => (one.type === "math" ? [one.text] : one.children ? formulas(one.children) : []));
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map((text) => formulas(readInline(text)))));
"""  # noqa: E501
MARKDOWN = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["reference", "html_block", "html_inline"])
)
MARKDOWN.normalizeLink = str  # type: ignore[method-assign] # addresses are shown as they were written
MARKDOWN.validateLink = lambda _: True  # type: ignore[method-assign] # and none is a link


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's reader, as node takes it."""
    folder = tmp_path_factory.mktemp("markdown")
    for name in ("markdown.js", "inline-markdown.js"):
        shutil.copy(RUN / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "read.mjs").write_text(PROGRAM)
    (folder / "formulas.mjs").write_text(FORMULAS)
    return folder


def read_by_the_page(scripts: Path, texts: Sequence[str], program: str = "read.mjs") -> list[Any]:
    """The trees of the page's reader."""
    command = [*NODE, str(scripts / program)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_by_the_library(text: str) -> list[Any]:
    """The tree of markdown-it-py, in the same form; a single line is one paragraph, as in the reports."""
    line = text.lstrip("\n").rstrip()
    if line.strip() and "\n" not in line:
        return [["p", *_inline(SyntaxTreeNode(MARKDOWN.parseInline(line)).children[0].children)]]
    return [_block(node) for node in SyntaxTreeNode(MARKDOWN.parse(text)).children]


def _inline(nodes: Iterable[SyntaxTreeNode]) -> list[Any]:
    """The spans of nodes; texts beside each other are one."""
    spans: list[Any] = []
    for span in filter(None, map(_span, nodes)):
        if isinstance(span, str) and spans and isinstance(spans[-1], str):
            spans[-1] += span
        else:
            spans.append(span)
    return spans


def _span(node: SyntaxTreeNode) -> Any:  # noqa: ANN401
    alone: dict[str, Any] = {
        "text": node.content,
        "text_special": node.content,
        "softbreak": "\n",
        "hardbreak": ["br"],
        "code_inline": ["code", node.content],
        "image": ["image"],
    }
    if node.type in alone:
        return alone[node.type]
    if node.type == "link":
        return ["link", node.attrs["href"], *_inline(node.children)]
    return ["strike" if node.type == "s" else node.type, *_inline(node.children)]


def _words(node: SyntaxTreeNode) -> list[Any]:
    return _inline(node.children[0].children) if node.children else []


def _block(node: SyntaxTreeNode) -> list[Any]:
    if node.type in {"paragraph", "heading"}:
        return [node.tag, *_words(node)]
    if node.type in {"fence", "code_block"}:
        return ["pre", node.info.strip(), node.content.rstrip("\n")]
    if node.type == "table":
        return _table(node)
    blocks = [_block(one) for one in node.children]
    if node.type in {"bullet_list", "ordered_list"}:
        return [node.tag, node.attrs.get("start", 1), _is_tight(node), *blocks]
    return [{"hr": "hr", "blockquote": "quote", "list_item": "item"}[node.type], *blocks]


def _is_tight(node: SyntaxTreeNode) -> bool:
    paragraphs = [part for item in node.children for part in item.children if part.type == "paragraph"]
    return all(part.hidden for part in paragraphs)


def _table(node: SyntaxTreeNode) -> list[Any]:
    rows = [row for part in node.children for row in part.children]
    aligns = [str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in rows[0].children]
    return ["table", aligns, [[_words(cell) for cell in row.children] for row in rows]]


ANSWERS = (
    "48,200",
    "- 5 %",
    "> 100 mg",
    "+ 3",
    "# 4",
    "1. FC Köln\n",
    "---",
    "    **four** blanks ",
    "**Fare:** 4.20.\n\n1. *Single*: 4.20\n2. ***Return***: 8\n   each\n\n   and day\n3. ~~Group~~",
    "# Ships\n\n## The Gannet ##\nIt holds\n240.\n\nThe Tern\n---\n\nIt holds 60.\n===\n",
    "| Ship | Seats | Note |\n|:-----|------:|:----:|\n| Gannet | 240 | a \\| b |\n| **Tern** | `6` |\n\nx",
    "Name | Value\n--- | ---\na | b\nc | d | e\n> end",
    "- a\n- b\n  - c\n    more of c\n  - d\n\n    e\n- f\nlazy\n\n* g\n+ h",
    "1. one\n2. two\n\n   ```py\n   x = 1\n\n   y\n   ```\n3. three\n\n7) seven",
    "> quoted\n> - a list\n> - of two\nlazy\n>\n> > deeper\n\nout",
    "Code: `a * b`, ``c ` d``, ` `` `.\n\n    indented\n      more\n\n    end\n\n~~~~\n```\n~~~~\n",
    "A line  \nwith a break\\\nand another\nand none.",
    "\\*not\\* \\_so\\_ &amp; &copy; &#8364; &#x20AC; &unknown; &lt;b&gt; a\\b",
    '[words](https://a.b/c_d "title") <https://e.f> [](g) [h]( <i j> ) ![k](l) [m] [n][o] <p@q.org>',
    "snake_case_name __init__ 2*3*4 **a**b *a *b** c* _a_b_ ***x** y*",
    "***\n\n- - -\n\n___\n\n* * *\ntext\n***",
    "- \n- a\n\n-\n\n  b\n\n10. x\n    - y",
    "**Bold with `code` and *more*.** <script>alert(1)</script> <b>x</b>",
    "## Summary\n**Total**: 12 %\n\n| Year | Value |\n|---|---|\n| 2024 | **1,200** |\n\n- up 20 %\n- see 3",
    "Das *Schiff* „Möwe“ trägt **240** Personen. 船は**240**人。 **テスト。**です",
    "a\n\n\n\nb\n\tc\n\n\td\n\n- \te\n\n      f",
    "Text before\n| a | b |\n|---|---|\n| 1 | 2 |\ntext after\n\nnext",
)
"""Answers as models write them, and what such answers might hold."""

WORDS = st.sampled_from(
    ("a", "b c", "Gannet", "48,200", "12 %", "é", "船", "“x”", "(y)", "z.", "snake_case", "2*3", "-5", "!")
)
MARKS = st.sampled_from(
    ("*", "**", "_", "__", "***", "~~", "`", "``", "\\", "\\*", "&amp;", "&", "<", ">", "[", "]", "](u)",
     "[v](w)", "<https://a.b>", "!", "  ")
)  # fmt: skip
LINE = st.lists(WORDS | MARKS, min_size=1, max_size=8).map("".join).map(str.strip)
START = st.sampled_from(
    ("", "", "", "", "- ", "* ", "+ ", "1. ", "2. ", "3) ", "# ", "### ", "> ", "> - ", "  - ", "    ", "   ",
     "- - ", "1. > ", "-   ")
)  # fmt: skip
WHOLE = st.sampled_from(
    (
        "",
        "",
        "---",
        "***",
        "===",
        "```",
        "~~~",
        "-",
        "| a | b |\n|---|:-:|\n| *c* | d\\|e |\n| f |",
        ">",
        "1.",
        "  ",
    )
)
TEXT = st.lists(st.tuples(START, LINE).map("".join) | WHOLE, min_size=1, max_size=8).map("\n".join)


def _is_comparable(text: str) -> bool:
    """Whether the two are meant to agree.

    The library takes a line with the sign of a list or a fence for the head of a table, strips blanks of
    the lines of code spans differently, and drops blanks behind the last line of code.
    """
    lines = text.split("\n")
    heads = [line for line, below in pairwise(lines) if below.strip().startswith("|---")]
    return (
        all(line.startswith("| a") for line in heads)
        and not any(line != line.strip() and not line.strip() for line in lines)
        and not ("`" in text and any(line.startswith("  ") for line in lines))
    )


@pytest.mark.parametrize("text", ANSWERS)
def test_answers_are_read_alike(scripts: Path, text: str) -> None:
    (shown,) = read_by_the_page(scripts, [text])
    assert shown == read_by_the_library(text)


@given(st.lists(TEXT.filter(_is_comparable), min_size=25, max_size=25))  # of more, most lists are too long
@settings(
    max_examples=9,  # the first is the simplest one: empty texts
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # each of its many texts is small
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
def test_any_text_is_read_alike(scripts: Path, texts: list[str]) -> None:
    for text, shown in zip(texts, read_by_the_page(scripts, texts), strict=True):
        assert shown == read_by_the_library(text), text


def test_money_is_told_from_formulas_alike(scripts: Path) -> None:
    """The page and the exports read the same formulas between single dollars."""
    texts = [f"${''.join(inside)}" for inside in product("$5a _\\", repeat=5)]
    texts = [text for text in texts if "$" in text[1:] and "$$" not in text]
    for text, shown in zip(texts, read_by_the_page(scripts, texts, "formulas.mjs"), strict=True):
        tree = parse_answer(SignedAnswer(text))
        assert shown == [node.content for node in tree.walk() if node.type == "formula"], text
    assert len(texts) > 2000
