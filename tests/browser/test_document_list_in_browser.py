"""The list of documents: folders, first pages, order, filters, keyboard, uploads; and the choice to ask."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from browsing import KAYAK, ask_by_key, check_no_sideways, collection_at, served
from corpus.annotated_pdfs import ATTACHED_PLAN, annotated_page
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from playwright.sync_api import expect

from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from browsing import Desk, Opener
    from playwright.sync_api import Page

PLACES = {
    "annual-report-2024.pdf": "2024/q1",
    "guillemot-slides.pdf": "2024",
    "letter-1974.pdf": "",
    "notes-for-crews.md": "2024/q1",
    "passenger-guide-zh.pdf": "guides",
    "price-board.jpg": "guides",
}


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample documents in folders, with a damaged file and a few notes."""
    folder = tmp_path_factory.mktemp("nested")
    for name, place in PLACES.items():
        (folder / "files" / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(f"{corpus_dir()}/{name}", folder / "files" / place / name)
    (folder / "files" / "torn.pdf").write_bytes(b"%PDF-1.7 and no more")
    for number in range(4):
        (folder / "files" / "2024" / f"note {number}.md").write_text(f"# Note\n\nNote {number}.\n")
    return collection_at(folder / "harbour", folder / "files")


@pytest.fixture
def filed(nested: Path, tmp_path: Path) -> Generator[Desk]:
    with served(shutil.copytree(nested, tmp_path / "harbour")) as desk:
        yield desk


def check_names(page: Page, *names: str) -> None:
    """The list comes to show these folders and documents, in this order."""
    expect(page.locator(".held-row .held-name > span:first-child")).to_have_text(names)


def opened(desk: Desk, visit: Opener, query: str = "") -> Page:
    page = visit(f"{desk.address}/#/documents?collection=harbour{query}").page
    expect(page.locator(".held-row").first).to_be_visible()
    return page


def tick(page: Page, *names: str) -> None:
    for name in names:
        page.get_by_role("checkbox", name=f"Choose {name}").check()


def test_folders_are_walked_and_the_address_says_where_one_is(filed: Desk, visit: Opener) -> None:
    page = opened(filed, visit)
    check_names(page, "2024", "guides", "letter-1974.pdf", "torn.pdf")
    page.get_by_role("button", name="2024", exact=True).click()
    check_names(page, "q1", "guillemot-slides.pdf", "note 0.md", "note 1.md", "note 2.md", "note 3.md")
    page.get_by_role("button", name="q1", exact=True).click()
    check_names(page, "annual-report-2024.pdf", "notes-for-crews.md")
    expect(page).to_have_url(re.compile("folder=2024%2Fq1"))
    page.reload()
    expect(page.locator(".crumbs")).to_contain_text("q1")
    check_names(page, "annual-report-2024.pdf", "notes-for-crews.md")
    page.locator(".crumbs").get_by_role("button", name="harbour").click()
    check_names(page, "2024", "guides", "letter-1974.pdf", "torn.pdf")


def test_documents_show_their_first_page_and_how_much_they_hold(filed: Desk, visit: Opener) -> None:
    page = opened(filed, visit, "&words=report")
    row = page.locator(".held-row")
    expect(row).to_contain_text("8 pages")
    expect(row.locator(".held-folder")).to_have_text("2024/q1")
    picture = row.locator(".held-thumb img")
    expect(picture).to_have_js_property("complete", value=True)
    assert 0 < picture.evaluate("image => image.naturalWidth * image.naturalHeight") <= 40_000
    expect(page.locator(".about")).to_contain_text(re.compile(r"\d+ pages, \d+ passages"))
    assert "item" not in page.locator("#main").inner_text()


def test_they_are_sorted_filtered_and_shown_as_a_grid_as_the_address_says(filed: Desk, visit: Opener) -> None:
    page = opened(filed, visit)
    page.locator("#filter-type").select_option("PDF")
    by_name = (
        "annual-report-2024.pdf",
        "guillemot-slides.pdf",
        "letter-1974.pdf",
        "passenger-guide-zh.pdf",
        "torn.pdf",
    )
    check_names(page, *by_name)
    page.locator("#sort-documents").select_option("pages")
    by_pages = (*by_name[:2], "passenger-guide-zh.pdf", "letter-1974.pdf", "torn.pdf")
    check_names(page, *by_pages)
    page.locator("#sort-direction").click()
    check_names(page, *reversed(by_pages))
    page.locator("#filter-status").select_option("failed")
    check_names(page, "torn.pdf")
    expect(page.locator(".held-row")).to_contain_text("damaged")
    page.locator("#filter-type").select_option("")
    page.locator("#filter-status").select_option("")
    page.get_by_role("radio", name="Grid").check()
    page.locator("#filter-documents").fill("note 1.md")
    page.reload()
    expect(page.locator(".held")).to_have_attribute("data-view", "grid")
    expect(page.locator("#filter-documents")).to_have_value("note 1.md")
    check_names(page, "note 1.md")
    check_no_sideways(page)


def test_the_keyboard_goes_from_row_to_row_and_ticks(filed: Desk, visit: Opener) -> None:
    page = opened(filed, visit, "&folder=2024")
    page.get_by_role("checkbox", name="Choose the folder q1").focus()
    page.keyboard.press("Space")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(page.get_by_role("checkbox", name="Choose note 0.md in 2024")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#choice-bar")).to_contain_text("3 documents chosen")
    page.keyboard.press("End")
    expect(page.get_by_role("checkbox", name="Choose note 3.md in 2024")).to_be_focused()
    page.get_by_role("checkbox", name="Choose note 3.md in 2024").click(modifiers=["Shift"])
    expect(page.locator("#choice-bar")).to_contain_text("6 documents chosen")
    page.locator("#choice-bar").get_by_role("button", name="Clear").click()
    expect(page.locator("#choose-all")).to_be_focused()
    expect(page.locator("#choice-bar")).to_be_hidden()


def test_chosen_documents_alone_are_asked_also_in_the_follow_up(filed: Desk, visit: Opener) -> None:
    page = opened(filed, visit)
    tick(page, "the folder 2024")
    page.get_by_role("checkbox", name="Choose letter-1974.pdf").check()
    page.get_by_role("button", name="Ask 8 documents").click()
    expect(page.locator("#chosen")).to_contain_text("Only 8 documents:")
    page.get_by_role("button", name="Leave out letter-1974.pdf").click()
    expect(page.locator("#chosen")).to_contain_text("Only 7 documents:")
    ask_by_key(page, "How deep is the volcano of Reykholt?")
    answer = page.locator("[aria-label='Answer']").last
    expect(answer).to_contain_text("Only 7 chosen documents were searched.")
    expect(page.locator(".only-documents")).to_contain_text("and 4 more")
    expect(page.locator("#chosen")).to_contain_text("Only 7 documents:")
    page.reload()
    expect(page.locator("#chosen")).to_contain_text("Only 7 documents:")
    expect(page.get_by_role("button", name="Leave out annual-report-2024.pdf")).to_be_visible()
    page.locator("#clear-chosen").click()
    expect(page.locator("#chosen")).to_be_hidden()
    ask_by_key(page, KAYAK)
    expect(page.locator("[data-citation='1']").last).to_contain_text("price-board.jpg")
    page.locator("#new-question").click()
    expect(page.locator("#chosen")).to_be_hidden()


def test_one_document_is_asked_from_its_row_with_questions_that_it_answers(
    filed: Desk, visit: Opener
) -> None:
    page = opened(filed, visit, "&words=report")
    page.get_by_role("button", name="Ask annual-report-2024.pdf in 2024/q1").click()
    expect(page.locator("#chosen")).to_contain_text("annual-report-2024.pdf")
    question = page.locator(".example").first
    expect(question).to_contain_text("?")
    words = question.inner_text()
    page.get_by_role("button", name=words, exact=True).click()
    expect(page.locator("#ask-box")).to_have_value(words)
    page.locator("#ask-button").click()
    expect(page.locator("[data-citation='1']")).to_contain_text("annual-report-2024.pdf")


def test_an_address_chooses_documents_by_their_ids(filed: Desk, visit: Opener) -> None:
    page = opened(filed, visit, "&words=price")
    id = page.locator(".held-row").get_attribute("data-document")
    page.goto(f"{filed.address}/#/?documents={id}")
    expect(page.get_by_role("button", name="Leave out price-board.jpg")).to_be_visible()
    expect(page).to_have_url(re.compile("#/$"))


def test_many_documents_are_shown_as_one_scrolls(tmp_path: Path, visit: Opener) -> None:
    (tmp_path / "files").mkdir()
    for number in range(230):
        (tmp_path / "files" / f"{number:03}.md").write_text(f"Note {number}.\n")
    with served(collection_at(tmp_path / "harbour", tmp_path / "files")) as desk:
        page = opened(desk, visit)
        expect(page.locator("#documents-count")).to_have_text("230 files")
        assert page.locator(".held-row").count() <= 200
        page.locator(".held-row").last.scroll_into_view_if_needed()
        expect(page.get_by_role("checkbox", name="Choose 199.md")).to_be_attached()
        page.locator("#choose-all").check()
        expect(page.locator("#choice-bar")).to_contain_text("230 documents chosen")


def large_pdf() -> dict[str, object]:
    pages = [PdfPage(text_at(100, 700, f"Whales of page {number}.")) for number in range(300)]
    return {"name": "large.pdf", "mimeType": "application/pdf", "buffer": pdf_bytes(*pages)}


def note(name: str) -> dict[str, object]:
    return {"name": name, "mimeType": "text/markdown", "buffer": b"# Moorings\n\nThe fee is 17.35.\n"}


def test_a_small_file_is_ready_while_a_large_one_is_read_and_that_is_cancelled(
    desk: Desk, visit: Opener
) -> None:
    page = visit(f"{desk.address}/#/documents").page
    page.locator("#upload-files").set_input_files(large_pdf())  # pyright: ignore[reportArgumentType]
    large = page.locator(".job[data-file='large.pdf']")
    expect(large).to_contain_text(re.compile(r"Reading: \d+ of 300 pages"))
    page.locator("#upload-files").set_input_files(note("small.md"))  # pyright: ignore[reportArgumentType]
    expect(page.locator(".job[data-file='small.md']")).to_contain_text("Ready to ask")
    expect(large).to_have_attribute("data-state", "running")
    expect(page.locator("#uploads-summary")).to_contain_text("1 of 2 files done")
    page.get_by_role("button", name="Cancel large.pdf").click()
    expect(large).to_have_count(0)
    expect(page.locator(".held-row[data-name='small.md']")).to_be_visible()
    expect(page.locator(".held-row[data-name='large.pdf']")).to_have_count(0)


def test_what_failed_on_its_way_is_sent_again(desk: Desk, visit: Opener) -> None:
    opened = visit(f"{desk.address}/#/documents")
    opened.expected += ["ERR_FAILED", "Failed to load resource"]
    page = opened.page
    page.route("**/documents/lost.md", lambda route: route.abort())
    page.locator("#upload-files").set_input_files(note("lost.md"))  # pyright: ignore[reportArgumentType]
    job = page.locator(".job[data-file='lost.md']")
    expect(job).to_have_attribute("data-state", "failed")
    page.unroute("**/documents/lost.md")
    page.get_by_role("button", name="Try lost.md again").click()
    expect(job).to_contain_text("Ready to ask")
    expect(page.locator(".held-row[data-name='lost.md']")).to_be_visible()


def test_a_folder_keeps_its_folders_and_leaves_out_what_cannot_be_read(
    desk: Desk, visit: Opener, tmp_path: Path
) -> None:
    for path in ("trip/2023/plan.md", "trip/2024/plan.md", "trip/tool.exe", "trip/.hidden.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# Plan\n\nOf {path}.\n")
    page = visit(f"{desk.address}/#/documents").page
    expect(page.locator(".held-row").first).to_be_visible()
    page.locator("#upload-folder-files").set_input_files(tmp_path / "trip")
    expect(page.locator(".toast")).to_contain_text("1 file skipped: the file type is not supported.")
    page.get_by_role("button", name="trip", exact=True).click()
    check_names(page, "2023", "2024")
    page.get_by_role("button", name="2024", exact=True).click()
    check_names(page, "plan.md")


def test_types_that_need_software_are_refused_by_the_page(
    desk: Desk, visit: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrag.corpus.convert.importlib.util.find_spec", lambda _: None)  # pyright: ignore
    page = visit(f"{desk.address}/#/documents").page
    expect(page.locator(".about")).to_contain_text("Not videos: PyAV is not installed on this server.")
    film = {"name": "film.mp4", "mimeType": "video/mp4", "buffer": b"x"}
    page.locator("#upload-files").set_input_files(film)  # pyright: ignore[reportArgumentType]
    job = page.locator(".job[data-file='film.mp4']")
    expect(job).to_contain_text("This server cannot read videos: PyAV is not installed on it.")
    expect(job).to_contain_text("pip install 'vrag-agent[video]'")


@pytest.fixture(scope="module")
def half_read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document with an attached file, and one with words that nobody sees."""
    folder = tmp_path_factory.mktemp("half")
    (folder / "files").mkdir()
    (folder / "files" / "minutes.pdf").write_bytes(annotated_page(catalog=ATTACHED_PLAN))
    white = "1 1 1 rg " + text_at(72, 600, "three hidden words")
    (folder / "files" / "tender.pdf").write_bytes(pdf_bytes(PdfPage(text_at(72, 700, "Tender") + white)))
    return collection_at(folder / "harbour", folder / "files")


@pytest.mark.parametrize("width", [1440, 390])
def test_below_a_document_stands_what_of_it_is_not_read(
    half_read: Path, tmp_path: Path, visit: Opener, width: int
) -> None:
    with served(shutil.copytree(half_read, tmp_path / "harbour")) as desk:
        page = opened(desk, visit)
        page.set_viewport_size({"width": width, "height": 900})
        minutes, tender = page.locator(".held-row").all()
        expect(minutes.locator(".chip")).to_have_text("Partly read")
        expect(minutes.locator(".held-problems li")).to_have_text(
            "The document has an attached file (plan.dwg), which is not read. Save it and add it."
        )
        expect(minutes.locator(".held-problems li")).to_be_visible()
        expect(tender.locator(".held-hidden")).to_have_text("3 words hidden or struck out: not searched.")
        expect(tender.locator(".chip")).to_have_count(0)
        check_no_sideways(page)
