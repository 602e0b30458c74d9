"""The report of an evaluation in a real browser, from a file: filtered, searched, opened, and silent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from browsing import NARROW, WIDE, check_no_sideways
from playwright.sync_api import expect
from reported import FERRY, FOUND, GOLD, QUERY, page_image, record, records, store_with_run, subject
from test_accessibility_in_browser import check_axe

from vrag.evaluation.comparison import compare
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report import comparison_page, report_page
from vrag.evaluation.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from browsing import Opener
    from playwright.sync_api import Page

    from vrag.evaluation.record import CaseRecord

UGLY = "<img src=x onerror=alert(1)><script>alert(2)</script> \u202eevil {{1}} " + "w" * 300
_BOXES = """() => {
  const image = document.querySelector(".leaf img").getBoundingClientRect();
  return [...document.querySelectorAll(".leaf .over")].map((rect) => {
    const box = rect.getBoundingClientRect();
    return [(box.left - image.left) / image.width, (box.top - image.top) / image.height,
            (box.right - image.left) / image.width, (box.bottom - image.top) / image.height];
  });
}"""


def written(place: Path, told: Sequence[CaseRecord]) -> str:
    """The address of a report of these, with the steps of a run for the first."""
    store, run = store_with_run(place / "runs")
    first, *others = told
    summary = summarise(told, resamples=50)
    page = report_page(
        "Ferries",
        [first.model_copy(update={"run": run}), *others],
        summary,
        store=store,
        page_image=page_image,
        facts={"Model": UGLY},
    )
    return _at(place, page.html)


def _at(place: Path, html: str) -> str:
    file = place / "report.html"
    file.write_text(html, encoding="utf-8")
    return file.as_uri()


def rows(page: Page, count: int) -> None:
    expect(page.locator(".case")).to_have_count(count)


def test_cases_are_filtered_and_searched_and_the_address_keeps_it(tmp_path: Path, visit: Opener) -> None:
    address = written(tmp_path, records())
    page = visit(address).page
    rows(page, 5)
    page.get_by_role("button", name="Wrong 1").click()
    rows(page, 1)
    expect(page.locator(".case")).to_contain_text("At noon")
    expect(page).to_have_url(re.compile("#/outcome=wrong$"))
    page.get_by_role("button", name="All 5").click()
    page.locator("#list").get_by_label("Document type").select_option("Plan")
    rows(page, 1)
    page.locator("#list").get_by_label("Document type").select_option("")
    page.get_by_label("Search the cases").fill("could not be REACHED")
    rows(page, 1)
    expect(page.locator(".case .badge")).to_have_text("Unjudged")
    expect(page).to_have_url(re.compile("#/.*q=could"))
    again = visit(page.url).page
    rows(again, 1)
    expect(again.get_by_label("Search the cases")).to_have_value("could not be REACHED")


def test_a_case_opens_with_its_steps_and_rectangles_where_they_belong(tmp_path: Path, visit: Opener) -> None:
    page = visit(written(tmp_path, records()), viewport=WIDE).page
    page.locator(".case").first.get_by_role("button").click()
    detail = page.locator(".detail")
    expect(detail).to_contain_text("It is right.")
    expect(detail.locator(".act.search")).to_contain_text(QUERY)
    expect(detail.locator("dl code[title]")).to_have_attribute(
        "title", re.compile(r"^VRAG_RUNS_DIR=\S+ vrag runs show [0-9a-f-]+$")
    )
    expect(detail.locator("img")).to_have_js_property("complete", value=True)
    found = page.evaluate(_BOXES)
    for sides, wanted in zip(found, (FOUND, GOLD), strict=True):
        assert sides == pytest.approx(wanted, abs=0.015)
    expect(page).to_have_url(re.compile("#/.*case="))
    opened = page.url
    detail.get_by_role("button", name="Enlarge").click()
    expect(page.locator("dialog[open] img")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(visit(opened).page.locator(".detail")).to_contain_text(QUERY)


def test_keys_go_through_the_cases(tmp_path: Path, visit: Opener) -> None:
    page = visit(written(tmp_path, records())).page
    rows(page, 5)
    for key, case in (("j", "c1"), ("j", "c2"), ("k", "c1")):
        page.keyboard.press(key)
        expect(page.locator(".case.open")).to_have_attribute("data-case", f"slides/{case}")
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("noon")
    rows(page, 1)


def test_a_link_of_the_summary_shows_its_cases(tmp_path: Path, visit: Opener) -> None:
    page = visit(written(tmp_path, records())).page
    page.locator("#result").get_by_role("link", name="Failed").click()
    rows(page, 1)
    expect(page.locator(".case .badge")).to_have_text("Failed")
    page.locator("#groups").get_by_role("link", name="Plan").click()
    rows(page, 1)
    expect(page.locator(".case")).to_contain_text("At noon")


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["telephone", "desk"])
def test_whatever_is_said_stays_text_and_within_the_window(
    tmp_path: Path, visit: Opener, size: dict[str, int]
) -> None:
    ugly = record(
        UGLY,
        answer=UGLY,
        why=UGLY,
        judge=UGLY,
        subject=subject(UGLY, UGLY, document=UGLY, references=(UGLY,)),
    )
    page = visit(written(tmp_path, [ugly, *records()]), viewport=size).page
    page.locator(".case").first.get_by_role("button").first.click()
    expect(page.locator(".question-whole")).to_contain_text("onerror=alert(1)")
    check_no_sideways(page)


def test_the_list_is_drawn_in_parts(tmp_path: Path, visit: Opener) -> None:
    page = visit(written(tmp_path, [record(f"c{number}") for number in range(250)])).page
    rows(page, 100)
    page.get_by_role("button", name="Show 100 more of 150").click()
    rows(page, 200)
    last = visit(f"{page.url.split('#')[0]}#/case=slides%2Fc249").page
    expect(last.locator(".detail")).to_be_visible()


def test_without_a_script_the_summary_is_read(tmp_path: Path, visit: Opener) -> None:
    page = visit(written(tmp_path, records()), java_script_enabled=False).page
    expect(page.locator("#result")).to_contain_text("Accuracy")
    expect(page.locator("#without-script")).to_be_visible()


def test_cells_of_a_comparison_are_filters(tmp_path: Path, visit: Opener) -> None:
    a = [record("c1"), record("c2"), record("c3", CaseOutcome.WRONG, answer="no")]
    b = [
        record("c1"),
        record("c2", CaseOutcome.WRONG, answer="no"),
        record("c3", CaseOutcome.WRONG, answer="none"),
    ]
    made = compare(a, b, names=(UGLY, "two"), resamples=50)
    html = comparison_page(made, a, b, page_image=page_image).html
    page = visit(_at(tmp_path, html), viewport=NARROW).page
    page.locator("#result").get_by_role("link", name="Only A").click()
    rows(page, 1)
    page.locator(".case button").click()
    expect(page.locator(".verdict-of")).to_have_count(2)
    expect(page.locator(".detail")).to_contain_text(FERRY)
    page.get_by_role("button", name=re.compile("^Neither")).click()
    rows(page, 1)
    page.get_by_role("button", name="They differ 1").click()
    rows(page, 1)
    page.get_by_role("button", name="All 3").click()
    rows(page, 3)
    check_no_sideways(page)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["telephone", "desk"])
def test_axe_finds_nothing_grave(tmp_path: Path, visit: Opener, size: dict[str, int]) -> None:
    page = visit(written(tmp_path, records()), viewport=size, bypass_csp=True).page
    page.locator(".case").first.get_by_role("button").first.click()
    expect(page.locator(".detail")).to_be_visible()
    check_axe(page, "a case is open")
