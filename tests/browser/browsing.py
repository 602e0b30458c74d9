"""What the tests in a browser share: the server's answers, and a page that notes every complaint."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hosting import PacedPolicy

from vrag.agent.loop import Agent
from vrag.assemble import Agents, corpus_options
from vrag.index.build import add
from vrag.index.store import Collection
from vrag.samples import corpus_dir
from vrag.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

    from vrag.server.runs.desk import Choice

KAYAK = "What is the single fare for a kayak?"


def samples_at(place: Path) -> Path:
    """Indexes the sample documents."""
    settings = Settings(collection=str(place), ocr=True)
    collection = Collection.create(place, corpus_options(settings))
    add(collection, [corpus_dir()])
    return place


class Answers(Agents):
    """Agents as settings say; the model `scripted` says what the test wants, when it wants."""

    @cached_property
    def policy(self) -> PacedPolicy:
        return PacedPolicy()

    def agent(self, choice: Choice) -> Agent:
        if choice.model != "scripted":
            return super().agent(choice)
        agent = super().agent(replace(choice, model=""))
        return Agent(self.policy, agent.environment, agent.method)


@dataclass(frozen=True)
class Desk:
    """A server."""

    address: str
    answers: Answers
    place: Path


@dataclass
class Visit:
    """A page in a window of its own."""

    page: Page
    complaints: list[str] = field(default_factory=list[str])
    expected: list[str] = field(default_factory=list[str])
    """Regular expressions of complaints that belong to what is tested."""

    @classmethod
    def of(cls, browser: Browser, address: str, **how: Any) -> Visit:  # noqa: ANN401
        how.setdefault("viewport", {"width": 1280, "height": 800})
        page = browser.new_context(reduced_motion="reduce", **how).new_page()
        page.set_default_timeout(20_000)
        visit = cls(page)
        page.on("console", visit._console)
        page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
        page.on("requestfailed", visit._failed)
        page.goto(address)
        return visit

    def ask(self, question: str, **options: str) -> None:
        """Asks, with options by what they choose: `agent`, `model`, `collection` …"""
        if options:
            self.page.locator("#options-button").click()
            for label, value in options.items():
                self.page.locator(f"#choice-{label}").select_option(value)
        self.page.locator("#ask-box").fill(question)
        self.page.locator("#ask-button").click()

    def close(self) -> list[str]:
        """Closes it; what was complained of and not expected."""
        self.page.context.close()
        return [c for c in self.complaints if not any(re.search(e, c) for e in self.expected)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _failed(self, request: Request) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # left for another page
            self.complaints.append(f"failed: {request.url} {request.failure}")
