"""Collections by published late-interaction checkpoints, from the command line."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from extras import require
from PIL import Image
from typer.testing import CliRunner

from vrag.cli.root import create_app
from vrag.errors import EmbedError, FingerprintMismatch

app = create_app()

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("models", "sentence_transformers", "peft")
    folder = tmp_path_factory.mktemp("models")
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        published = importlib.import_module("published_models")
        for name in ("colqwen2", "colpali"):
            getattr(published, name)(folder / name, folder / f"{name}-base")
    finally:
        sys.path.pop()
    return folder


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    folder = tmp_path / "documents"
    folder.mkdir()
    for number, size in enumerate([(300, 200), (1000, 1400)]):
        Image.effect_noise(size, 90).convert("RGB").save(folder / f"page{number}.png")
    return folder


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "vectors", "limit"),
    [
        ("colqwen2", "105 to 764 vectors", "at most 768 visual tokens"),
        ("colpali", "37 vectors", "visual tokens as the model allows"),
    ],
)
def test_pages_are_indexed_found_and_matched(
    models: Path, documents: Path, tmp_path: Path, name: str, vectors: str, limit: str
) -> None:
    run("index", "add", documents, "--ocr", "never", "--embedder", f"sentence:{models / name}")
    assert f"{vectors} (2 counted), {limit}" in run("index", "status")
    found = json.loads(run("search", "a red square", "--ranking", "vector", "--json"))
    assert len(found["hits"]) == 2
    id = found["hits"][0]["item"]
    drawn = json.loads(run("match", id, "red square", "-o", tmp_path / "map.png", "--json"))
    assert "".join(drawn["tokens"]).strip() == "red square"
    assert (tmp_path / "map.png").is_file()


@pytest.mark.slow
def test_a_collection_from_before_the_limit_goes_on_without_it(models: Path, documents: Path) -> None:
    """Its settings name no limit, as those of a collection made with none."""
    add = ("index", "add", documents, "--ocr", "never", "--embedder", f"sentence:{models / 'colqwen2'}")
    run(*add, "--visual-tokens", 0)
    assert "105 to 1828 vectors (2 counted), visual tokens as the model allows" in run("index", "status")
    Image.effect_noise((1100, 1400), 90).convert("RGB").save(documents / "more.png")
    run(*add)
    assert "105 to 1978 vectors (3 counted)" in run("index", "status")
    with pytest.raises(FingerprintMismatch) as raised:
        run(*add, "--visual-tokens", 768)
    assert "visual_tokens the model's own, not 768" in raised.value.message
    assert "VRAG_VISUAL_TOKENS=0" in raised.value.hint


@pytest.mark.slow
def test_flags_of_an_embedder_are_refused_where_they_have_no_effect(documents: Path, models: Path) -> None:
    run("index", "add", documents, "--ocr", "never")
    for flags in (["--visual-tokens", "5"], ["--document-instruction", "Find the page."]):
        with pytest.raises(EmbedError, match=rf"no vectors, so \w+ \({flags[0]}\) has no effect"):
            run("index", "add", documents, *flags)
    assert "--query-instruction has no effect" in run("search", "red", "--query-instruction", "Find it.")
    visual = documents.parent / "visual"
    run(
        "index",
        "add",
        documents,
        "--ocr",
        "never",
        "-c",
        visual,
        "--embedder",
        f"sentence:{models / 'colqwen2'}",
    )
    both = run("search", "red", "-c", visual, "-c", documents.parent / "collection")
    assert "ranked by words only: collection" in both
