"""Equations of Word and PowerPoint, and formulas that LibreOffice stored, are read with their structure."""

from __future__ import annotations

import io

import pytest

from corpus.office_files import archive, docx
from vrag.corpus.formats.libreoffice.equations import MAX_FORMULA_CHARS, read_formulas, read_stored_formulas
from vrag.corpus.formats.libreoffice.xml_parts import XmlParts, parse_xml

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def run(text: str, properties: str = "") -> str:
    return f"<m:r>{properties}<m:t>{text}</m:t></m:r>"


def part(name: str, **children: str) -> str:
    inner = (f"<m:{child}>{content}</m:{child}>" for child, content in children.items())
    return f"<m:{name}>{''.join(inner)}</m:{name}>"


def equation(content: str) -> str:
    return f'<m:oMath xmlns:m="{MATH}">{content}</m:oMath>'


def texts_of(body: str) -> list[str]:
    return [formula.text for formula in read_formulas(io.BytesIO(docx(body)))]


SUM = '<m:naryPr><m:chr m:val="∑"/></m:naryPr>'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (run("v=") + part("f", num=run("s"), den=run("t")), "v = s/t"),
        (part("f", num=run("a-b"), den=run("2c")), "(a−b)/(2c)"),
        (part("rad", deg="", e=run("x+1")), "√(x+1)"),
        (part("rad", deg=run("3"), e=run("8")), "³√8"),
        (part("sSup", e=run("x"), sup=run("2")), "x²"),
        (part("sSub", e=run("x"), sub=run("10")), "x₁₀"),
        (part("sSubSup", e=run("N"), sub=run("s"), sup=run("H")), "N_s^H"),
        (part("sPre", sub=run("6"), sup=run("14"), e=run("C")), "¹⁴₆C"),
        (
            f"<m:nary>{SUM}<m:sub>{run('k=1')}</m:sub><m:sup>{run('n')}</m:sup><m:e>{run('k')}</m:e></m:nary>",
            "∑_(k=1)ⁿ k",
        ),
        (run("f") + part("d", e=run("x")), "f(x)"),
        (part("func", fName=run("log", '<m:rPr><m:sty m:val="p"/></m:rPr>'), e=run("x")), "log x"),
        (
            part("limLow", e=run("lim", '<m:rPr><m:sty m:val="p"/></m:rPr>'), lim=run("n")) + run("a"),
            "lim_n a",
        ),
        (part("acc", e=run("x")), "x\u0302"),
        (part("eqArr", e=run("a=1")) + run(","), "a = 1,"),
        (run("c=1,5"), "c = 1,5"),
    ],
)
def test_an_equation_of_word_keeps_its_structure(content: str, text: str) -> None:
    assert texts_of(f"<w:p>{equation(content)}</w:p>") == [text]


def test_brackets_that_an_equation_of_word_leaves_empty_are_not_drawn() -> None:
    properties = '<m:dPr><m:begChr m:val="{"/><m:endChr m:val=""/></m:dPr>'
    cases = f"<m:d>{properties}<m:e>{part('f', num=run('x'), den=run('y'))}</m:e></m:d>"
    (formula,) = read_formulas(io.BytesIO(docx(f"<w:p>{equation(cases)}</w:p>")))
    assert (formula.text, formula.drawn) == ("{x/y", "{xy")


def test_equations_that_are_deleted_or_hidden_are_not_read() -> None:
    hidden = equation(run("b", "<w:rPr><w:vanish/></w:rPr>"))
    assert texts_of(f"<w:p><w:del>{equation(run('a'))}</w:del>{hidden}{equation(run('c'))}</w:p>") == ["c"]


def test_equations_of_hidden_slides_are_not_read() -> None:
    slides = {
        f"ppt/slides/slide{n}.xml": f'<p:sld xmlns:p="p" show="{n % 2}">{equation(run(f"a+{n}"))}</p:sld>'
        for n in (1, 2)
    }
    assert [formula.text for formula in read_formulas(io.BytesIO(archive(slides)))] == ["a + 1"]


def test_equal_and_very_long_equations_are_not_repeated() -> None:
    body = equation(run("a")) * 3 + equation(run("b" * (MAX_FORMULA_CHARS + 1)))
    assert texts_of(f"<w:p>{body}</w:p>") == ["a"]


def test_a_part_that_is_damaged_or_declares_a_document_type_has_no_equations() -> None:
    for document in ("<w:document>oMath", f"<!DOCTYPE a [<!ENTITY b 'c'>]><a>{equation(run('&b;'))}</a>"):
        assert read_formulas(io.BytesIO(archive({"word/document.xml": document}))) == ()
    assert read_formulas(io.BytesIO(b"{\\rtf1 oMath}")) == ()


def test_nesting_without_end_is_cut() -> None:
    deep = "<m:box><m:e>" * 3000 + run("a") + "</m:e></m:box>" * 3000
    assert texts_of(f"<w:p>{equation(deep)}{equation(run('c'))}</w:p>") == ["c"]


def test_formulas_that_libreoffice_stored_are_read() -> None:
    fraction = "<mfrac><mi>s</mi><mi>t</mi></mfrac><annotation>s over t</annotation>"
    math = f'<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics>{fraction}</semantics></math>'
    names = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
    content = f'<a {names}><draw:object xlink:href="./Object 1"/><draw:object xlink:href="./Object 2"/></a>'
    parts = XmlParts(io.BytesIO(archive({"Object 1/content.xml": math, "Object 2/content.xml": "<chart/>"})))
    (formula,) = read_stored_formulas(parse_xml(io.BytesIO(content.encode())), parts)
    assert (formula.text, formula.letters, formula.drawn, formula.has_structure) == ("s/t", "st", "st", True)
