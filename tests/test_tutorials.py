"""The tutorials are followed: files are written, commands run, and their output is compared.

A block with a title is a file. In a `console` block, lines that begin with `$ ` are commands, and the lines
below are what they print: each has to be printed, in this order, and `…` stands for what is left out.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from extras import require
from typer.testing import CliRunner

from vrag.cli.root import create_app

app = create_app()
ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
STATUS_OF_ABSTENTION = 3
SHOWN_ADDRESS = "http://127.0.0.1:8000"
"""In tests it is a free port."""
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
FEWER: Mapping[str, str] = {
    "--documents 25": "--documents 5 --pages 2",
    "--count 800": "--count 8",
    "--steps 600": "--steps 1 --batch 4",
    "--steps 300": "--steps 1 --batch 4",
    "--steps 50": "--steps 1 --questions 1 --group 2",
    "paid 50/0.3": "paid 1/0.0",
    "--steps 2000": "--steps 1 --batch 4",
    "--until-found 0.9 ": "",
    "--steps 400": "--steps 1 --questions 1 --group 2",
    "--steps 20": "--steps 1 --questions 1 --group 2",
}
"""What makes training short; what it prints then differs from the page."""


@dataclass(frozen=True)
class Command:
    """A command, and the lines that a tutorial shows below it."""

    line: str
    shown: list[str]


def commands(block: str) -> Iterator[Command]:
    for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, shown = text.replace("\\\n", " ").partition("\n")
        yield Command(line, shown.splitlines())


def shorten(line: str) -> str:
    for shown, fewer in FEWER.items():
        line = line.replace(shown, fewer)
    return line


def assert_shown(command: Command, printed: str) -> None:
    """Every line is among those printed, in order."""
    at = 0
    lines = [line.rstrip() for line in printed.splitlines()]
    for line in command.shown:
        if line.strip() == "…":
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("…")))
        found = next((n for n in range(at, len(lines)) if pattern.fullmatch(lines[n])), None)
        assert found is not None, f"{command.line}\nshown, and not printed: {line}\n\n{printed}"
        at = found + 1


@dataclass
class Reader:
    """Somebody who follows tutorials in one folder."""

    folder: Path
    left_out: tuple[str, ...] = ()
    """Sample documents that are removed once they are copied."""
    address: str = ""
    token: str = ""
    _servers: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def follow(self, name: str, *, is_compared: bool = True) -> None:
        page = (TUTORIALS / name).read_text(encoding="utf-8")
        for language, title, text in BLOCK.findall(page):
            if title:
                file = self.folder / title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            elif language == "console":
                for command in commands(text):
                    line = shorten(command.line)
                    printed = self.run(line)
                    if is_compared and line == command.line:
                        assert_shown(command, printed)

    def close(self) -> None:
        self._servers.close()

    def run(self, line: str) -> str:
        words = shlex.split(line, comments=True)
        environment: dict[str, str] = {}
        while match := re.fullmatch(r"([A-Z_]+)=(.*)", words[0]):
            environment[match[1]] = match[2]
            del words[0]
        program = words[0]
        if words[:2] == ["vrag", "serve"]:
            return self._servers.enter_context(self._serve(words[1:]))
        run = {
            "vrag": self._run_vrag,
            "python": self._run_python,
            "pip": self._install,
            "curl": self._request,
            "mkdir": self._make_folder,
            "cp": self._copy,
        }[program]
        return run(words, environment)

    def _make_folder(self, words: list[str], _: Mapping[str, str]) -> str:
        (self.folder / words[1]).mkdir()
        return ""

    def _copy(self, words: list[str], _: Mapping[str, str]) -> str:
        *files, target = words[1:]
        for file in files:
            shutil.copy(self.folder / file, self.folder / target)
        return ""

    def _run_vrag(self, words: list[str], environment: Mapping[str, str]) -> str:
        arguments = words[1:]
        done = CliRunner().invoke(app, arguments, env={**environment, "COLUMNS": "100"})
        if arguments[:2] == ["demo", "--copy-to"]:
            for name in self.left_out:
                (self.folder / arguments[2] / "documents" / name).unlink()
        expected = {0}
        if arguments[0] == "ask":  # a model that was trained for a step fails
            expected = {0, 1, STATUS_OF_ABSTENTION} if "--model" in arguments else {0, STATUS_OF_ABSTENTION}
        assert done.exit_code in expected, f"{arguments}\n{done.output}\n{done.exception!r}"
        if arguments[:2] == ["tokens", "add"] and not self.token:
            self.token = re.findall(r"vrag_\S+", done.output)[0]
        return done.output

    def _run_python(self, words: list[str], environment: Mapping[str, str]) -> str:
        assert not environment
        script = words[1]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(self.folder / script), run_name="__main__")
        return printed.getvalue()

    def _install(self, words: list[str], _: Mapping[str, str]) -> str:
        """Install as `pip install --editable` does: a folder on the path, with its entry points beside it."""
        assert words[:3] == ["pip", "install", "--editable"], words
        source = self.folder / words[3]
        project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = source / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        lines = [
            f"[{group}]\n" + "\n".join(f"{name} = {target}" for name, target in entries.items())
            for group, entries in project["entry-points"].items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))
        sys.path.insert(0, str(source))
        return ""

    @contextlib.contextmanager
    def _serve(self, arguments: list[str]) -> Generator[str]:
        command = [sys.executable, "-m", "vrag", *arguments, "--port", "0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            assert server.stdout is not None
            printed = ""
            while not (found := re.search(r"http://[\w.]+:\d+", printed)):
                line = server.stdout.readline()
                assert line, f"the server ended: {printed}"
                printed += line
            self.address = found[0]
            try:
                yield printed.replace(self.address, SHOWN_ADDRESS)
            finally:
                server.send_signal(signal.SIGINT)

    def _request(self, words: list[str], _: Mapping[str, str]) -> str:
        """Send what curl would send."""
        words = [word.replace("$TOKEN", self.token) for word in words[1:]]
        headers: dict[str, str] = {}
        method, content = "GET", b""
        while len(words) > 1:
            option = words.pop(0)
            if not option.startswith("-"):
                words.append(option)
                continue
            value = words.pop(0)
            if option == "-H":
                name, text = value.split(": ", 1)
                headers[name] = text
            elif option == "-T":
                method, content = "PUT", (self.folder / value).read_bytes()
                words[-1] += value
            elif option == "-d":
                method, content = "POST", value.encode()
        url = words[0].replace(SHOWN_ADDRESS, self.address)
        response = httpx.request(method, url, headers=headers, content=content, timeout=60, trust_env=False)
        return response.text


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Reader]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.slow
def test_ask_a_folder(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_OCR", "true")
    reader.left_out = ("letter-1974.pdf",)  # not asked about, and takes seconds of OCR
    reader.follow("ask-a-folder.md")


@pytest.mark.slow
def test_serve_a_team(reader: Reader) -> None:
    reader.follow("serve-a-team.md")


@pytest.mark.slow
def test_evaluate_a_model(reader: Reader) -> None:
    reader.follow("evaluate-a-model.md")


@pytest.mark.slow
def test_write_an_action(reader: Reader) -> None:
    reader.follow("write-an-action.md")


def test_write_an_embedder(reader: Reader) -> None:
    reader.follow("write-an-embedder.md")


@pytest.mark.slow
def test_train_a_small_agent_with_a_reward_of_its_own(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tutorials of rewards go on in the folder of that of the agent."""
    require("train", "torch", "transformers")
    monkeypatch.setenv("VRAG_MAX_TOKENS", "24")
    reader.follow("train-a-small-agent.md", is_compared=False)
    reader.follow("write-a-reward.md")
    reader.follow("read-rollouts.md", is_compared=False)


def test_every_tutorial_is_followed() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'reader\.follow\("(.+?)"', source)) == {
        path.name for path in TUTORIALS.glob("*.md")
    }
