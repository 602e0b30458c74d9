"""The sources of the documentation site: navigation, links, what is generated, versions.

`make site-check` looks at the built site (tests/live/test_built_site.py).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat

from tools import make_reference, make_site
from vrag.settings import Settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SOURCES = [*sorted(ROOT.glob("*.md")), *PAGES]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = "https://github.com/vrag-agent/vrag"
INCLUDED = re.compile(r'\{% include-markdown "([^"]+)" %\}\n')
"""A page that is a file outside of docs/."""
LONGEST = 160
"""Characters of a description that search engines show."""


def source_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def navigation(entries: list[dict[str, str | list[dict[str, str]]]]) -> Iterator[tuple[str, str]]:
    """Section and page of each entry; a page outside of sections is its own section."""
    for entry in entries:
        for title, content in entry.items():
            inner = content if isinstance(content, list) else [{title: content}]
            yield from ((title, page) for one in inner for page in one.values())


def descriptions() -> Iterator[tuple[str, str, str]]:
    """Section, page and description of each page in llms.txt."""
    for section, entries in PROJECT["plugins"]["llmstxt"]["sections"].items():
        for entry in entries:
            yield from ((section, page, text) for page, text in entry.items())


def test_every_page_stands_in_the_navigation_once() -> None:
    listed = [page for _, page in navigation(PROJECT["nav"])]
    assert sorted(listed) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_a_page_has_one_name_in_the_navigation_and_as_its_title() -> None:
    entries = [one for entry in PROJECT["nav"] for one in next(iter(entry.values())) if "Home" not in entry]
    for title, page in (pair for entry in entries for pair in entry.items()):
        text = (DOCS / page).read_text(encoding="utf-8")
        if included := INCLUDED.fullmatch(text):
            assert title == page.removesuffix(".md").replace("-", " ").capitalize(), included[1]
        else:
            assert text.splitlines()[0] == f"# {title}"


def test_llms_txt_has_the_pages_of_the_navigation_in_its_order() -> None:
    assert [(section, page) for section, page, _ in descriptions()] == list(navigation(PROJECT["nav"]))


def test_each_page_has_a_description_of_its_own_which_search_engines_show_whole() -> None:
    texts = [text for _, _, text in descriptions()]
    assert len(set(texts)) == len(texts)
    for text in texts:
        assert text.endswith(".")
        assert len(text) <= LONGEST


@pytest.mark.parametrize("page", PAGES, ids=source_name)
def test_a_page_begins_with_its_only_title_and_names_the_language_of_all_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if included := INCLUDED.fullmatch(text):
        text = (page.parent / included[1]).read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert re.findall(r"^# ", without_code(text), re.MULTILINE) == ["# "]
    fences = re.findall(r"^ *```(.*)$", text, re.MULTILINE)
    assert all(fences[::2])
    assert not any(fences[1::2])


@pytest.mark.parametrize("source", SOURCES, ids=source_name)
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(source: Path) -> None:
    for target in links(source.read_text(encoding="utf-8")):
        own = re.match(rf"{REPOSITORY}/(?:blob|tree)/main/(.+)", target)
        if own:
            assert (ROOT / own[1]).exists(), target
        elif "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            file = source.parent / path if path else source
            assert file.exists(), target
            if source.is_relative_to(DOCS):
                assert file.resolve().is_relative_to(DOCS), f"{target}: the site has no page of it"
            assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("page", PAGES, ids=source_name)
def test_every_picture_is_described_in_words(page: Path) -> None:
    for description, target in re.findall(
        r"!\[([^\]]*)\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))
    ):
        assert len(description.split()) >= 3, target


def test_the_pictures_of_what_is_read_are_those_that_the_tool_draws() -> None:
    """`python tools/make_reading_pictures.py` draws them anew."""
    tool = (ROOT / "tools" / "make_reading_pictures.py").read_text(encoding="utf-8")
    drawn = re.findall(r'^    "([\w-]+)": Figure\(', tool, re.MULTILINE)
    shown = re.findall(
        r"\]\(images/read/([\w-]+)\.png\)", (DOCS / "what-is-read.md").read_text(encoding="utf-8")
    )
    assert drawn == shown
    assert sorted(drawn) == sorted(path.stem for path in (DOCS / "images" / "read").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["form", "hidden-words", "turned-table", "page-numbers"])
def test_a_picture_of_what_is_read_shows_what_is_read_now(name: str) -> None:
    """Those without OCR and LibreOffice, whose versions may differ."""
    from tools.make_reading_pictures import FIGURES, draw

    drawn = draw(FIGURES[name])
    with Image.open(DOCS / "images" / "read" / f"{name}.png") as shown:
        assert shown.size == drawn.size
        difference = ImageStat.Stat(ImageChops.difference(shown.convert("L"), drawn.convert("L")))
    assert difference.mean[0] < 2


def without_code(text: str) -> str:
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def links(text: str) -> list[str]:
    """Targets of links and pictures, outside of code."""
    return re.findall(r"\]\(([^)\s]+)\)", without_code(text)) + re.findall(r'(?:href|src)="([^"]+)"', text)


@cache
def anchors(text: str) -> set[str]:
    """The names of headings, as GitHub makes them; the build checks those of the site."""
    slugs: list[str] = []
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        slugs.append(slug)
    numbered = [f"{slug}-{number}" for slug, times in Counter(slugs).items() for number in range(1, times)]
    return {*slugs, *numbered}


def test_links_are_found_and_code_is_not_searched() -> None:
    text = "[a](b.md#c) `[d](e)` ![f](g.png)\n```sh\n[h](i)\n```\n    ```sh\n    [j](k)\n    ```\n"
    assert links(text) == ["b.md#c", "g.png"]


def test_headings_are_named_as_github_names_them() -> None:
    text = "# `vrag ask`: a [link](x.md)!\n```sh\n# no heading\n```\n## Two\n## Two\n"
    assert anchors(text) == {"vrag-ask-a-link", "two", "two-1"}


def test_the_generated_pages_are_what_the_program_would_write() -> None:
    """`make reference` writes them anew."""
    pages: dict[Path, str] = make_reference.pages()
    assert len(pages) == 3
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is stale: make reference"
    settings = pages[DOCS / "settings.md"]
    for name in Settings.model_fields:
        assert re.search(rf"^#### `{name}`\n\n.+\.?\n\n`VRAG_{name.upper()}` · ", settings, re.MULTILINE)


class TestVersions:
    @pytest.fixture
    def site(self, tmp_path: Path) -> Path:
        return tmp_path / "site"

    def build(self, site: Path, version: str) -> None:
        pages = site.parent / "pages"
        pages.mkdir()
        for name in ("index.html", *make_site.AT_ROOT):
            (pages / name).write_text(version)
        make_site.add_version(site, pages, version)

    def test_the_highest_version_is_the_latest_in_any_order(self, site: Path) -> None:
        for version in ("0.9", "0.10", "0.2", "dev"):
            self.build(site, version)

        assert make_site.find_versions(site) == ["0.10", "0.9", "0.2", "dev"]
        listed = json.loads((site / "versions.json").read_text())
        assert [(one["version"], one["aliases"]) for one in listed] == [
            ("0.10", ["latest"]),
            ("0.9", []),
            ("0.2", []),
            ("dev", []),
        ]
        assert (site / "latest" / "index.html").read_text() == "0.10"
        assert {(site / name).read_text() for name in make_site.AT_ROOT} == {"0.10"}
        assert (site / "0.2" / "index.html").read_text() == "0.2"

    def test_a_version_that_is_built_again_is_replaced(self, site: Path) -> None:
        self.build(site, "0.2")
        (site / "0.2" / "removed.html").touch()
        self.build(site, "0.2")

        assert not (site / "0.2" / "removed.html").exists()
        assert not (site / "latest" / "removed.html").exists()

    def test_members_of_classes_are_found_with_their_class(self) -> None:
        names = ("agents/#a.b", "reference/python/#vrag.Run", "reference/python/#vrag.Run.cost")
        items = [{"location": name, "title": name[-4:], "text": "."} for name in names]

        first, second = make_site.fold_members(items)

        assert first == items[0]
        assert second == {**items[1], "text": ". <p>cost</p> ."}

    def test_the_version_of_the_project_has_two_numbers(self) -> None:
        assert re.fullmatch(r"\d+\.\d+", make_site.project_version())

    @pytest.mark.parametrize("version", ["../up", "latest", "a/b", ""])
    def test_what_cannot_be_a_folder_of_a_version_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, version: str
    ) -> None:
        monkeypatch.setattr("sys.argv", ["make_site.py", version])
        with pytest.raises(SystemExit, match="not a version"):
            make_site.main()
