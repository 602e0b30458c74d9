"""Notes, comments, charts and descriptions are read with their places; what is hidden is kept apart."""

from __future__ import annotations

import io

from corpus.office_files import archive
from vrag.corpus.formats.libreoffice.contents import DocumentContents, read_contents
from vrag.corpus.formats.libreoffice.xml_parts import NAMES, XmlParts
from vrag.types import ItemFacts

SPACES = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in NAMES.items())
STYLES = (
    '<style:style style:name="gone"><style:drawing-page-properties presentation:visibility="hidden"/>'
    "</style:style>"
    '<style:style style:name="away"><style:table-properties table:display="false"/></style:style>'
    '<style:style style:name="unseen"><style:text-properties text:display="none"/></style:style>'
)
COMMENT = (
    "<office:annotation><dc:creator>Ada</dc:creator><dc:date>2026-02-03T10:00:00</dc:date>"
    "<text:p>{}</text:p></office:annotation>"
)
NOTES = (
    '<presentation:notes><draw:frame presentation:class="page"><text:p>1</text:p></draw:frame>'
    '<draw:frame presentation:class="notes"><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>'
    "</presentation:notes>"
)


def contents_of(body: str, **charts: str) -> DocumentContents:
    parts = {"content.xml": f"<office:document-content {SPACES}>{STYLES}{body}</office:document-content>"}
    parts |= {f"{name}/content.xml": f"<a {SPACES}>{chart}</a>" for name, chart in charts.items()}
    return read_contents(XmlParts(io.BytesIO(archive(parts))))


def slide(content: str, style: str = "") -> str:
    return f'<draw:page draw:style-name="{style}">{content}</draw:page>'


def test_the_title_of_a_slide_is_that_of_its_page() -> None:
    frame = "<draw:frame{}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    title = frame.format(' presentation:class="title"', "{}")
    contents = contents_of(
        slide(frame.format("", "body") + title.format("Piers"))
        + slide(title.format("secret"), "gone")
        + slide("<text:p>untitled</text:p>")
        + slide(title.format("Fees"))
    )
    assert contents.slide_titles == ("Piers", "", "Fees")


def workbook(*tables: str) -> DocumentContents:
    return contents_of(
        f"<office:body><office:spreadsheet>{''.join(tables)}</office:spreadsheet></office:body>"
    )


def test_notes_and_comments_have_the_number_of_their_page_which_hidden_slides_have_not() -> None:
    contents = contents_of(
        slide("<text:p>one</text:p>" + NOTES.format("first"))
        + slide("<text:p>secret</text:p>" + NOTES.format("not shown"), "gone")
        + slide(COMMENT.format("check this") + NOTES.format("third"))
        + slide(NOTES.format(""))
    )
    assert [(section.headings, section.text) for section in contents.sections] == [
        (("Slide 1", "Speaker notes"), "first"),
        (("Slide 2", "Speaker notes"), "third"),
        (("Slide 2", "Comments"), "Ada, 2026-02-03: check this"),
    ]
    assert contents.hidden_text == "secret"


def test_notes_that_nobody_has_written_are_none() -> None:
    prompt = NOTES.replace('class="notes"', 'class="notes" presentation:placeholder="true"')
    assert contents_of(slide(prompt.format("Click to add notes"))).sections == ()


def test_charts_are_read_as_tables_below_their_titles() -> None:
    row = "<table:table-row>{}</table:table-row>"
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    rows = "".join(
        row.format("".join(map(cell.format, cells))) for cells in (("", "Ferry"), ("2025", "1350"))
    )
    title = "<chart:title><text:p>Passengers</text:p></chart:title>"
    chart = f"<chart:chart>{title}<table:table>{rows}</table:table></chart:chart>"
    frame = '<draw:frame><draw:object xlink:href="./Chart"/></draw:frame>'
    (section,) = contents_of(f"<office:body>{frame}</office:body>", Chart=chart).sections
    assert (section.headings, section.text) == (("Data of a chart",), "Passengers\n| Ferry\n2025 | 1350")
    table = section.tables[0].part(0, len(section.text))
    assert table is not None
    assert (table.header_rows, table.header_columns, table.caption) == (1, 1, (0, 10))
    assert [(cell.row, cell.column, section.text[cell.start : cell.end]) for cell in table.cells] == [
        (0, 1, "Ferry"),
        (1, 0, "2025"),
        (1, 1, "1350"),
    ]


def test_pictures_are_described_by_their_titles_and_descriptions() -> None:
    frame = "<draw:frame><svg:title>Map</svg:title><svg:desc>Quays of Sandvik</svg:desc></draw:frame>"
    (section,) = contents_of(f"<office:body><text:p>words{frame}</text:p></office:body>").sections
    assert (section.headings, section.text) == (("Description of a picture",), "Map\nQuays of Sandvik")


def test_hidden_words_of_a_text_are_kept_apart() -> None:
    hidden = '<text:span text:style-name="unseen">code 77</text:span>'
    contents = contents_of(f"<office:body><text:p>Seen {hidden}</text:p></office:body>")
    assert (contents.sections, contents.hidden_text) == ((), "code 77")


CELL = "<table:table-cell><text:p>{}</text:p></table:table-cell>"


def test_hidden_sections_and_paragraphs_of_a_text_are_kept_apart() -> None:
    body = (
        '<text:section text:display="none"><text:p>The rate is 3,900.</text:p>'
        '<text:section text:display="none"><text:p>Inner.</text:p></text:section></text:section>'
        '<text:section text:display="condition" text:is-hidden="true"><text:p>Notice.</text:p></text:section>'
        '<text:section text:display="true"><text:p>Seen.</text:p></text:section>'
        '<text:p text:style-name="unseen">Paragraph.</text:p>'
    )
    contents = contents_of(f"<office:body><office:text>{body}</office:text></office:body>")
    assert contents.hidden_text.split("\n") == ["The rate is 3,900.", "Inner.", "Notice.", "Paragraph."]


def test_formulas_in_hidden_parts_are_not_read() -> None:
    frame = '<draw:frame><draw:object xlink:href="./Object {}"/></draw:frame>'
    body = f'<text:section text:display="none"><text:p>{frame.format(1)}</text:p></text:section>'
    content = f"{body}<text:p>{frame.format(2)}</text:p>"
    root = f"<office:document-content {SPACES}>{content}</office:document-content>"
    math = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>{}</mi></math>'
    parts = {"content.xml": root} | {f"Object {n}/content.xml": math.format("ab"[n - 1]) for n in (1, 2)}
    contents = read_contents(XmlParts(io.BytesIO(archive(parts))))
    assert [formula.text for formula in contents.formulas] == ["b"]


def test_comments_of_cells_have_their_addresses_and_unseen_cells_are_kept_apart() -> None:
    commented = f"<table:table-cell>{COMMENT.format('Audited.')}<text:p>9.50</text:p></table:table-cell>"
    first = (
        '<table:table table:name="Fees"><table:table-column table:number-columns-repeated="2"/>'
        '<table:table-column table:visibility="collapse"/>'
        '<table:table-row><table:table-cell table:number-columns-repeated="2"/>'
        f"{CELL.format('column')}</table:table-row>"
        '<table:table-row table:number-rows-repeated="1000000"><table:table-cell/></table:table-row>'
        f"<table:table-row>{CELL.format('seen')}{commented}</table:table-row>"
        f'<table:table-row table:visibility="filter">{CELL.format("row")}</table:table-row></table:table>'
    )
    second = (
        '<table:table table:name="Old" table:style-name="away">'
        f"<table:table-row>{CELL.format('sheet')}</table:table-row></table:table>"
    )
    contents = workbook(first, second)
    assert [(section.headings, section.text) for section in contents.sections] == [
        (("Sheet Fees", "Comments"), "B1000002: Ada, 2026-02-03: Audited.")
    ]
    assert contents.hidden_text.splitlines() == ["column", "row", "sheet"]


def test_what_concerns_the_document_is_added_to_the_facts_of_a_page() -> None:
    contents = DocumentContents(hidden_text="b", unread=("Not read.",))
    facts = contents.add_to(ItemFacts(label="i", hidden_text="a"))
    assert facts == ItemFacts(label="i", hidden_text="a\nb", unread=("Not read.",))
