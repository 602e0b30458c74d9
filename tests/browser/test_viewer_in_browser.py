"""The page viewer: words are selected and found, pages scrolled through, and cited places gone through."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from browsing import NARROW, check_no_sideways, check_page_shown, check_spot, current_leaf, served, until
from cited_runs import with_end
from hosting import ANSWER, SEARCH
from PIL import Image, ImageOps
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe
from viewed_documents import LONG, PRINTED, SPOT, build

from vrag.agent.answers.citation import Citation
from vrag.agent.evidence import Evidence
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Generator

    from browsing import Desk, Opener
    from playwright.sync_api import Locator, Page

SPANS = """() => [...document.querySelectorAll("#viewer .leaf")].map((leaf) => {
  const page = leaf.getBoundingClientRect();
  const lines = [...leaf.querySelectorAll(".text-line")].map((line) => {
    const {top, bottom, left, right} = line.getBoundingClientRect();
    const words = [...line.children].map((span) => {
      const range = document.createRange();
      range.setStart(span.firstChild, 0);
      range.setEnd(span.firstChild, span.textContent.trimEnd().length);
      const {top, bottom, left, right} = range.getBoundingClientRect();
      return [left - page.left, top - page.top, right - page.left, bottom - page.top];
    });
    return {box: [left - page.left, top - page.top, right - page.left, bottom - page.top], words};
  });
  return {item: leaf.dataset.item, width: page.width, height: page.height, lines};
}).filter((leaf) => leaf.lines.length > 0)"""
SELECTED = "getSelection().toString()"
FLIGHT = """async (window_) => {
  const { setTimeout, clearTimeout } = window, waiting = new Map();
  let last = 1e9;
  window.setTimeout = (act, pause) => (waiting.set(++last, [act, pause]), last);
  window.clearTimeout = (timer) => waiting.delete(timer) || clearTimeout(timer);
  for (let at = 0; at < 200; at++) {
    window_.scrollTop += 4 * window_.clientHeight;
    await new Promise(requestAnimationFrame);
  }
  Object.assign(window, { setTimeout, clearTimeout });
  for (const [act, pause] of waiting.values()) setTimeout(act, pause);
}"""
"""Scrolls by pages faster than any pause, on any machine: the clock of the timers stands still."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    """A server with documents that show something each."""
    folder = tmp_path_factory.mktemp("viewer")
    build(folder / "c", folder / "files")
    with served(folder / "c") as desk:
        yield desk


def document_id(desk: Desk, name: str) -> str:
    listing = httpx.get(f"{desk.address}/collections/c/documents").json()["documents"]
    return next(one["id"] for one in listing if one["name"] == name)


def opened(desk: Desk, visit: Opener, name: str, at: int = 1, **how: Any) -> Page:  # noqa: ANN401
    """The page with a document open in the viewer."""
    page = visit(f"{desk.address}/#/documents", **how).page
    page.locator(f".held-row[data-name='{name}'] .held-open").click()
    if name.endswith(".pdf"):
        expect(page.locator("#viewer .leaf").first).to_be_visible()
    if at != 1:
        go_to(page, at)
    return page


def go_to(page: Page, number: int) -> None:
    page.locator("#viewer-page").fill(str(number))
    page.keyboard.press("Enter")
    expect(current_leaf(page)).to_have_attribute("data-page", str(number))
    page.locator("#viewer .viewer-window").focus()


def words_on(page: Page, number: int) -> Locator:
    leaf = page.locator(f"#viewer .leaf[data-page='{number}']")
    expect(leaf.locator(".leaf-text")).to_be_attached()
    return leaf.locator(".text-line > span")


def spot_of(word: Locator, *, end: bool = False) -> tuple[float, float]:
    """Just within the start of a word, or its end."""
    word.scroll_into_view_if_needed()
    box = word.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] - 1 if end else box["x"] + 1
    line = word.locator("..").bounding_box()
    assert line is not None
    return x, line["y"] + line["height"] / 2


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    for step in range(1, 21):
        page.mouse.move(*(a + (b - a) * step / 20 for a, b in zip(start, end, strict=True)))
    page.mouse.up()


def check_words_lie_on_the_picture(desk: Desk, page: Page) -> None:
    """Each word stands where it is printed: along its line to two pixels, and within the line's height."""
    leaves = page.evaluate(SPANS)
    assert leaves
    for leaf in leaves:
        lines = httpx.get(f"{desk.address}/items/{leaf['item']}/words").json()["lines"]
        assert len(lines) == len(leaf["lines"])
        for line, drawn in zip(lines, leaf["lines"], strict=True):
            turned = line.get("angle", 0) % 180 != 0
            for (text, _, *sides), span in zip(line["words"], drawn["words"], strict=True):
                scale = [leaf["width"], leaf["height"]] * 2
                wanted = [side * factor for side, factor in zip(sides, scale, strict=True)]
                along = (1, 3) if turned else (0, 2)
                for side in along:
                    assert abs(span[side] - wanted[side]) <= 2, (text, side, span, wanted)
                for side in set(range(4)) - set(along):  # the line is as high as its highest word
                    outside = drawn["box"][side] - wanted[side]
                    assert (outside if side < 2 else -outside) <= 2, (text, side, drawn["box"], wanted)


class TestWords:
    @pytest.mark.parametrize(
        ("name", "pages"), [("words.pdf", (1, 2, 3)), ("upside-down.pdf", (1,)), ("hebrew.pdf", (1,))]
    )
    def test_lie_on_the_picture_at_every_size(
        self, shown: Desk, visit: Opener, name: str, pages: tuple[int, ...]
    ) -> None:
        page = opened(shown, visit, name)
        for number in pages:
            if number > 1:
                go_to(page, number)
            expect(words_on(page, number).first).to_be_attached()
            for key in ("0", "+", "+", "-"):
                page.keyboard.press(key)
                check_words_lie_on_the_picture(shown, page)

    def test_of_chinese_pages_lie_on_the_picture(self, desk: Desk, visit: Opener) -> None:
        page = opened(desk, visit, "passenger-guide-zh.pdf")
        expect(words_on(page, 1).first).to_be_attached()
        check_words_lie_on_the_picture(desk, page)

    def test_are_selected_by_the_mouse_and_copied_with_their_line_breaks(
        self, shown: Desk, visit: Opener
    ) -> None:
        page = opened(shown, visit, "words.pdf", permissions=["clipboard-read", "clipboard-write"])
        words = words_on(page, 1)
        drag(page, spot_of(words.filter(has_text="Net")), spot_of(words.filter(has_text="year."), end=True))
        wanted = "Net revenue grew by four\nper cent over the year."
        assert page.evaluate(SELECTED).strip() == wanted
        page.keyboard.press("Control+c")
        assert page.evaluate("navigator.clipboard.readText()").strip() == wanted

    def test_of_one_column_are_selected_without_the_other(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        words = words_on(page, 1)
        drag(
            page,
            spot_of(words.filter(has_text="morning")),
            spot_of(words.filter(has_text="applauds."), end=True),
        )
        assert page.evaluate(SELECTED).strip() == "morning boat\nleaves at seven.\nNobody applauds."

    def test_that_run_leftwards_are_copied_in_their_order(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "hebrew.pdf")
        words = words_on(page, 1)
        expect(page.locator(".text-line").first).to_have_attribute("dir", "rtl")
        first = words.nth(0).bounding_box()
        last = words.nth(2).bounding_box()
        assert first is not None
        assert last is not None
        assert first["x"] > last["x"]
        middle = first["y"] + first["height"] / 2
        drag(page, (first["x"] + first["width"] - 1, middle), (last["x"] + 1, middle))
        assert page.evaluate(SELECTED).strip() == "שלום עולם 2024"

    def test_of_a_selection_stay_while_the_mouse_is_between_lines(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        words = words_on(page, 1)
        x, y = spot_of(words.filter(has_text="harbour"))
        _, below = spot_of(words.filter(has_text="Net"))
        drag(page, (x, y), (x + 60, (y + below) / 2 + 6))
        text = page.evaluate(SELECTED).strip()
        assert text.startswith("harbour")
        assert "Upright" not in text
        assert len(text) < 60

    def test_are_selected_one_by_one_and_all(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        x, y = spot_of(words_on(page, 1).filter(has_text="revenue"))
        page.mouse.dblclick(x + 3, y)
        assert page.evaluate(SELECTED).strip() == "revenue"
        page.keyboard.press("Shift+ArrowRight")  # goes on by keys
        page.keyboard.press("Control+a")
        text = page.evaluate(SELECTED)
        assert text.startswith("The harbour report of 2024\nNet revenue")
        assert text.strip().endswith("kind of service.")
        assert "Documents" not in text

    def test_are_found_by_the_browser_itself(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        expect(words_on(page, 1).first).to_be_attached()
        assert page.evaluate("window.find('revenue grew')")
        assert page.evaluate(SELECTED) == "revenue grew"

    def test_do_not_move_the_page_and_what_is_empty_does(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        words = words_on(page, 1)
        page.get_by_role("button", name="Larger (+)").click()
        start = spot_of(words.filter(has_text="Net"))
        where = "document.querySelector('.viewer-window').scrollTop"
        before = page.evaluate(where)
        drag(page, start, (start[0], start[1] + 60))
        assert page.evaluate(where) == before
        leaf = page.locator(".leaf[data-page='1']").bounding_box()
        assert leaf is not None
        empty = (leaf["x"] + leaf["width"] * 0.6, 500.0)
        drag(page, empty, (empty[0], empty[1] - 120))
        assert page.evaluate(where) == before + 120
        assert page.evaluate(SELECTED) == ""

    def test_are_read_by_screen_readers_page_by_page(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        expect(words_on(page, 1).first).to_be_attached()
        leaf = page.get_by_role("group", name="words.pdf, page 1", exact=True)
        expect(leaf).to_contain_text("Net revenue grew by four")
        expect(leaf.locator("img")).to_have_attribute("alt", "")  # nothing is read twice
        assert "Net revenue grew by four" in leaf.aria_snapshot()


def found(page: Page) -> str:
    return page.locator(".find-state").inner_text()


class TestFind:
    def test_counts_goes_on_and_comes_around(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        page.locator(".viewer-window").focus()
        page.keyboard.press("Control+f")
        expect(page.locator("#viewer-find")).to_be_focused()
        page.keyboard.type("net REVENUE")
        expect(page.locator(".find-state")).to_have_text("1 of 3")
        here = page.locator(".leaf:has(.match.here)")
        expect(here).to_have_attribute("data-page", "1")
        for key, number in (("Enter", 2), ("F3", 3), ("Enter", 1), ("Shift+Enter", 3), ("Shift+F3", 2)):
            page.keyboard.press(key)
            expect(here).to_have_attribute("data-page", str(number))
            expect(page.locator(".match.here")).to_have_count(1)
        expect(page.locator(".find-state")).to_have_text("2 of 3")
        page.keyboard.press("Escape")
        expect(page.locator(".viewer-find")).to_be_hidden()
        expect(page.locator(".match")).to_have_count(0)
        expect(page.locator("#viewer")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#viewer")).to_be_hidden()
        expect(page.locator(".held-row[data-name='words.pdf'] .held-open")).to_be_focused()

    @pytest.mark.parametrize("text", ["four per cent", "creme resume", "cafe and", "boat leaves"])
    def test_sees_past_accents_case_and_line_ends(self, shown: Desk, visit: Opener, text: str) -> None:
        page = opened(shown, visit, "words.pdf")
        page.locator("#viewer-find-open").click()
        page.keyboard.type(text.replace("creme resume", "creme: resume"))
        expect(page.locator(".find-state")).to_have_text("1 of 1")

    def test_marks_the_words(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        words = words_on(page, 1)
        page.keyboard.press("/")
        page.keyboard.type("net revenue")
        expect(page.locator(".leaf[data-page='1'] .match")).to_have_count(1)
        match = page.locator(".leaf[data-page='1'] .match").bounding_box()
        first = words.filter(has_text="Net").bounding_box()
        last = words.filter(has_text="revenue").bounding_box()
        assert match is not None
        assert first is not None
        assert last is not None
        assert abs(match["x"] - first["x"]) <= 2.5
        assert (
            abs(match["x"] + match["width"] - spot_of(words.filter(has_text="revenue"))[0] - 1)
            <= last["width"]
        )

    def test_lists_the_pages(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf")
        page.keyboard.press("f")
        page.keyboard.type("page 99")
        expect(page.locator(".find-state")).to_have_text("1 of 11")  # 99, and 990 to 999
        page.get_by_role("button", name="11 pages").click()
        entries = page.locator(".find-list button")
        expect(entries).to_have_count(11)
        expect(entries.nth(0)).to_have_text(re.compile(r"99.*Page 99 of the log"))
        entries.nth(3).click()
        expect(page.locator(".find-state")).to_have_text("4 of 11")
        expect(current_leaf(page)).to_have_attribute("data-page", "992")
        expect(entries.nth(3)).to_have_attribute("aria-current", "true")

    def test_begins_at_the_page_that_is_open(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf", at=500)
        page.keyboard.press("f")
        page.keyboard.type("fog")
        expect(page.locator(".find-state")).to_have_text(f"500 of {LONG:,}")
        page.keyboard.press("Enter")
        expect(current_leaf(page)).to_have_attribute("data-page", "501")

    def test_says_when_there_is_nothing(self, shown: Desk, visit: Opener) -> None:
        opening = visit(f"{shown.address}/#/documents")
        opening.expected.append("status of 422")
        page = opening.page
        page.locator(".held-row[data-name='words.pdf'] .held-open").click()
        page.locator("#viewer-find-open").click()
        page.keyboard.type("zebra")
        expect(page.locator(".find-state")).to_have_text("No match")
        expect(page.get_by_role("button", name="Next match (Enter)")).to_be_disabled()
        page.locator("#viewer-find").fill("-")
        expect(page.locator(".find-state")).to_contain_text("nothing to look for")

    def test_in_texts_marks_the_words(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "notes.md")
        expect(page.locator(".passage")).to_be_visible()
        page.locator("#viewer-find-open").click()
        page.keyboard.type("ferry")
        expect(page.locator(".find-state")).to_have_text("1 of 3")
        marks = page.locator(".passage mark.here")
        expect(marks).to_have_text("ferry")
        before = page.locator("#viewer-page").input_value()
        for _ in range(2):
            page.keyboard.press("Enter")
        expect(page.locator(".find-state")).to_have_text("3 of 3")
        expect(marks).to_have_text("ferry")
        assert page.locator("#viewer-page").input_value() != before

    def test_pressed_twice_is_the_browsers_own(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        page.locator("#viewer").evaluate("""(viewer) => {
          window.kept = [];
          viewer.addEventListener("keydown", (event) => kept.push(event.defaultPrevented));
        }""")
        page.locator(".viewer-window").focus()
        page.keyboard.press("Control+f")
        page.keyboard.press("Control+f")
        assert page.evaluate("kept.filter((_, at) => at % 2)") == [True, False]  # Control and f


class TestPages:
    def test_are_gone_to_by_number_and_keys(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf")
        field = page.locator("#viewer-page")
        expect(page.locator(".viewer-count")).to_have_text(f"of {LONG}")
        expect(field).to_have_value("1")
        expect(page.get_by_role("button", name="Previous page")).to_be_disabled()
        go_to(page, 240)
        expect(page.locator(".viewer-pages [aria-current]")).to_have_attribute(
            "aria-label", re.compile("page 240")
        )
        for key, number in (
            ("PageDown", 241),
            ("ArrowRight", 242),
            ("PageUp", 241),
            ("End", LONG),
            ("Home", 1),
        ):
            page.keyboard.press(key)
            expect(field).to_have_value(str(number))
        page.get_by_role("button", name="Next page").click()
        expect(field).to_have_value("2")
        for wrong in ("0", str(LONG + 1), "x", "-3", "1.5", ""):
            field.fill(wrong)
            page.keyboard.press("Enter")
            expect(field).to_have_value("2")

    def test_have_their_printed_numbers_where_these_are_others(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf")
        number, printed = PRINTED
        page.locator("#viewer-page").fill(printed.lower())
        page.keyboard.press("Enter")
        expect(page.locator("#viewer-page")).to_have_value(str(number))
        expect(page.locator(".viewer-count")).to_have_text(f"of {LONG} (printed {printed})")
        name = re.compile(f"page {number} .printed {printed}.")
        expect(current_leaf(page)).to_have_attribute("aria-label", name)
        thumb = page.locator(".viewer-pages [aria-current]")
        expect(thumb).to_have_attribute("aria-label", name)
        expect(thumb).to_contain_text(f"{number} ({printed})")
        go_to(page, 1)
        expect(page.locator(".viewer-count")).to_have_text(f"of {LONG}")

    def test_come_as_they_are_scrolled_to_and_go_when_they_are_far(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf")
        check_page_shown(page)
        window = page.locator(".viewer-window")
        window.hover()
        for _ in range(3):
            page.mouse.wheel(0, 900)
        field = page.locator("#viewer-page")
        expect(field).not_to_have_value("1")
        check_page_shown(page)
        for share in (0.2, 0.5, 0.8, 1):
            window.evaluate("(e, share) => { e.scrollTop = share * e.scrollHeight; }", share)
            check_page_shown(page)
            assert page.locator(".leaf").count() <= 9
            assert page.locator(".thumbs .thumb").count() <= 40
        expect(field).to_have_value(str(LONG))
        expect(page.locator(".thumbs [data-here]")).to_be_in_viewport()

    def test_that_fly_by_are_not_loaded(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf")
        check_page_shown(page)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.locator(".viewer-window").evaluate(FLIGHT)
        expect(current_leaf(page).locator(".leaf-text")).to_be_attached()
        assert len([url for url in asked if url.endswith("/words")]) <= 12

    def test_keep_their_place_when_the_size_changes(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf", at=700)
        where = """() => {
          const window_ = document.querySelector(".viewer-window").getBoundingClientRect();
          const leaf = document.querySelector(".leaf[data-page='700']").getBoundingClientRect();
          return (window_.top + window_.height / 2 - leaf.top) / leaf.height;
        }"""
        before = page.evaluate(where)
        for key in "+++---+":
            page.keyboard.press(key)
            expect(page.locator("#viewer-page")).to_have_value("700")
            assert abs(page.evaluate(where) - before) < 0.01
        page.locator(".viewer-window").hover()
        page.keyboard.down("Control")
        percent = page.locator(".viewer-percent")
        size = percent.inner_text()
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        expect(percent).not_to_have_text(size)
        expect(page.locator("#viewer-page")).to_have_value("700")
        page.get_by_role("button", name="Width", exact=True).click()
        width = page.evaluate("document.querySelector('.viewer-window').clientWidth")
        box = page.locator(".leaf[data-page='700']").bounding_box()
        assert box is not None
        assert abs(box["width"] - (width - 32)) <= 1

    def test_have_thumbnails_that_can_be_hidden(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        strip = page.locator(".viewer-pages")
        expect(strip.locator(".thumb")).to_have_count(4)
        strip.locator(".thumb").nth(2).click()
        expect(page.locator("#viewer-page")).to_have_value("3")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#viewer-page")).to_have_value("4")
        expect(strip.locator(".thumb").nth(3)).to_be_focused()
        page.locator("#viewer-strip").click()
        expect(strip).to_be_hidden()
        page.reload()
        page.locator(".held-row[data-name='words.pdf'] .held-open").click()
        expect(page.locator("#viewer .leaf").first).to_be_visible()
        expect(strip).to_be_hidden()  # as it was left
        page.locator("#viewer-strip").click()
        expect(strip).to_be_visible()

    def test_whose_picture_is_gone_say_so_and_can_be_tried_again(self, shown: Desk, visit: Opener) -> None:
        opening = visit(f"{shown.address}/#/documents")
        opening.expected.append("status of 503")
        page = opening.page
        page.route("**/image*", lambda route: route.fulfill(status=503, json={"detail": "busy"}))
        page.locator(".held-row[data-name='other.pdf'] .held-open").click()
        expect(page.locator(".leaf-failed")).to_contain_text("cannot be shown")
        page.unroute_all()
        page.locator(".leaf-failed button").click()
        check_page_shown(page)
        expect(page.locator(".leaf-failed")).to_have_count(0)


class TestOriginal:
    def test_opens_at_the_page_and_is_only_shown_by_the_browsers_own_viewer(
        self, shown: Desk, visit: Opener
    ) -> None:
        page = opened(shown, visit, "words.pdf", at=3)
        id = document_id(shown, "words.pdf")
        link = page.get_by_role("link", name="Open the original at page 3")
        expect(link).to_have_attribute("href", f"documents/{id}/file#page=3")
        expect(link).to_have_attribute("target", "_blank")
        response = page.request.get(f"{shown.address}/documents/{id}/file")
        assert response.headers["content-type"] == "application/pdf"
        assert response.headers["content-disposition"].startswith("inline")
        assert "default-src 'none'" in response.headers["content-security-policy"]
        with page.expect_download() as loading:
            page.locator("#viewer-download").click()
        assert loading.value.suggested_filename == "words.pdf"

    def test_that_is_gone_is_told_in_a_sentence(self, shown: Desk, visit: Opener) -> None:
        opening = visit(f"{shown.address}/#/documents")
        page = opening.page
        page.locator(".held-row[data-name='long.pdf'] .held-open").click()
        with page.context.expect_page() as waiting:
            page.locator("#viewer-original").click()
        expect(waiting.value.locator("body")).to_contain_text("The original cannot be opened.")
        expect(waiting.value.locator("body")).not_to_contain_text("{")

    def test_of_a_text_is_a_download_alone(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "notes.md")
        expect(page.locator(".passage")).to_be_visible()
        expect(page.locator("#viewer-original")).to_be_hidden()
        with page.expect_download() as loading:
            page.locator("#viewer-download").click()
        assert loading.value.suggested_filename == "notes.md"

    def test_and_the_question_box_are_one_click_away(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        page.get_by_role("link", name="Ask about this document").click()
        expect(page.locator("#viewer")).to_be_hidden()
        expect(page.locator("#chosen")).to_contain_text("words.pdf")
        expect(page.locator("#ask-box")).to_be_visible()


PLACES = (
    ("words.pdf", 4, SPOT),
    ("words.pdf", 1, (0.09, 0.12, 0.4, 0.16)),
    ("other.pdf", 1, (0.05, 0.08, 0.5, 0.14)),
    ("words.pdf", 1, (0.09, 0.18, 0.5, 0.22)),
    ("other.pdf", 1, None),
)
"""What an answer cites, by its numbers."""


@pytest.fixture(scope="module")
def citing(shown: Desk) -> str:
    """A run whose answer cites five places in two documents; its id."""
    run = shown.answers.store.read(shown.run("How many passengers?", SEARCH, ANSWER))
    evidence = tuple(
        Evidence(
            item=f"{document_id(shown, name)[:16]}-{page}",
            document=name,
            document_id=document_id(shown, name),
            page=page,
            kind=ItemKind.PAGE,
            box=box,
        )
        for name, page, box in PLACES
    )
    text = "One, two and three."
    citations = (Citation(start=0, end=3, numbers=(1, 2, 3, 4, 5), source="matched"),)
    return with_end(shown.answers.store, run, text=text, evidence=evidence, citations=citations, claims=()).id


def cited(shown: Desk, visit: Opener, run: str, cite: int = 1, **how: Any) -> Page:  # noqa: ANN401
    """The page with a citation of the run open in the viewer."""
    page = visit(f"{shown.address}/#/runs/{run}?cite={cite}", **how).page
    expect(page.locator("#viewer")).to_be_visible()
    expect(page.locator(".viewer-count")).to_have_text(re.compile(r"of \d"))  # all pages are known
    check_page_shown(page)
    return page


def numbers_drawn(page: Page) -> list[str]:
    """The numbers on the current page, in the order in which they are drawn."""
    return current_leaf(page).locator(".box-number").all_inner_texts()


class TestCitations:
    def test_are_gone_through_across_documents(self, shown: Desk, visit: Opener, citing: str) -> None:
        page = cited(shown, visit, citing)
        count = page.locator(".cited-count")
        seen: list[tuple[str, str, str]] = []
        for step in ("", "n", "n", "Next citation (n)", "n", "n", "p", "Previous citation (p)"):
            if len(step) == 1:
                page.keyboard.press(step)
            elif step:
                page.get_by_role("button", name=step).click()
            expected = PLACES[[0, 1, 2, 3, 4, 0, 4, 3][len(seen)]]
            expect(page.locator("#viewer-title")).to_have_text(expected[0])
            expect(current_leaf(page)).to_have_attribute("data-page", str(expected[1]))
            expect(count).to_have_text(f"{PLACES.index(expected) + 1} of 5")
            check_page_shown(page)
            check_spot(page, expected[2] or (0, 0, 1, 1))
            here = current_leaf(page).locator("[data-here] .box-number")
            expect(here).to_have_text(str(PLACES.index(expected) + 1))
            seen.append((*expected[:1], str(expected[1]), count.inner_text()))
        assert len(set(seen)) == 5

    def test_are_drawn_all_or_one(self, shown: Desk, visit: Opener, citing: str) -> None:
        page = cited(shown, visit, citing, 2)
        assert sorted(numbers_drawn(page)) == ["2", "4"]
        expect(current_leaf(page).locator("[data-here]")).to_have_count(1)
        marks = page.locator(".thumbs .thumb-cited")
        expect(marks).to_have_text(["2 4", "1"])
        page.get_by_role("button", name="One", exact=True).click()
        assert numbers_drawn(page) == ["2"]
        go_to(page, 4)
        assert numbers_drawn(page) == []
        page.get_by_role("button", name="All", exact=True).click()
        assert numbers_drawn(page) == ["1"]
        expect(current_leaf(page).locator("[data-here]")).to_have_count(0)  # that place is on another page

    @pytest.mark.parametrize("ratio", [1, 2])
    def test_lie_on_what_they_cite_to_the_pixel(
        self, shown: Desk, visit: Opener, citing: str, ratio: int
    ) -> None:
        page = cited(shown, visit, citing, device_scale_factor=ratio)
        for key in ("0", "+", "-", "-", "-"):
            page.keyboard.press(key)
            check_page_shown(page)
            marker = current_leaf(page).locator("[data-here]").bounding_box()
            assert marker is not None
            boxes = page.locator(".leaf-boxes")
            boxes.evaluate_all("(all) => all.forEach((e) => (e.style.visibility = 'hidden'))")
            width, height = marker["width"] + 16, marker["height"] + 16
            shot = page.screenshot(
                clip={"x": marker["x"] - 8, "y": marker["y"] - 8, "width": width, "height": height}
            )
            boxes.evaluate_all("(all) => all.forEach((e) => (e.style.visibility = ''))")
            with Image.open(io.BytesIO(shot)) as image:
                dark = ImageOps.invert(image.convert("L")).point([0] * 156 + [255] * 100).getbbox()
            assert dark is not None
            left, top, right, bottom = (side / ratio - 8 for side in dark)
            for off in (left, top, right - marker["width"], bottom - marker["height"]):
                assert abs(off) <= 1.5, (key, dark, marker)

    def test_are_few_enough_to_need_no_control(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        expect(page.locator(".viewer-cited")).to_be_hidden()
        page.keyboard.press("n")
        expect(page.locator("#viewer-page")).to_have_value("1")


class TestPanel:
    def test_is_widened_and_keeps_its_width(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf", viewport={"width": 1440, "height": 900})
        viewer, edge = page.locator("#viewer"), page.get_by_role("separator", name="Width of the document")
        width = viewer.evaluate("(e) => e.offsetWidth")
        drag(page, (1440 - width, 400), (1440 - width - 200, 400))
        assert abs(viewer.evaluate("(e) => e.offsetWidth") - width - 200) <= 2
        edge.focus()
        page.keyboard.press("ArrowRight")
        assert abs(viewer.evaluate("(e) => e.offsetWidth") - width - 168) <= 2
        expect(edge).to_have_attribute("aria-valuenow", str(viewer.evaluate("(e) => e.offsetWidth")))
        check_no_sideways(page)
        page.reload()
        page.locator(".held-row[data-name='words.pdf'] .held-open").click()
        assert abs(viewer.evaluate("(e) => e.offsetWidth") - width - 168) <= 2
        page.set_viewport_size({"width": 1000, "height": 800})
        check_no_sideways(page)
        assert page.locator("#main").evaluate("(e) => e.offsetWidth") >= 300

    def test_fills_the_screen_and_goes_back(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "words.pdf")
        full = page.get_by_role("button", name="Full screen")
        full.click()
        viewer = page.locator("#viewer")
        assert viewer.bounding_box() == {"x": 0, "y": 0, "width": 1280, "height": 800}
        assert page.evaluate("document.getElementById('app').inert")
        expect(full).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("Escape")
        assert not page.evaluate("document.getElementById('app').inert")
        expect(viewer).to_be_visible()
        page.keyboard.press("Escape")
        expect(viewer).to_be_hidden()

    @pytest.mark.parametrize(
        "size", [None, {"width": 768, "height": 1024}, NARROW], ids=["wide", "tablet", "phone"]
    )
    def test_is_accessible_while_it_is_used(
        self, shown: Desk, visit: Opener, citing: str, size: dict[str, int] | None
    ) -> None:
        page = cited(shown, visit, citing, 2, **({"viewport": size} if size else {}))
        expect(current_leaf(page).locator(".leaf-text")).to_be_attached()
        check_axe(page, "citations")
        page.locator("#viewer-find-open").click()
        page.keyboard.type("net revenue")
        expect(page.locator(".find-state")).to_have_text("1 of 3")
        page.locator(".find-pages").click()
        check_axe(page, "find")
        check_no_sideways(page)


PHONE: dict[str, Any] = {"viewport": NARROW, "has_touch": True, "is_mobile": True, "device_scale_factor": 3}


class TestPhone:
    def test_has_all_tools_within_reach(self, shown: Desk, visit: Opener, citing: str) -> None:
        page = cited(shown, visit, citing, **PHONE)
        check_no_sideways(page)
        assert page.evaluate("document.getElementById('app').inert")
        for name in (
            "Thumbnails",
            "Previous page",
            "Next page",
            "Smaller (-)",
            "Larger (+)",
            "Find in the document (f)",
            "Next citation (n)",
            "All",
            "One",
            "Close (Esc)",
        ):
            button = page.locator("#viewer").get_by_role("button", name=name, exact=True)
            expect(button).to_be_in_viewport(ratio=1)
            box = button.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 36, name
        expect(page.locator("#viewer-page")).to_be_in_viewport(ratio=1)
        page.locator("#viewer-strip").tap()
        expect(page.locator(".viewer-pages")).to_be_in_viewport()
        page.locator(".viewer-pages .thumb").nth(1).tap()
        expect(page.locator("#viewer-page")).to_have_value("2")
        page.locator("#viewer-close").tap()
        expect(page.locator("#viewer")).to_be_hidden()

    def test_pinches_and_swipes(self, shown: Desk, visit: Opener) -> None:
        page = opened(shown, visit, "long.pdf", **PHONE)
        check_page_shown(page)
        touch: Any = page.context.new_cdp_session(page)

        def send(kind: str, *points: tuple[float, float]) -> None:
            touch.send(
                "Input.dispatchTouchEvent",
                {
                    "type": kind,
                    "touchPoints": [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)],
                },
            )

        width = "document.querySelector('.leaf[data-current]').offsetWidth"
        before = page.evaluate(width)
        send("touchStart", (150, 500), (240, 500))
        for step in range(1, 10):
            send("touchMove", (150 - 8 * step, 500), (240 + 8 * step, 500))
        send("touchEnd")
        until(page, f"{width} > {before} * 1.8")
        percent = page.locator(".viewer-percent")
        size = percent.inner_text()
        page.get_by_role("button", name="Smaller (-)").tap()
        expect(percent).not_to_have_text(size)
        top = page.evaluate("document.querySelector('.viewer-window').scrollTop")
        send("touchStart", (200, 700))
        for step in range(1, 10):
            send("touchMove", (200, 700 - 40 * step))
        send("touchEnd")
        until(page, f"document.querySelector('.viewer-window').scrollTop > {top} + 200")
