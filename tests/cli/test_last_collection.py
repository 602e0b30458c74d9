"""Commands that read use the collection that was used last, and say so."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from command_line import Done, run_vrag

from vrag.cli.terminal.last_collection import (
    HEADER_FILE,
    memory_file,
    read_memory,
    remember_collection,
    use_memory,
)
from vrag.index.store import DATABASE
from vrag.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "How many passengers did the ferry carry?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `notes.md`, indexed into `mine`."""
    (tmp_path / "notes.md").write_text("# Ferry\n\nThe ferry carried 48,200 passengers.\n")
    assert vrag(tmp_path, "index", "add", "notes.md", "-c", "mine").status == 0
    return tmp_path


def vrag(path: Path, *arguments: str, **environment: str) -> Done:
    return run_vrag(*arguments, cwd=path, **environment)


def test_what_was_just_used_is_asked_searched_shown_listed_and_exported(folder: Path) -> None:
    asked = vrag(folder, "ask", QUESTION)
    assert (asked.status, "48,200" in asked.out) == (0, True)
    for command in (["search", "ferry"], ["runs", "show", "last"], ["runs", "list"]):
        done = vrag(folder, *command)
        assert done.status == 0, done.err
        assert f"Collection: {folder / 'mine'} (used last)" in done.err
    assert vrag(folder, "runs", "export", "last", "-o", "run.html").status == 0
    assert vrag(folder, "report", "--run", "last", "-o", "report.html").status == 0
    assert json.loads(vrag(folder, "search", "ferry", "--json").out)["hits"]


def test_asking_a_folder_remembers_its_collection(folder: Path) -> None:
    assert vrag(folder, "ask", "notes.md", QUESTION, "-c", "other").status == 0
    assert read_memory() == [str(folder / "other")]
    assert QUESTION in vrag(folder, "runs", "show", "last").out
    assert vrag(folder, "ask", "notes.md", QUESTION).status == 0
    assert read_memory() == [load_settings().settings.collection]


def test_paths_are_not_added_to_the_collection_that_was_used_last(folder: Path) -> None:
    (folder / "new.md").write_text("A new note on ferries.\n")
    vrag(folder, "ask", "new.md", "What is new?")
    listed = json.loads(vrag(folder, "index", "status", "-c", "mine", "--json").out)
    assert listed["documents"] == 1


def test_an_option_and_a_setting_outrank_it(folder: Path) -> None:
    (folder / "named.md").write_text("Something else.\n")
    assert vrag(folder, "index", "add", "named.md", "-c", "named").status == 0
    remember_collection(load_settings(collection=folder / "mine").settings)
    by_setting = vrag(folder, "search", "something", VRAG_COLLECTION="named")
    assert ("named.md" in by_setting.out, "used last" in by_setting.err) == (True, False)
    by_option = vrag(folder, "search", "something", "-c", "named")
    assert ("named.md" in by_option.out, "used last" in by_option.err) == (True, False)
    assert read_memory() == [str(folder / "named")], "what an option names is remembered"


def test_a_collection_that_is_gone_is_told_and_the_default_one_is_used(folder: Path) -> None:
    assert vrag(folder, "ask", "notes.md", QUESTION).status == 0
    remember_collection(load_settings(collection=folder / "mine").settings)
    shutil.rmtree(folder / "mine")
    done = vrag(folder, "runs", "list")
    assert f"The collection used last is gone: {folder / 'mine'}. The default one is used." in done.err
    assert (done.status, "How many passengers did the ferry" in done.out) == (0, True)


def test_commands_that_write_and_servers_do_not_use_it(folder: Path) -> None:
    for command in (
        ["index", "compact"],
        ["index", "prune"],
        ["runs", "purge", "--older-than", "1d", "--yes"],
    ):
        done = vrag(folder, *command)
        assert done.status == 1, done
        assert "There is no collection in" in done.err


def test_a_collection_is_recognized_by_its_header() -> None:
    assert HEADER_FILE == DATABASE


def test_messages_lead_to_the_collection_that_is_used(folder: Path) -> None:
    hint = vrag(folder, "runs", "show", "nope").err
    assert f"vrag runs list --collection {folder / 'mine'}" in hint


def test_several_collections_are_remembered_together(folder: Path) -> None:
    (folder / "more.md").write_text("The ferry has two decks.\n")
    assert vrag(folder, "index", "add", "more.md", "-c", "more").status == 0
    assert vrag(folder, "search", "ferry", "-c", "mine", "-c", "more").status == 0
    done = vrag(folder, "search", "ferry")
    assert "Collections: " in done.err
    assert ("notes.md" in done.out, "more.md" in done.out) == (True, True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"collections": 3}', '{"collections": ["/none/such"]}'])
def test_a_damaged_memory_is_no_error(content: str) -> None:
    memory_file().parent.mkdir(parents=True)
    memory_file().write_text(content)
    report = load_settings()
    assert use_memory(report)[0].settings == report.settings


def test_a_search_server_and_an_address_with_a_key_are_not_remembered() -> None:
    remember_collection(load_settings(search_url="http://127.0.0.1:1").settings)
    remember_collection(load_settings(collection="s3://me:secret@bucket/reports").settings)
    assert read_memory() == []


def test_a_memory_that_cannot_be_written_stops_nothing(folder: Path, own_settings: Path) -> None:
    shutil.rmtree(own_settings / "state")
    (own_settings / "state").write_text("a file where the folder should be")
    assert vrag(folder, "ask", QUESTION, "-c", "mine").status == 0
