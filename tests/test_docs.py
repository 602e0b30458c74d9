"""What README and docs show is run: commands, code, settings, links."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
from corpus.video_files import Film, film_bytes
from old_indexes import draw, embed, write_faiss, write_node
from typer.main import get_command
from typer.testing import CliRunner, Result

from vrag.cli.root import create_app
from vrag.embed.embedder import VectorKind
from vrag.samples import corpus_dir, questions_path
from vrag.settings import Settings
from vrag.testing import HashEmbedder

app = create_app()

ROOT = Path(__file__).parents[1]
EVERY = 3
"""Of the sample cases, each third is answered: of tables, text, two pages, Chinese, and without an answer."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The code of a language, also that in tabs, which is indented."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^( *)```{language}\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(match[2]) for match in found]


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


def commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the documents that the pages speak of, and a collection made of them."""
    desk = tmp_path_factory.mktemp("desk")
    shutil.copytree(corpus_dir(), desk / "my-documents")
    cases = json.loads(questions_path().read_text(encoding="utf-8"))
    cases["examples"] = cases["examples"][::EVERY]
    (desk / "questions.json").write_text(json.dumps(cases), encoding="utf-8")
    lay_out_reference(desk)
    done = run(desk, "vrag index add ./my-documents")
    assert done.exit_code == 0, done.output
    return desk


def lay_out_reference(desk: Path) -> None:
    """What users of the reference have: videos, a PDF, pictures, an index by FAISS and one of nodes."""
    (desk / "videos").mkdir()
    (desk / "videos" / "crossing.mp4").write_bytes(film_bytes(Film(times=range(0, 3000, 100))))
    corpus = desk / "search_engine" / "corpus"
    (corpus / "pdf").mkdir(parents=True)
    shutil.copy(corpus_dir() / "guillemot-slides.pdf", corpus / "pdf")
    pictures = [draw(corpus / "img" / f"slide_{number}.png", number) for number in (1, 2, 3)]
    multi, single = HashEmbedder(VectorKind.MULTI, 128), HashEmbedder(VectorKind.SINGLE, 64)
    for path, vectors in zip(pictures, embed(multi, *pictures), strict=True):
        write_node(corpus / "colqwen_ingestion", f"search_engine/corpus/img/{path.name}", vectors)
    entries = [{"type": "image", "file_path": f"./search_engine/corpus/img/{p.name}"} for p in pictures]
    write_faiss(corpus / "image_index", entries, np.stack(embed(single, *pictures)))


def run(desk: Path, command: str) -> Result:
    """Run a command in this process: starting one for each would take most of the time of these tests."""
    program, *arguments = shlex.split(command)
    assert program == "vrag"
    environment = {"VRAG_COLLECTION": str(desk / "collection"), "HOME": str(desk)}
    with contextlib.chdir(desk):
        return CliRunner().invoke(app, arguments, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "tutorials"], ids=page_name)
def test_every_command_shown_works(desk: Path, page: Path) -> None:
    """Those of the tutorials are run by test_tutorials.py."""
    shutil.rmtree(desk / "samples", ignore_errors=True)  # that another page has copied
    for command in commands(page):
        done = run(desk, command)
        assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception!r}"
        assert done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=page_name)
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


@pytest.mark.slow
def test_the_python_shown_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one collection, with text from pictures, which holds one of the answers.

    Of the documents, those that are asked about: reading the text of all pictures takes seconds.
    """
    documents = tmp_path / "my-documents"
    documents.mkdir()
    for name in ("annual-report-2024.pdf", "notes-for-crews.md", "price-board.jpg"):
        shutil.copy(corpus_dir() / name, documents)
    shutil.copytree(documents, tmp_path / "samples" / "documents")
    monkeypatch.setenv("VRAG_OCR", "true")
    monkeypatch.setenv("VRAG_COLLECTION", "my-collection")
    pages = (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "python.md")
    code = "\n".join(block for page in pages for block in blocks(page, "python"))
    with contextlib.chdir(tmp_path):
        exec(compile(code, "shown", "exec", dont_inherit=True), {"__name__": "__main__"})
    assert "4.20" in capsys.readouterr().out


def test_the_files_that_one_question_passes_through_define_what_the_page_names() -> None:
    page = (ROOT / "docs" / "one-question.md").read_text(encoding="utf-8")
    entries = re.findall(r"^`(src/\S+\.py)`: (.+)$", page, re.MULTILINE)
    assert len(entries) >= 20
    for file, names in entries:
        code = (ROOT / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(class|def|async def) {name}\b|^{name}\b.*=", code, re.MULTILINE), (
                file,
                name,
            )


def test_the_settings_file_shown_is_valid() -> None:
    import tomllib

    shown = tomllib.loads(blocks(ROOT / "docs" / "settings.md", "toml")[0])
    Settings(**shown)


def test_the_scripts_named_exist() -> None:
    assert os.access(ROOT / "run_demo.sh", os.X_OK)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "check", "bench"} <= set(targets)


class TestComingFromTheReference:
    """The counterparts of the reference's commands, with small fakes in the place of its models."""

    PAGE = ROOT / "docs" / "coming-from-the-reference.md"
    STATES = ("works", "works with a change", "needs a GPU or the model hub", "not provided")
    MODELS: ClassVar = {"colqwen2": "hash:multi-128-0", "qwen3-vl-embedding-2b": "hash:single-64-0"}
    SCRIPTS: ClassVar = {
        "search_engine/ingestion.py": "--collection search_engine/corpus/fresh --embedder hash:multi-128-0",
        "search_engine/vl_embedding.py": "--embedder hash:multi-128-0",
        "search_engine/search_engine_api.py": "--port 0",
    }
    """What is passed on by the shims in place of models and ports that are not here."""
    ELSEWHERE: ClassVar = {
        "./run_demo.sh": "tests/test_run_demo.py",
        "./train_grpo_qwen2_5_vl_7b.sh": "tests/cli/test_verl_cli.py",
        "streamlit run": "tests/demo/test_streamlit_apps.py",
        "vrag data sample": "tests/distill",
        "vrag data select": "tests/distill",
        "vrag data export-sft": "tests/distill",
        "vrag eval prepare": "tests/evaluation/test_preparing.py",
        "vrag config fetch-instruction": "tests/test_instructions.py",
        "pip install": "requirements.txt",
        "python3 -m venv": "run_demo.sh",
    }
    """Commands that are not run here, by their beginning, and what runs them."""
    PLUGIN = """
import numpy as np

from vrag.embed.embedder import MatchMap, VectorKind
from vrag.testing import HashEmbedder

class Embedder(HashEmbedder):
    def match_map(self, image, query):
        return MatchMap(tuple(query.split()), np.eye(4, dtype=np.float32)[None].repeat(len(query.split()), 0))

def opened(argument, options=None):
    kind, dimension, seed = argument.split("-")
    return Embedder(VectorKind(kind), int(dimension), int(seed))
"""
    PRELUDE = """
import vrag.compat.search_engine
from hash_plugin import opened

vrag.compat.search_engine.load_embedder = lambda settings, name: opened(
    "multi-128-0" if "colqwen2" in name else "single-64-0"
)
"""

    @pytest.fixture(autouse=True)
    def place(self, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The desk, with the files of the reference's names, where an entry point brings the fakes."""
        for name in ("search_engine", "scripts", "demo"):
            shutil.copytree(
                ROOT / name, desk / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        lay_out_questions(desk / "data")
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
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")

    def rows(self) -> list[list[str]]:
        """Number, there, here and state of every row."""
        lines = re.findall(r"^\| (\d.*) \|$", self.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        return [line.split(" | ") for line in lines]

    def commands(self) -> list[str]:
        """The commands that are here: where they are the same, those of the second column."""
        shown: list[str] = []
        for _, there, here, _ in self.rows():
            cells = (there, here) if here.startswith("the same") and "with" not in here else (here,)
            shown += [part for cell in cells for part in re.findall(r"`([^`]+)`", cell)]
        programs = ("vrag ", "python ", "python3 ", "pip ", "curl ", "streamlit ", "./", "search_engine/")
        return [part for part in shown if part.startswith(programs) and "…" not in part]

    def test_every_row_has_its_number_and_a_state(self) -> None:
        rows = self.rows()

        assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
        for number, _, _, state in rows:
            found = re.match(r"\*\*([^*]+)\*\*", state)
            assert found is not None, number
            assert found[1] in self.STATES, number

    @pytest.mark.slow
    def test_every_counterpart_works(self) -> None:
        commands = self.commands()
        assert len(commands) >= 30
        for command in commands:
            proof = next(
                (where for start, where in self.ELSEWHERE.items() if command.startswith(start)), None
            )
            if proof is not None:
                assert (ROOT / proof).exists(), command
            elif "serve --only search" in command or "search_engine_api.py" in command:
                self.serve(self.line(command))
            elif not command.startswith("curl "):
                self.run(self.line(command))

    def line(self, command: str) -> list[str]:
        """The arguments of a command, with what is not here replaced."""
        words = [self.MODELS.get(word, word) for word in shlex.split(command)]
        script = words[1].removeprefix("./")
        return words + shlex.split(self.SCRIPTS.get(script, "")) if words[0] == "python" else words

    def run(self, words: list[str]) -> None:
        if words[0] == "vrag":
            done = CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, f"{words}\n{done.output}\n{done.exception!r}"
            return
        line = [sys.executable, *words[1:]] if words[0] == "python" else words
        ran = subprocess.run(line, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{words}\n{ran.stdout}\n{ran.stderr}"
        assert "Runs: vrag " in ran.stderr

    def serve(self, words: list[str]) -> None:
        """Starts it at a free port, sends the requests of the page, and stops it."""
        if words[0] == "vrag":
            words = ["python", "-m", *words, "--port", "0"]
        with subprocess.Popen([sys.executable, *words[1:]], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = next(
                found[1] for text in server.stdout if (found := re.search(r"http://[\w.]+:(\d+)", text))
            )
            requests = [command for command in self.commands() if command.startswith("curl ")]
            answers = [self.answer(request.replace(":8001", f":{port}")) for request in requests]
            server.send_signal(signal.SIGINT)
        (result,) = answers[0]["results"]
        assert len(result["score"]) == len(result["indice"]) == len(result["data"]) == 3
        assert [len(answer) for answer in answers[1:]] == [2, 1]
        assert answers[1][0][0].keys() == {"idx", "image_file"}

    def answer(self, command: str) -> Any:  # noqa: ANN401 - JSON
        """What a request gets, as curl would send it."""
        words = shlex.split(command)[1:]
        given = {name: words.pop(words.index(name) + 1) for name in ("-X", "-H", "-d") if name in words}
        (url,) = (word for word in words if word not in given)
        headers = dict([given["-H"].split(": ")]) if "-H" in given else {}
        answer = httpx.request(
            given.get("-X", "GET"),
            url,
            headers=headers,
            content=given.get("-d"),
            timeout=120,
            trust_env=False,
        )
        assert answer.status_code == 200, (command, answer.text)
        return answer.json()

    @pytest.mark.slow
    def test_the_old_names_work(self) -> None:
        code = self.PRELUDE + "\n".join(blocks(self.PAGE, "python"))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "slide_1.png" in done.stdout.splitlines()[-1]

    @pytest.mark.slow
    def test_the_agents_can_be_imported_as_they_were(self, desk: Path) -> None:
        both = "from demo.vrag_agent import VRAG; from demo.vimrag_agent import VimRAG"
        for folder, line in [(desk, both), (desk / "demo", "from vrag_agent import VRAG")]:
            code = f"{line}; import vrag.compat as c; assert VRAG is c.VRAG"
            code += "; assert VimRAG is c.VimRAG" if "VimRAG" in line else ""
            subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def lay_out_questions(folder: Path) -> None:
    """The files that the reference's `hf_dataset_convert.py` reads, of a question each."""
    folder.mkdir(exist_ok=True)
    kinds = {
        "SlideVQA_test": {"query_type": "Single-Hop_Single-Span"},
        "SlideVQA_train": {"query_type": "Multi-Hop_Non-Span"},
        "MMLongDoc": {"source_type": ["Chart"], "doc_type": "Guidebook"},
        "SlideBench": {"source_type": "Text", "query_type": "Multi-Hop"},
    }
    for name, kind in kinds.items():
        case = {"uid": 1, "query": "?", "reference_answer": "4", "meta_info": {"file_name": "a.pdf", **kind}}
        (folder / f"{name}.json").write_text(json.dumps({"examples": [case]}))
