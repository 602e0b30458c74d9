"""A real browser before a real server: the sample documents, an offline policy, and one that waits."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browsing import Answers, Desk, Visit, samples_at
from playwright.sync_api import Browser, Playwright, sync_playwright
from server_harness import serving

from vrag.assemble import Shelf
from vrag.server.app import Service
from vrag.server.options import ServerOptions
from vrag.settings import Settings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def playwright() -> Generator[Playwright]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Generator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample documents, indexed."""
    return samples_at(tmp_path_factory.mktemp("browser") / "samples")


@pytest.fixture
def desk(samples: Path, tmp_path: Path) -> Generator[Desk]:
    """A server with a copy of the sample collection, and the policy whose pace the test decides."""
    place = tmp_path / "samples"
    shutil.copytree(samples, place)
    with _served(place, ServerOptions(drain_seconds=2)) as desk:
        yield desk


@pytest.fixture
def guarded(samples: Path, tmp_path: Path) -> Generator[Desk]:
    """The same, where a token is asked for."""
    place = tmp_path / "samples"
    shutil.copytree(samples, place)
    with _served(place, ServerOptions(drain_seconds=2, token="secret-token")) as desk:
        yield desk


def _served(place: Path, options: ServerOptions):  # noqa: ANN202

    @contextmanager
    def served() -> Generator[Desk]:
        settings = Settings(collection=str(place), models=("scripted",))
        shelf = Shelf.open(settings)
        answers = Answers(settings, shelf, examples=("What is the single fare for a kayak?",))
        service = Service(answers, shelf)
        try:
            with serving(
                shelf, options, files=shelf.files, corpora=shelf.corpora, service=service
            ) as address:
                yield Desk(address, answers, place)
        finally:
            answers.policy.go.set()

    return served()


@pytest.fixture
def visit(browser: Browser) -> Generator[Callable[..., Visit]]:
    """Opens pages, and sees in the end that nothing was complained of."""
    visits: list[Visit] = []

    def open_page(address: str, **how: object) -> Visit:
        visit = Visit.of(browser, address, **how)
        visits.append(visit)
        return visit

    yield open_page
    complaints = [complaint for visit in visits for complaint in visit.close()]
    assert complaints == []
    assert threading.active_count() < 200
