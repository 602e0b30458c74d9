"""What README and docs show is run: commands, code, settings, links."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
from corpus.video_files import Film, film_bytes
from old_indexes import draw, embed, write_faiss, write_node
from typer.main import get_command
from typer.testing import CliRunner

from vrag.cli import app
from vrag.embed.base import VectorKind
from vrag.samples import corpus_dir, questions_path
from vrag.settings import Settings
from vrag.testing import HashEmbedder

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
    lay_out_reference(desk)
    done = run(desk, "vrag index add ./my-documents")
    assert done.returncode == 0, done.stderr
    return desk


def lay_out_reference(desk: Path) -> None:
    """What users of the reference have: videos, pictures, an index by FAISS and one of nodes."""
    (desk / "videos").mkdir()
    (desk / "videos" / "crossing.mp4").write_bytes(film_bytes(Film(times=range(0, 3000, 100))))
    corpus = desk / "search_engine" / "corpus"
    pictures = [draw(corpus / "img" / f"slide_{number}.png", number) for number in (1, 2, 3)]
    multi, single = HashEmbedder(VectorKind.MULTI, 128), HashEmbedder(VectorKind.SINGLE, 64)
    for path, vectors in zip(pictures, embed(multi, *pictures), strict=True):
        write_node(corpus / "colqwen_ingestion", f"search_engine/corpus/img/{path.name}", vectors)
    entries = [{"type": "image", "file_path": f"./search_engine/corpus/img/{p.name}"} for p in pictures]
    write_faiss(corpus / "image_index", entries, np.stack(embed(single, *pictures)))


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_shown_and_not_run_have_their_options(page: Path) -> None:
    """Those that need a model, a GPU or a server: the command is there, and takes what it is shown with."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    spoken = [shlex.split(line, comments=True) for line in lines if line.startswith("vrag ")]
    for _, *words in spoken:
        command, rest = found_command(words)
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
        flags = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert flags <= known, (words, flags - known)


def found_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command of a line, and what is behind its name."""
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        assert words[0] in command.commands, words
        command, words = command.commands[words[0]], words[1:]
    return command, words


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


class TestComingFromTheReference:
    """The counterparts of the reference's commands, with small fakes in the place of its models."""

    PAGE = ROOT / "docs" / "coming-from-the-reference.md"
    MODELS: ClassVar = {"colqwen2": "hash:multi-128-0", "qwen3-vl-embedding-2b": "hash:single-64-0"}
    PLUGIN = """
from vrag.embed.base import VectorKind
from vrag.testing import HashEmbedder

def opened(argument, options=None):
    kind, dimension, seed = argument.split("-")
    return HashEmbedder(VectorKind(kind), int(dimension), int(seed))
"""
    PRELUDE = """
import vrag.compat.search_engine
from hash_plugin import opened

vrag.compat.search_engine._open = lambda model: opened(
    "multi-128-0" if "colqwen2" in model else "single-64-0"
)
"""

    @pytest.fixture(autouse=True)
    def place(self, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The desk, where an entry point brings the fakes."""
        plugin = desk / "plugin"
        (plugin / "hash-1.dist-info").mkdir(parents=True, exist_ok=True)
        (plugin / "hash_plugin.py").write_text(self.PLUGIN)
        about = "Metadata-Version: 2.1\nName: hash\nVersion: 1\n"
        (plugin / "hash-1.dist-info" / "METADATA").write_text(about)
        points = "[vrag.embedders]\nhash = hash_plugin:opened\n"
        (plugin / "hash-1.dist-info" / "entry_points.txt").write_text(points)
        monkeypatch.chdir(desk)
        monkeypatch.setattr(sys, "path", [str(plugin), *sys.path])
        monkeypatch.setenv("PYTHONPATH", str(plugin))
        monkeypatch.setenv("XDG_CACHE_HOME", str(desk / "cache"))
        monkeypatch.setenv("VRAG_OCR", "false")

    def counterparts(self) -> list[list[str]]:
        """The arguments of every command that the table has on the right."""
        rows = re.findall(r"^\| (.*) \| (.*) \|$", self.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        commands = [command for _, ours in rows for command in re.findall(r"`vrag ([^`]+)`", ours)]
        return [[self.MODELS.get(word, word) for word in shlex.split(command)] for command in commands]

    def test_every_counterpart_works(self) -> None:
        commands = self.counterparts()
        assert len(commands) >= 10
        for arguments in commands:
            if arguments[0] == "serve":
                self.serve(arguments)
                continue
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, f"{arguments}\n{done.output}\n{done.exception!r}"

    def serve(self, arguments: list[str]) -> None:
        """Starts it at a free port, asks as the reference's README does, and stops it."""
        arguments[arguments.index("--port") + 1] = "0"
        line = [sys.executable, "-m", "vrag", *arguments]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = next(
                found[0] for text in server.stdout if (found := re.search(r"http://[\w.:]+", text))
            )
            body = {"queries": ["your search query"], "top_k": 3}
            (result,) = httpx.post(f"{address}/search", json=body, timeout=30).json()["results"]
            server.send_signal(signal.SIGINT)
        assert len(result["score"]) == len(result["indice"]) == len(result["data"]) == 3

    def test_the_old_names_work(self) -> None:
        code = self.PRELUDE + "\n".join(blocks(self.PAGE, "python"))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "slide_1.png" in done.stdout.splitlines()[-1]
