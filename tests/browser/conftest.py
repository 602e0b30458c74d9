"""A real browser before a real server: the sample documents, no model, and a policy that waits.

All tests here are of the second tier.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from browsing import PATIENCE, Desk, Opener, Visit, collection_at, served
from chromium import CHROMIUM
from filelock import FileLock
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from vrag.samples import corpus_dir
from vrag.server.options import ServerOptions

expect.set_options(timeout=PATIENCE)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test."""
    item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")  # longer would leave its event loop to the tests of other folders
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


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample documents, indexed by the first process of the test run that needs them."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    place = root / "samples"
    with FileLock(root / "samples.lock"):
        if not place.exists():
            collection_at(tmp_path_factory.mktemp("browser") / "samples", corpus_dir()).rename(place)
    return place


@pytest.fixture
def place(samples: Path, tmp_path: Path) -> Path:
    """A copy of them for one test."""
    return shutil.copytree(samples, tmp_path / "samples")


@pytest.fixture
def desk(place: Path) -> Generator[Desk]:
    """A server with a copy of the sample collection, and the policy whose pace the test decides."""
    with served(place) as desk:
        yield desk


@pytest.fixture
def guarded(place: Path) -> Generator[Desk]:
    """The same, where a token is asked for."""
    with served(place, ServerOptions(drain_seconds=2, token="secret-token")) as desk:
        yield desk


@pytest.fixture
def visit(browser: Browser) -> Generator[Opener]:
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
