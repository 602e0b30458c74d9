"""Ask, watch, look: the page in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from browsing import (
    KAYAK,
    NARROW,
    PASSENGERS,
    WIDE,
    Answers,
    ask_by_key,
    check_no_sideways,
    check_spot,
    served,
)
from hosting import ANSWER, SEARCH
from playwright.sync_api import expect
from test_accessibility_in_browser import check_axe

from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path

    from browsing import Desk, Opener
    from playwright.sync_api import Route

    from vrag.agent.agent import Agent
    from vrag.server.runs.schema import AgentSelection


@pytest.mark.smoke
def test_a_question_is_answered_on_the_page(desk: Desk, visit: Opener) -> None:
    page = visit(desk.address).page
    page.get_by_role("button", name=KAYAK).click()
    if not page.url.count("#/runs/"):
        page.locator("#ask-button").click()
    expect(page.locator("#answer-text")).to_contain_text("4.20")
    expect(page).to_have_url(re.compile(r"#/runs/[0-9a-f-]+$"))
    expect(page.locator("#past-runs")).to_contain_text(KAYAK)
    expect(page.locator("#meter")).to_be_visible()


def test_a_suggested_question_stays_as_it_is_when_more_have_been_made(desk: Desk, visit: Opener) -> None:
    page = visit(f"{desk.address}/healthz").page  # of the same origin: the page comes when its routes are set
    made = ["How deep is it?"]

    def answer(route: Route) -> None:
        questions = [{"text": text, "document": "", "name": "a.md"} for text in made]
        route.fulfill(json={"questions": questions, "pending": len(made) == 1})
        made[1:] = ["How wide is it?"]

    page.route("**/questions?*", answer)
    page.goto(desk.address)
    first = page.get_by_role("button", name=made[0])
    first.evaluate("(button) => { button.kept = true; }")
    expect(page.get_by_role("button", name="How wide is it?")).to_be_visible()
    assert first.evaluate("(button) => button.kept")


def test_what_is_not_known_about_a_model_stands_under_the_question(
    desk: Desk, visit: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "The family of <b>the model</b> is not known: crops may show the wrong place."
    notice = f"{shown} Set VRAG_PROFILE to its family, or measure it with `vrag doctor --coords`."
    known = Answers.agent

    def agent(answers: Answers, choice: AgentSelection) -> Agent:
        return replace(known(answers, choice), notices=(notice,))

    monkeypatch.setattr(Answers, "agent", agent)
    opened = visit(desk.address)
    opened.ask(KAYAK)
    expect(opened.page.get_by_role("note")).to_have_text(f"{shown} Choose the model family in Settings.")


def test_a_citation_opens_its_page_with_the_rectangle_on_the_spot(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.ask(PASSENGERS)
    page = opened.page
    expect(page.locator("#answer-text")).to_contain_text("84,210")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    (run,) = desk.answers.store.ids()
    first = desk.answers.store.read(run).result.evidence[0]
    assert first.box is not None
    page.locator("[data-citation='1']").first.click()
    viewer = page.locator("#viewer")
    expect(viewer).to_be_visible()
    expect(page.locator("#viewer-title")).to_contain_text(first.document)
    for _ in range(3):
        check_spot(page, first.box)
        page.keyboard.press("+")
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()


def test_vimrag_draws_its_graph_and_a_node_opens_what_it_saw(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.ask(KAYAK, agent="vimrag")
    page = opened.page
    expect(page.locator("#answer-text")).to_contain_text("4.20")
    page.locator("#status").click()
    nodes = page.locator("#graph [data-node]")
    expect(nodes).to_have_count(4)
    node = page.locator("#graph [data-node='search_1']")
    expect(node).to_have_attribute("aria-label", re.compile("kayak"))
    node.focus()
    page.keyboard.press("Enter")
    panel = page.locator("#node-panel")
    expect(panel).to_be_visible()
    expect(panel).to_contain_text("price-board.jpg")


def test_a_run_is_watched_while_it_goes_on_and_stopped(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.ask("How many passengers?", model="scripted")
    page = opened.page
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    stop.click()
    expect(page.locator("#answer")).to_contain_text("The run was stopped before there was an answer.")
    expect(stop).to_be_hidden()
    (run,) = desk.answers.store.ids()
    assert desk.answers.store.outline(run).stop_reason == "cancelled"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_question_that_waits_shows_its_position_and_can_be_stopped_or_is_answered_in_turn(
    place: Path, visit: Opener, size: dict[str, int]
) -> None:
    with served(place, ServerOptions(runs=1, drain_seconds=2)) as desk:
        _, waiting = (desk.post(question, model="scripted") for question in ("First?", "Second?"))
        opened = visit(desk.address, viewport=size)
        page = opened.page
        opened.ask("Third?", model="scripted")
        status = page.locator("#status")
        expect(status).to_contain_text("Waiting: 2nd in the queue")
        expect(page.get_by_role("log", name="Status messages")).to_contain_text("Waiting: 2nd in the queue")
        expect(page.locator("#stop")).to_be_visible()
        check_no_sideways(page)
        page.reload()
        expect(status).to_contain_text("Waiting: 2nd in the queue")
        httpx.delete(f"{desk.address}/runs/{waiting}")
        expect(status).to_contain_text("Waiting: 1st in the queue")
        page.locator("#stop").click()
        expect(page.locator(".run")).to_have_attribute("data-state", "ended")
        expect(page.locator("#answer")).to_contain_text("The run was stopped before there was an answer.")
        ask_by_key(page, "Fourth?")
        expect(status).to_contain_text("Waiting: 1st in the queue")
        desk.answers.policy.go.set()
        expect(page.locator("#answer-text")).to_contain_text("48,200")


def test_a_reload_in_mid_run_goes_on_where_it_was(desk: Desk, visit: Opener) -> None:
    desk.answers.policy.replies = (SEARCH, ANSWER)
    opened = visit(desk.address)
    opened.ask("How many passengers?", model="scripted")
    page = opened.page
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    desk.answers.policy.go.set()
    expect(page.locator("#answer-text")).to_have_text(re.compile("48,200"))
    assert len(desk.answers.store.ids()) == 1


def test_a_follow_up_knows_the_conversation(desk: Desk, visit: Opener) -> None:
    desk.answers.policy.go.set()
    opened = visit(desk.address)
    opened.ask("How many passengers?", model="scripted")
    page = opened.page
    expect(page.locator("#answer-text")).to_contain_text("48,200")
    ask_by_key(page, "And in 2023?")
    expect(page.get_by_role("heading", name="And in 2023?")).to_be_visible()
    expect(page.locator("#answer-text")).to_contain_text("48,200")
    newest = desk.answers.store.ids()[0]
    started = desk.answers.store.read(newest).started
    assert [exchange.question for exchange in started.history] == ["How many passengers?"]


def test_a_past_run_is_replayed_step_by_step(desk: Desk, visit: Opener) -> None:
    opened = visit(desk.address)
    opened.ask(KAYAK, agent="vimrag")
    page = opened.page
    expect(page.locator("#answer-text")).to_be_visible()
    page.get_by_role("button", name="Replay").click()
    player = page.locator("#player")
    expect(player).to_be_visible()
    slider = player.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator("#answer")).to_be_hidden()
    expect(page.locator("#graph [data-node]")).not_to_have_count(4)
    page.keyboard.press("End")
    expect(page.locator("#answer-text")).to_be_visible()
    expect(page.locator("#graph [data-node]")).to_have_count(4)


def test_one_of_several_documents_is_asked_alone_by_its_button(desk: Desk, visit: Opener) -> None:
    question = "What does page 2 say about the ferries?"
    opened = visit(desk.address)
    opened.ask(question)
    page = opened.page
    choices = page.get_by_role("group", name="Documents that the question may be about")
    expect(choices).to_contain_text("The question may be about any of these documents.")
    expect(choices.get_by_role("button")).not_to_have_count(1)
    (run,) = desk.answers.store.ids()
    first, *_ = desk.answers.store.read(run).result.choices
    check_axe(page, "several documents")
    choices.get_by_role("button", name=f"Ask only {first.name}").click()
    expect(page.get_by_role("heading", name=question)).to_have_count(2)
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    newest = desk.answers.store.read(desk.answers.store.ids()[0])
    assert newest.started.settings.environment.documents == frozenset({first.document})
    assert newest.result.choices == ()
    page.reload()
    expect(choices).to_have_count(1)
