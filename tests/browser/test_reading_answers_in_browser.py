"""What is read of an answer: its formulas, its evidence on paper, and the place in the viewer."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from browsing import NARROW, PASSENGERS, PATIENCE, WIDE, check_no_sideways, check_page_shown, until
from hosting import SEARCH
from PIL import Image
from playwright.sync_api import expect

from vrag.corpus.formats.pdfium import Pdf

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from numpy.typing import NDArray
    from playwright.sync_api import Page

FORMULAS = r"""The loss is $L = \frac{1}{n}\sum_i \boldsymbol{x}_i^2$, costs $5 and $7, and \(\fbox{a}\):

$$
\int_0^1 x\,dx = \frac{1}{2}
$$

Wrong is $\frac{1$ and $\href{https://example.invalid}{x}$, $\includegraphics{x.png}$, $\def\a{\a\a}\a$."""
TYPED = (
    r"$\frac{1$",
    r"$\href{https://example.invalid}{x}$",
    r"$\includegraphics{x.png}$",
    r"$\def\a{\a\a}\a$",
)
STILL = 300
"""Milliseconds without a movement after which nothing moves any more."""
PLACE = """() => {
  const sides = (element) => {
    const {top, bottom, left, right} = element.getBoundingClientRect();
    return [left, top, right, bottom];
  };
  const leaf = document.querySelector("#viewer .leaf[data-current]");
  return [".viewer-window", ".box-mark[data-here]", ".box-answer[data-here]"]
    .map((one) => sides(one.startsWith(".viewer") ? document.querySelector(one) : leaf.querySelector(one)));
}"""


def test_formulas_are_set_and_what_is_none_stays_as_typed(desk: Desk, visit: Opener) -> None:
    plain = desk.run("What is the fare?", SEARCH, "<think>.</think><answer>It is $5, **not** $7.</answer>")
    run = desk.run("What is the loss?", SEARCH, f"<think>.</think><answer>{FORMULAS}</answer>")
    page = visit(desk.address).page
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{desk.address}/#/runs/{plain}")
    expect(page.locator(".answer-text strong")).to_have_text("not")
    page.wait_for_load_state("networkidle")
    assert [url for url in requests if "vendor" in url] == []
    page.evaluate(f"location.hash = '#/runs/{run}'")
    expect(page.locator(".answer-text .katex")).to_have_count(3)
    assert [url for url in requests if url.endswith("vendor/katex/katex.min.js")] != []
    text = page.locator(".answer-text").inner_text()
    assert "costs $5 and $7, and" in " ".join(text.split())
    for typed in TYPED:
        assert typed in text
    assert page.locator(".answer-text :is(img, [href*=invalid])").count() == 0
    until(page, "document.fonts.check('16px KaTeX_Main')")


LONG = rf"""Inline $\sqrt{{{"x+" * 80}y}}$ and $x$ of it.

$$
\sqrt{{{"x+" * 80}z}}
$$

End."""
REACH = """(scroller) => {
  scroller.scrollLeft = 1e5;
  const [end, edge] = [scroller.querySelector(".katex-html"), scroller].map((one) => one.getBoundingClientRect().right);
  return [scroller.scrollWidth - scroller.clientWidth, end - edge];
}"""  # noqa: E501
BASELINES = """() => {
  const bottom = (parent, first) => {
    const probe = document.createElement("span");
    Object.assign(probe.style, { display: "inline-block", width: "1px", height: "1px" });
    if (first) parent.prepend(probe); else parent.append(probe);
    return probe.getBoundingClientRect().bottom;
  };
  const [formula, words] = [".katex-base", ".answer-text p"].map((one) => document.querySelector(one));
  return bottom(formula) - bottom(words, true);
}"""
"""How much lower the baseline of a formula is than that of the words before it, in pixels."""
MARK = (217, 119, 6)


def test_the_end_of_a_long_formula_is_reached_and_printed(desk: Desk, visit: Opener) -> None:
    run = desk.run("What is the loss?", SEARCH, f"<think>.</think><answer>{LONG}</answer>")
    page = visit(f"{desk.address}/#/runs/{run}", viewport=NARROW).page
    expect(page.locator(".answer-text .katex")).to_have_count(3)
    until(page, "document.fonts.check('16px KaTeX_Main')")
    for scroller in (page.locator("p .prose-math").first, page.locator(".prose-formula")):
        hidden, beyond = scroller.evaluate(REACH)
        assert hidden > 300
        assert beyond < 3
    expect(page.locator(".prose-formula")).to_have_attribute("tabindex", "0")
    check_no_sideways(page)
    page.emulate_media(media="print")
    for part in page.locator(".prose-math, .prose-formula").all():
        style = "(one) => [getComputedStyle(one).overflowX, getComputedStyle(one).contain]"
        assert part.evaluate(style) == ["visible", "none"]


def test_a_formula_stands_on_the_line_of_its_words(desk: Desk, visit: Opener) -> None:
    run = desk.run("What?", SEARCH, "<think>.</think><answer>It is x and $x$ here.</answer>")
    page = visit(f"{desk.address}/#/runs/{run}").page
    expect(page.locator(".answer-text .katex")).to_have_count(1)
    until(page, "document.fonts.check('16px KaTeX_Main')")
    assert abs(page.evaluate(BASELINES)) < 1.5


def test_a_rectangle_at_the_edge_of_its_picture_has_all_its_sides(desk: Desk, visit: Opener) -> None:
    page = visit(f"{desk.address}/#/runs/{desk.run(PASSENGERS)}").page
    box = page.locator(".evidence-card .box-mark").first
    expect(box).to_be_visible()
    until(page, "[...document.querySelectorAll('.evidence-card img')].every((image) => image.complete)")
    box.evaluate(
        """(one) => {
          one.classList.add("box-edge");
          Object.assign(one.parentElement.style, { top: 0 });
          Object.assign(one.style, { left: 0, top: 0, width: "100%", height: "40%" });
        }"""
    )
    shot = np.asarray(
        Image.open(io.BytesIO(page.locator(".evidence-card .picture-frame").first.screenshot()))
    )
    for side in (shot[30, :4], shot[:4, 30], shot[30, -4:]):  # the frame may begin within a pixel
        assert np.abs(side[:, :3].astype(int) - MARK).max(axis=1).min() < 24


def test_paper_shows_rectangle_and_words_without_backgrounds(desk: Desk, visit: Opener) -> None:
    page = visit(f"{desk.address}/#/runs/{desk.run(PASSENGERS)}").page
    expect(page.locator(".evidence-card .box-mark")).to_be_visible()
    until(page, "[...document.querySelectorAll('.evidence-card img')].every((image) => image.complete)")
    printed = _printed(page.pdf())
    frame = _where(printed, (217, 119, 6))
    top, bottom, left, right = (frame[0].min(), frame[0].max(), frame[1].min(), frame[1].max())
    assert right - left > printed.shape[1] / 4
    inside = printed[top + 8 : bottom - 8, left + 8 : right - 8]
    assert (inside.max(axis=2) < 110).mean() > 0.004  # the words of the row


def _settled(page: Page) -> list[list[float]]:
    """Where the view, the place and its words are, once they have stopped moving."""
    before: list[list[float]] = page.evaluate(PLACE)
    for _ in range(PATIENCE // STILL):
        page.wait_for_timeout(STILL)
        found: list[list[float]] = page.evaluate(PLACE)
        if found == before:
            return found
        before = found
    pytest.fail(f"The viewer still moves: {before}.")


@pytest.mark.parametrize("window", [WIDE, NARROW])
def test_the_viewer_opens_where_words_can_be_read(desk: Desk, visit: Opener, window: dict[str, int]) -> None:
    page = visit(f"{desk.address}/#/runs/{desk.run(PASSENGERS)}", viewport=window).page
    page.locator(".evidence-button").first.click()
    check_page_shown(page)
    seen, place, words = _settled(page)
    assert words[3] - words[1] > 7.4  # of figures, without the blank above and below
    assert seen[0] < words[0] < words[2] < seen[2]
    assert seen[1] < words[1] < words[3] < seen[3]
    middle = (seen[1] + seen[3]) / 2
    assert place[1] < middle < place[3]
    if window is WIDE:
        assert seen[0] <= place[0] < place[2] <= seen[2]


def test_an_answer_offers_questions_to_go_on_with_and_its_own_to_be_changed(
    desk: Desk, visit: Opener
) -> None:
    page = visit(f"{desk.address}/#/runs/{desk.run(PASSENGERS)}").page
    offered = page.locator(".next-questions button")
    expect(offered.first).to_be_visible()
    texts = offered.all_inner_texts()
    assert 1 <= len(texts) <= 3
    assert PASSENGERS not in texts
    offered.first.click()
    expect(page.locator("#ask-box")).to_have_value(texts[0])
    page.get_by_role("button", name="Change the question and ask again").click()
    expect(page.locator("#ask-box")).to_have_value(PASSENGERS)
    page.locator("#ask-box").fill(PASSENGERS.replace("2024", "2023"))
    page.locator("#ask-box").press("Enter")
    expect(page.locator(".answer-text").nth(1)).to_contain_text("86,040")


def _printed(pdf: bytes) -> NDArray[np.uint8]:
    """The first page on paper, shape (height, width, 3)."""
    return np.asarray(Pdf(pdf).page(1).render(1.5).convert("RGB"))


def _where(
    picture: NDArray[np.uint8], color: tuple[int, int, int]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of pixels of a colour."""
    rows, columns = np.nonzero(np.abs(picture.astype(int) - color).max(axis=2) < 24)
    return rows, columns
