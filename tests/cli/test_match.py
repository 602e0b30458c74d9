"""`vrag match`: the picture of a match map, from the command line."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from extras import require
from PIL import Image
from stored_items import change_embedder
from typer.testing import CliRunner

from vrag.cli.root import create_app
from vrag.corpus.converter import CorpusOptions
from vrag.errors import CorpusError, EmbedError, FingerprintMismatch, VragError

app = create_app()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("models", "sentence_transformers")
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        return importlib.import_module("tiny_models").colqwen2(tmp_path_factory.mktemp("model"))
    finally:
        sys.path.pop()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (200, 260, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "page.png")
    return tmp_path / "page.png"


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["match", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_picture_is_drawn_of_the_pages_size(model: Path, page: Path, tmp_path: Path) -> None:
    said = run(page, "red square", "--embedder", f"sentence:{model}", "-o", tmp_path / "heat.jpg")
    assert "square" in said
    with Image.open(tmp_path / "heat.jpg") as drawn:
        assert drawn.size == (260, 200)


def test_regions_are_given_to_machines(model: Path, page: Path, tmp_path: Path) -> None:
    made = json.loads(run(page, "red", "--embedder", f"sentence:{model}", "-o", tmp_path / "a.png", "--json"))
    assert "".join(made["tokens"]).strip() == "red"
    assert made["regions"][0]["score"] == 1
    assert all(0 <= edge <= 1 for region in made["regions"] for edge in region["box"])


def test_one_word_alone_gives_another_picture(model: Path, page: Path, tmp_path: Path) -> None:
    drawn: list[bytes] = []
    for word in ((), ("--word", 1)):
        run(page, "red square", "--embedder", f"sentence:{model}", "-o", tmp_path / "a.png", *word)
        drawn.append((tmp_path / "a.png").read_bytes())
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    "wrong", [("--word", "99"), ("-o", "heat.nonsense"), ("-o", "no-suffix")], ids=lambda wrong: wrong[1]
)
def test_wrong_use_is_said(model: Path, page: Path, wrong: tuple[str, str]) -> None:
    line = ["match", str(page), "red", "--embedder", f"sentence:{model}", *wrong]
    assert CliRunner().invoke(app, line).exit_code == 2


def test_where_nothing_can_be_written_it_is_said(model: Path, page: Path, tmp_path: Path) -> None:
    line = [
        "match",
        str(page),
        "red",
        "--embedder",
        f"sentence:{model}",
        "-o",
        str(tmp_path / "no" / "x.png"),
    ]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 2
    assert "cannot be written" in " ".join(done.output.replace("│", " ").split())


def test_the_settings_of_the_embedder_hold(
    model: Path, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bytes] = []
    for pixels in ("0", "6272"):
        monkeypatch.setenv("VRAG_EMBED_PIXELS", pixels)
        run(page, "red square", "--embedder", f"sentence:{model}", "-o", tmp_path / "a.png")
        drawn.append((tmp_path / "a.png").read_bytes())
    assert drawn[0] != drawn[1]


@pytest.mark.slow
def test_an_item_is_matched_by_the_model_of_its_collection_alone(
    model: Path, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vrag.embed.registry import open_embedder
    from vrag.index.build import add
    from vrag.index.collection import Collection

    embedder = open_embedder(f"sentence:{model}", device="cpu")
    options = CorpusOptions(ocr="never", workers=1)
    collection = Collection.create(tmp_path / "c", options, embedder=embedder)
    add(collection, [page], embedder=embedder)
    (row,) = collection.store.read_items(["id"]).records()
    place = ("--collection", tmp_path / "c", "-o", tmp_path / "a.png")
    assert "Written" in run(row["id"], "red", *place)
    small = open_embedder(f"sentence:{model}", device="cpu", max_pixels=6272)
    other = Collection.create(tmp_path / "d", options, embedder=small)
    add(other, [page], embedder=small)
    place = ("--collection", tmp_path / "d", "-o", tmp_path / "a.png")
    assert "Written" in run(row["id"], "red", *place)  # opened as it was when the collection was made
    monkeypatch.setenv("VRAG_EMBED_PIXELS", "12544")
    with pytest.raises(FingerprintMismatch, match="12544"):
        run(row["id"], "red", *place)


def test_what_is_no_picture_is_said(model: Path, tmp_path: Path) -> None:
    (tmp_path / "page.png").write_text("not a picture")
    with pytest.raises(CorpusError, match="cannot be opened as a picture"):
        run(tmp_path / "page.png", "red", "--embedder", f"sentence:{model}")


def test_without_an_embedder_it_says_so(page: Path, tmp_path: Path) -> None:
    with pytest.raises(VragError):
        run(page, "red", "--collection", tmp_path / "none")


def test_an_embedder_of_one_vector_is_refused(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vrag.testing import HashEmbedder

    def opened(*_: object, **__: object) -> HashEmbedder:
        return HashEmbedder()

    monkeypatch.setattr("vrag.cli.search.load_embedder", opened)
    with pytest.raises(EmbedError, match="cannot show where"):
        run(page, "red", "--embedder", "hash")


@pytest.mark.parametrize("server", ["remote:m@stranger:80", "pooling:m@http://stranger"])
def test_a_server_that_only_the_collection_names_is_not_opened(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    from vrag.index.collection import Collection
    from vrag.testing import HashEmbedder

    def opened(*_: object, **__: object) -> HashEmbedder:
        raise AssertionError("the server of a stranger is opened")

    Collection.create(tmp_path / "c", CorpusOptions(ocr="never", workers=1), embedder=HashEmbedder())
    change_embedder(tmp_path / "c", name=server)
    monkeypatch.setattr("vrag.cli.search.load_embedder", opened)
    with pytest.raises(EmbedError, match="is a server and makes no maps"):
        run(page, "red", "--collection", tmp_path / "c")
