"""The page's modules: their syntax, their imports, and what their pure functions do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from javascript import NODE

import vrag.server

STATIC = Path(vrag.server.__file__).parent / "static"
CASES = Path(__file__).parent / "page"
MODULES = sorted(path.relative_to(STATIC).as_posix() for path in (STATIC / "js").rglob("*.js"))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that node takes for modules, with the tests beside it."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(STATIC / "js", folder / "js")
    (folder / "package.json").write_text(json.dumps({"type": "module"}))
    for case in CASES.glob("*.mjs"):
        shutil.copy(case, folder)
    return folder


def _node(*arguments: str, folder: Path) -> None:
    command = [*NODE, *arguments]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


PARSE = """
import { readFileSync } from "node:fs";
import { SourceTextModule } from "node:vm";
for (const identifier of process.argv.slice(1))
  new SourceTextModule(readFileSync(identifier, "utf8"), { identifier });
"""


@pytest.mark.smoke
@pytest.mark.slow
def test_every_module_parses(copied: Path) -> None:
    flags = ("--no-warnings", "--experimental-vm-modules", "--input-type=module", "--eval", PARSE)
    _node(*flags, "--", *MODULES, folder=copied)


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(path.name for path in CASES.glob("*.test.mjs")))
def test_pure_functions_keep_their_properties(copied: Path, case: str) -> None:
    _node(case, folder=copied)


@pytest.mark.parametrize("module", MODULES)
def test_no_module_makes_markup_or_code_of_text(module: str) -> None:
    source = (STATIC / module).read_text("utf-8")
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert name not in source, name


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_only_modules_that_are_shipped(module: str) -> None:
    source = (STATIC / module).read_text("utf-8")
    for name in re.findall(r"""^\s*(?:import|export)[^;]*?from "([^"]+)";""", source, re.MULTILINE):
        assert name.startswith("."), name
        assert (STATIC / module).parent.joinpath(name).resolve().is_relative_to(STATIC), name
        assert (STATIC / module).parent.joinpath(name).is_file(), name


def test_the_shell_has_no_inline_script_or_style_and_names_only_files_that_are_shipped() -> None:
    shell = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", shell)
    for path in re.findall(r'(?:href|src)="([^"]+)"', shell):
        assert (STATIC / path.removeprefix("static/")).is_file(), path


def test_the_shell_says_without_any_script_that_it_needs_one_and_that_it_loads() -> None:
    shell = (STATIC / "index.html").read_text("utf-8")
    main = shell[shell.index("<main") : shell.index("</main>")]  # what a module fills, it replaces
    assert "needs JavaScript" in main[main.index("<noscript>") : main.index("</noscript>")]
    assert 'id="starting"' in main
    assert re.search(r'id="unloaded"[^>]* hidden>', main)


def test_no_end_of_a_run_is_told_in_words_that_only_programs_know() -> None:
    words = (STATIC / "js" / "run" / "wording.js").read_text("utf-8")
    assert "out_of_tokens" in words
    assert not re.search(r"--[a-z]|VRAG_|vrag doctor|GET |POST |\bitems?\b", words.replace("@param", ""))
