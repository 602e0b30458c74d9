"""Documents come and go on the page: sent, read, asked about, removed; whatever their names are."""

from __future__ import annotations

import io
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from browsing import ask_by_key, check_no_sideways, collection_at, new_question, served
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import expect

from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path

    from browsing import Desk, Opener
    from playwright.sync_api import FilePayload, Locator, Page, Route

NOTE = b"# Moorings\n\nThe mooring fee at Tern Quay is 17.35 a night for boats up to nine metres.\n"
FEE = "What is the mooring fee at Tern Quay?"
NAMES = (
    "<img src=x onerror=alert(1)>.md",
    "\u202emd.exe \u202e.md",
    f"{'n' * 197}.md",
)
TYPE = "text/markdown"
DROP = """([target, name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  for (const type of ["dragenter", "dragover", "drop"])
    target.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def _note(name: str, text: bytes = NOTE) -> FilePayload:
    return {"name": name, "mimeType": TYPE, "buffer": text}


def _board() -> bytes:
    """A photograph of a board, of which only the reading of pictures knows the words."""
    picture = Image.new("RGB", (900, 260), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((40, 40), "Harbour sauna", fill="black", font=ImageFont.load_default(64))
    draw.text((40, 140), "Opens Tuesday 18.45", fill="black", font=ImageFont.load_default(64))
    data = io.BytesIO()
    picture.save(data, "PNG")
    return data.getvalue()


def _documents(desk: Desk, visit: Opener) -> Page:
    page = visit(f"{desk.address}/#/documents").page
    expect(page.locator(".held-row").first).to_be_visible()
    return page


def _row(page: Page, name: str) -> Locator:
    return page.locator(".held-row").filter(has=page.get_by_text(name, exact=True))


def _ask(page: Page, question: str) -> None:
    new_question(page)
    ask_by_key(page, question)


@pytest.mark.parametrize(
    ("name", "kind", "data", "question", "answer"),
    [
        pytest.param("moorings.md", TYPE, NOTE, FEE, "17.35", id="text"),
        pytest.param("sauna.png", "image/png", _board(), "When does the sauna open?", "18.45", id="picture"),
    ],
)
def test_an_uploaded_document_is_found_until_it_is_removed(
    desk: Desk, visit: Opener, name: str, kind: str, data: bytes, question: str, answer: str
) -> None:
    page = _documents(desk, visit)
    before = page.locator(".held-row").count()
    page.locator("#upload-files").set_input_files({"name": name, "mimeType": kind, "buffer": data})
    job = page.locator(f".job[data-file='{name}']")
    expect(job).to_contain_text(re.compile("Sending|Upload|Reading|Ready"))
    expect(job).to_have_attribute("data-state", "finished")
    expect(_row(page, name)).to_be_visible()
    expect(page.locator(".held-row")).to_have_count(before + 1)

    _ask(page, question)
    expect(page.get_by_role("region", name="Answer")).to_contain_text(answer)
    expect(page.locator("[data-citation='1'], .place-button").first).to_contain_text(name)

    page.locator("#to-documents").click()
    page.get_by_role("button", name=f"Remove {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(_row(page, name)).to_have_count(0)
    expect(page.locator(".held-row")).to_have_count(before)
    _ask(page, question)
    expect(page.locator("#answer")).to_be_visible()
    expect(page.locator("#answer")).not_to_contain_text(answer)
    expect(page.locator("#answer")).not_to_contain_text(name)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of documents whose names are meant to harm."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "files").mkdir()
    for number, name in enumerate(NAMES):
        (folder / "files" / name).write_bytes(NOTE + b"Mooring number %d.\n" % number)
    return collection_at(folder / "collection", folder / "files")


def test_hostile_names_stay_text_and_widen_nothing(hostile: Path, visit: Opener) -> None:
    with served(hostile) as desk:
        page = _documents(desk, visit)
        expect(page.locator(".held-row")).to_have_count(len(NAMES))
        assert set(page.locator(".held-name").all_inner_texts()) == set(NAMES)
        check_no_sideways(page)
        for row in page.locator(".held-row").all():
            row.locator(".held-open").click()
            expect(page.locator("#viewer-title")).to_have_text(row.locator(".held-name").inner_text())
            check_no_sideways(page)
            page.keyboard.press("Escape")
        _ask(page, FEE)
        expect(page.locator("[data-citation='1'], .place-button").first).to_contain_text(".md")
        check_no_sideways(page)
        page.set_viewport_size({"width": 360, "height": 740})
        check_no_sideways(page)
        assert page.locator("img[src$='x']").count() == 0


def test_uploads_of_hostile_names_arrive_and_leave(desk: Desk, visit: Opener) -> None:
    page = _documents(desk, visit)
    rows = page.locator(".held-row[data-status='ready']")
    names = "rows => rows.map((row) => row.dataset.name)"
    held = rows.evaluate_all(names)
    page.locator("#upload-files").set_input_files([_note(name, name.encode()) for name in NAMES])
    expect(rows).to_have_count(len(held) + len(NAMES))  # the list of uploads forgets those that are ready
    expect(page.locator(".job[data-state='failed']")).to_have_count(0)
    check_no_sideways(page)
    for name in [name for name in rows.evaluate_all(names) if name not in held]:
        page.locator(f".held-row[data-name='{name}'] .held-remove").click()
        check_no_sideways(page)
        page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
        expect(_row(page, name)).to_have_count(0)
    expect(rows).to_have_count(len(held))
    assert page.locator("img[src$='x']").count() == 0


def test_files_that_are_not_taken_say_why(place: Path, visit: Opener) -> None:
    with served(place, ServerOptions(upload_bytes=1000)) as desk:
        page = _documents(desk, visit)
        before = page.locator(".held-row").count()
        files = [_note("tool.exe"), _note("book.md", b"word " * 300), _note("empty.md", b"")]
        page.locator("#upload-files").set_input_files(files)
        expect(page.locator(".job[data-file='tool.exe']")).to_contain_text("This file type is not supported")
        expect(page.locator(".job[data-file='book.md']")).to_contain_text("the maximum is")
        expect(page.locator(".job[data-file='empty.md']")).to_contain_text("The file is empty.")
        expect(page.locator(".job[data-state='failed']")).to_have_count(3)
        page.get_by_role("button", name="Dismiss tool.exe").click()
        expect(page.locator(".job")).to_have_count(2)
        expect(page.locator(".held-row")).to_have_count(before)


def test_the_first_document_leaves_the_question_box_as_it_is(place: Path, visit: Opener) -> None:
    def emptied(route: Route) -> None:
        offer = route.fetch().json()
        route.fulfill(json=offer | {"collections": [one | {"documents": 0} for one in offer["collections"]]})

    with served(place) as desk:
        page = visit(f"{desk.address}/healthz").page
        page.route("**/options", emptied)
        page.goto(desk.address)
        page.locator("#options-button").click()
        page.locator("#ask-box").fill("What is on it?")
        page.locator("#ask-box").evaluate("box => box.setSelectionRange(4, 4)")
        page.locator("#composer input[type=file]").set_input_files(
            {"name": "sauna.png", "mimeType": "image/png", "buffer": _board()}
        )
        expect(page.locator("#no-documents")).to_be_visible()
        page.locator("#ask-box").focus()
        page.unroute("**/options")
        page.locator("#no-documents input[type=file]").first.set_input_files(_note("first.md"))
        expect(page.locator("#holds")).to_contain_text("first.md")
        expect(page.locator("#options")).to_be_visible()
        expect(page.locator("#composer img")).to_have_count(1)
        expect(page.locator("#ask-box")).to_be_focused()
        page.keyboard.type("else ")
        expect(page.locator("#ask-box")).to_have_value("Whatelse  is on it?")


def test_a_broken_file_is_told_as_the_server_tells_it(desk: Desk, visit: Opener) -> None:
    page = _documents(desk, visit)
    page.locator("#upload-files").set_input_files(
        {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 and no more"}
    )
    job = page.locator(".job[data-file='broken.pdf']")
    expect(job).to_have_attribute("data-state", "failed")
    expect(job).to_contain_text(re.compile(r"[A-Z].+\."))


def test_a_file_dropped_on_the_page_goes_into_the_collection(desk: Desk, visit: Opener) -> None:
    page = visit(desk.address).page
    expect(page.locator("#ask-box")).to_be_visible()
    target = page.locator("h1").element_handle()
    page.evaluate(DROP, [target, "dropped.md", NOTE.decode()])
    expect(page).to_have_url(re.compile("#/documents"))
    expect(_row(page, "dropped.md")).to_be_visible()
    expect(page.locator("#drop-frame")).to_be_hidden()


def test_a_new_collection_takes_a_document_and_is_removed_with_it(desk: Desk, visit: Opener) -> None:
    opened = visit(f"{desk.address}/#/documents")
    opened.expected.append("status of 422")
    page = opened.page
    page.locator("#new-collection").click()
    page.locator("#collection-name").fill("No Such Name!")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    page.locator("#collection-name").fill("moorings")
    dialog.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile("collection=moorings"))
    expect(page.locator(".held-row")).to_have_count(0)
    page.locator("#upload-files").set_input_files(_note("moorings.md"))
    expect(_row(page, "moorings.md")).to_be_visible()
    page.locator("#remove-collection").click()
    dialog.get_by_role("button", name="Remove collection").click()
    expect(page.locator("[data-collection='moorings']")).to_have_count(0)
    expect(page.locator(".held-row").first).to_be_visible()


def _held(page: Page) -> list[str | None]:
    return [row.get_attribute("data-folder") for row in page.locator(".held-row:visible").all()]


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of the same report in two folders, another one of its name, and a dozen notes."""
    folder = tmp_path_factory.mktemp("twins")
    for year, text in (("2022", b"Once.\n"), ("2023", NOTE), ("2024", NOTE)):
        (folder / "files" / year / "q1").mkdir(parents=True)
        (folder / "files" / year / "q1" / "report.md").write_bytes(text)
    for number in range(12):
        (folder / "files" / f"note {number}.md").write_bytes(b"Note %d.\n" % number)
    return collection_at(folder / "collection", folder / "files")


def test_files_of_one_name_are_told_apart_and_removed_one_at_a_time(
    twins: Path, tmp_path: Path, visit: Opener
) -> None:
    with served(shutil.copytree(twins, tmp_path / "twins")) as desk:
        page = _documents(desk, visit)
        page.locator("#filter-documents").fill("report")
        assert _held(page) == ["2022/q1", "2023/q1", "2024/q1"]
        assert str(twins.parent) not in page.content()
        expect(page.locator(".held-folder").nth(1)).to_have_text("2023/q1")
        expect(page.locator(".about")).to_contain_text("identical files count once")
        page.get_by_role("button", name="Remove report.md in 2023/q1").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("report.md in 2023/q1")
        dialog.get_by_role("button", name="Remove", exact=True).click()
        expect(page.locator(".held-row:visible")).to_have_count(2)
        assert _held(page) == ["2022/q1", "2024/q1"]
        expect(page.locator(".about")).not_to_contain_text("identical files count once")


def test_many_documents_are_counted_and_filtered_and_tell_their_type_and_size(
    twins: Path, visit: Opener
) -> None:
    with served(twins) as desk:
        page = _documents(desk, visit)
        count, box = page.locator("#documents-count"), page.locator("#filter-documents")
        expect(count).to_have_text("15 files")
        box.fill("report")
        facts = page.locator(".held-row[data-folder='2024/q1'] .held-facts span")
        assert facts.all_inner_texts()[:3] == ["MD", "1 passage", f"{len(NOTE)} B"]
        box.fill("NOTE 1")
        expect(count).to_have_text("3 of 15 files")
        expect(page.locator(".held-row:visible")).to_have_count(3)
        box.fill("no such thing")
        expect(page.get_by_text("No document matches.")).to_be_visible()
        box.fill("")
        expect(count).to_have_text("15 files")
        check_no_sideways(page)
        page.set_viewport_size({"width": 360, "height": 740})
        check_no_sideways(page)
        box.fill("report")
        expect(facts.nth(1)).to_be_visible()


def test_few_documents_are_not_filtered(desk: Desk, visit: Opener) -> None:
    page = _documents(desk, visit)
    expect(page.locator("#documents-count")).to_have_text("6 files")
    expect(page.locator("#filter-documents")).to_be_hidden()


def test_a_collection_whose_folder_is_gone_is_named_once_and_read_again_when_it_is_back(
    desk: Desk, visit: Opener, tmp_path: Path
) -> None:
    away = desk.place.rename(tmp_path / "away")
    opened = visit(f"{desk.address}/#/documents")
    opened.expected.append("status of 503")
    page = opened.page
    told = page.locator("#main").get_by_text("The collection “samples” cannot be read")
    expect(told).to_have_count(1)
    notice = page.locator("#no-documents-read")
    expect(notice).to_contain_text("Its folder does not exist any more")
    expect(page.locator(".toast")).to_have_count(0)
    expect(page.locator(".about")).to_be_empty()
    expect(page.locator("#upload")).to_have_count(0)
    expect(page.locator("#past-runs")).to_contain_text("cannot be loaded")
    page.locator("#new-question").click()
    expect(page.locator("#unreadable")).to_contain_text("Its folder does not exist any more")
    expect(page.get_by_text("No documents yet")).to_have_count(0)
    page.get_by_role("link", name="See the documents").click()
    expect(notice).to_be_visible()
    away.rename(desk.place)
    notice.get_by_role("button", name="Try again").click()
    expect(page.locator(".held-row")).to_have_count(6)
    expect(page.locator("#upload")).to_be_visible()
