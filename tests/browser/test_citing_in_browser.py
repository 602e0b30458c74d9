"""The page of a run: its markers are the numbers of the evidence, and each leads to its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from browsing import NARROW, check_no_sideways, check_spot, current_leaf
from cited_runs import Numbering, listed_places, numbers_in, with_end
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.events import AnswerDoubted, StopReason
from vrag.agent.runs.run_result import ResultKind
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from playwright.sync_api import Locator, Page

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_store import StoredRun

QUESTION = "Who travels from Orla to Saltby, and what does a kayak cost?"
LOOKS = (
    "<think>Who travels?</think><search>passengers Orla Saltby Fulmar 2024 by line</search>",
    "<think>And the price?</think><search>single fare kayak</search>",
)
ANSWER = "A single fare for a kayak is 4.20. The line carried **84,210** passengers in 2024."
REPLIES = {
    "a model that cites": (
        "A single fare for a kayak is 4.20 [2]. The line carried **84,210** passengers in 2024 [1]."
    ),
    "a model that does not": ANSWER,
    "a model that cites what was never shown": (
        "A single fare for a kayak is 4.20 [8]. The line carried **84,210** passengers in 2024 [1]."
    ),
}


def asked(desk: Desk, answer: str) -> StoredRun:
    """A run that has ended with this answer."""
    run = desk.run(QUESTION, *LOOKS, f"<think>Seen.</think><answer>{answer}</answer>", agent="vrag")
    return desk.answers.store.read(run)


def claims() -> tuple[CheckedClaim, ...]:
    """The price is doubted, the number stated, the year is not found."""
    verdicts = {
        "4.20": ClaimVerdict.DOUBTED,
        "84,210": ClaimVerdict.STATED,
        "2024": ClaimVerdict.UNVERIFIED,
    }
    return tuple(
        CheckedClaim(
            kind=ClaimKind.NUMBER,
            start=ANSWER.index(words),
            end=ANSWER.index(words) + len(words),
            verdict=verdict,
            numbers=(1,) if verdict is ClaimVerdict.DOUBTED else (),
            found="4.30" if verdict is ClaimVerdict.DOUBTED else "",
        )
        for words, verdict in verdicts.items()
    )


def words_of(part: Locator) -> str:
    """The text of a part, with common blanks."""
    return " ".join((part.text_content() or "").split())


@pytest.mark.parametrize("kind", [*REPLIES, "an old run"])
def test_text_sources_evidence_and_copy_have_the_numbers_of_the_run(
    desk: Desk, visit: Opener, kind: str
) -> None:
    run = asked(desk, REPLIES.get(kind, ANSWER))
    if kind == "an old run":
        run = with_end(desk.answers.store, run, citations=())
    wanted = Numbering.of(run)
    opened = visit(f"{desk.address}/#/runs/{run.id}", permissions=["clipboard-read", "clipboard-write"])
    page = opened.page
    markers = page.locator("#answer-text .marker")
    expect(markers).to_have_count(len(wanted.markers))
    assert words_of(page.locator("#answer-text")) == run.result.marked_answer.text.replace("**", "")
    expect(page.locator("#evidence-panel [data-evidence]")).to_have_count(len(wanted.places))
    cards = page.locator("#evidence-panel [data-evidence]").all()
    shown = [
        (int(card.locator(".number").inner_text()), words_of(card.locator(".evidence-where")))
        for card in cards
    ]
    for (number, words), (wanted_number, place) in zip(shown, wanted.places, strict=True):
        document, page_number = place.split(", ")
        assert number == wanted_number
        assert document in words
        assert words.endswith(f"p. {page_number}")
    page.locator(".copy-answer").click()
    expect(page.locator(".toast")).to_contain_text("The answer was copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    answer, _, sources = copied.partition("\n\n")
    assert answer == run.result.marked_answer.text
    assert numbers_in(answer) == wanted.markers
    assert listed_places(sources, r"(?m)^\[(\d+)\] PLACE$") == wanted.places


def test_a_marker_points_out_its_evidence_and_opens_its_rectangle(desk: Desk, visit: Opener) -> None:
    run = asked(desk, REPLIES["a model that cites"])
    page = visit(f"{desk.address}/#/runs/{run.id}").page
    marker = page.locator("#answer-text .marker").last
    number = marker.get_attribute("data-marker") or ""
    evidence = run.result.evidence[int(number) - 1]
    expect(marker).to_have_attribute("aria-label", re.compile(f"Evidence {number}: {evidence.document}"))
    card = page.locator(f"[data-evidence='{number}']")
    marker.hover()
    expect(card).to_have_class(re.compile("pointed"))
    page.mouse.move(0, 0)
    expect(card).not_to_have_class(re.compile("pointed"))
    marker.focus()
    expect(card).to_have_class(re.compile("pointed"))
    page.keyboard.press("Enter")
    check_place_open(page, evidence)
    page.keyboard.press("Escape")
    expect(marker).to_be_focused()


def check_place_open(page: Page, evidence: Evidence) -> None:
    """The viewer shows the page of the evidence with its rectangle."""
    assert evidence.box is not None
    expect(page.locator("#viewer-title")).to_contain_text(evidence.document)
    expect(current_leaf(page).locator("img")).to_have_attribute("src", re.compile(evidence.item))
    check_spot(page, evidence.box)


def test_the_address_of_a_place_opens_it(desk: Desk, visit: Opener) -> None:
    run = asked(desk, REPLIES["a model that cites"])
    first, second = run.result.rests[:2]
    page = visit(f"{desk.address}/#/runs/{run.id}?cite=2").page
    check_place_open(page, second)
    page.evaluate(f"location.hash = '#/runs/{run.id}?cite=1'")
    check_place_open(page, first)
    page.keyboard.press("Escape")
    page.evaluate(f"location.hash = '#/runs/{run.id}?cite=99'")
    expect(page.locator("#viewer")).to_be_hidden()


def test_what_was_found_by_its_words_is_shown_enlarged_with_its_marks(desk: Desk, visit: Opener) -> None:
    run = asked(desk, REPLIES["a model that cites"])
    located = [number for number, one in enumerate(run.result.rests, 1) if one.located]
    assert located
    page = visit(f"{desk.address}/#/runs/{run.id}").page
    crop = page.locator(f"[data-evidence='{located[0]}'] .evidence-crop")
    expect(page.locator("#answer-text")).to_be_visible()  # from then on the cards are not drawn anew
    crop.evaluate("(element) => element.scrollIntoView()")
    expect(crop.locator("img")).to_have_js_property("complete", True)
    width, height, frame = crop.locator("img").evaluate(
        "(image) => [image.naturalWidth, image.naturalHeight, image.clientWidth / image.clientHeight]"
    )
    assert width > 0
    assert abs(frame / (width / height) - 1) < 0.1  # else its marks would lie beside its words
    expect(crop.locator(".box-answer").first).to_be_visible()


def check_verdicts(page: Page) -> None:
    """What is in doubt is marked, in words too."""
    expect(page.locator(".claims")).to_contain_text(
        "None of 3 statements verified on the page, 1 stated in the text, 1 doubted, 1 not found."
    )
    expect(page.locator(".claims li").first).to_be_visible()  # what is doubted needs no click
    expect(page.locator(".claims li")).to_have_text(
        [
            re.compile(r"The evidence says “4\.30” \[1\], not “4\.20”\."),
            re.compile(r"Stated in the text: “84,210”\."),
            re.compile(r"Not found in the evidence: “2024”\."),
        ]
    )
    marked = page.locator("#answer-text .claim")
    expect(marked).to_have_text(["4.20", "2024"])
    expect(marked.first).to_have_attribute("data-verdict", "doubted")
    expect(marked.first).to_have_attribute("title", "The evidence says “4.30” [1], not “4.20”.")
    expect(page.locator(f"[id='{marked.first.get_attribute('aria-describedby')}']")).to_contain_text("4.30")


@pytest.mark.parametrize("size", [None, NARROW], ids=["wide", "narrow"])
def test_claims_in_doubt_are_marked_and_told(desk: Desk, visit: Opener, size: dict[str, int] | None) -> None:
    run = asked(desk, REPLIES["a model that cites"])
    end = run.events[-1]
    doubted = AnswerDoubted(
        run_id=run.id, seq=end.seq, ts=end.ts, step=end.step, text=ANSWER, claims=claims()
    )
    run = with_end(desk.answers.store, run, doubted, claims=claims())
    page = visit(f"{desk.address}/#/runs/{run.id}", **({"viewport": size} if size else {})).page
    check_verdicts(page)
    page.locator("#status").click()
    step = page.locator(".step", has_text="Answer in doubt")
    step.locator("button").first.click()
    expect(step.locator(".remark.doubted")).to_contain_text(
        "The evidence does not support all of this answer."
    )
    check_no_sideways(page)
    check_axe(page, "in doubt")


def test_the_list_of_statements_opens_on_request(desk: Desk, visit: Opener) -> None:
    run = asked(desk, REPLIES["a model that cites"])
    stated = tuple(claim for claim in claims() if claim.verdict is not ClaimVerdict.DOUBTED)
    run = with_end(desk.answers.store, run, claims=stated)
    page = visit(f"{desk.address}/#/runs/{run.id}").page
    line = page.locator(".claims-summary")
    expect(line).to_have_text("None of 2 statements verified on the page, 1 stated in the text, 1 not found.")
    expect(page.locator(".claims li").first).to_be_hidden()
    line.click()
    expect(page.locator(".claims li")).to_have_count(2)
    expect(page.locator(".claims li").first).to_be_visible()


BICYCLES = "Which line should a family with bicycles take in winter?"


@pytest.mark.parametrize("size", [None, NARROW], ids=["wide", "narrow"])
def test_places_are_listed_with_the_words_of_the_question_and_open_their_rectangles(
    desk: Desk, visit: Opener, size: dict[str, int] | None
) -> None:
    run = desk.answers.store.read(desk.run(BICYCLES, model=""))
    assert run.result.kind is ResultKind.PLACES
    page = visit(f"{desk.address}/#/runs/{run.id}", **({"viewport": size} if size else {})).page
    items = page.locator(".answer .places > li")
    expect(items).to_have_count(len(run.result.evidence))
    expect(
        page.locator(".answer .place-words mark", has_text=re.compile("bicycles", re.IGNORECASE))
    ).not_to_have_count(0)
    pictures = page.locator("#evidence-panel .evidence-card")
    if size:
        expect(page.locator("#evidence-panel")).to_be_hidden()  # the list has pictures itself
        expect(items.first.locator(".place-picture")).to_be_visible()
    else:
        expect(pictures.first).to_be_visible()
        expect(pictures.locator(".evidence-quote")).to_have_count(0)  # its words stand in the list
        items.first.hover()
        expect(page.locator("#evidence-panel [data-evidence='1']")).to_have_class(re.compile("pointed"))
    check_no_sideways(page)
    check_axe(page, "places")
    page.locator(".more-places > summary").click()
    for number in (1, len(run.result.evidence)):
        evidence = run.result.evidence[number - 1]
        items.nth(number - 1).locator("button").click()
        check_place_open(page, evidence)
        page.keyboard.press("Escape")
        expect(page.locator("#viewer")).to_be_hidden()


def test_the_reason_that_nothing_was_found_is_there_when_the_page_is_opened_again(
    desk: Desk, visit: Opener
) -> None:
    run = desk.answers.store.read(desk.run("Who composed the anthem of Zanzibar?", model=""))
    run = with_end(desk.answers.store, run, absence="2 of 5 documents are still being read.")
    page = visit(f"{desk.address}/#/runs/{run.id}").page
    expect(page.locator(".answer-said")).to_have_text("2 of 5 documents are still being read.")


def test_a_withdrawn_answer_is_shown_as_such(desk: Desk, visit: Opener) -> None:
    run = asked(desk, REPLIES["a model that cites"])
    changes = {"text": None, "withdrawn": ANSWER, "claims": claims(), "stop_reason": StopReason.ABSTAINED}
    run = with_end(desk.answers.store, run, **changes)
    page = visit(f"{desk.address}/#/runs/{run.id}").page
    expect(page.locator(".answer-title")).to_have_text("Answer withdrawn")
    assert words_of(page.locator("#answer-text")) == run.result.marked_answer.text.replace("**", "")
    check_verdicts(page)
    expect(page.locator(".copy-answer")).to_have_count(0)
    check_axe(page, "withdrawn")
