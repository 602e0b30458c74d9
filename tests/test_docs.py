"""What README and docs show is run: commands, code, settings, links."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vrag.samples import corpus_dir, questions_path
from vrag.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the documents that the pages speak of, and a collection made of them."""
    desk = tmp_path_factory.mktemp("desk")
    shutil.copytree(corpus_dir(), desk / "my-documents")
    shutil.copy(questions_path(), desk / "questions.json")
    done = run(desk, "vrag index add ./my-documents")
    assert done.returncode == 0, done.stderr
    return desk


def run(desk: Path, command: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    assert program == "vrag"
    environment = {**os.environ, "VRAG_COLLECTION": str(desk / "collection"), "HOME": str(desk)}
    line = [sys.executable, "-m", "vrag", *arguments]
    return subprocess.run(line, cwd=desk, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_shown_works(desk: Path, page: Path) -> None:
    for command in commands(page):
        done = run(desk, command)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.strip()


def test_the_python_shown_works(desk: Path) -> None:
    code = "\n".join(blocks(ROOT / "docs" / "python.md", "python"))
    environment = {**os.environ, "HOME": str(desk)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=desk, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "4.20" in done.stdout


def test_every_setting_stands_in_its_page() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE)
    assert listed == list(Settings.model_fields)


def test_the_settings_file_shown_is_valid() -> None:
    import tomllib

    shown = tomllib.loads(blocks(ROOT / "docs" / "settings.md", "toml")[0])
    Settings(**shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def test_the_scripts_named_exist() -> None:
    assert os.access(ROOT / "run_demo.sh", os.X_OK)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "check", "bench"} <= set(targets)
