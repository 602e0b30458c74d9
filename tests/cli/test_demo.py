"""`vrag demo`: what it finds of an earlier time stops nothing and is not lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stored_items import change_header

from vrag.cli.demo import FIRST_TIME, samples_collection
from vrag.corpus.converter import CorpusOptions
from vrag.index.collection import Collection
from vrag.index.location import EARLIER
from vrag.index.schema import SCHEMA
from vrag.index.store import DATABASE
from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "default"))
    return tmp_path / "samples"


def of_a_newer_layout(place: Path) -> None:
    with Collection.create(place).store.database.write() as connection:
        connection.pragma("user_version", SCHEMA.version + 1)


def of_an_older_layout(place: Path) -> None:
    place.mkdir()
    (place / EARLIER).write_text("{}")


def of_another_reader(place: Path) -> None:
    Collection.create(place)
    change_header(place, corpus_fingerprint="another")


def test_samples_of_this_version_are_used_again(samples: Path) -> None:
    Collection.create(samples, CorpusOptions())
    assert samples_collection() == samples
    assert (samples / DATABASE).exists()


@pytest.mark.parametrize("make", [of_an_older_layout, of_a_newer_layout, of_another_reader])
def test_samples_of_another_version_are_isolate_and_kept(
    samples: Path, make: Callable[[Path], object]
) -> None:
    for number in range(2):
        make(samples)
        kept = {path.name for path in samples.iterdir()}
        assert samples_collection() == samples
        assert not samples.exists()
        assert {path.name for path in samples.with_name(f"samples-{number + 1}").iterdir()} >= kept


def test_damaged_samples_are_isolate(samples: Path) -> None:
    Collection.create(samples, CorpusOptions())
    (samples / DATABASE).write_bytes(b"x" * 5000)
    samples_collection()
    assert not samples.exists()


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def demo(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "vrag", "demo", *arguments]
    known = {**os.environ, "COLUMNS": "200", "HOME": str(home), **environment}
    known.pop("VRAG_COLLECTION", None)
    return subprocess.run(line, capture_output=True, text=True, cwd=home, env=known, check=False, timeout=300)


@pytest.mark.slow
def test_the_readme_shows_what_the_command_prints(tmp_path: Path) -> None:
    (question,) = re.findall(r'^\$ vrag ask samples/documents "(.+)"$', README, re.MULTILINE)
    (shown,) = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    done = demo(tmp_path, question)
    assert done.returncode == 0, done
    assert FIRST_TIME in " ".join(done.stderr.split())
    assert FIRST_TIME not in " ".join(demo(tmp_path, question).stderr.split())
    printed = done.stdout.splitlines()
    at = [printed.index(line) for line in shown.splitlines() if line != "…"]
    assert at == sorted(at)


@pytest.mark.slow
def test_a_question_that_is_answered_here_and_a_part_that_is_served_exclude_each_other(
    tmp_path: Path,
) -> None:
    done = demo(tmp_path, "hello", "--only", "search")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Leave out the question or --only" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_where_nothing_can_be_written_it_says_how_to_choose_another_place(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("A file where a folder belongs.")
    done = demo(tmp_path, "How many passengers?", XDG_DATA_HOME=str(tmp_path / "data"))
    assert done.returncode == 1
    assert "Your documents" not in done.stdout
    assert "--collection" in done.stderr
    assert "VRAG_COLLECTION" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_samples_are_copied_to_a_new_folder_and_never_over_another(tmp_path: Path) -> None:
    done = demo(tmp_path, "--copy-to", "samples")
    assert done.returncode == 0, done
    documents = {path.name: path.read_bytes() for path in (tmp_path / "samples" / "documents").iterdir()}
    assert documents == {path.name: path.read_bytes() for path in corpus_dir().iterdir()}
    questions = json.loads((tmp_path / "samples" / "questions.json").read_text(encoding="utf-8"))
    assert {case["meta_info"]["file_name"] for case in questions["examples"]} <= set(documents)
    again = demo(tmp_path, "--copy-to", "samples")
    assert again.returncode == 2
    assert "samples exists" in again.stderr
    assert demo(tmp_path, "hello", "--copy-to", "other").returncode == 2
    assert not (tmp_path / "other").exists()
