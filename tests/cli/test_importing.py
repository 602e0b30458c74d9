"""`vrag index import` as a person or a script uses it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from old_indexes import draw, embed, write_faiss, write_node
from stored_items import change_embedder
from typer.testing import CliRunner

from vrag.cli.root import create_app
from vrag.embed.embedder import VectorKind
from vrag.errors import CollectionError, FingerprintMismatch, VragError
from vrag.index.collection import Collection
from vrag.testing import HashEmbedder

if TYPE_CHECKING:
    from pathlib import Path

app = create_app()

SINGLE = HashEmbedder(VectorKind.SINGLE, 16)


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A collection of the test's own, and embedders that are fakes; names of those that were opened."""
    monkeypatch.setenv("VRAG_COLLECTION", str(tmp_path / "collection"))
    monkeypatch.setenv("VRAG_WORKERS", "1")
    monkeypatch.setenv("COLUMNS", "200")
    opened: list[str] = []

    def load(_: object, spec: str, kept: object = None) -> HashEmbedder:
        opened.append(spec)
        return SINGLE

    monkeypatch.setattr("vrag.cli.index.transfer.load_embedder", load)
    return opened


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["index", "import", "--ocr", "never", *map(str, arguments)])
    if isinstance(done.exception, VragError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return re.sub(r"\s+", " ", done.stdout)


def record(*arguments: str | Path) -> dict[str, Any]:
    return json.loads(run(*arguments, "--json"))


def old_index(folder: Path) -> Path:
    pictures = [draw(folder / "files" / f"{number}.png", number) for number in range(2)]
    missing = draw(folder / "missing.png", 9)
    entries = [{"type": "image", "file_path": f"/far/{path.name}"} for path in (*pictures, missing)]
    vectors = np.stack(embed(SINGLE, *pictures, missing))
    missing.unlink()
    return write_faiss(folder / "old", entries, vectors)


def test_it_tells_what_came_and_what_is_missing(tmp_path: Path) -> None:
    told = run(old_index(tmp_path), "--files", tmp_path / "files")
    assert "Indexed 3 items" in told
    assert "1 whose picture or video was not found" in told
    assert "The vectors, made by Alibaba-NLP/GVE-3B, cannot be searched yet" in told


def test_for_machines_it_is_json(tmp_path: Path) -> None:
    old = old_index(tmp_path)
    with (old / "Alibaba_NLP_GVE_3B_file_data_list.jsonl").open("r+") as file:
        lines = file.read().splitlines()
        file.seek(0)
        file.truncate()
        file.write("\n".join(["{", *lines[1:]]))
    told = record(old)
    assert (told["entries"], told["items"], told["without_file"]) == (3, 2, 2)
    assert told["embedder"] == {"name": "Alibaba-NLP/GVE-3B", "imported": True}
    assert [problem["reason"] for problem in told["unusable"]] == ["Line 1: It is not JSON, or cut short."]


def test_the_embedder_that_is_named_is_bound_and_used_from_then_on(
    tmp_path: Path, settings: list[str]
) -> None:
    old = old_index(tmp_path)
    files = ("--files", tmp_path / "files")
    assert record(old, *files)["embedder"]["imported"]
    assert "searched with hash:single-16-0" in run(old, *files, "--embedder", "tiny")
    assert record(old, *files)["embedder"] == {"name": "hash:single-16-0", "imported": False}
    assert settings == ["tiny", "hash:single-16-0"], "the second one by the collection's own mark"


def test_until_then_nothing_is_added_and_vectors_are_not_searched(
    tmp_path: Path, settings: list[str]
) -> None:
    record(old_index(tmp_path))
    for arguments in (["index", "add", str(tmp_path / "files")], ["search", "words", "--ranking", "vector"]):
        refused = CliRunner().invoke(app, arguments)
        assert "it is not known which Alibaba-NLP/GVE-3B made them" in str(refused.exception)
    assert CliRunner().invoke(app, ["search", "words"]).exit_code == 0
    assert settings == [], "no model is loaded in vain"


def test_a_new_collection_has_the_options_asked_for(tmp_path: Path) -> None:
    write_node(tmp_path / "nodes", "a.jpg", np.ones((2, 128), np.float32))
    run(tmp_path / "nodes")
    assert Collection.open(tmp_path / "collection").header.options.ocr == "never"


def test_what_is_no_index_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"vrag index add PATH"):
        run(tmp_path)


def test_what_was_bound_to_the_wrong_variant_of_gve_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """Earlier versions bound such an index to `gve-reference:`, whose queries had other vectors."""
    run(old_index(tmp_path), "--files", tmp_path / "files", "--embedder", "gve:/m/GVE-3B")
    changes = {"name": "gve-reference:/m/GVE-3B", "fingerprint": "of an earlier version"}
    change_embedder(tmp_path / "collection", **changes)
    with pytest.raises(FingerprintMismatch, match="were wrong") as refused:
        run(tmp_path / "old", "--files", tmp_path / "files", "--embedder", "gve:/m/GVE-3B")
    assert "--embedder gve:/m/GVE-3B" in refused.value.hint
    told = run(
        *(tmp_path / "old", "--files", tmp_path / "files", "--embedder", "gve:/m/GVE-3B"),
        *("--collection", tmp_path / "new"),
    )
    assert "The vectors are searched with hash:single-16-0" in told


class TestExport:
    def test_what_was_imported_goes_back(self, tmp_path: Path) -> None:
        run(old_index(tmp_path), "--files", tmp_path / "files", "--embedder", "hash")
        done = CliRunner().invoke(app, ["index", "export", "--faiss", str(tmp_path / "back")])
        assert done.exit_code == 0, done.output
        assert "Exported 3 items" in done.stdout
        (before,), (after,) = (
            list((tmp_path / place).glob("*_faiss_index.bin")) for place in ("old", "back")
        )
        assert sorted(read_vectors(before)) == sorted(read_vectors(after))

    def test_for_machines_it_is_json(self, tmp_path: Path) -> None:
        run(old_index(tmp_path), "--files", tmp_path / "files", "--embedder", "hash")
        arguments = ["index", "export", "--faiss", str(tmp_path / "back"), "--model", "a/B-1", "--json"]
        told = json.loads(CliRunner().invoke(app, arguments).stdout)
        assert told["files"] == [f"a_B_1_{name}" for name in FILES]
        assert (told["items"], told["without_vector"], told["model"]) == (3, 0, "a/B-1")

    @pytest.mark.parametrize("arguments", [[], ["--faiss", "a", "--nodes", "b"]])
    def test_one_form_is_to_be_named(self, arguments: list[str]) -> None:
        done = CliRunner().invoke(app, ["index", "export", *arguments])
        assert done.exit_code == 2
        assert "Choose one of" in done.output


FILES = ("faiss_index.bin", "file_data_list.jsonl", "meta_data.json")


def read_vectors(path: Path) -> list[list[float]]:
    numbers = path.read_bytes()[45:]  # the header of IndexFlatIP
    return np.frombuffer(numbers, np.float32).reshape(-1, 16).tolist()


@pytest.mark.parametrize("server", ["remote:m@stranger:80", "remote-chat:m@http://stranger"])
def test_a_server_that_only_the_collection_names_is_not_opened(
    tmp_path: Path, settings: list[str], server: str
) -> None:
    old, files = old_index(tmp_path), ("--files", tmp_path / "files")
    run(old, *files, "--embedder", "tiny")
    change_embedder(tmp_path / "collection", name=server)
    settings.clear()
    CliRunner().invoke(app, ["index", "import", "--ocr", "never", str(old)])
    assert settings == []
