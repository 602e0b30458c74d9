"""The documentation site as it was built: links, search, colours, widths, what it requests.

Set `SITE` to the folder that `make site` filled, and `VERSION` to the version in it if that is not to be the
latest; `make site-check` does. It is served below /vrag/, as GitHub Pages does. With `-s`, links are counted,
and those to other hosts are listed.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import axe_playwright_python
import pytest
from chromium import CHROMIUM
from playwright.sync_api import Browser, Page, Request, Response, expect, sync_playwright
from selectolax.lexbor import LexborHTMLParser

SITE = Path(os.environ.get("SITE", "nowhere"))
FOLDER = os.environ.get("VERSION") or "latest"
BUILT = SITE / FOLDER
PAGES = sorted(BUILT.rglob("*.html"))
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
WIDTHS = {1440: 900, 768: 1024, 390: 844}
QUERIES = {
    "prompt injection": "safety/",
    "docker": "production/",
    "vrag index prune": "reference/cli/",
    "VRAG_DPI": "settings/",
    "custom tool": "agents/",
    "mcp": "protocols/",
    "ollama": "models/",
    "gpu": "models/",
    "api key": "models/",
    "chatgpt": "models/",
    "delete document": "indexing/",
    "remove document": "indexing/",
    "change setting": "settings/",
    "cost": "agents/",
    "no answer": "tutorials/ask-a-folder/",
    "quickstart": "tutorials/ask-a-folder/",
    "excel": "formats/",
    "word document": "formats/",
    "port": "service/",
    "install": "",
    "pip install": "",
    "uninstall": "your-data/",
    "privacy": "your-data/",
    "telemetry": "your-data/",
    "user management": "tutorials/serve-a-team/",
    "confidence interval": "evaluation/",
    "exit code": "asking/",
    "notebook": "notebooks/",
    "jupyter": "notebooks/",
    "backup": "production/",
    "openai": "protocols/",
    "upgrade": "releases/",
}
"""What people may type, and the page that should come first."""
ELSEWHERE = re.compile(r"(?:https?:)?//(?!vrag-agent\.github\.io/vrag/)")

pytestmark = [
    pytest.mark.skipif(not BUILT.is_dir(), reason="SITE names no built site"),
    pytest.mark.slow,
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves below /vrag/ only; any other path does not exist."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/vrag") if path.startswith("/vrag/") else "/nowhere")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - as in the base class
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/vrag/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "The site is looked at in Chromium: install it (make system)."
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page of which any request to another host, any error and any missing file fails the test."""
    page = browser.new_page(reduced_motion="reduce")
    page.set_default_timeout(20_000)
    wrong: list[str] = []

    def look_at(response: Response) -> None:
        if response.status >= 400:
            wrong.append(f"{response.status} {response.url}")

    def note(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            wrong.append(request.url)

    page.on("request", note)
    page.on("response", look_at)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    page.close()
    assert wrong == []


def tree(path: Path) -> LexborHTMLParser:
    return LexborHTMLParser(path.read_text(encoding="utf-8"))


def path_in_site(path: Path) -> str:
    return path.relative_to(BUILT).as_posix().removesuffix("index.html")


def say(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")


def check_axe(page: Page, state: str, **rules: bool) -> None:
    page.evaluate(AXE)
    options = {"resultTypes": ["violations"], "rules": {name: {"enabled": on} for name, on in rules.items()}}
    found = page.evaluate("options => axe.run(options)", options)
    grave = [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]
    assert grave == [], state


def test_every_link_anchor_and_picture_of_the_pages_exists() -> None:
    trees = {path: tree(path) for path in PAGES}
    ids = {path: {node.attributes.get("id") for node in parsed.css("[id]")} for path, parsed in trees.items()}
    numbers = {"links": 0, "anchors": 0, "pictures and files": 0}
    elsewhere: set[str] = set()
    wrong: list[str] = []
    for path, parsed in trees.items():
        base = f"/vrag/{FOLDER}/{path_in_site(path)}"
        for node in parsed.css(
            "a[href]:not([rel=edit]), link[href]:not([rel=canonical]), script[src], img[src]"
        ):
            target = node.attributes.get("href") or node.attributes.get("src") or ""
            if target.startswith("mailto:"):
                continue
            if ELSEWHERE.match(target):
                elsewhere.add(target)
                continue
            url = urlsplit(urljoin(base, target.removeprefix("https://vrag-agent.github.io")))
            file = SITE / unquote(url.path).removeprefix("/vrag/")
            file = file / "index.html" if url.path.endswith("/") else file
            numbers["links" if node.tag == "a" else "pictures and files"] += 1
            if not file.is_file():
                wrong.append(f"{base}: {target}")
            elif url.fragment and file in ids:
                numbers["anchors"] += 1
                if unquote(url.fragment) not in ids[file]:
                    wrong.append(f"{base}: {target}")
    say(f"{len(PAGES)} pages: {', '.join(f'{number} {name}' for name, number in numbers.items())}")
    say(f"{len(elsewhere)} links to other hosts: {', '.join(sorted(elsewhere))}")
    assert wrong == []


@pytest.mark.parametrize("path", PAGES, ids=path_in_site)
def test_a_page_loads_nothing_from_other_hosts_and_says_what_it_is(path: Path) -> None:
    parsed = tree(path)
    head = {one.attributes.get("name") or one.attributes.get("property"): one for one in parsed.css("meta")}
    assert head["description"].attributes["content"]
    assert head["og:title"].attributes["content"]
    title = parsed.css_first("title")
    assert title is not None
    assert title.text()
    assert len(parsed.css("h1")) == 1
    loaded = [one.attributes.get("src") or "" for one in parsed.css("script, img, iframe, source")]
    loaded += [
        one.attributes.get("href") or "" for one in parsed.css('link[rel="stylesheet"], link[rel="icon"]')
    ]
    assert [one for one in loaded if ELSEWHERE.match(one)] == []
    if path.name != "404.html":
        canonical = parsed.css_first('link[rel="canonical"]')
        assert canonical is not None
        assert (
            canonical.attributes["href"] == f"https://vrag-agent.github.io/vrag/latest/{path_in_site(path)}"
        )
        edit = parsed.css_first('a[rel="edit"]')
        assert edit is not None
        source = (edit.attributes["href"] or "").removeprefix("https://github.com/vrag-agent/vrag/edit/main/")
        assert (Path(__file__).parents[2] / source).is_file()


def test_no_two_pages_have_the_same_title_or_description() -> None:
    named = [path for path in PAGES if path.name != "404.html"]
    for selector in ("title", 'meta[name="description"]'):
        nodes = [tree(path).css_first(selector) for path in named]
        texts = [node.attributes.get("content") or node.text() for node in nodes if node is not None]
        assert len(set(texts)) == len(named)


def test_style_sheets_and_scripts_load_nothing_from_other_hosts() -> None:
    for path in BUILT.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//|@import", path.read_text(encoding="utf-8")), path


def test_llms_txt_follows_the_convention_and_names_pages_that_exist() -> None:
    lines = (SITE / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# vrag"
    assert lines[2].startswith("> ")
    links = [line for line in lines if line.startswith("- ")]
    assert len(links) == len(PAGES) - 1
    for line in links:
        found = re.fullmatch(r"- \[[^\]]+\]\(<?https://vrag-agent\.github\.io/vrag/([^>)]+)>?\): .+\.", line)
        assert found is not None, line
        assert (SITE / found[1]).is_file()
    full = (SITE / "llms-full.txt").read_text(encoding="utf-8")
    assert "VRAG_FIRST_TOKEN_SECONDS" in full
    assert "vrag index prune" in full


@pytest.mark.parametrize("query", QUERIES)
def test_the_search_gives_the_right_page_first(page: Page, address: str, query: str) -> None:
    page.goto(f"{address}{FOLDER}/")
    search(page, query)
    results = page.get_by_role("option")
    expect(results.first).to_be_visible()
    addresses: list[str] = results.evaluate_all("all => all.map(one => one.href)")
    found = [urlsplit(one).path for one in addresses]
    say(f"{query}: {', '.join(found[:3])}")
    assert found[0] == f"/vrag/{FOLDER}/{QUERIES[query]}"
    results.first.click()
    page.wait_for_url(f"**/{QUERIES[query]}**")


def search(page: Page, query: str) -> None:
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox", name="Search").fill(query)


def test_the_colours_can_be_chosen_and_stay_on_the_next_page(page: Page, address: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{address}{FOLDER}/")
    scheme = page.locator("body")
    expect(scheme).to_have_attribute("data-md-color-scheme", "default")
    for _ in ("from the system's colours to light ones", "from these to dark ones"):
        page.locator("label[for^='__palette']:visible").click()
    expect(scheme).to_have_attribute("data-md-color-scheme", "slate")
    page.goto(f"{address}{FOLDER}/agents/")
    expect(scheme).to_have_attribute("data-md-color-scheme", "slate")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_window(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    for path in PAGES:
        page.goto(f"{address}{FOLDER}/{path_in_site(path)}", wait_until="domcontentloaded")
        wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], path_in_site(path)


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "agents/", "reference/cli/", "reference/python/", "404.html"])
def test_axe_finds_nothing_serious(page: Page, address: str, path: str, scheme: Any, width: int) -> None:  # noqa: ANN401
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}{FOLDER}/{path}")
    check_axe(page, path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_search(page: Page, address: str, scheme: Any) -> None:  # noqa: ANN401
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}{FOLDER}/")
    search(page, "embedder")
    expect(page.get_by_role("option").first).to_be_visible()
    # The list of results is scrolled by the arrow keys in the field.
    check_axe(page, "search", **{"scrollable-region-focusable": False})


def test_code_has_a_button_that_copies_it(page: Page, address: str) -> None:
    page.goto(f"{address}{FOLDER}/agents/")
    blocks = page.locator("pre > code")
    expect(page.locator("pre [data-md-type='copy'], .md-code__nav button")).to_have_count(blocks.count())


def test_the_selector_offers_the_versions_and_opens_the_same_page_in_one(page: Page, address: str) -> None:
    versions = json.loads((SITE / "versions.json").read_text(encoding="utf-8"))
    page.goto(f"{address}{FOLDER}/agents/")
    page.locator(".md-version").hover()
    page.locator(".md-version").get_by_role("link", name=versions[-1]["version"], exact=True).click()
    page.wait_for_url(f"{address}{versions[-1]['version']}/agents/")


def test_the_root_leads_to_the_latest_version(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_url(f"{address}latest/")
