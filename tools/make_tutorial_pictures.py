"""Takes the pictures of docs/tutorials: `python tools/make_tutorial_pictures.py`.

The tutorials are followed as by their test, and the pictures are of what they make: the exported answer, the
page of the server, the report of the evaluation. Needs Playwright and Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from tests.test_tutorials import Reader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from playwright.sync_api import Browser

IMAGES = ROOT / "docs" / "images" / "tutorials"
WIDTH, HEIGHT = 1200, 760
COLOURS = 96
expect.set_options(timeout=120_000)


def main() -> None:
    """Follow the tutorials with pictures, and take these."""
    parser = argparse.ArgumentParser(description="Take the pictures of the tutorials.")
    parser.add_argument("only", nargs="*", help="names of tutorials; all that have pictures by default")
    only: list[str] = parser.parse_args().only
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {f"XDG_{kind}_HOME": home for kind in ("CONFIG", "DATA", "CACHE")}
        for name in only or PICTURES:
            with _followed(name) as reader, _opened_browser() as browser:
                PICTURES[name](reader, browser)


@contextlib.contextmanager
def _followed(name: str) -> Generator[Reader]:
    """Follow a tutorial in a folder of its own; yields who has followed it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        reader = Reader(Path(folder))
        try:
            reader.follow(f"{name}.md")
            yield reader
        finally:
            reader.close()


@contextlib.contextmanager
def _opened_browser() -> Generator[Browser]:
    """Start a browser. Commands that run an event loop cannot run meanwhile."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def take_answer(reader: Reader, browser: Browser) -> None:
    """Take a picture of the exported answer, down to its evidence."""
    _take_file(reader.folder / "answer.html", browser, "answer", HEIGHT + 200)


def take_service(reader: Reader, browser: Browser) -> None:
    """Take pictures of the page that asks for a token, and of the documents behind it."""
    token = re.findall(r"vrag_\S+", reader.run("vrag tokens add dave --tokens tokens.toml"))[0]
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(reader.address)
    box = page.locator("input[type=password]:visible").first
    expect(box).to_be_visible()
    _save(page.screenshot(), "sign-in")
    box.fill(token)
    box.press("Enter")
    expect(page.locator("#ask-box")).to_be_visible()
    page.goto(f"{reader.address}/#/documents")
    expect(page.get_by_text("minutes.md").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    _save(page.screenshot(), "team-documents")


def take_report(reader: Reader, browser: Browser) -> None:
    """Take a picture of the report of the evaluation."""
    _take_file(reader.folder / "vrag" / "report.html", browser, "report", HEIGHT)


PICTURES: dict[str, Callable[[Reader, Browser], None]] = {
    "ask-a-folder": take_answer,
    "serve-a-team": take_service,
    "evaluate-a-model": take_report,
}


def _take_file(path: Path, browser: Browser, name: str, height: int) -> None:
    page = browser.new_page(viewport={"width": WIDTH, "height": height})
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    _save(page.screenshot(), name)


def _save(screenshot: bytes, name: str) -> None:
    with Image.open(io.BytesIO(screenshot)) as shot:
        picture = shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
