"""What the tests in a browser share: the server's answers, and a page that notes every complaint."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import httpx
import pytest
from hosting import PacedPolicy
from playwright.sync_api import expect
from server_harness import serving

from vrag.agent.agent import Agent
from vrag.doctor.inspector import DoctorInspector
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.indexing import corpus_options
from vrag.factory.server import Agents, model_servers, state_folder
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.server.app import Service
from vrag.server.options import ServerOptions
from vrag.server.setup.routes import ModelSetup
from vrag.server.state.database import ServerState
from vrag.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence
    from pathlib import Path

    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, Request

    from vrag.agent.evidence import BoxSides
    from vrag.agent.policy import Delta, Message, Reply
    from vrag.doctor.endpoint import LocalServer
    from vrag.server.runs.schema import AgentSelection

KAYAK = "What is the single fare for a kayak?"
PASSENGERS = "How many passengers travelled on the line from Orla to Saltby in 2024?"
WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}
PATIENCE = 120_000
"""Milliseconds after which something does not come any more, on a machine that has much else to do."""
PAUSE = 50
"""Milliseconds between two looks at a page."""
_ALWAYS = threading.Event()
_ALWAYS.set()


def collection_at(place: Path, documents: Path) -> Path:
    """Indexes the files of a folder."""
    settings = Settings(collection=str(place), ocr="auto")
    collection = Collection.create(place, corpus_options(settings))
    add(collection, [documents])
    return place


@dataclass
class Steps(PacedPolicy):
    """A paced policy that can also be let go on by single replies."""

    allowed: int = 0
    """Replies that may be said before `go`."""

    def release(self, replies: int) -> None:
        """Lets it say so many more."""
        self.allowed += replies

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        while turn > self.allowed and not self.go.is_set():  # noqa: ASYNC110 - set from any thread
            await asyncio.sleep(0.005)
        said = PacedPolicy(self.replies, go=_ALWAYS, fault=self.fault)
        async for part in said.reply(history, turn):
            yield part


class Answers(Agents):
    """Agents as settings say; the model `scripted` says what the test wants, when it wants."""

    @cached_property
    def policy(self) -> Steps:
        return Steps()

    def agent(self, choice: AgentSelection) -> Agent:
        if choice.model != "scripted" or choice.chosen is not None:
            return super().agent(choice)
        agent = super().agent(replace(choice, model=""))
        options = agent.environment.options.model_copy(update={"show": 1})  # as for a model
        return Agent(self.policy, replace(agent.environment, options=options), agent.method)


@dataclass(frozen=True)
class Desk:
    """A server."""

    address: str
    answers: Answers
    place: Path

    def post(self, question: str, **options: str) -> str:
        """Begins a run as the page does; its id."""
        headers = {"Origin": self.address}
        response = httpx.post(f"{self.address}/runs", json={"question": question, **options}, headers=headers)
        assert response.status_code == 201, response.text
        return response.json()["id"]

    def run(self, question: str, *replies: str, **options: str) -> str:
        """A run that has ended; its id. With replies, of the scripted model."""
        if replies:
            self.answers.policy.replies = replies
            self.answers.policy.go.set()
            options = {"model": "scripted"} | options
        run = self.post(question, **options)
        with httpx.stream("GET", f"{self.address}/runs/{run}/events", timeout=120) as events:
            assert any("event: end" in line for line in events.iter_lines())
        return run


@contextmanager
def served(
    place: Path,
    options: ServerOptions | None = None,
    *,
    port: int = 0,
    found: tuple[LocalServer, ...] = (),
    models: tuple[str, ...] = ("scripted",),
) -> Generator[Desk]:
    """A server of one collection, and the policy whose pace the test decides.

    `found` is where its settings page looks for model servers.
    """
    settings = Settings(collection=str(place), models=models, model_retries=0)
    shelf = CollectionRegistry.open(settings)
    options = replace(
        options or ServerOptions(drain_seconds=2),
        search_seconds=PATIENCE / 1000,
        item_seconds=PATIENCE / 1000,
        state=ServerState.open(state_folder(settings)),
    )
    answers = Answers(settings, shelf, examples=(KAYAK,), upload_bytes=options.upload_bytes)
    setup = ModelSetup(model_servers(settings), DoctorInspector(settings, found, 20))
    service = Service(answers, shelf, setup=setup)
    try:
        with (
            serving(
                shelf, options, port=port, files=shelf, corpora=lambda: shelf.names, service=service
            ) as address,
            _noted(address),
        ):
            yield Desk(address, answers, place)
    finally:
        answers.policy.go.set()
        options.state.close()


_ended: set[str] = set()
"""Addresses of servers that have ended, or are about to: what open pages ask of them fails in many ways."""


@contextmanager
def _noted(address: str) -> Generator[None]:
    _ended.discard(address)
    try:
        yield
    finally:
        _ended.add(address)


@dataclass
class Visit:
    """A page in a window of its own, which complains of dialogs and of requests to elsewhere too."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list[str])
    expected: list[str] = field(default_factory=list[str])
    """Regular expressions of complaints that belong to what is tested."""

    @classmethod
    def of(cls, browser: Browser, address: str, **how: Any) -> Visit:  # noqa: ANN401
        how = {"viewport": WIDE, "reduced_motion": "reduce"} | how
        page = browser.new_context(**how).new_page()
        page.set_default_timeout(PATIENCE)
        visit = cls(page, "{0.scheme}://{0.netloc}".format(urlsplit(address)))
        page.on("console", visit._console)
        page.on("dialog", visit._dialog)
        page.on("request", visit._request)
        page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
        page.on("requestfailed", visit._failed)
        page.goto(address)
        return visit

    def ask(self, question: str, **options: str) -> None:
        """Asks, with options by what they choose: `agent`, `model`, `collection` …"""
        if options:
            if not self.page.locator("#options").is_visible():
                self.page.locator("#options-button").click()
            for label, value in options.items():
                self.page.locator(f"#choice-{label}").select_option(value)
        self.page.locator("#ask-box").fill(question)
        self.page.locator("#ask-button").click()

    def close(self) -> list[str]:
        """Closes it; what was complained of and not expected. A test may have ended the server before."""
        self.page.context.close()
        ended = ["net::ERR_", "status of 503"] if self.address in _ended else []
        expected = [*self.expected, *ended]
        return [c for c in self.complaints if not any(re.search(e, c) for e in expected)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.address}/", f"blob:{self.address}/", "data:")):
            self.complaints.append(f"elsewhere: {request.url}")

    def _failed(self, request: Request) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # left for another page
            self.complaints.append(f"failed: {request.url} {request.failure}")


Opener: TypeAlias = Callable[..., Visit]
"""Opens an address in a browser's window; keywords as `Browser.new_context` takes them."""


_SPOT = """([leaf, at]) => {
  const shown = leaf.querySelector("img"), marked = leaf.querySelectorAll("[data-box][data-here]")[at];
  if (!shown || !marked) return null;
  const image = shown.getBoundingClientRect(), box = marked.getBoundingClientRect();
  const x = (side) => (side - image.left) / image.width, y = (side) => (side - image.top) / image.height;
  return [image.width, image.height, x(box.left), y(box.top), x(box.right), y(box.bottom)];
}"""


def ask_by_key(page: Page, question: str) -> None:
    """Asks by Enter, which does nothing while a question is being answered."""
    page.locator("#ask-box").fill(question)
    expect(page.locator("#ask-button")).to_be_enabled()
    page.locator("#ask-box").press("Enter")


def new_question(page: Page) -> None:
    """Goes to the first page; the question box of a conversation is gone then."""
    page.locator("#new-question").click()
    expect(page.locator(".ask #ask-box")).to_be_visible()


def until(page: Page, condition: str) -> None:
    """Waits for an expression to hold. The page's policy lets nothing wait for it there."""
    for _ in range(PATIENCE // PAUSE):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(PAUSE)
    pytest.fail(condition)


def current_leaf(page: Page) -> Locator:
    """The page that the viewer is at."""
    return page.locator("#viewer .leaf[data-current]")


def check_page_shown(page: Page) -> None:
    """The viewer shows the picture of a page."""
    expect(current_leaf(page).locator("img")).to_have_attribute("src", re.compile("^items/"))
    expect(current_leaf(page)).not_to_have_class(re.compile("loading"))


def check_spot(page: Page, sides: BoxSides, index: int = 0) -> None:
    """The viewer's rectangle comes to lie on the page's picture where the evidence says, to two pixels."""
    leaf = current_leaf(page)
    expect(leaf.locator("[data-box][data-here]").nth(index)).to_be_visible()
    check_page_shown(page)
    width, off = 0.0, list[float]()
    for _ in range(PATIENCE // PAUSE):
        found: list[float] | None = page.evaluate(_SPOT, [leaf.element_handle(), index])  # at one moment
        if found is not None:
            width, height, *places = found
            scales = (width, height, width, height)
            off = [(place - side) * by for place, side, by in zip(places, sides, scales, strict=True)]
            if width > 100 and all(abs(one) <= 2 for one in off):
                return
        page.wait_for_timeout(PAUSE)  # the place or the page before may be shown still
    pytest.fail(f"On a page {width} px wide the sides are off by {off} px.")


def check_no_sideways(page: Page) -> None:
    """Nothing stands out of the window at its right, once it is laid out for this width."""
    until(page, "document.documentElement.scrollWidth <= innerWidth")
