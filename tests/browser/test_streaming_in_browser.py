"""An answer as it is written: the page is fed events one by one, as a slow model would send them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from browsing import NARROW, PASSENGERS, check_spot
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

if TYPE_CHECKING:
    from collections.abc import Callable

    from browsing import Desk, Opener
    from playwright.sync_api import Page

FED = """
window.EventSource = class extends EventTarget {
  constructor() { super(); window.source = this; setTimeout(() => this.onopen?.()); }
  close() {}
};
"""
"""A stream of events that the test sends."""
ANSWER = """The line carried **84,210** passengers in 2024. It grew.

| Line | Passengers |
|:-----|-----------:|
| Orla – Saltby | **84,210** |
| Hessel – Orla | 196,480 |

- a kayak is `4.20`
- a group pays *half*
"""
LONG = "".join(
    f"Sentence {number} of a long answer, with words that fill a line.\n\n" for number in range(60)
)


@dataclass
class Feed:
    """A run under way, whose events the test sends to the page."""

    page: Page
    run: str
    started: dict[str, Any]
    evidence: list[dict[str, Any]]
    _seq: int = field(default=-1, init=False)

    def send(self, type: str, step: int = 1, **fields: Any) -> None:  # noqa: ANN401
        """Sends an event."""
        self._seq += 1
        base = {"run_id": self.run, "seq": self._seq, "ts": 1000.0 + self._seq, "step": step, "type": type}
        self.page.evaluate("(event) => source.onmessage({data: JSON.stringify(event)})", base | fields)

    def write(self, text: str, step: int = 1, size: int = 5) -> None:
        """Writes an answer, some characters at a time; all of it is drawn then."""
        for at in range(0, len(text), size):
            self.send("answer_delta", step, text=text[at : at + size])
        self.page.evaluate(
            "() => new Promise(requestAnimationFrame)"
        )  # after the one in which the page draws

    def cite(self, text: str, words: str, *numbers: int) -> list[dict[str, Any]]:
        """Cites evidence at some words of a draft; the citations."""
        citation = {
            "start": 0,
            "end": text.index(words) + len(words),
            "numbers": numbers,
            "source": "model",
        }
        evidence = self.evidence[: max(numbers)]
        self.send("answer_cited", length=len(text), citations=[citation], evidence=evidence)
        return [citation]

    def end(self, text: str | None, **fields: Any) -> None:  # noqa: ANN401
        """Gives the answer."""
        reason = "answered" if text else "abstained"
        more = {"text": text, "evidence": self.evidence, "citations": [], "claims": [], "unsupported": []}
        fields = {"stop_reason": reason, "reading": None, "withdrawn": None} | more | fields
        self.send("answer", 1, **fields)
        self.page.evaluate(
            "source.dispatchEvent(new MessageEvent('end', {data: '{\"state\": \"finished\"}'}))"
        )


@pytest.fixture
def feed(desk: Desk, visit: Opener) -> Callable[..., Feed]:
    """Opens a run that goes on, with the evidence of another."""

    def begin(**how: object) -> Feed:
        known = desk.answers.store.read(desk.run(PASSENGERS))
        run = desk.post("How many passengers, and what does it cost?", model="scripted", agent="vrag")
        opened = visit("about:blank", **how)
        opened.address = desk.address
        opened.page.add_init_script(FED)
        opened.page.goto(f"{desk.address}/#/runs/{run}")
        expect(opened.page.locator("#stop")).to_be_visible()
        evidence = [one.model_dump(mode="json") for one in known.result.evidence]
        begun = Feed(opened.page, run, known.started.model_dump(mode="json"), evidence)
        settings = begun.started["settings"] | {"policy": "scripted"}  # quotes of the reader have no Markdown
        begun.send("run_started", 0, question="How many?", settings=settings)
        begun.send("thought_delta", text="I know it now.")
        return begun

    return begin


def test_the_answer_stands_where_it_will_from_its_first_word(feed: Callable[..., Feed]) -> None:
    run = feed()
    page, answer = run.page, run.page.locator("#answer")
    expect(page.locator("[data-step='1'] .thought")).to_be_visible()
    expect(answer).to_be_hidden()
    run.write("The line")
    expect(answer).to_be_visible()
    expect(answer).to_have_attribute("aria-busy", "true")
    expect(page.locator("#status")).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#status")).to_contain_text("Writing the answer")
    run.write(ANSWER[len("The line") : ANSWER.index("| Hessel")])
    text = page.locator("#answer-text")
    expect(text.locator("p strong")).to_have_text("84,210")
    expect(text.locator("th")).to_have_text(["Line", "Passengers"])
    expect(text.locator("td.align-right strong")).to_have_text("84,210")
    assert not re.search(r"[*|`]", text.inner_text())
    check_axe(page, "streaming")


def test_what_stands_there_is_not_drawn_again_while_the_rest_grows(feed: Callable[..., Feed]) -> None:
    run = feed()
    run.write(ANSWER[:60])
    first = run.page.locator("#answer-text > p").first
    first.evaluate("(element) => { element.kept = element.querySelector('strong').kept = true; }")
    removed = run.page.evaluate_handle(
        """() => { const removed = [];
        new MutationObserver((records) => removed.push(...records.flatMap((one) => [...one.removedNodes])))
          .observe(document.getElementById("answer-text"), {childList: true, subtree: true});
        return removed; }"""
    )
    run.write(ANSWER[60:])
    run.cite(ANSWER, "in 2024", 1)
    expect(run.page.locator("#answer-text li")).to_have_count(2)
    expect(run.page.locator("#answer-text .marker")).to_have_count(1)
    assert first.evaluate("(element) => element.kept && element.querySelector('strong').kept")
    assert removed.evaluate("(removed) => removed.length") == 0


def test_a_chip_opens_its_rectangle_while_the_answer_is_written(feed: Callable[..., Feed]) -> None:
    run = feed()
    page = run.page
    run.write(ANSWER[:60])
    run.cite(ANSWER[:60], "in 2024", 1)
    chip = page.locator("#answer-text .marker")
    expect(chip).to_have_text("[1]")
    expect(page.locator("[data-evidence='1']")).to_be_visible()
    chip.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(run.evidence[0]["document"])
    expect(page.get_by_role("tooltip")).to_contain_text(run.evidence[0]["quote"][:40])
    expect(page.locator("[data-evidence='1']")).to_have_class(re.compile("pointed"))
    chip.click()
    check_spot(page, run.evidence[0]["box"])
    run.write(ANSWER[60:])
    expect(page.locator("#answer-text li")).to_have_count(2)
    expect(page.locator("#viewer")).to_be_visible()


_PLACE = """() => {
  const text = document.querySelector("#answer-text p").getBoundingClientRect();
  return [Math.round(text.top), Math.round(text.left), getComputedStyle(document.querySelector("#answer-text")).fontSize,
    document.querySelector(".thread").scrollTop, getSelection().toString()];
}"""  # noqa: E501


def test_the_answer_replaces_its_draft_without_a_jump(feed: Callable[..., Feed]) -> None:
    run = feed()
    page = run.page
    run.write(ANSWER)
    citations = run.cite(ANSWER, "in 2024", 1)
    expect(page.locator("#answer-text .marker")).to_have_count(1)
    page.locator("#answer-text p strong").evaluate("(element) => getSelection().selectAllChildren(element)")
    before = page.evaluate(_PLACE)
    assert before[-1] == "84,210"
    page.locator("#answer-text li").last.evaluate("(element) => { element.kept = true; }")
    run.send("usage", prompt_tokens=10, completion_tokens=5, visual_tokens=0, seconds=1.0, cost=None)
    expect(page.locator("#answer")).to_be_visible()  # it is checked before it stands
    more = {"start": 50, "end": ANSWER.index("half") + 5, "numbers": [1], "source": "model"}
    run.end(ANSWER.strip(), citations=[*citations, more])
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#answer-text .marker")).to_have_count(2)
    assert page.evaluate(_PLACE) == before
    assert page.locator("#answer-text li").last.evaluate("(element) => element.kept")
    expect(page.locator(".copy-answer")).to_be_visible()
    expect(page.locator("#stop")).to_be_hidden()


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("model_retried", {"reason": "503", "seconds": 1.0, "partial": "", "chunks": []}, "made again"),
        ("invalid_action", {"reason": "It cites what was never shown."}, "Not carried out."),
        ("answer_doubted", {"text": "**84,210**", "claims": []}, "does not support all"),
    ],
)
def test_a_draft_that_is_discarded_goes_away_and_the_steps_say_why(
    feed: Callable[..., Feed], kind: str, fields: dict[str, Any], words: str
) -> None:
    run = feed()
    page = run.page
    run.write("It was 12")
    expect(page.locator("#answer")).to_be_visible()
    run.send(kind, **fields)
    expect(page.locator("#answer")).to_be_hidden()
    expect(page.locator("#status")).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".remark")).to_contain_text(words)
    run.write("It is 84,210", step=2)
    expect(page.locator("#answer-text")).to_have_text("It is 84,210")


def test_the_next_call_of_the_model_discards_a_draft(feed: Callable[..., Feed]) -> None:
    run = feed()
    run.write("It was 12")
    run.send("thought_delta", step=2, text="No, again.")
    expect(run.page.locator("#answer")).to_be_hidden()


def test_screen_readers_are_told_the_answer_once(feed: Callable[..., Feed]) -> None:
    run = feed()
    page = run.page
    log = page.get_by_role("log", name="Status messages")
    run.write("It is **84,210**.")
    expect(log).to_contain_text("Writing the answer")
    assert "84" not in log.inner_text()
    live = "closest('[aria-live]:not([aria-live=off]), [role=log], [role=status], [role=alert]')"
    assert page.locator("#answer-text").evaluate(f"(element) => element.{live}") is None
    run.end("It is **84,210**.")
    expect(log).to_contain_text("Answered: It is 84,210.")
    assert log.inner_text().count("84,210") == 1


def test_a_reader_elsewhere_stays_there(feed: Callable[..., Feed]) -> None:
    run = feed()
    page = run.page
    scrolled = "document.querySelector('.thread').scrollTop"
    run.write(LONG, size=400)
    expect(page.locator("#answer-text")).to_contain_text("Sentence 59")
    top = page.locator("#answer").bounding_box()
    assert top is not None
    assert top["y"] > 40  # the beginning is never scrolled away
    latest = page.get_by_role("button", name="Latest")
    expect(latest).to_be_visible()
    before = page.evaluate(scrolled)
    run.write(LONG.replace("Sentence", "Word"), size=400)
    expect(page.locator("#answer-text")).to_contain_text("Word 59")
    assert page.evaluate(scrolled) == before
    latest.click()
    expect(latest).to_be_hidden()
    expect(page.get_by_text("Word 59")).to_be_in_viewport()
    run.write("And one more.")
    expect(page.get_by_text("And one more.")).to_be_in_viewport()


def test_an_answer_is_written_on_a_telephone(feed: Callable[..., Feed]) -> None:
    run = feed(viewport=NARROW, has_touch=True)
    page = run.page
    run.write(ANSWER)
    run.cite(ANSWER, "in 2024", 1)
    chip = page.locator("#answer-text .marker")
    expect(chip).to_be_in_viewport()
    box = chip.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 18
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chip.tap()
    check_spot(page, run.evidence[0]["box"])
