"""`vrag demo`: what it finds of an earlier time stops nothing and is not lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vrag.cli.demo import samples_place
from vrag.corpus.options import CorpusOptions
from vrag.index.header import FILE_NAME
from vrag.index.store import Collection


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "default"))
    return tmp_path / "samples"


def _changed(place: Path, **values: object) -> None:
    Collection.create(place, CorpusOptions())
    path = place / FILE_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_samples_of_this_version_are_used_again(samples: Path) -> None:
    Collection.create(samples, CorpusOptions())
    assert samples_place() == samples
    assert (samples / FILE_NAME).exists()


@pytest.mark.parametrize("values", [{"schema": 1}, {"schema": 99}, {"corpus_fingerprint": "another"}])
def test_samples_of_another_version_are_set_aside_and_kept(samples: Path, values: dict[str, object]) -> None:
    for number in range(2):
        _changed(samples, **values)
        assert samples_place() == samples
        assert not samples.exists()
        assert (samples.with_name(f"samples-{number + 1}") / FILE_NAME).exists()


def test_damaged_samples_are_set_aside(samples: Path) -> None:
    Collection.create(samples, CorpusOptions())
    (samples / FILE_NAME).write_text("{")
    samples_place()
    assert not samples.exists()
