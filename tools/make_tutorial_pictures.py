"""Takes the pictures of docs/tutorials: `python tools/make_tutorial_pictures.py`.

The tutorials are followed as their test does, and the pictures are of what they make: the exported answer,
the page of the server, the report of the evaluation. Needs Playwright and Chromium.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from test_tutorials import Reader  # noqa: E402

IMAGES = ROOT / "docs" / "images" / "tutorials"
WIDTH, HEIGHT = 1200, 760
COLOURS = 96
expect.set_options(timeout=120_000)


def main() -> None:
    """Follow three tutorials, and take the pictures of each."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as home:
        chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        os.environ |= {f"XDG_{kind}_HOME": home for kind in ("CONFIG", "DATA", "CACHE")}
        picture_answer(browser)
        picture_service(browser)
        picture_report(browser)
        browser.close()


@contextlib.contextmanager
def _reader(tutorial: str):  # noqa: ANN202 - a generator of a Reader
    """Follow a tutorial in a folder of its own; yields who has followed it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        reader = Reader(Path(folder))
        try:
            reader.follow(tutorial)
            yield reader
        finally:
            reader.close()


def picture_answer(browser: Browser) -> None:
    """Take a picture of the exported answer. The last run is another question's by then: export again."""
    with _reader("ask-a-folder.md") as reader:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto((reader.folder / "answer.html").as_uri())
        page.wait_for_load_state("networkidle")
        _save(page.screenshot(), "answer")


def picture_service(browser: Browser) -> None:
    """Take pictures of the page that asks for a token, and of the documents behind it."""
    with _reader("serve-a-team.md") as reader:
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
        expect(page.locator(".held-row").nth(5)).to_be_visible()
        expect(page.get_by_text("minutes.md").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        _save(page.screenshot(), "team-documents")


def picture_report(browser: Browser) -> None:
    """Take a picture of the report of the evaluation."""
    with _reader("evaluate-a-model.md") as reader:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto((reader.folder / "vrag" / "report.html").as_uri())
        page.wait_for_load_state("networkidle")
        _save(page.screenshot(), "report")


def _save(screenshot: bytes, name: str) -> None:
    with Image.open(io.BytesIO(screenshot)) as shot:
        picture = shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
