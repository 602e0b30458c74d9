"""What the shell offers: agents, embedders, collections and runs, quickly."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag

from vrag.agent.runs.run_store import RunStore
from vrag.cli.terminal import completion
from vrag.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path


def complete(line: str, cwd: Path) -> list[str]:
    """Complete a line as bash has it done, in this process."""
    words = line.split(" ")
    done = run_vrag(cwd=cwd, _VRAG_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("vrag ask --agent v", ["vrag", "vimrag"]),
        ("vrag serve --agent r", ["rag", "react"]),
        ("vrag index add x --embedder gve-", ["gve-3b", "gve-7b"]),
        ("vrag runs show la", ["last"]),
        ("vrag ask --after la", ["last"]),
        ("vrag ru", ["runs"]),
        ("vrag ask --max-s", ["--max-steps"]),
    ],
)
def test_values_commands_and_options_are_offered(tmp_path: Path, line: str, offered: list[str]) -> None:
    assert complete(line, tmp_path) == offered


def test_collections_beside_the_default_one_and_in_the_folder_that_is_typed_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("A note.\n")
    (tmp_path / "folder").mkdir()
    for name in ("mine", "folder/inner"):
        assert run_vrag("index", "add", "notes.md", "-c", name, cwd=tmp_path).status == 0
    assert run_vrag("index", "add", "notes.md", cwd=tmp_path).status == 0
    default = load_settings().settings.collection
    assert completion.complete_collection("") == ["mine", default]
    assert completion.complete_collection("folder/") == ["folder/inner"]
    assert completion.complete_collection("./folder/in") == ["./folder/inner"]
    assert completion.complete_collection("./m") == ["./mine"]
    assert completion.complete_collection(default[:-3]) == [default]
    assert completion.complete_collection("nowhere/") == []


def test_the_newest_runs_of_the_collection_that_is_used_are_offered_first(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("The ferry carried 48,200 passengers.\n")
    for _ in range(2):
        assert run_vrag("ask", "notes.md", "How many?", "-c", "mine", cwd=tmp_path).status in {0, 3}
    runs = RunStore(tmp_path / "mine" / "runs").ids()
    assert len(runs) == 2
    assert completion.complete_run("") == ["last", *runs]
    completer = completion.find_completer(["runs", "export"])
    assert completer is not None
    assert completer(runs[0][:-2]) == runs[:1]
    elsewhere = completion.find_completer(["ask", "-c", "nowhere", "--after"])
    assert elsewhere is not None
    assert elsewhere("") == ["last"]


@pytest.mark.parametrize(
    ("line", "engines"),
    [("ask --agent", {"apsw"}), ("ask -c", {"apsw"}), ("runs show", set[str]())],  # runs are in a database
)
@pytest.mark.slow
def test_completing_a_value_loads_no_command_and_no_engine(line: str, engines: set[str]) -> None:
    code = (
        "import sys; from vrag.cli.root import run\n"
        "try: run()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    words = f"vrag {line} "
    environment = {
        "_VRAG_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    loaded = set(done.stderr.split())
    assert not loaded & {"numpy", "pyarrow", "torch", "vrag.cli.ask", "vrag.cli.runs", "fastapi", *engines}
