"""A formula is a line of text that says where its fractions, roots, powers and indices begin and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.formats.texts.formulas import FormulaNode, list_leaves, write_formula
from vrag.corpus.formats.texts.html_tree import html_sections

PLUS = "<mo>+</mo>"


def text_of(math: str, attributes: str = "") -> str:
    return html_sections(f"<p><math {attributes}>{math}</math></p>")[0].text


def fraction(above: str, below: str) -> str:
    return f"<mfrac>{above}{below}</mfrac>"


def row(*parts: str) -> str:
    tags = ("mn" if part.isdigit() else "mi" if part.isalpha() else "mo" for part in parts)
    leaves = (f"<{tag}>{part}</{tag}>" for tag, part in zip(tags, parts, strict=True))
    return f"<mrow>{''.join(leaves)}</mrow>"


@pytest.mark.parametrize(
    ("math", "text"),
    [
        (row("v", "=") + fraction(row("s"), row("t")), "v = s/t"),
        (fraction(row("a", "+", "b"), row("2", "c")), "(a+b)/(2c)"),
        ("<mn>2</mn>" + fraction(row("1"), row("2")), "2 1/2"),
        (f"<msup>{row('x')}{row('2')}</msup>", "x²"),
        (f"<msup>{row('a')}{row('n', '-', 'k')}</msup>", "a^(n-k)"),
        (f"<msup>{fraction(row('s'), row('t'))}{row('2')}</msup>", "(s/t)²"),
        (f"<msub>{row('x')}{row('1')}</msub><msub>{row('x')}{row('max')}</msub>", "x₁x_(max)"),
        (f"<msubsup>{row('N')}{row('s')}{row('H')}</msubsup>", "N_s^H"),
        (f"<msqrt>{row('2')}</msqrt>", "√2"),
        (f"<msqrt>{row('x', '+', '1')}</msqrt>", "√(x+1)"),
        (f"<mroot>{row('8', 'y')}{row('3')}</mroot>", "³√(8y)"),
        (f"<munderover><mo>∑</mo>{row('k', '=', '0')}{row('n')}</munderover>{row('k')}", "∑_(k=0)ⁿ k"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a,b)"),
        ("<mi>sin</mi><mi>x</mi>", "sin x"),
        (
            f"<mtable><mtr><mtd>{row('1')}</mtd><mtd>{row('0')}</mtd></mtr><mtr><mtd>{row('0')}</mtd></mtr></mtable>",
            "1, 0; 0",
        ),
        (f"<mmultiscripts>{row('C')}<mprescripts/>{row('6')}{row('14')}</mmultiscripts>", "¹⁴₆C"),
        (f"<semantics>{row('a')}<annotation>\\alpha</annotation></semantics>", "a"),
        ("<mover><mi>AB</mi><mo>→</mo></mover>", "AB^→"),
        ("<mover><mi>AB</mi><mo>\u20d7</mo></mover>", "AB^→"),
        ("<mover><mo>=</mo><mo>!</mo></mover>", "=^!"),
        ("<munder><mi>x</mi><mo>→</mo></munder>", "x_→"),
        ("<mover><mi>x</mi><mo>→</mo></mover>", "x\u20d7"),
        ("<mover><mi>AB</mi><mo>¯</mo></mover><munder><mi>cd</mi><mo>⏟</mo></munder>", "AB cd"),
        ("<mrow>5 &lt; 6</mrow>", "5 < 6"),
        ("<mi>x</mi> is <mn>2</mn>", "x is 2"),
        ("<msup>5<mi>x</mi><mn>2</mn></msup>", "5x2"),
        ("<semantics>or <mi>x</mi><annotation>y</annotation></semantics>", "or x"),
        ("<mtable><mtr>a<mtd><mi>b</mi></mtd></mtr>c</mtable>", "a, b; c"),
    ],
)
def test_a_formula_of_a_web_page_keeps_its_structure(math: str, text: str) -> None:
    assert text_of(math) == text


def test_a_formula_in_a_sentence_stays_in_its_line_and_a_block_has_one_of_its_own() -> None:
    half = fraction(row("1"), row("2"))
    for attributes, text in (("", "The half is 1/2 of it"), ('display="block"', "The half is\n1/2\nof it")):
        page = html_sections(f"<p>The half is <math {attributes}>{half}</math> of it</p>")
        assert page[0].text == text


def test_a_formula_that_is_not_seen_is_not_read() -> None:
    page = html_sections(f'<p>Seen <math style="display:none">{row("a")}</math></p>')
    assert page[0].text == "Seen"


def test_formulas_of_thousands_of_elements_and_levels_are_cut() -> None:
    assert len(text_of("<mi>a</mi>" * 20_000)) < 10_000
    assert text_of("<mrow>" * 2000 + "<mi>a</mi>" + "</mrow>" * 2000) == ""


TAGS = "mrow mfrac msqrt mroot msup msub msubsup munder munderover mtable mtr mfenced mmultiscripts".split()
LEAF = st.builds(FormulaNode, st.sampled_from(["mi", "mn", "mo", "mtext"]), st.text("ab12+=(), ", max_size=3))
NODES = st.recursive(
    LEAF,
    lambda inner: st.builds(FormulaNode, st.sampled_from(TAGS), st.just(""), st.lists(inner, max_size=4)),
    max_leaves=12,
)


@given(NODES)
def test_every_formula_has_a_text(node: FormulaNode) -> None:
    assert write_formula(node) == " ".join(write_formula(node).split())
    assert not any(map(str.isspace, list_leaves(node)))
