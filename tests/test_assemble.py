"""Settings become objects, and the defaults of both agree: nobody gets other values by another door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.environment import EnvironmentOptions
from vrag.agent.vrag import VragAgent
from vrag.assemble import corpus_options, documents_under, open_for_adding, open_workbench
from vrag.corpus.options import CorpusOptions
from vrag.index.build import add
from vrag.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_the_defaults_of_settings_are_those_of_the_parts(tmp_path: Path) -> None:
    report = load_settings(collection=tmp_path / "collection")
    assert corpus_options(report.settings) == CorpusOptions()
    open_for_adding(report)
    agent = open_workbench(report.settings).agent()
    assert agent.environment.options == EnvironmentOptions()
    assert agent.max_steps == VragAgent(agent.policy, agent.environment).max_steps


def test_a_collection_keeps_its_settings_unless_others_are_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "collection"
    open_for_adding(load_settings(collection=place, dpi=100))
    assert open_for_adding(load_settings(collection=place))[1].dpi == 100
    assert open_for_adding(load_settings(collection=place, dpi=120))[1].dpi == 120


def test_documents_are_those_under_the_path_that_are_there_and_could_be_read(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        (folder / "same-name.txt").write_text(f"The words of {folder.name}.")
    (folders[0] / "broken.pdf").write_text("no pdf")
    collection, options, _ = open_for_adding(load_settings(collection=tmp_path / "collection"))
    add(collection, folders, options)
    assert [d.path for d in documents_under(collection, folders[:1])] == [str(folders[0] / "same-name.txt")]
    (folders[0] / "same-name.txt").unlink()
    assert documents_under(collection, folders[:1]) == []
