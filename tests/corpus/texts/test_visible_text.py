"""What nobody sees of a file is not in its text, and what is seen is, as people type it."""

from __future__ import annotations

import re

import pytest

from vrag.corpus.formats.sections import json_sections, markdown_sections
from vrag.corpus.formats.texts.html_tree import html_sections
from vrag.corpus.sniff import decode


def text_of(html: str) -> str:
    return "\n".join(section.text for section in html_sections(html))


@pytest.mark.parametrize(
    "html",
    [
        "<p hidden>secret",
        '<p style="color:red; DISPLAY : none">secret',
        '<p style="visibility:hidden !important">secret',
        '<p style="text-decoration: line-through red">secret',
        "<style>.x, .old { color: red; display: none }</style><p class='a old'>secret",
        "<style>#old{display:none}</style><p id=old>secret",
        "<style>aside{display:none}</style><aside>secret</aside>",
        "<style>p.old.red{visibility:hidden}</style><p class='red old'>secret",
        "<style>@media screen{.old{display:none}}</style><p class=old>secret",
        "<style>.old{display:none!important}.old{display:block}</style><p class=old>secret",
        '<p style="position: absolute; left: -9999px">secret',
        '<p style="text-indent:-1000em">secret',
        "<style>.x{position:absolute;clip:rect(0 0 0 0)}</style><p class=x>secret",
        "<style>.x{clip: rect(1px, 1px, 1px, 1px) !important}</style><p class=x>secret",
        '<p style="clip-path:inset(50%)">secret',
        "<del>secret</del><s>secret</s><strike>secret</strike>",
        "<table hidden><tr><td>secret</table>",
        "<dialog>secret</dialog>",
        "<svg><title>secret</title><desc>secret</desc></svg>",
        "<div style='display:none'><h2>secret</h2><p>secret</p></div>",
    ],
)
def test_what_nobody_sees_is_left_out(html: str) -> None:
    text = text_of(f"<p>before</p>{html}</p><p>after</p>" if "<p" in html else f"before {html} after")
    assert "secret" not in text
    assert "before" in text
    assert "after" in text


@pytest.mark.parametrize(
    "html",
    [
        "<style>@media print{.x{display:none}}</style><p class=x>shown",
        "<style>@media (max-width: 600px){.x{display:none}} .y{color:red}</style><p class=x>shown",
        "<style>.a .x{display:none} .x:hover{display:none} .x::after{display:none}</style><p class=x>shown",
        "<style>.x{display:none} .x.open{display:block}</style><p class='x open'>shown",
        "<style>p{display:none} .x{display:block}</style><p class=x>shown",
        "<style>.x{display:none}</style><p class=x style='display:block'>shown",
        "<style>/* .x{display:none} */</style><p class=x>shown",
        "<style>.x{display:none</style><p class=y>shown",
        "<p hidden=until-found>shown",
        '<p style="position:absolute;left:-20px;top:-100px">shown',
        '<p style="clip: rect(0, 100px, 20px, 0)">shown',
        '<p style="clip-path: inset(5%); text-indent: -2em">shown',
        "<details><summary>More</summary>shown</details>",
        "<svg><text>shown</text></svg>",
        "<math><mtext>shown</mtext><annotation>x</annotation></math>",
        "<input value=shown>",
        "<textarea>shown</textarea>",
    ],
)
def test_what_can_be_seen_is_read(html: str) -> None:
    assert "shown" in text_of(html)


def test_words_are_whole_whatever_may_divide_them_on_the_screen() -> None:
    assert "electricity" in text_of("elec&shy;tri&#8203;ci<wbr>ty")
    assert "electricity" in next(iter(markdown_sections("elec&shy;tricity"))).text
    assert "electricity" in next(iter(json_sections('{"a": "elec\\u00adtricity"}'))).text
    assert decode("elec\u00adtri\u200bci\u2060ty \u200eEUR\u200f 5".encode()) == "electricity EUR 5"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("The crane lifts 480<sup>1</sup> tonnes", "The crane lifts 480 ¹ tonnes"),
        ("51,934<sup>a</sup> people", "51,934 ᵃ people"),
        ("12 %<sup>2</sup>", "12 % ²"),
        ("1,200<sup>[4]</sup>", "1,200 [4]"),
        ("5,200 m<sup>2</sup>", "5,200 m²"),
        ("3 × 10<sup>-6</sup>", "3 × 10⁻⁶"),
        ("the 21<sup>st</sup> of May", "the 21st of May"),
        ("Total<sup>2</sup>", "Total ²"),
        ("now $14<sup>95</sup> each", "now $14.95 each"),
        ("<b>EUR</b> 12<sup>50</sup>", "EUR 12.50"),
        ("nur <b>3,</b><sup>49</sup> €", "nur 3,49 €"),
        ("$14<sup>2</sup> and $1,200<sup>95</sup>", "$14 ² and $1,200 ⁹⁵"),
        ("$14<sup>12</sup>", "$14 ¹²"),
        ("12 boats<sup>95</sup>, 14<sup>95</sup>", "12 boats ⁹⁵, 14 ⁹⁵"),
        ("CO<sub>2</sub>", "CO₂"),
        ("<ruby>港<rp>(</rp><rt>みなと</rt><rp>)</rp></ruby>町", "港（みなと）町"),
        ("one<br>two", "one\ntwo"),
    ],
)
def test_raised_marks_stay_apart_from_numbers(html: str, text: str) -> None:
    assert text_of(f"<p>{html}</p>") == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<ol type=a start=26><li>Oil<li>Gas</ol>", "z. Oil aa. Gas"),
        ("<ol type=I start=4><li>Oil<li value=19>Gas</ol>", "IV. Oil XIX. Gas"),
        ("<ol style='list-style-type: lower-alpha'><li>Oil<ol><li>Gas</ol></ol>", "a. Oil 1. Gas"),
        ("<ol type=i start=0><li>Oil<li start=x>Gas</ol>", "0. Oil i. Gas"),
    ],
)
def test_entries_with_letters_and_roman_figures_begin_with_them(html: str, text: str) -> None:
    assert text_of(html).split() == text.split()


def test_entries_of_a_list_have_the_numbers_that_are_seen() -> None:
    text = text_of("<ol start=4><li>Oil<ul><li>Lamp</ul><li value=9>Gas<li>Coal</ol><ol><li>End</ol>")
    assert text.split() == "4. Oil • Lamp 9. Gas 10. Coal 1. End".split()


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<ul><li><p>Oil</p><p>and gas</p><li> <b>Coal</b></ul>", "• Oil\n\nand gas\n\n• Coal"),
        ("<ol><li><p>Oil</p></ol>", "1. Oil"),
        ("<ul><li></li><li><ul><li>Oil</ul></ul>", "• Oil"),
        ('<ul style="list-style: none"><li>Oil</ul>', "Oil"),
        ("<menu><li>Oil</menu><li>Gas", "Oil\n\nGas"),
    ],
)
def test_a_bullet_or_a_number_stands_before_the_first_words_of_an_entry(html: str, text: str) -> None:
    assert re.sub(r"\n+", "\n\n", text_of(html)) == text


def test_bullets_are_no_part_of_headings_and_cells() -> None:
    html = "<ul><li><h2>Oil</h2>12</li></ul><table><tr><td>a<td><ul><li>Gas</ul><tr><td>b<td>c</table>"
    (section,) = (section for section in html_sections(html) if section.headings)
    assert section.headings[-1] == "Oil"
    assert "•" not in section.text


def test_struck_text_of_markdown_is_left_out() -> None:
    text = next(iter(markdown_sections("Dogs pay ~~2.00~~ 2.50, cats <del>1</del> 3<br>m<sup>2</sup>"))).text
    assert text == "Dogs pay  2.50, cats  3\nm²"
