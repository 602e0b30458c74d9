"""Formulas of MathML as one line of text that keeps their structure: v = s/t, x² + √(y), ∑_(k=0)^n.

Letters and figures keep the order in which a formula is drawn, and none is added.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.corpus.formats.texts.raised_text import lower_text
from vrag.text.signs import to_superscript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from selectolax.lexbor import LexborNode

MAX_NODES, MAX_DEPTH = 5000, 60
"""Elements of one formula, and how deep they are nested, beyond which they are left out."""
LEAVES = frozenset("mi mn mo mtext ms".split())
SKIPPED = frozenset(
    "annotation annotation-xml maligngroup malignmark mphantom mprescripts none script style".split()
)
ACCENTS = dict(
    zip(
        "¯‾_^ˆ~˜→\u20d7˙.¨ˇ",
        "\u0304\u0304\u0332\u0302\u0302\u0303\u0303\u20d7\u20d7\u0307\u0307\u0308\u030c",
        strict=True,
    )
)
"""Signs above or below a letter → the character that joins it."""
_LINES = frozenset(ACCENTS) - frozenset("→\u20d7") | frozenset("⎴⎵⏜⏝⏞⏟⏠⏡︵︶︷︸―─")
"""Signs that are drawn along several letters, but for arrows."""
_ONE_IS_SHOWN = frozenset({"semantics", "maction"})
_FIXED = _ONE_IS_SHOWN | frozenset(
    "mfrac mroot msup msub msubsup munder mover munderover mmultiscripts".split()
)
"""Elements of which the place of a part says what it is."""
_INVISIBLE = re.compile("[\u2061-\u2064\u200b\ufeff❑]")
"""Signs without a shape, and the mark of LibreOffice for an empty place."""
_RELATION = re.compile(r"[=≠≈≅≡∼≃<>≤≥≪≫∝∈∉⊂⊆→←↔⇒⇔↦:]=?")
_SIGN = re.compile(r"[+−±∓×÷-]")
_RAISED = re.compile(r"[+−-]?[0-9]{1,6}|[a-z]")
_LOWERED = re.compile(r"[0-9]{1,6}")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_LIMITS = frozenset({"munder", "mover", "munderover"})


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """An element of MathML."""

    tag: str
    text: str = ""
    """Of a leaf."""
    children: Sequence[FormulaNode] = ()
    attributes: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])


def write_formula(node: FormulaNode) -> str:
    """Return a formula as a line of text."""
    return " ".join(_write(node, is_inner=False).split())


def list_leaves(node: FormulaNode) -> str:
    """Return what is drawn of a formula, one sign after the other, without its structure."""
    if node.tag in SKIPPED:
        return ""
    if node.tag in LEAVES:
        return "".join(_INVISIBLE.sub("", node.text).split())
    children = node.children[:1] if node.tag in _ONE_IS_SHOWN else node.children
    if node.tag == "mroot":
        children = children[::-1]
    parts = [list_leaves(child) for child in children]
    if node.tag in {"msqrt", "mroot"}:
        parts.insert(node.tag == "mroot", "√")
    text = "".join(parts)
    if node.tag == "mfenced":
        opened, closed = _list_fences(node)
        return f"{opened}{text}{closed}"
    return text


def _list_fences(node: FormulaNode) -> tuple[str, str]:
    """Return the brackets of an element `<mfenced>`; "" for one that it says is empty."""
    opened, closed = node.attributes.get("open"), node.attributes.get("close")
    return "(" if opened is None else opened, ")" if closed is None else closed


def read_math(element: LexborNode) -> FormulaNode:
    """Return the formula of an element `<math>` of a web page, cut where it is too large."""
    return _read_math(element, [MAX_NODES], 0)


def _read_math(element: LexborNode, left: list[int], depth: int) -> FormulaNode:
    """Read an element; `left` is how many more are read.

    Text between elements is a part of a row, and an element that has some where it may not is a row.
    """
    children: list[FormulaNode] = []
    tag = str(element.tag)
    child = element.first_child if depth < MAX_DEPTH and tag not in LEAVES else None
    while child is not None and left[0] > 0:
        left[0] -= 1
        if child.tag == "-text" and (between := child.text()).strip():
            children.append(FormulaNode("mtext", between))
            tag = "mrow" if tag in _FIXED else tag
        elif not str(child.tag).startswith(("-", "!")):
            children.append(_read_math(child, left, depth + 1))
        child = child.next
    text = element.text() if tag in LEAVES else ""
    return FormulaNode(tag, text, children, element.attributes)


def _write(node: FormulaNode, *, is_inner: bool) -> str:
    """Return the text of an element; signs have spaces around them unless it is part of a script."""
    if node.tag in SKIPPED:
        return ""
    if node.tag in LEAVES:
        return _INVISIBLE.sub("", node.text) if node.tag == "mtext" else _INVISIBLE.sub("", node.text).strip()
    if node.tag == "mspace":
        return " "
    if node.tag in _ONE_IS_SHOWN:
        return _write(node.children[0], is_inner=is_inner) if node.children else ""
    writer = _WRITERS.get(node.tag)
    if writer is None:
        return _write_row(node.children, is_inner=is_inner)
    children = [
        child for child in node.children if child.tag not in SKIPPED or child.tag in {"none", "mprescripts"}
    ]
    return writer(node, children)


def _write_row(children: Sequence[FormulaNode], *, is_inner: bool) -> str:
    row = ""
    before: FormulaNode | None = None
    for child in children:
        text = _write(child, is_inner=is_inner)
        if not text:
            continue
        if not is_inner and _is_sign(child, text, row):
            row = f"{row.rstrip()} {text} "
        elif text in {",", ";"} and not is_inner:
            row = f"{row.rstrip()}{text} "
        else:
            row += " " if before is not None and _are_apart(before, row, child, text) else ""
            row += text
        before = child
    return row


def _is_sign(node: FormulaNode, text: str, row: str) -> bool:
    """Return whether a leaf is a relation, or a sign between two operands."""
    if node.tag not in LEAVES or not row.strip():
        return False
    return bool(_RELATION.fullmatch(text) or (_SIGN.fullmatch(text) and not _ends_open(row)))


def _ends_open(row: str) -> bool:
    last = row.rstrip()[-1:]
    return bool(last in "([{|,;" or _RELATION.fullmatch(last) or _SIGN.fullmatch(last))


def _are_apart(before: FormulaNode, row: str, node: FormulaNode, text: str) -> bool:
    """Return whether a space keeps two parts of a product apart: "cos x", "2 1/2"."""
    if _core(before).tag in _LIMITS:
        return not row.endswith(" ") and (text[0].isalnum() or text[0] in "([")
    if not (row[-1].isalnum() or row[-1] in ")]"):
        return False
    if "mfrac" in {_core(before).tag, _core(node).tag}:
        return text[0].isalnum() or text[0] in "([√"
    if not (row[-1].isalnum() and text[0].isalnum()):
        return False
    last, first = _edge(before, -1), _edge(node, 0)
    return "mn" == last.tag == first.tag or _is_word(last.text) or _is_word(first.text)


def _is_word(text: str) -> bool:
    return len(text) > 1 and text.isalpha()


def _edge(node: FormulaNode, index: int) -> FormulaNode:
    """Return the first or last part of a row."""
    while node.tag not in LEAVES and node.tag not in _WRITERS and node.children:
        node = node.children[index]
    return node


def _core(node: FormulaNode) -> FormulaNode:
    """Return the one element that a row consists of."""
    while node.tag not in LEAVES and node.tag not in _WRITERS and len(node.children) == 1:
        node = node.children[0]
    return node


def _group(node: FormulaNode) -> str:
    """Return the text of an operand, in brackets unless it is one sign, word or number."""
    text = _write(node, is_inner=True).strip()
    core = _core(node)
    if not text or core.tag in LEAVES or _is_fenced(text):
        return text
    return text if len(text) == 1 else f"({text})"


def _is_fenced(text: str) -> bool:
    """Return whether the brackets in which a text begins close at its end."""
    closing, depth = _BRACKETS.get(text[0]), 0
    for place, sign in enumerate(text):
        depth += (sign == text[0]) - (sign == closing)
        if depth == 0:
            return closing is not None and place == len(text) - 1
    return False


def _write_fraction(node: FormulaNode, children: Sequence[FormulaNode]) -> str:
    if len(children) != 2:
        return _write_row(children, is_inner=True)
    above, below = map(_group, children)
    has_bar = (node.attributes.get("linethickness") or "1").rstrip("ptxem%") not in {"0", "0.0"}
    return f"{above}/{below}" if has_bar else f"{above}, {below}"


def _write_root(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    content = FormulaNode("mrow", children=children)
    return f"√{_group(content)}"


def _write_indexed_root(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    if len(children) != 2:
        return _write_root(_, children)
    index = _write(children[1], is_inner=True).strip()
    return (
        f"{_raise(index).removeprefix('^')}√{_group(children[0])}" if index else _write_root(_, children[:1])
    )


def _raise(text: str) -> str:
    if not text:
        return ""
    if _RAISED.fullmatch(text):
        return to_superscript(text)
    return f"^{text}" if len(text) == 1 or text in {"′′", "'"} else f"^({text})"


def _lower(text: str) -> str:
    if not text:
        return ""
    if _LOWERED.fullmatch(text):
        return lower_text(text)
    return f"_{text}" if len(text) == 1 else f"_({text})"


def _write_scripts(base: str, below: str, above: str) -> str:
    if above.strip("′'″‴*†") == "":
        return f"{base}{_lower(below)}{above}"
    return f"{base}{_lower(below)}{_raise(above)}"


def _script(children: Sequence[FormulaNode], index: int) -> str:
    return _write(children[index], is_inner=True).strip() if index < len(children) else ""


def _write_power(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    return _write_scripts(_base(children), "", _script(children, 1))


def _write_index(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    return _write_scripts(_base(children), _script(children, 1), "")


def _write_both(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    return _write_scripts(_base(children), _script(children, 1), _script(children, 2))


def _base(children: Sequence[FormulaNode]) -> str:
    return _group(children[0]) if children else ""


def _write_over(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    over = _script(children, 1)
    base = _base(children)
    if over in ACCENTS and len(base) == 1:
        return base + ACCENTS[over]
    return base + ("" if _is_line(over) else _raise(over.replace("\u20d7", "→")))


def _write_under(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    under = _script(children, 1)
    return _base(children) + ("" if _is_line(under) else _lower(under))


def _is_line(text: str) -> bool:
    """Return whether a text is a bar, a brace or an accent above or below several letters."""
    return all(
        sign in _LINES or (unicodedata.category(sign) in {"Sk", "Mn"} and sign != "\u20d7") for sign in text
    )


def _write_prescripts(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    tags = [child.tag for child in children]
    middle = tags.index("mprescripts") if "mprescripts" in tags else len(tags)
    scripts = [_write(child, is_inner=True).strip() for child in children]
    behind, before = scripts[1:middle], scripts[middle + 1 :]
    front = "".join(_raise("".join(before[1::2])) + _lower("".join(before[::2])))
    return front + _write_scripts(_base(children), "".join(behind[::2]), "".join(behind[1::2]))


def _write_table(_: FormulaNode, children: Sequence[FormulaNode]) -> str:
    rows = [
        ", ".join(filter(None, (_write_cell(cell) for cell in row.children or [row]))) for row in children
    ]
    return "; ".join(filter(None, rows))


def _write_cell(cell: FormulaNode) -> str:
    return _write_row(cell.children or [cell], is_inner=False).strip()


def _write_fenced(node: FormulaNode, children: Sequence[FormulaNode]) -> str:
    opened, closed = _list_fences(node)
    separators = (node.attributes.get("separators") or ",").strip() or ","
    content = separators[0].join(_write(child, is_inner=True).strip() for child in children)
    return f"{opened}{content}{closed}"


_WRITERS: Mapping[str, Callable[[FormulaNode, Sequence[FormulaNode]], str]] = {
    "mfrac": _write_fraction,
    "msqrt": _write_root,
    "mroot": _write_indexed_root,
    "msup": _write_power,
    "msub": _write_index,
    "msubsup": _write_both,
    "munder": _write_under,
    "mover": _write_over,
    "munderover": _write_both,
    "mmultiscripts": _write_prescripts,
    "mtable": _write_table,
    "mfenced": _write_fenced,
}
