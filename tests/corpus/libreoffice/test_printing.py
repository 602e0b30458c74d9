"""What LibreOffice prints and stores of a document: what people see in it, by the program in its profile."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from corpus.office_files import docx, open_document, row_of, word_run, xlsx
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.office import OfficeFile
from vrag.types import ItemKind

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("soffice") or shutil.which("libreoffice")), reason="LibreOffice is not installed"
    ),
]
BY = 'w:author="A" w:date="2026-01-01T00:00:00Z"'
MONEY = (
    '<numFmts count="1"><numFmt numFmtId="164" formatCode="&quot;EUR &quot;#,##0.00"/></numFmts>'
    '<fonts count="1"><font><sz val="11"/></font></fonts><fills count="1"><fill/></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="2"><xf/><xf numFmtId="164" applyNumberFormat="1"/></cellXfs>'
)


def items_of(path: Path, data: bytes) -> list[Item]:
    path.write_bytes(data)
    context = ConversionContext(path.parent / "items", CorpusOptions(ocr="never"))
    with OfficeFile(read_source(path), context) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def words_of(items: list[Item]) -> str:
    return " ".join(" ".join(item.text for item in items if item.kind is ItemKind.PAGE).split())


def row(*cells: str, properties: str = "") -> str:
    written = "".join(f"<w:tc><w:p>{cell}</w:p></w:tc>" for cell in cells)
    return f"<w:tr><w:trPr>{properties}</w:trPr>{written}</w:tr>"


BOLD_SINCE = f'<w:b/><w:rPrChange w:id="8" {BY}><w:rPr/></w:rPrChange>'
TRACKED = (
    "<w:p>"
    + word_run("The rent is ")
    + f'<w:del w:id="1" {BY}>{word_run("4,500", element="delText")}</w:del>'
    + f'<w:ins w:id="2" {BY}>{word_run("5,200")}</w:ins>'
    + word_run(" a month.")
    + "</w:p>"
    + f'<w:p><w:pPr><w:rPr><w:del w:id="3" {BY}/></w:rPr></w:pPr>{word_run("It ends in")}</w:p>'
    + f"<w:p>{word_run(' May.')}</w:p>"
    + f'<w:p><w:moveFromRangeStart w:id="4" w:name="m" {BY}/><w:moveFrom w:id="5" {BY}>'
    + f'{word_run("Keys are kept.")}</w:moveFrom><w:moveFromRangeEnd w:id="4"/></w:p>'
    + f"<w:p>{word_run('Between.')}</w:p>"
    + f'<w:p><w:moveToRangeStart w:id="6" w:name="m" {BY}/><w:moveTo w:id="7" {BY}>'
    + f'{word_run("Keys are kept.")}</w:moveTo><w:moveToRangeEnd w:id="6"/></w:p>'
    + f"<w:p>{word_run('Bold now.', BOLD_SINCE)}</w:p>"
    + '<w:tbl><w:tblPr/><w:tblGrid><w:gridCol w:w="3000"/><w:gridCol w:w="3000"/></w:tblGrid>'
    + row(word_run("Berth"), word_run("Fee"))
    + row(
        f'<w:del w:id="9" {BY}>{word_run("North", element="delText")}</w:del>',
        f'<w:del w:id="10" {BY}>{word_run("410", element="delText")}</w:del>',
        properties=f'<w:del w:id="11" {BY}/>',
    )
    + row(word_run("South"), word_run("525"))
    + f"</w:tbl><w:p>{word_run('End.')}</w:p>"
)
SHOWN = (
    "The rent is 5,200 a month. It ends in May. Between. Keys are kept. Bold now. Berth Fee South 525 End."
)


def test_changes_of_a_text_are_accepted(tmp_path: Path) -> None:
    assert words_of(items_of(tmp_path / "a.docx", docx(TRACKED))) == SHOWN


def test_changes_beside_a_comment_are_accepted_and_the_comment_is_a_passage(tmp_path: Path) -> None:
    comment = (
        '<w:comment w:id="1" w:author="Ada" w:date="2026-02-03T00:00:00Z">'
        f"<w:p>{word_run('Too dear.')}</w:p></w:comment>"
    )
    place = f'<w:p>{word_run("Start.")}<w:r><w:commentReference w:id="1"/></w:r></w:p>'
    items = items_of(tmp_path / "a.docx", docx(place + TRACKED, comment))
    assert words_of(items) == f"Start. {SHOWN}"
    assert [(item.heading, item.text) for item in items[1:]] == [("Comments", "Ada, 2026-02-03: Too dear.")]


def test_changes_of_an_open_document_text_are_accepted(tmp_path: Path) -> None:
    info = (
        '<office:change-info xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:creator>A</dc:creator>'
        "<dc:date>2026-01-01T00:00:00</dc:date></office:change-info>"
    )
    body = (
        '<text:tracked-changes text:track-changes="false">'
        f'<text:changed-region text:id="c1"><text:deletion>{info}<text:p>4,500</text:p>'
        '</text:deletion></text:changed-region><text:changed-region text:id="c2"><text:insertion>'
        f"{info}</text:insertion></text:changed-region></text:tracked-changes>"
        '<text:p>The rent is <text:change text:change-id="c1"/><text:change-start text:change-id="c2"/>5,200'
        '<text:change-end text:change-id="c2"/> a month.</text:p>'
    )
    assert words_of(items_of(tmp_path / "a.odt", open_document("text", body))) == "The rent is 5,200 a month."


def test_hidden_text_is_kept_apart(tmp_path: Path) -> None:
    body = f"<w:p>{word_run('Seen. ')}{word_run('The code is 77.', '<w:vanish/>')}</w:p>"
    (item,) = items_of(tmp_path / "a.docx", docx(body))
    assert item.text.strip() == "Seen."
    assert "77" in item.facts.hidden_text


def test_numbers_are_printed_whole_however_narrow_their_column_is(tmp_path: Path) -> None:
    columns = '<cols><col min="1" max="3" width="4" customWidth="1"/></cols>'
    rows = row_of(1, "Harbour and ferries", 9044310.0, 12480350.75, style=1)
    (item,) = items_of(tmp_path / "a.xlsx", xlsx(f"{columns}<sheetData>{rows}</sheetData>", styles=MONEY))
    assert words_of([item]) == "Harbour and ferries EUR 9,044,310.00 EUR 12,480,350.75"


def test_all_columns_of_a_row_are_on_its_page_and_nothing_else_makes_a_page(tmp_path: Path) -> None:
    wide = "".join(row_of(n, *(f"name {n}.{column} of a station" for column in range(25))) for n in (1, 2))
    blank = row_of(900_000, attributes='s="1" customFormat="1"') + row_of(1_048_576, " ")
    breaks = '<colBreaks count="1" manualBreakCount="1"><brk id="3" max="1048575" man="1"/></colBreaks>'
    items = items_of(tmp_path / "a.xlsx", xlsx(f"<sheetData>{wide}{blank}</sheetData>{breaks}", styles=MONEY))
    assert len(items) == 1
    assert words_of(items) == " ".join(
        f"name {n}.{column} of a station" for n in (1, 2) for column in range(25)
    )


def test_a_long_text_is_not_cut_by_its_neighbour_and_a_title_runs_over_empty_cells(tmp_path: Path) -> None:
    title, remark = (
        "The budget of the harbour of Sandvik",
        "Stone was late, since " + "the quarry was closed " * 9,
    )
    rows = (
        row_of(1, title)
        + row_of(2, "Name", "Remark", "Year", "Place")
        + row_of(3, "Roads", remark, 2025, "x")
    )
    (item,) = items_of(tmp_path / "a.xlsx", xlsx(f"<sheetData>{rows}</sheetData>"))
    words = words_of([item])
    assert title in words
    assert words.count("quarry") == 9
    assert item.text.splitlines()[0].strip() == title


def test_a_turned_name_in_a_column_of_long_texts_is_one_line(tmp_path: Path) -> None:
    turned = MONEY.replace('<xf numFmtId="164"', '<xf applyAlignment="1" numFmtId="0"').replace(
        'applyNumberFormat="1"/>', '><alignment textRotation="90"/></xf>'
    )
    remark = "Stone was late, since " + "the quarry was closed " * 9
    rows = row_of(1, "Remark", "Fee") + row_of(2, remark, 20) + row_of(3, "Received", 30)
    sheet = f"<sheetData>{rows}</sheetData>".replace('r="A3" t', 'r="A3" s="1" t')
    (item,) = items_of(tmp_path / "a.xlsx", xlsx(sheet, styles=turned))
    assert "Received" in item.text.split()


def test_a_title_in_cells_merged_beyond_the_last_column_is_seen_whole(tmp_path: Path) -> None:
    title = "Berths taken since 1967"
    rows = row_of(1, title) + row_of(2, "Name", "2025") + row_of(3, "Roads", 14)
    merged = '<mergeCells count="1"><mergeCell ref="A1:D1"/></mergeCells>'
    centred = MONEY.replace('<xf numFmtId="164"', '<xf applyAlignment="1" numFmtId="0"').replace(
        'applyNumberFormat="1"/>', '><alignment horizontal="center"/></xf>'
    )
    sheet = f"<sheetData>{rows}</sheetData>{merged}".replace('r="A1" t', 'r="A1" s="1" t')
    (item,) = items_of(tmp_path / "a.xlsx", xlsx(sheet, styles=centred))
    assert words_of([item]) == f"{title} Name 2025 Roads 14"
    assert not item.facts.hidden_text


def test_formulas_without_stored_values_are_computed(tmp_path: Path) -> None:
    rows = row_of(1, "A", 410.0) + row_of(2, "B", 525.0) + row_of(3, "Total", "=SUM(B1:B2)")
    assert (
        words_of(items_of(tmp_path / "a.xlsx", xlsx(f"<sheetData>{rows}</sheetData>")))
        == "A 410 B 525 Total 935"
    )


def test_names_of_columns_stand_on_each_page_of_a_long_table(tmp_path: Path) -> None:
    rows = "".join(row_of(n, f"Boat {n}", n * 7.0) for n in range(2, 150))
    items = items_of(tmp_path / "a.xlsx", xlsx(f"<sheetData>{row_of(1, 'Name', 'Weight')}{rows}</sheetData>"))
    assert len(items) > 1
    assert all("Weight" in item.text for item in items)


DATES = MONEY.replace('numFmtId="164" applyNumberFormat', 'numFmtId="17" applyNumberFormat')


@pytest.mark.parametrize(
    ("head", "style", "shown"),
    [
        (("Harbour", 2023.0, 2024.0), 0, "2024"),
        ((None, 45292.0, 45323.0), 1, "Feb"),
        (("", 2023.0, "All"), 0, "All"),
    ],
)
def test_years_and_dates_that_name_columns_stand_on_each_page(
    tmp_path: Path, head: tuple[str | float | None, ...], style: int, shown: str
) -> None:
    rows = "".join(row_of(n, f"Quay {n}", n * 7.0, n * 9.0) for n in range(2, 150))
    sheet = f"<sheetData>{row_of(1, *head, style=style)}{rows}</sheetData>"
    items = items_of(tmp_path / "a.xlsx", xlsx(sheet, styles=DATES))
    assert len(items) > 1
    assert all(shown in item.text for item in items)


def test_a_row_of_data_with_years_is_not_repeated(tmp_path: Path) -> None:
    rows = "".join(row_of(n, f"Quay {n}", 1850.0 + n, 2000.0) for n in range(60, 210))
    items = items_of(tmp_path / "a.xlsx", xlsx(f"<sheetData>{rows}</sheetData>"))
    assert len(items) > 1
    assert words_of(items).count("Quay 60 ") == 1


def test_cells_on_the_pages_of_a_workbook_have_their_addresses(tmp_path: Path) -> None:
    rows = "".join(row_of(n, f"Boat {n}", n * 7.0, 5.0) for n in range(2, 150))
    old = "<sheetData>" + row_of(1, "gone") + "</sheetData>"
    long = f"<sheetData>{row_of(1, 'Name', 'Weight', 'Crew')}{rows}</sheetData>"
    data = xlsx(long, old, names=("Boats", "Old"), hidden=("Old",))
    items = items_of(tmp_path / "a.xlsx", data)
    cells = {cell.address: (item, cell) for item in items for cell in item.facts.cells}
    assert {item.facts.worksheet for item in items} == {"Boats"}
    assert len(cells) == 3 * 149
    for number in (2, 77, 149):
        item, cell = cells[f"B{number}"]
        assert item.text[cell.start : cell.end] == str(number * 7)
    assert items[0].facts.hidden_text == "gone"


def test_speaker_notes_are_passages_after_the_slides(tmp_path: Path) -> None:
    notes = (
        '<presentation:notes xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0">'
        '<draw:frame presentation:class="notes" svg:width="9cm" svg:height="9cm"><draw:text-box>'
        "<text:p>Say that it rains.</text:p></draw:text-box></draw:frame></presentation:notes>"
    )
    frame = (
        '<draw:frame svg:x="2cm" svg:y="2cm" svg:width="20cm" svg:height="3cm"><draw:text-box>'
        "<text:p>{}</text:p></draw:text-box></draw:frame>"
    )
    pages = "".join(f'<draw:page draw:name="p{n}">{frame.format(n)}{notes}</draw:page>' for n in (1, 2))
    items = items_of(tmp_path / "a.odp", open_document("presentation", pages))
    assert [(item.kind, item.heading) for item in items[2:]] == [
        (ItemKind.PASSAGE, "Slide 1 › Speaker notes"),
        (ItemKind.PASSAGE, "Slide 2 › Speaker notes"),
    ]
    assert {item.text for item in items[2:]} == {"Say that it rains."}
    assert "rains" not in words_of(items)


def test_headings_of_a_text_are_known_with_their_levels(tmp_path: Path) -> None:
    def paragraph(text: str, level: int | None = None) -> str:
        properties = f'<w:pPr><w:outlineLvl w:val="{level}"/></w:pPr>' if level is not None else ""
        return f"<w:p>{properties}{word_run(text)}</w:p>"

    body = paragraph("Fees", 0) + paragraph("of all piers", 1) + paragraph("Fees of 12 euro.")
    (item,) = items_of(tmp_path / "a.docx", docx(body))
    assert [(item.text[each.start : each.end], each.level) for each in item.facts.headings] == [
        ("Fees", 1),
        ("of all piers", 2),
    ]


def test_struck_text_is_in_the_picture_and_not_in_the_text(tmp_path: Path) -> None:
    rent = word_run("The rent is ") + word_run("EUR 14,000", "<w:strike/>") + word_run(" EUR 16,250.")
    fee = (
        word_run("The fee is ")
        + word_run("EUR 80", "<w:dstrike/>")
        + word_run(" EUR 95.", '<w:u w:val="single"/>')
    )
    items = items_of(tmp_path / "lease.docx", docx(f"<w:p>{rent}</w:p><w:p>{fee}</w:p>"))
    assert words_of(items) == "The rent is EUR 16,250. The fee is EUR 95."
    assert items[0].facts.hidden_text == "EUR 14,000 EUR 80"


def test_a_formula_of_word_keeps_its_structure_on_its_page(tmp_path: Path) -> None:
    names = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    power = "<m:sSup><m:e><m:r><m:t>t</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    fraction = f"<m:f><m:num><m:r><m:t>2s</m:t></m:r></m:num><m:den>{power}</m:den></m:f>"
    equation = f"<m:oMath {names}><m:r><m:t>a=</m:t></m:r>{fraction}</m:oMath>"
    body = f"<w:p>{word_run('Braking takes ')}{equation}{word_run(' in all.')}</w:p>"
    items = items_of(tmp_path / "a.docx", docx(body))
    # Without the part of LibreOffice that draws formulas, it is a passage.
    assert "a = (2s)/(t²)" in "\n".join(item.text for item in items)


def field_of(code: str, result: str = "old.docx") -> str:
    begin, separate, end = (
        f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")
    )
    return f"{begin}{word_run(code, element='instrText')}{separate}{word_run(result)}{end}"


def test_fields_of_word_show_what_word_last_showed(tmp_path: Path) -> None:
    simple = f'<w:fldSimple w:instr=" PAGEREF gone \\h ">{word_run("27")}</w:fldSimple>'
    shown = {
        " REF gone \\h ": "clause 14.2",
        ' IF 2 = 2 "open until 19 July" "" ': "open until 19 July",
        "SEQ Figure \\* ARABIC": "7",
        ' SAVEDATE \\@ "d MMMM yyyy" ': "7 May 2020",
    }
    fields = "".join(
        f"<w:p>{field_of(code.replace(chr(34), '&quot;'), result)}</w:p>" for code, result in shown.items()
    )
    words = words_of(items_of(tmp_path / "a.docx", docx(f"{fields}<w:p>{simple}</w:p>")))
    assert words == " ".join((*shown.values(), "27"))


def test_a_reference_of_word_without_a_result_is_looked_up(tmp_path: Path) -> None:
    named = f'<w:bookmarkStart w:id="1" w:name="fee"/>{word_run("EUR 40")}<w:bookmarkEnd w:id="1"/>'
    body = f"<w:p>{named}</w:p><w:p>{field_of(' REF fee ', '')}</w:p>"
    assert words_of(items_of(tmp_path / "a.docx", docx(body))) == "EUR 40 EUR 40"


def test_fields_print_the_name_of_the_file_and_no_folder_of_ours(tmp_path: Path) -> None:
    with_path = field_of(r" FILENAME \p ")
    body = f"<w:p>{field_of(' FILENAME ')}</w:p><w:p>{with_path}</w:p>"
    name = "Lease #7, 50% & more.docx"
    shown = "Lease _7, 50_ & more.docx"
    assert words_of(items_of(tmp_path / name, docx(body))) == f"{shown} {shown}"


def test_headers_of_sheets_print_the_name_of_the_file(tmp_path: Path) -> None:
    header = "<headerFooter><oddHeader>&amp;L&amp;Z&amp;F&amp;R&amp;F</oddHeader></headerFooter>"
    data = xlsx(f"<sheetData>{row_of(1, 'Pier', 7)}</sheetData>{header}")
    words = words_of(items_of(tmp_path / "Fees 7.xlsx", data))
    assert words.count("Fees 7.xlsx") == 2
    assert "document" not in words


def test_check_boxes_and_lists_of_old_forms_show_their_state(tmp_path: Path) -> None:
    def form(data: str, code: str) -> str:
        begin = f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar></w:r>'
        end = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        return f"{begin}{word_run(code, element='instrText')}{end}"

    box, checked = (
        form(f"<w:checkBox><w:sizeAuto/>{state}</w:checkBox>", " FORMCHECKBOX ")
        for state in ("", "<w:checked/>")
    )
    entries = '<w:result w:val="1"/><w:listEntry w:val="North"/><w:listEntry w:val="South"/>'
    body = (
        f"<w:p>{checked}{word_run(' Insured')}</w:p><w:p>{word_run('Heated ')}{box}</w:p>"
        f"<w:p>{word_run('Pier: ')}{form(f'<w:ddList>{entries}</w:ddList>', ' FORMDROPDOWN ')}</w:p>"
    )
    assert words_of(items_of(tmp_path / "a.docx", docx(body))) == "☑ Insured Heated ☐ Pier: South"
