"""The scripts of a clone work from any folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vrag.index.collection import Collection

ROOT = Path(__file__).parent.parent
RECORD = """
import json, os, sys
os.execv = lambda path, line: (print(json.dumps(line[3:])), sys.stdout.flush(), os._exit(0))
import runpy
script = sys.argv.pop(1)
sys.argv[0] = script
runpy.run_path(script, run_name="__main__")
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "search_engine", tmp_path / "clone" / "search_engine")
    return tmp_path / "clone"


def run(script: Path, folder: Path) -> tuple[list[str], str]:
    """The command that a script becomes, and what it says, when it is run in a folder."""
    folder.mkdir(exist_ok=True)
    line = [sys.executable, "-c", RECORD, os.path.relpath(script, folder)]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else [], done.stderr


@pytest.mark.slow
def test_the_search_server_serves_the_indexes_of_its_clone_from_any_folder(
    clone: Path, tmp_path: Path
) -> None:
    index = clone / "search_engine" / "corpus" / "pages"
    index.mkdir(parents=True)
    Collection.create(index)
    command, _ = run(clone / "search_engine" / "search_engine_api.py", tmp_path / "elsewhere")
    assert command == ["serve", "--only", "search", "--collection", str(index)]


@pytest.mark.slow
def test_scripts_name_the_folders_of_their_clone(clone: Path, tmp_path: Path) -> None:
    corpus = clone / "search_engine" / "corpus"
    for script in ("corpus/pdf2images.py", "ingestion.py"):
        command, _ = run(clone / "search_engine" / script, tmp_path / "elsewhere")
        paths = [word for word in command if os.sep in word]
        assert len(paths) == 2
        assert all(Path(path).is_relative_to(corpus) for path in paths)


@pytest.mark.slow
def test_an_index_that_the_script_names_and_is_not_there_is_an_error(clone: Path, tmp_path: Path) -> None:
    script = clone / "search_engine" / "search_engine_api.py"
    text = script.read_text()
    script.write_text(text.replace("list[str] = []", 'list[str] = ["search_engine/corpus/typo"]'))
    command, said = run(script, tmp_path / "elsewhere")
    assert not command
    assert f"{clone / 'search_engine/corpus/typo'} is not a directory" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_without_a_corpus_folder_it_is_an_error_and_no_samples_are_served(
    clone: Path, tmp_path: Path
) -> None:
    shutil.rmtree(clone / "search_engine" / "corpus")
    command, said = run(clone / "search_engine" / "search_engine_api.py", tmp_path / "elsewhere")
    assert not command
    assert "is not a directory" in said


@pytest.mark.slow
def test_paths_that_are_edited_into_the_search_server_are_used(clone: Path, tmp_path: Path) -> None:
    """A model by its absolute path, by one in the clone, and by a name of the hub."""
    script = clone / "search_engine" / "search_engine_api.py"
    index = clone / "search_engine" / "corpus" / "image_index"
    index.mkdir(parents=True)
    model = tmp_path / "Qwen3-VL-Embedding-2B"
    for folder in (model, clone / "models" / "gve"):
        folder.mkdir(parents=True)
    text = re.sub(
        "^corpus_path.*",
        'corpus_path = ["search_engine/corpus/image_index"]',
        script.read_text(),
        flags=re.MULTILINE,
    )
    for path, used in [
        (str(model), str(model)),
        ("models/gve", str(clone / "models" / "gve")),
        ("Qwen/Qwen3-VL-Embedding-2B", "Qwen/Qwen3-VL-Embedding-2B"),
    ]:
        script.write_text(re.sub("^model_path.*", f'model_path = "{path}"', text, flags=re.MULTILINE))
        command, _ = run(script, tmp_path / "elsewhere")
        assert command == ["serve", "--only", "search", "--collection", str(index), "--embedder", used]


@pytest.mark.parametrize(
    ("image", "img", "used"),
    [
        ([], None, "image"),
        (["a.jpg"], None, "image"),
        ([], [], "img"),
        ([], ["a.jpg"], "img"),
        (["a.jpg"], ["b.jpg"], "image"),
        (None, ["a.jpg"], "img"),
    ],
)
@pytest.mark.slow
def test_pictures_are_read_and_written_where_there_are_some(
    clone: Path, tmp_path: Path, image: list[str] | None, img: list[str] | None, used: str
) -> None:
    corpus = clone / "search_engine" / "corpus"
    shutil.rmtree(corpus / "image")
    for name, pictures in (("image", image), ("img", img)):
        if pictures is not None:
            (corpus / name).mkdir()
            (corpus / name / ".gitignore").touch()
            for picture in pictures:
                (corpus / name / picture).touch()
    command, _ = run(corpus / "pdf2images.py", tmp_path / "elsewhere")
    assert command[-1] == str(corpus / used)
