"""What styles of a page say: which text is raised, hidden, a table, or added by a rule."""

from __future__ import annotations

import time

import pytest

from vrag.corpus.formats.texts.html_tree import html_sections
from vrag.corpus.formats.texts.visibility import Look, read_color
from vrag.corpus.formats.texts.web.css_rules import holds_on_screen, read_rules


def text_of(html: str) -> str:
    return "\n".join(section.text for section in html_sections(html)).strip()


def hidden_of(html: str) -> str:
    return " ".join(section.hidden_text for section in html_sections(html)).strip()


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<style>.n{vertical-align:super}</style>lifts 480<span class=n>1</span> t", "lifts 480 ¹ t"),
        ('62<a href="#f" style="vertical-align:super;font-size:70%">3</a> t', "62 ³ t"),
        ('62<span style="vertical-align: 0.5em">3</span> t', "62 ³ t"),
        ('62<span style="vertical-align: 30%"><a href=#f>[3]</a></span> t', "62 [3] t"),
        ('62<span style="position:relative;top:-4.0pt;font-size:7pt">3</span> t', "62 ³ t"),
        ('EUR 12<span style="vertical-align:top;font-size:50%">99</span>', "EUR 12.99"),
        ('CO<span style="vertical-align:sub">2</span>', "CO₂"),
        ("<style>.ref a{vertical-align:super}</style>7<span class=ref><a>b</a></span> x", "7 ᵇ x"),
        ("<style>sup{vertical-align:baseline;position:relative;top:-.5em}</style>7<sup>2</sup> x", "7 ² x"),
        ("<table><tr><td>A<td>5<i style=vertical-align:super>a</i><tr><td>B<td>6</table>", "A | 5 ᵃ\nB | 6"),
    ],
)  # fmt: skip
def test_text_that_a_style_raises_or_lowers_is_no_part_of_a_number(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('At <span style="unicode-bidi:bidi-override;direction:rtl">005,21 RUE</span>.', "At EUR 12,500."),
        ("Call <bdo dir=RTL>(6) 21<b>55</b></bdo> now", "Call 5512 (6) now"),
        ("<bdo dir=rtl>321-555<br>moc.a@b</bdo>", "555-123\nb@a.com"),
        ("<bdo dir=rtl>ae\u0301b</bdo>", "be\u0301a"),
        ("<bdo dir=ltr>12</bdo> <span dir=rtl>34</span> <span style=direction:rtl>56</span>", "12 34 56"),
        ("<bdo dir=rtl>רמון 12</bdo>", "רמון 12"),
    ],
)  # fmt: skip
def test_letters_whose_direction_is_overridden_are_read_as_they_stand(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    "html",
    [
        '48<span style="vertical-align:middle">0</span>',
        '48<span style="vertical-align:top">0</span>',
        '48<span style="vertical-align:1px">0</span>',
        '48<span style="position:relative;top:-1px;font-size:11px">0</span>',
        '48<span style="vertical-align:super;vertical-align:baseline">0</span>',
        "<style>.n:hover{vertical-align:super}</style>48<span class=n>0</span>",
    ],
)
def test_text_that_stands_on_the_line_is_part_of_its_number(html: str) -> None:
    assert text_of(html) == "480"


def test_a_long_part_of_a_layout_is_not_raised() -> None:
    words = "The harbour is open from May to October."
    assert text_of(f'4<span style="vertical-align:super">{words}</span>') == f"4{words}"


UNSEEN = [
    '<p style="opacity:0">secret</p>',
    '<p style="opacity:0.0%">secret</p>',
    '<p style="font-size:0">secret</p>',
    '<p style="font: 0/0 a">secret</p>',
    '<p style="font-size:1px">secret</p>',
    '<p style="font-size:0"><b>secret</b></p>',
    '<p style="color:transparent">secret</p>',
    '<p style="color:rgba(0, 0, 0, 0)">secret</p>',
    '<p style="color:#fff">secret</p>',
    '<p style="color:white;background:#fefefe">secret</p>',
    '<font color="#FFFFFF">secret</font>',
    '<table bgcolor=navy><tr><td style="color:#000080">secret</table>',
    '<div style="background:rgb(10, 20, 30)"><p style="color:rgb(10 20 30)">secret</p></div>',
    "<style>.w{color:#fff}</style><p class=w>secret</p>",
    "<style>.card .w{color:#fff}</style><div class=card><p class=w>secret</p></div>",
    "<style>.x{max-height:0;overflow:hidden}</style><div class=x>secret</div>",
    '<div style="height:0px;overflow:hidden">secret</div>',
    '<div style="width:0;overflow-x:hidden">secret</div>',
    '<span style="display:inline-block;width:0;overflow:hidden">secret</span>',
    '<span style="position:absolute;width:1px;height:1px;overflow:hidden">secret</span>',
    '<p style="transform:scale(0)">secret</p>',
]


@pytest.mark.parametrize("html", UNSEEN)
def test_words_that_are_there_and_cannot_be_seen_are_kept_apart(html: str) -> None:
    page = f"<p>before</p>{html}<p>after</p>"
    assert text_of(page).split() == ["before", "after"]
    assert hidden_of(page) == "secret"


@pytest.mark.parametrize(
    "html",
    [
        '<p style="opacity:0;animation:appear 1s forwards">shown',
        '<p style="opacity:0.5">shown',
        '<p style="font-size:0"><span style="font-size:14px">shown</span>',
        "<p style='font-size:0'><a style='font:12px Arial'>shown</a>",
        '<p style="color:#fff;background:navy">shown',
        '<p style="color:rgb(0,0,0)">shown',
        '<p style="color:rgb(0, 0, 0, 1)">shown',
        '<body bgcolor=black><p style="color:#fff">shown',
        '<table><tr><td bgcolor="#000000"><font color=white>shown</font></table>',
        '<table><tr><td background="sea.png"><font color=white>shown</font></table>',
        '<div style="background:url(sea.png)"><p style="color:#fff">shown</div>',
        '<div style="background-image:linear-gradient(red,blue)"><p style="color:#fff">shown</div>',
        '<div style="background:var(--main)"><p style="color:#fff">shown</div>',
        '<div style="position:absolute;top:4px"><p style="color:#fff">shown</div>',
        '<link rel=stylesheet href="a.css"><p style="color:#fff">shown',
        "<style>@import 'a.css';</style><p style='color:#fff'>shown",
        "<style>.x:nth-child(2){background:navy}</style><p style='color:#fff'>shown",
        '<p style="color:transparent;background:red;-webkit-background-clip:text">shown',
        '<p style="color:transparent;text-shadow:0 0 3px #000">shown',
        '<p style="color:#fff"><a href="x">shown</a>',
        '<p style="color:#fff"><mark>shown</mark>',
        '<p style="color:#fff"><b style="color:black">shown</b>',
        "<style>.w{color:#fff}.dark .w{background:#000}</style><div class=dark><p class=w>shown</div>",
        '<div style="max-height:0">shown',
        '<div style="height:0;padding-bottom:56%;overflow:hidden">shown',
        '<div style="max-height:100px;overflow:hidden">shown',
        '<span style="width:0;overflow:hidden">shown</span>',
        '<table><tr><td style="height:0;overflow:hidden">shown</table>',
        "<style>body{opacity:0}</style><p>shown",
        "<style>.x{display:none}@media(min-width:9px){.m\\:x{display:block}}</style><p class='x m:x'>shown",
        "<style>.x{display:none} .page .x{display:block}</style><div class=page><p class=x>shown</div>",
        "<style>.a{ .x{display:none} }</style><p class=x>shown",
        "<style>@supports not (display:grid){.x{display:none}}</style><p class=x>shown",
        '<style>.q::before{content:"}.x{display:none}"}</style><p class=x>shown',
    ],
)
def test_words_that_can_be_seen_are_read(html: str) -> None:
    assert text_of(html).endswith("shown")
    assert not hidden_of(html)


def test_hidden_words_of_each_section_are_its_own() -> None:
    one, two = html_sections("<h1>A</h1><p style='opacity:0'>x</p>a<h1>B</h1>b<p style='color:#fff'>y</p>")[
        1:
    ]
    assert (one.hidden_text, two.hidden_text) == ("x", "y")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<style>.p::before{content:"EUR 23.40"}</style>Sauna: <b class=p></b>', "Sauna: EUR 23.40"),
        ("<style>.p:after{content:' EUR'}</style><b class=p>4</b>", "4 EUR"),
        ('<style>.p:after{content:" " attr(data-unit)}</style><b class=p data-unit=kg>4</b>', "4 kg"),
        ('<style>b::before{content:"\\20AC  "}</style><b>4</b>', "€ 4"),
        ('<style>.card .p::before{content:"EUR "}</style><p class=card><b class=p>4</b>', "EUR 4"),
        ('<style>b::before{content:"a;b"}</style><b>4</b>', "a;b4"),
        ('<style>b::before{content:"EUR";display:none}</style><b>4</b>', "4"),
        ('<style>b::before{content:"EUR"} b.x::before{content:none}</style><b class=x>4</b>', "4"),
        ('<style>b:hover::before{content:"EUR"}</style><b>4</b>', "4"),
        ('<style>@media print{b::after{content:"EUR"}}</style><b>4</b>', "4"),
        ('<style>b::before{content:"\\f101"} i::before{content:"›"}</style><b>4</b><i>5</i>', "45"),
        ('<style>b::before{content:"home";font-family:"Material Icons"}</style><b>4</b>', "4"),
    ],
)
def test_words_that_a_rule_adds_are_read(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("@media screen", True),
        ("@media only screen and (min-width: 48em)", True),
        ("@media (width >= 600px)", True),
        ("@media (max-width: 640px)", False),
        ("@media print", False),
        ("@media print, (min-width: 1px)", True),
        ("@media not screen", False),
        ("@media (prefers-color-scheme: dark)", False),
        ("@supports (display: grid)", True),
        ("@supports not (display: grid)", False),
        ("@font-face", False),
        ("@keyframes appear", False),
    ],
)
def test_rules_hold_as_on_a_common_screen(query: str, holds: bool) -> None:
    assert holds_on_screen(query) is holds


def test_colors_that_are_not_opaque_or_not_known_hide_nothing() -> None:
    assert read_color("rgba(255,255,255,0.5)") is None
    assert read_color("hsl(0, 0%, 100%)") == (255, 255, 255)
    assert not Look(color=None).hides_words
    assert Look(color=(253, 255, 254)).hides_words
    assert not Look(color=(245, 245, 245)).hides_words


@pytest.mark.parametrize(
    "html",
    [
        "<style>" + "/* " * 300_000 + "</style>words",
        "<style>" + '"' * 100_000 + "</style>words",
        "<style>" + ".a{" * 100_000 + "</style>words",
        "<style>" + "b div div div div{color:red}" * 200 + "</style>" + "<div>" * 400 + "words",
        "<style>" + ".zz ~ div,div:nth-child(2n){color:red}</style>" + "<div>words</div>" * 3000,
        "<style>" + ".a" * 50_000 + "{color:red}</style>words",
        "<style>" + f".{'é' * 280}!{{color:red}}" * 20 + "</style>words",
        "<style>b{content:" + "'a' " * 50_000 + "}</style>words",
        "<p style='" + "color:red;" * 50_000 + "'>words",
    ],
    ids=["comments", "quotes", "nested", "deep", "siblings", "classes", "letters", "content", "inline"],
)
def test_hostile_styles_cost_little(html: str) -> None:
    start = time.process_time()
    assert "words" in text_of(html)
    assert time.process_time() - start < 10


def test_rules_within_rules_and_after_a_damaged_one_are_told_apart() -> None:
    css = "@charset 'utf-8'; .a{color:red; .b{color:blue}} .c{width:0} } .d{top:0}"
    selectors = [rule.selectors for rule in read_rules(css) if rule.declarations]
    assert ".b" not in selectors
    assert {".c", ".d"} <= set(selectors)
