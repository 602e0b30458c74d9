"""Fields of forms, tables by style or role, frames, and what scripts write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.html import HtmlFile
from vrag.corpus.formats.texts.html_tree import html_page, html_sections
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = (("Line", "Adult"), ("Knot", "12.40"), ("Tamm", "9.80"))


def text_of(html: str) -> str:
    return "\n".join(section.text for section in html_sections(html)).strip()


def unread_of(html: str) -> str:
    return " ".join(
        text for section in html_page(html, with_scripts=True).sections for text in section.unread
    )


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("Port <select><option>A<option selected>B<option>C</select> now", "Port B now"),
        ("Port <select><option>A<option>B</select>", "Port A"),
        ("Port <select><optgroup><option>A<option selected label=Bay>B</optgroup></select>", "Port Bay"),
        ("<select multiple><option selected>A<option>B</select>", "☑ A\n☐ B"),
        ("<select size=3><option>A<option selected>B</select>", "☐ A\n☑ B"),
        ("<select></select>none", "none"),
        ("<input type=checkbox checked> Power <input type=checkbox> Water", "☑ Power ☐ Water"),
        ("<input type=RADIO name=a> One <input type=radio name=a checked=''> Two", "○ One ◉ Two"),
        ("<label>Length <input type=number value=11.4> m</label>", "Length 11.4 m"),
        ("Key <input type=hidden value=77><input type=password value=88>", "Key"),
        ("Boat <input type=boat value=Gull>", "Boat Gull"),
        ("<span role=checkbox aria-checked=true></span> Power", "☑ Power"),
        ("<span role=radio aria-checked=false>○ One</span>", "○ One"),
        ("<input type=checkbox role=button> Menu", "Menu"),
        ("<input type=checkbox style='display:none' checked> Menu", "Menu"),
        ("<textarea>After dark\non 14 May</textarea>", "After dark\non 14 May"),
    ],
)  # fmt: skip
def test_a_form_says_what_its_fields_show(html: str, text: str) -> None:
    assert text_of(html) == text


def make_table(table: str, row: str, head: str, cell: str) -> str:
    """A table of `div` elements with such attributes."""
    lines = [
        f"<div {row}>"
        + "".join(f"<div {head if not number else cell}>{text}</div>" for text in texts)
        + "</div>"
        for number, texts in enumerate(ROWS)
    ]
    return f"<h1>Fares</h1><div {table}>{''.join(lines)}</div><p>After</p>"


STYLES = "<style>.t{display:table}.r{display:table-row}.c{display:table-cell}</style>"


@pytest.mark.parametrize(
    "html",
    [
        STYLES + make_table("class=t", "class=r", "class=c", "class=c"),
        make_table("role=table", "role=row", "role=columnheader", "role=cell"),
        make_table("role=grid", "role=row", "role=columnheader", "role=gridcell"),
        make_table(
            "style='display:table'",
            "style='display: table-row'",
            "style='display:table-cell'",
            "style='display:table-cell'",
        ),
    ],
    ids=["rules", "roles", "grid", "styles"],
)
def test_a_table_by_style_or_role_is_a_table(html: str) -> None:
    *_, section = html_sections(html)
    (table,) = section.tables
    assert section.text == "Fares\n\nLine | Adult\nKnot | 12.40\nTamm | 9.80\n\nAfter"
    assert table.header_rows == 1


def test_groups_of_rows_and_spans_of_roles_count() -> None:
    html = (
        "<div role=table><div role=rowgroup><div role=row><div role=columnheader aria-colspan=2>Fare</div>"
        "</div></div><div role=rowgroup><div role=row><div role=rowheader>Knot</div><div role=cell>12</div>"
        "</div><div role=row><div role=rowheader>Tamm</div><div role=cell>9</div></div></div></div>"
    )
    *_, section = html_sections(html)
    assert section.text == "Fare\nKnot | 12\nTamm | 9"


@pytest.mark.parametrize(
    "html",
    [
        "<h1 style='display:table'>Title</h1><p>words</p>",
        STYLES + "<div class=t><div class=c>left</div><div class=c>right</div></div>",
        STYLES + "<div class=t><p>words</p><p>more</p></div>",
        STYLES + "<figure class=t><figcaption style='display:table-caption'>words</figcaption></figure>",
        "<p><span role=cell>one</span> <span role=row>two</span></p>",
        STYLES + "<table><tr><td><div class=c>a</div><div class=c>b</div></table>",
    ],
)
def test_a_layout_by_style_is_no_table(html: str) -> None:
    assert not any(section.tables for section in html_sections(html))


def test_a_heading_that_is_laid_out_as_a_table_stays_a_heading() -> None:
    assert html_sections("<h1 style='display:table'>Title</h1>")[-1].headings == ("Title",)


APP = "<title>Portal</title><noscript>You need to enable JavaScript to run this app.</noscript>"


@pytest.mark.parametrize(
    "html",
    [
        f"{APP}<div id=root></div><script src=a.js></script>",
        "<title>Portal</title><div id=root>Loading…</div><script type=module src=a.js></script>",
        f"<h1>Tides</h1><div id=app> </div><p>{'All times are local. ' * 5}</p><script src=a.js></script>",
        "<p>Below is the chart of the tides at the pier.</p><canvas></canvas><script>draw()</script>",
    ],
    ids=["empty", "loading", "part", "drawing"],
)
def test_what_scripts_write_is_told_as_not_read(html: str) -> None:
    assert "JavaScript" in unread_of(html)
    assert "print it to PDF" in unread_of(html)


@pytest.mark.parametrize(
    "html",
    [
        "<p>Tides at the pier.</p><script src=a.js></script><noscript><img src=pixel.gif></noscript>",
        "<title>Portal</title><script type=application/ld+json>{}</script>",
        "<div id=root><p>Tides at the pier: see below.</p></div><script src=a.js></script>",
        "<img src=chart.png><script src=a.js></script>",
        "<p>Words</p><canvas></canvas>",
    ],
)
def test_a_page_with_its_text_is_complete_whatever_scripts_it_has(html: str) -> None:
    assert unread_of(html) == ""


def test_a_note_for_browsers_without_scripts_in_the_head_is_not_shown() -> None:
    head = "<head><noscript>Turn on JavaScript</noscript><title>Tides</title></head>"
    page = html_page(f"{head}<body><p>High at 4 pm</p></body>", with_scripts=True)
    assert " ".join(section.text for section in page.sections).split() == "Tides High at 4 pm".split()


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ("<frameset><frame src=menu.html><noframes>No frames.</noframes></frameset>", "menu.html"),
        ("<p>Words</p><iframe src='https://example.org/map?x=1'></iframe>", "https://example.org/map?x=1"),
        ("<p>Words</p><object data=fares.pdf type=application/pdf>none</object>", "fares.pdf"),
        ("<p>Words</p><embed src=fares.pdf>", "fares.pdf"),
    ],
)
def test_other_files_that_a_page_shows_are_named_as_not_read(html: str, name: str) -> None:
    assert f"({name})" in unread_of(f"<title>T</title>{html}")
    assert "none" not in text_of(html)
    assert "No frames" not in text_of(html)


@pytest.mark.parametrize(
    "html",
    [
        "<iframe src=about:blank></iframe>",
        "<iframe src=track.html width=1 height=1></iframe>",
        "<iframe src=track.html style='display:none'></iframe>",
        "<iframe></iframe>",
        "<noscript><iframe src=track.html></iframe></noscript>",
    ],
)
def test_frames_that_show_nothing_are_left_out(html: str) -> None:
    assert unread_of(f"<p>Words</p>{html}") == ""


def test_the_page_of_a_frame_that_stands_in_its_attribute_is_read() -> None:
    inner = "&lt;table&gt;&lt;tr&gt;&lt;th&gt;Port&lt;th&gt;Depth&lt;tr&gt;&lt;td&gt;Birch&lt;td&gt;17.9 m"
    *_, section = html_sections(f"<h1>Report</h1><p>See:<iframe srcdoc='{inner}'></iframe>")
    assert section.text == "Report\n\nSee:\n\nPort | Depth\nBirch | 17.9 m"
    assert len(section.tables) == 1


def test_pages_within_pages_are_read_to_a_limit() -> None:
    html = "words"
    for _ in range(6):
        html = (
            "<p>level</p><iframe srcdoc='" + html.replace("&", "&amp;").replace("'", "&#39;") + "'></iframe>"
        )
    assert text_of(html).split() == ["level"] * 4


def test_an_object_that_browsers_do_not_show_gives_way_to_its_content() -> None:
    html = "<object type=application/x-shockwave-flash data=a.swf><p>Depth 4 m</p></object><p>after"
    assert text_of(html) == "Depth 4 m\n\nafter"
    assert unread_of(html) == ""


def test_a_drawing_as_an_object_is_a_picture() -> None:
    assert [each.reference for each in html_page("<object data=map.svg></object>").figures] == ["map.svg"]


def test_a_tree_of_its_own_in_an_element_is_read() -> None:
    html = "<fare-table><template shadowrootmode=open><p>Adult EUR 4</p></template></fare-table><p>after"
    assert text_of(html) == "Adult EUR 4\n\nafter"
    assert text_of("<template><p>no</p></template>after") == "after"


def test_a_file_whose_text_comes_by_scripts_alone_fails_with_that_reason(tmp_path: Path) -> None:
    path = tmp_path / "app.html"
    path.write_text("<div id=root></div><script src=a.js></script>")
    with pytest.raises(CorpusError, match="only with JavaScript"):
        HtmlFile(read_source(path), ConversionContext(tmp_path, CorpusOptions()))


def test_hidden_words_and_what_is_not_read_are_facts_of_the_first_passage(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<title>Fares</title><p style='opacity:0'>secret</p><iframe src=map.html></iframe>")
    with HtmlFile(read_source(path), ConversionContext(tmp_path, CorpusOptions())) as file:
        facts = file.item(1).facts
    assert facts.hidden_text == "secret"
    assert "map.html" in facts.unread[0]
