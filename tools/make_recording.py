"""Records the web page at work, for the README: `python tools/make_recording.py`.

A real server over the sample documents, the offline policy, a real browser. Needs Playwright and Chromium.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import ViewportSize, expect, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE: ViewportSize = {"width": 1440, "height": 900}
WIDTH = 1000
"""Of the recording, in pixels."""
PASSENGERS = "How many passengers travelled on the line from Orla to Saltby in 2024?"
KAYAK = "What is the single fare for a kayak?"


class Film:
    """Frames with the time that each is shown."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.frames: list[tuple[Image.Image, int]] = []

    def shoot(self, milliseconds: int) -> None:
        """Adds what the page looks like now."""
        with Image.open(io.BytesIO(self._page.screenshot())) as shot:
            height = round(shot.height * WIDTH / shot.width)
            self.frames.append(
                (shot.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS), milliseconds)
            )

    def save(self, path: Path) -> None:
        """Writes a GIF with one palette for all frames, so that only what changes is stored."""
        sheet = Image.new("RGB", (WIDTH, sum(frame.height for frame, _ in self.frames)))
        top = 0
        for frame, _ in self.frames:
            sheet.paste(frame, (0, top))
            top += frame.height
        palette = sheet.quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame, _ in self.frames]
        times = [milliseconds for _, milliseconds in self.frames]
        drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=times, loop=0, optimize=True)


def main() -> None:
    """Makes the recording and the pictures of the page."""
    with tempfile.TemporaryDirectory() as home:
        line = [
            sys.executable,
            "-m",
            "vrag",
            "demo",
            "--port",
            "0",
            "--no-browser",
            "--collection",
            f"{home}/samples",
        ]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                found = (re.search(r"http://[\w.:]+", text) for text in server.stdout)
                address = next(match[0] for match in found if match)
                _record(address)
            finally:
                server.terminate()


def _record(address: str) -> None:
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light", device_scale_factor=1.5)
        page.goto(address)
        expect(page.locator("#ask-box")).to_be_visible()
        film = Film(page)
        film.shoot(1200)
        _ask(page, film, PASSENGERS)
        expect(page.locator("#answer-text")).to_be_visible()
        page.wait_for_timeout(800)
        film.shoot(2500)
        _cite(page, film)
        page.goto(f"{address}/#/")
        page.locator("#options-button").click()
        page.locator("#choice-agent").select_option("vimrag")
        _ask(page, film, KAYAK)
        expect(page.locator("#answer-text")).to_be_visible()
        page.wait_for_timeout(800)
        film.shoot(2000)
        _replay(page, film)
        film.save(IMAGES / "page.gif")
        browser.close()


def _ask(page: Page, film: Film, question: str) -> None:
    """Types a question, some words a frame, and sends it."""
    for end in (len(question) // 3, 2 * len(question) // 3, len(question)):
        page.locator("#ask-box").fill(question[:end])
        film.shoot(250)
    film.shoot(400)
    page.locator("#ask-button").click()


def _cite(page: Page, film: Film) -> None:
    """Clicks the first citation; its rectangle flashes."""
    page.locator("[data-citation='1']").first.click()
    expect(page.locator("#viewer [data-box]").first).to_be_visible()
    for _ in range(6):
        film.shoot(150)
        page.wait_for_timeout(120)
    film.shoot(2500)
    page.keyboard.press("Escape")


def _replay(page: Page, film: Film) -> None:
    """Steps through the run, the graph growing."""
    page.get_by_role("button", name="Replay").click()
    slider = page.locator("#player").get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    before = ""
    while (now := slider.input_value()) != before:
        before = now
        page.wait_for_timeout(350)
        film.shoot(1100)
        page.keyboard.press("ArrowRight")
    film.shoot(2500)


if __name__ == "__main__":
    main()
