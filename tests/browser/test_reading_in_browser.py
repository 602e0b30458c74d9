"""Reading what a run saw: the viewer, the replay, and what can be taken away from the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import KAYAK, PASSENGERS, check_page_shown, check_spot, current_leaf
from hosting import ANSWER, SEARCH
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from playwright.sync_api import Page


def _answered(desk: Desk, visit: Opener, run: str, **how: object) -> Page:
    page = visit(f"{desk.address}/#/runs/{run}", **how).page
    expect(page.locator("#answer-text")).to_be_visible()
    return page


def test_the_viewer_turns_pages_and_knows_where_it_is(desk: Desk, visit: Opener) -> None:
    page = _answered(desk, visit, desk.run(PASSENGERS))
    page.locator("[data-citation='1']").first.click()
    check_page_shown(page)
    where = page.locator("#viewer-page")
    expect(where).to_have_value("3")
    expect(page.locator(".viewer-count")).to_have_text("of 8")
    thumbs = page.locator(".viewer-pages [data-item]")
    expect(thumbs).to_have_count(8)
    page.get_by_role("button", name="Next page").click()
    expect(where).to_have_value("4")
    expect(current_leaf(page).locator("[data-box]")).to_have_count(0)  # nothing is cited there
    thumbs.first.click()
    expect(where).to_have_value("1")
    expect(page.get_by_role("button", name="Previous page")).to_be_disabled()
    page.locator("#viewer-title").focus()
    for _ in range(2):
        page.keyboard.press("PageDown")
    expect(where).to_have_value("3")
    expect(current_leaf(page).locator("[data-box]").first).to_be_visible()


def test_the_rectangle_stays_on_its_spot_at_every_size(desk: Desk, visit: Opener) -> None:
    run = desk.run(PASSENGERS)
    box = desk.answers.store.read(run).result.evidence[0].box
    assert box is not None
    page = _answered(desk, visit, run, device_scale_factor=2)
    page.locator("[data-citation='1']").first.click()
    expect(page.locator(".viewer-count")).to_have_text("of 8")
    sizes: list[str] = []
    for key in ("", "+", "+", "+", "-", "0"):
        if key:
            page.keyboard.press(key)
        check_spot(page, box)
        sizes.append(page.locator(".viewer-percent").inner_text())
    percent = [float(size.split()[0]) for size in sizes]
    assert percent[:5] == [
        *sorted(set(percent[:4])),
        percent[2],
    ]  # as the words can be read, three larger ones, back
    assert percent[5] < percent[0]  # the whole page
    page.get_by_role("button", name="Width", exact=True).click()
    check_spot(page, box)


def test_a_replay_grows_the_graph_step_by_step(desk: Desk, visit: Opener) -> None:
    run = desk.run(KAYAK, agent="vimrag")
    page = _answered(desk, visit, run)
    nodes = page.locator("#graph [data-node]")
    page.locator("#status").click()
    expect(nodes).to_have_count(4)
    page.locator("#replay").click()
    page.get_by_role("button", name="To the question").click()
    told = page.locator(".player-status")
    expect(told).to_have_text("The question")
    expect(page.locator("#answer")).to_be_hidden()
    last = int(page.get_by_role("slider", name="Step of the replay").get_attribute("max") or 0)
    assert last > 1
    counts: list[int] = []
    for step in range(1, last + 1):
        if step % 2:
            page.get_by_role("button", name="Step forward").click()
        else:
            page.keyboard.press("ArrowRight")
        expect(told).to_contain_text(f"Step {step} of {last}")
        expect(page).to_have_url(re.compile(rf"step={step}$"))
        counts.append(nodes.count())
    expect(nodes).to_have_count(4)
    expect(page.locator("#answer-text")).to_be_visible()
    assert counts == sorted(counts)
    page.keyboard.press("ArrowLeft")
    expect(told).to_contain_text(f"Step {last - 1} of {last}")
    expect(page.locator("#answer")).to_be_hidden()
    expect(nodes).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator("#player")).to_be_hidden()
    expect(page).to_have_url(re.compile(rf"#/runs/{run}$"))
    expect(nodes).to_have_count(4)


@pytest.mark.parametrize(("form", "suffix"), [("html", ".html"), ("markdown", ".md"), ("json", ".json")])
def test_an_export_arrives_as_a_file(desk: Desk, visit: Opener, form: str, suffix: str) -> None:
    page = _answered(desk, visit, desk.run(KAYAK))
    page.locator("#export summary").click()
    with page.expect_download() as loading:
        page.locator(f"#export a[data-format='{form}']").click()
    assert loading.value.suggested_filename.endswith(suffix)
    text = Path(loading.value.path()).read_text(encoding="utf-8")
    assert "4.20" in text
    assert KAYAK in text
    if form == "json":
        json.loads(text)


def test_a_report_holds_all_questions_of_a_conversation(desk: Desk, visit: Opener) -> None:
    first = desk.run("How many passengers?", SEARCH, ANSWER)
    last = desk.run("And in 2023?", SEARCH, ANSWER, session=first)
    page = _answered(desk, visit, last)
    expect(page.locator(".run")).to_have_count(2)
    page.locator("#report").click()
    page.locator("#report-title").fill("Two questions")
    page.locator("#report-format").select_option("markdown")
    with page.expect_download() as loading:
        page.get_by_role("dialog").get_by_role("button", name="Download").click()
    text = Path(loading.value.path()).read_text(encoding="utf-8")
    assert text.startswith("# Two questions")
    assert text.index("How many passengers?") < text.index("And in 2023?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_links_to_a_run_and_to_a_step_are_copied(desk: Desk, visit: Opener) -> None:
    run = desk.run(KAYAK, agent="vimrag")
    page = _answered(desk, visit, run, permissions=["clipboard-read", "clipboard-write"])
    copied = "() => navigator.clipboard.readText()"
    page.locator("#share").click()
    expect(page.locator(".toast")).to_contain_text("Link copied.")
    assert page.evaluate(copied) == f"{desk.address}/#/runs/{run}"
    page.locator("#replay").click()
    page.get_by_role("button", name="To the question").click()
    page.get_by_role("button", name="Step forward").click()
    page.get_by_role("button", name="Copy the link to this step").click()
    expect(page.locator(".toast", has_text="step")).to_be_visible()
    assert page.evaluate(copied) == f"{desk.address}/#/runs/{run}?step=1"


def test_a_page_that_may_not_copy_shows_the_link(desk: Desk, visit: Opener) -> None:
    page = _answered(desk, visit, desk.run(KAYAK))
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    page.locator("#share").click()
    expect(page.get_by_role("dialog").get_by_label("Link to this question")).to_have_value(page.url)
