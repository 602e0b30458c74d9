"""Formulas of an office document, by its own file (OMML of Word and PowerPoint) or what LibreOffice stored.

They are read in a restricted worker, without document types; see `vrag.corpus.formats.libreoffice.xml_parts`.
"""

from __future__ import annotations

import re
import unicodedata
import zipfile
from typing import TYPE_CHECKING, NamedTuple, cast

from vrag.corpus.formats.libreoffice.xml_parts import attribute, find_all, parse_xml
from vrag.corpus.formats.texts.formulas import LEAVES, MAX_DEPTH, FormulaNode, list_leaves, write_formula
from vrag.corpus.sniff import ARCHIVE_ERRORS
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

    from vrag.corpus.formats.libreoffice.xml_parts import XmlParts

MAX_FORMULAS = 2000
MAX_FORMULA_CHARS = 2000
"""Characters of a formula; a longer one stays as it is printed."""
MAX_PART_BYTES = 64 * 2**20
"""Unpacked bytes of a part, beyond which its formulas are not read."""
PARTS = re.compile(r"word/(?:document|footnotes|endnotes|header\d*|footer\d*)\.xml|ppt/slides/slide\d+\.xml")
LEFT_OUT = frozenset("del moveFrom Fallback phant".split())
"""Elements whose formulas a page does not show."""
_TOKENS = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]|\s+|.")
_MARKED_TOKENS = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|\s+|.")


class Formula(NamedTuple):
    """A formula of a document."""

    text: str
    """Its text with its structure."""
    letters: str
    """Its letters and figures in their order."""
    drawn: str
    """What is drawn of it, one sign after the other."""

    @property
    def has_structure(self) -> bool:
        """True if its text says more than the signs that are drawn."""
        return "".join(self.text.split()) != self.drawn


def read_formulas(file: BinaryIO) -> tuple[Formula, ...]:
    """Return the formulas of a file of Word or PowerPoint; none of a damaged one, or of another kind."""
    found: list[Formula] = []
    try:
        with zipfile.ZipFile(file) as archive:
            for name in filter(PARTS.fullmatch, archive.namelist()):
                if archive.getinfo(name).file_size <= MAX_PART_BYTES and b"oMath" in archive.read(name):
                    with archive.open(name) as part:
                        found += _read_part(parse_xml(cast("BinaryIO", part)))
    except (CorpusError, *ARCHIVE_ERRORS):
        pass
    return _keep_different(found)


def _read_part(root: Element) -> Iterator[Formula]:
    """Yield the formulas of a part; none of a slide that is hidden."""
    is_hidden = root.get("show") in {"0", "false"}
    return map(_to_formula, () if is_hidden else _list_equations(root))


def read_stored_formulas(
    root: Element, parts: XmlParts, hidden: Container[Element] = ()
) -> tuple[Formula, ...]:
    """Return the formulas among the objects of an OpenDocument file, but for those that are hidden."""
    found: list[Formula] = []
    for embedded in find_all(root, "draw:object"):
        name = attribute(embedded, "xlink:href").removeprefix("./")
        is_read = name and embedded not in hidden and len(found) < MAX_FORMULAS
        stored = parts.root(f"{name}/content.xml") if is_read else None
        if stored is not None and _local(stored.tag) == "math":
            found.append(_to_formula(_read_mathml(stored, 0)))
    return _keep_different(found)


def _keep_different(found: Iterable[Formula]) -> tuple[Formula, ...]:
    """Return formulas without those that say the same, and without those that say nothing."""
    first = {
        formula.letters: formula
        for formula in reversed(list(found))
        if 0 < len(formula.text) <= MAX_FORMULA_CHARS
    }
    return tuple(reversed(first.values()))[:MAX_FORMULAS]


def _to_formula(node: FormulaNode) -> Formula:
    text = write_formula(node)
    return Formula(text, "".join(letter for letter, _ in fold_letters(text)), list_leaves(node))


def is_letter(sign: str) -> bool:
    """Return whether a character is a letter or a figure, in whatever form."""
    return any(map(str.isalnum, unicodedata.normalize("NFKC", sign)))


def fold_letters(text: str) -> Iterator[tuple[str, int]]:
    """Yield the letters and figures of a text, whatever their form, with their places."""
    for place, sign in enumerate(text):
        for letter in sign if sign.isascii() else unicodedata.normalize("NFKC", sign):
            if letter.isalnum():
                yield letter, place


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _read_mathml(element: Element, depth: int) -> FormulaNode:
    tag = _local(element.tag)
    if tag in LEAVES:
        return FormulaNode(tag, "".join(element.itertext()))
    children = [_read_mathml(child, depth + 1) for child in element if depth < MAX_DEPTH]
    return FormulaNode(tag, "", children, dict(element.items()))


def _list_equations(root: Element) -> Iterator[FormulaNode]:
    """Yield the equations of a part that a page shows."""
    stack = [root]
    count = 0
    while stack and count < MAX_FORMULAS:
        element = stack.pop()
        tag = _local(element.tag)
        if tag == "oMath":
            count += 1
            yield FormulaNode("mrow", "", list(_read_children(element, 0)))
        elif tag not in LEFT_OUT:
            stack += reversed(element)


def _read_children(element: Element | None, depth: int) -> Iterator[FormulaNode]:
    for child in element if element is not None and depth < MAX_DEPTH else ():
        yield from _read_equation_part(child, depth)


def _read_equation_part(element: Element, depth: int) -> Iterator[FormulaNode]:
    """Yield what an element of OMML is in MathML."""
    tag = _local(element.tag)
    if tag == "r":
        yield from _read_run(element)
    elif tag in _PARTS:
        yield _PARTS[tag](element, depth)
    elif not tag.endswith("Pr") and tag not in LEFT_OUT:
        yield from _read_children(element, depth + 1)


def _read_run(run: Element) -> Iterator[FormulaNode]:
    marks = {_local(each.tag): each for each in run.iter()}
    if "vanish" in marks:
        return
    is_word = "nor" in marks or ("sty" in marks and _value(marks["sty"]) == "p")
    text = "".join(each.text or "" for each in run if _local(each.tag) == "t")
    for match in (_MARKED_TOKENS if is_word else _TOKENS).finditer(text):
        sign = match[0]
        tag = "mn" if sign[0].isdigit() else "mi" if sign.isalpha() else "mtext" if sign.isspace() else "mo"
        yield FormulaNode(tag, "−" if sign == "-" else sign)


def _value(element: Element | None, name: str = "val") -> str | None:
    if element is None:
        return None
    return next((value for key, value in element.items() if _local(key) == name), "")


def _property(element: Element, name: str) -> str | None:
    """Return a property of a part of an equation; None if it has none."""
    properties = next((child for child in element if _local(child.tag).endswith("Pr")), ())
    return _value(next((child for child in properties if _local(child.tag) == name), None))


def _row(element: Element, name: str, depth: int) -> FormulaNode:
    child = next((child for child in element if _local(child.tag) == name), None)
    return FormulaNode("mrow", "", list(_read_children(child, depth + 1)))


def _read_fraction(element: Element, depth: int) -> FormulaNode:
    width = "0" if _property(element, "type") == "noBar" else "1"
    parts = [_row(element, "num", depth), _row(element, "den", depth)]
    return FormulaNode("mfrac", "", parts, {"linethickness": width})


def _read_radical(element: Element, depth: int) -> FormulaNode:
    content, degree = _row(element, "e", depth), _row(element, "deg", depth)
    return (
        FormulaNode("mroot", "", [content, degree])
        if degree.children
        else FormulaNode("msqrt", "", [content])
    )


def _read_scripts(tag: str, *names: str) -> Callable[[Element, int], FormulaNode]:
    def read(element: Element, depth: int) -> FormulaNode:
        return FormulaNode(tag, "", [_row(element, name, depth) for name in names])

    return read


def _read_prescripts(element: Element, depth: int) -> FormulaNode:
    base, below, above = (_row(element, name, depth) for name in ("e", "sub", "sup"))
    return FormulaNode("mmultiscripts", "", [base, FormulaNode("mprescripts"), below, above])


def _read_large_sign(element: Element, depth: int) -> FormulaNode:
    sign = FormulaNode("mo", _property(element, "chr") or "∫")
    limits = [_row(element, name, depth) for name in ("sub", "sup")]
    return FormulaNode(
        "mrow", "", [FormulaNode("munderover", "", [sign, *limits]), _row(element, "e", depth)]
    )


def _read_brackets(element: Element, depth: int) -> FormulaNode:
    signs = {
        "open": _property(element, "begChr"),
        "close": _property(element, "endChr"),
        "separators": _property(element, "sepChr") or "|",
    }
    parts = [
        FormulaNode("mrow", "", list(_read_children(child, depth + 1)))
        for child in element
        if _local(child.tag) == "e"
    ]
    return FormulaNode("mfenced", "", parts, signs)


def _read_accent(element: Element, depth: int) -> FormulaNode:
    sign = FormulaNode("mo", _property(element, "chr") or ("^" if _local(element.tag) == "acc" else "¯"))
    return FormulaNode("mover", "", [_row(element, "e", depth), sign])


def _read_rows(element: Element, depth: int) -> FormulaNode:
    """Read equations below each other, or a matrix."""
    is_matrix = _local(element.tag) == "m"
    rows = [child for child in element if _local(child.tag) == ("mr" if is_matrix else "e")]
    return FormulaNode(
        "mtable",
        "",
        [
            FormulaNode(
                "mtr",
                "",
                [
                    FormulaNode("mtd", "", list(_read_children(cell, depth + 2)))
                    for cell in (row if is_matrix else [row])
                ],
            )
            for row in rows
        ],
    )


_PARTS: dict[str, Callable[[Element, int], FormulaNode]] = {
    "f": _read_fraction,
    "rad": _read_radical,
    "sSup": _read_scripts("msup", "e", "sup"),
    "sSub": _read_scripts("msub", "e", "sub"),
    "sSubSup": _read_scripts("msubsup", "e", "sub", "sup"),
    "sPre": _read_prescripts,
    "nary": _read_large_sign,
    "d": _read_brackets,
    "limLow": _read_scripts("munder", "e", "lim"),
    "limUpp": _read_scripts("mover", "e", "lim"),
    "acc": _read_accent,
    "bar": _read_accent,
    "eqArr": _read_rows,
    "m": _read_rows,
}
