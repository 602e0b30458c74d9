"""A conversation in one scroll: its turns, their steps folded, and ways out of a question without answer."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from browsing import KAYAK, NARROW, PASSENGERS, WIDE, check_no_sideways, check_spot
from cited_runs import kept
from hosting import ANSWER, SEARCH
from PIL import Image
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

from vrag.errors import ModelError

if TYPE_CHECKING:
    from browsing import Desk, Opener
    from playwright.sync_api import FilePayload, Page, Request

FARES = "What were the passenger fares in 2024?"
PRINTED = "window.print = () => console.info('printed');"
IN_SIGHT = """(element) => {
  const view = document.querySelector(".thread").getBoundingClientRect();
  return element.getBoundingClientRect().top - view.top;
}"""


def conversation(desk: Desk, *questions: str) -> list[str]:
    """Runs of one conversation, which have ended."""
    first = desk.run(questions[0], agent="vrag")
    return [first, *(desk.run(question, agent="vrag", session=first) for question in questions[1:])]


def picture_file(color: str) -> FilePayload:
    """A picture of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", (120, 90), color).save(buffer, "PNG")
    return {"name": f"{color}.png", "mimeType": "image/png", "buffer": buffer.getvalue()}


def turns(page: Page) -> list[str]:
    """The runs of the turns that are shown, in order."""
    return [turn.get_attribute("data-run") or "" for turn in page.locator(".run").all()]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_run_is_shown_within_its_conversation(desk: Desk, visit: Opener, size: dict[str, int]) -> None:
    runs = conversation(desk, KAYAK, PASSENGERS, FARES)
    page = visit(f"{desk.address}/#/runs/{runs[1]}", viewport=size).page
    expect(page.locator(".run")).to_have_count(3)
    assert turns(page) == runs
    for turn, words in zip(page.locator(".run").all(), ("4.20", "84,210", "4,182"), strict=True):
        expect(turn.locator(".answer-text")).to_contain_text(words)
        expect(turn.locator(".status")).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#question")).to_have_text(PASSENGERS)
    expect(page.locator("#answer-text .marker")).to_have_text("[1]")
    expect(page.locator(".answer-text .marker")).to_have_count(3)  # what comes later moves nothing
    assert 0 <= page.locator("#question").evaluate(IN_SIGHT) < 60
    expect(page.locator(".run-before details:visible")).to_have_count(0)  # earlier questions stand above
    order = "(turn) => [...turn.children].map((part) => part.className.split(' ')[0])"
    assert page.locator(".run").first.evaluate(order) == ["run-head", "answer", "run-side", "steps-part"]
    check_no_sideways(page)
    check_axe(page, "a conversation")


def test_a_question_is_added_to_the_conversation_in_place(desk: Desk, visit: Opener) -> None:
    (first,) = conversation(desk, KAYAK)
    opened = visit(f"{desk.address}/#/runs/{first}")
    page = opened.page
    expect(page.locator("#answer-text .marker")).to_have_count(1)
    page.locator(".run").evaluate("(turn) => { turn.kept = true; }")
    opened.ask(PASSENGERS)
    expect(page.locator(".run")).to_have_count(2)
    expect(page).not_to_have_url(re.compile(first))
    second = turns(page)[1]
    expect(page).to_have_url(re.compile(second))
    expect(page.locator("#question")).to_have_text(PASSENGERS)
    expect(page.locator("#answer-text")).to_contain_text("84,210")
    assert page.locator(".run").first.evaluate("(turn) => turn.kept")
    expect(page.locator(".run").first.locator(".answer-text")).to_contain_text("4.20")
    assert page.locator("#question").evaluate(IN_SIGHT) < 60
    expect(page.locator("#ask-box")).to_be_visible()
    page.go_back()
    expect(page.locator("#question")).to_have_text(KAYAK)
    assert page.locator(".run").first.evaluate("(turn) => turn.kept")


def test_events_are_loaded_when_the_steps_are_folded_out(desk: Desk, visit: Opener) -> None:
    runs = conversation(desk, KAYAK, PASSENGERS)
    opened = visit("about:blank")
    opened.address = desk.address
    page = opened.page
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/events" in request.url:
            asked.append(request.url)

    page.on("request", note)
    page.goto(f"{desk.address}/#/runs/{runs[1]}")
    expect(page.locator(".answer-text .marker")).to_have_count(2)
    assert asked == []
    first = page.locator(".run").first
    for figure, words in (("steps", r"\d+ steps"), ("time", r"\d s")):
        expect(first.locator(f"[data-figure='{figure}'] dd")).to_have_text(re.compile(words))
    expect(first.locator("[data-figure='visual']")).to_be_hidden()  # no model is paid for them
    first.locator(".status").click()
    expect(first.locator(".step").first).to_be_visible()
    assert len(asked) == 1
    assert runs[0] in asked[0]
    expect(first.locator(".step.closed")).to_have_count(first.locator(".step").count())
    first.locator(".status").click()
    expect(first.locator(".step").first).to_be_hidden()
    first.locator(".replay").click()
    expect(first.locator(".player")).to_be_visible()
    assert len(asked) == 1


def test_addresses_of_a_step_and_of_a_place_lead_into_their_turn(desk: Desk, visit: Opener) -> None:
    runs = conversation(desk, KAYAK, PASSENGERS)
    page = visit(f"{desk.address}/#/runs/{runs[0]}?step=1").page
    expect(page.locator("#player .player-status")).to_contain_text("Step 1 of")
    expect(page.locator(f".run[data-run='{runs[0]}'] .player")).to_be_visible()
    box = desk.answers.store.read(runs[1]).result.evidence[0].box
    assert box is not None
    page.evaluate(f"location.hash = '#/runs/{runs[1]}?cite=1'")
    check_spot(page, box)
    expect(page.locator("#question")).to_have_text(PASSENGERS)


def test_fifty_turns_are_there_at_once_and_loaded_as_they_come_near(desk: Desk, visit: Opener) -> None:
    store = desk.answers.store
    first = store.read(desk.run(KAYAK, agent="vrag"))
    start, *rest = first.events
    for number in range(1, 50):
        changes = {"session": first.id, "question": f"Question {number}?"}
        kept(store, [start.model_copy(update=changes), *rest], first)
    opened = visit("about:blank")
    opened.address = desk.address
    page = opened.page
    asked: set[str] = set()
    page.on(
        "request",
        lambda request: asked.add(request.url) if re.search(r"/runs/[\d-]+[0-9a-f]*$", request.url) else None,
    )
    page.goto(f"{desk.address}/#/runs/{first.id}")
    expect(page.locator(".run")).to_have_count(50)
    expect(page.locator(".run").last.locator(".answer-text")).to_contain_text("4.20")
    expect(page.locator("#answer-text .marker")).to_have_count(1)
    assert len(asked) < 15
    page.locator("#turns summary").click()
    page.locator("#turns").get_by_text("Question 49?", exact=True).click()
    expect(page.locator("#question")).to_have_text("Question 49?")
    expect(page.locator("#question")).to_be_in_viewport()
    expect(page.locator("#answer-text .marker")).to_have_count(1)
    expect(page.locator("#turns")).not_to_have_attribute("open", "")


def test_chips_and_cards_point_each_other_out(desk: Desk, visit: Opener) -> None:
    (run,) = conversation(desk, PASSENGERS)
    page = visit(f"{desk.address}/#/runs/{run}").page
    chip, card = page.locator("#answer-text .marker"), page.locator("[data-evidence='1']")
    card.hover()
    expect(chip).to_have_class(re.compile("pointed"))
    page.mouse.move(0, 0)
    expect(chip).not_to_have_class(re.compile("pointed"))
    chip.focus()
    expect(card).to_have_class(re.compile("pointed"))
    expect(page.get_by_role("tooltip")).to_contain_text("annual-report-2024.pdf")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_have_count(0)
    with page.context.expect_page() as other:
        chip.click(modifiers=["Control"])
    expect(other.value).to_have_url(re.compile(rf"{run}\?cite=1$"))
    expect(page.locator("#viewer")).to_have_count(0)


def test_a_run_out_of_steps_can_be_asked_again_with_more(desk: Desk, visit: Opener) -> None:
    run = desk.run("How many?", *(SEARCH.replace("ferry", f"ferry {number}") for number in range(10)))
    page = visit(f"{desk.address}/#/runs/{run}").page
    expect(page.locator("#answer")).to_have_attribute("data-reason", "out_of_steps")
    again = page.get_by_role("button", name="Ask again with 20 steps")
    expect(again).to_be_visible()
    check_axe(page, "out of steps")
    desk.answers.policy.replies = (SEARCH, ANSWER)
    with page.expect_request(lambda request: request.method == "POST") as asked:
        again.click()
    body = asked.value.post_data_json
    assert body is not None
    assert (body["question"], body["max_steps"], body["session"]) == ("How many?", 20, run)
    assert (body["agent"], body["model"]) == ("vrag", "scripted")
    expect(page.locator(".run")).to_have_count(2)
    expect(page.locator("#answer-text")).to_contain_text("48,200")


def test_a_model_that_does_not_keep_to_the_format_is_told_as_such(desk: Desk, visit: Opener) -> None:
    run = desk.run("How many?", *["<think>There.</think><bbox>here</bbox>"] * 10)
    page = visit(f"{desk.address}/#/runs/{run}").page
    answer = page.locator("#answer")
    expect(answer).to_contain_text("The model does not keep to the format")
    expect(answer).to_contain_text("10 of its 10 replies")
    expect(page.locator(".ask-more")).to_have_count(0)
    check_axe(page, "no format")
    page.get_by_role("button", name="Choose another model").click()
    expect(page.locator("#choice-model")).to_be_focused()
    expect(page.locator("#ask-box")).to_have_value("How many?")


def test_a_question_comes_back_with_its_own_pictures_once(desk: Desk, visit: Opener) -> None:
    desk.answers.policy.replies = ("<think>There.</think><bbox>here</bbox>",) * 10
    desk.answers.policy.go.set()
    opened = visit(desk.address)
    page = opened.page
    page.locator("#picture-files").set_input_files(picture_file("red"))
    opened.ask("How many?", model="scripted")
    expect(page.locator("#answer")).to_contain_text("The model does not keep to the format")
    tray = page.locator(".composer .tray img")
    expect(tray).to_have_count(0)
    page.locator("#picture-files").set_input_files(picture_file("blue"))
    expect(tray).to_have_count(1)
    other = tray.get_attribute("src")
    pencil = page.get_by_role("button", name="Change the question and ask again")
    for button in (pencil, pencil, page.locator(".ask-again")):
        with page.expect_response(lambda response: "/files/" in response.url):
            button.click()
        expect(page.locator("#ask-box")).to_have_value("How many?")
        expect(tray).to_have_count(1)
        expect(tray).not_to_have_attribute("src", other or "")
    page.locator(".composer .tray button").click()
    expect(tray).to_have_count(0)
    page.locator(".ask-again").click()
    expect(tray).to_have_count(1)


def test_a_failure_says_what_can_be_done_on_the_page(desk: Desk, visit: Opener) -> None:
    desk.answers.policy.fault = ModelError("The call took longer than 600 s.", "Raise VRAG_CALL_SECONDS.")
    run = desk.run("How many?", SEARCH)
    page = visit(f"{desk.address}/#/runs/{run}").page
    said = "The call took longer than 600 s. The administrator of this server can change this."
    expect(page.locator(".answer-fault")).to_have_text(said)
    expect(page.locator("body")).not_to_contain_text("VRAG_")


def test_the_whole_conversation_is_printed(desk: Desk, visit: Opener) -> None:
    runs = conversation(
        desk, *(f"{question}{' ' * number}" for number in range(3) for question in (KAYAK, PASSENGERS))
    )
    opened = visit("about:blank")
    opened.address = desk.address
    page = opened.page
    page.add_init_script(PRINTED)
    page.goto(f"{desk.address}/#/runs/{runs[0]}")
    page.locator("#status").click()
    expect(page.locator(".step").first).to_be_visible()
    with page.expect_console_message(lambda message: message.text == "printed"):
        page.keyboard.press("Control+p")
    expect(page.locator(".evidence-card")).to_have_count(len(runs))
    for image in page.locator(".evidence-card img").all():
        assert image.evaluate("(one) => one.complete && one.naturalWidth > 0")
    page.emulate_media(media="print")
    for part in ("#sidebar", "#toolbar", ".run-foot", ".answer-actions", ".run-buttons"):
        expect(page.locator(part).first).to_be_hidden()
    assert page.locator(".step.closed").count() == 0  # those of the turn that was folded out
    whole = page.evaluate(
        """() => [document.documentElement.scrollHeight,
          Math.floor(document.querySelector(".run:last-child").getBoundingClientRect().bottom)]"""
    )
    assert whole[0] >= whole[1] > WIDE["height"]
