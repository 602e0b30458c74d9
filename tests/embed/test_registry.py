from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from extras import require

from vrag.embed.embedder import EmbedContent
from vrag.embed.registry import SHORT_NAMES, embedder_names, full_name, open_embedder
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = '''
"""Somebody's embedder: how many times each vowel occurs."""
import numpy as np
from vrag.embed.embedder import Modality, VectorKind


class Vowels:
    kind = VectorKind.SINGLE
    dimension = 5
    modalities = frozenset({Modality.TEXT})
    settings = {}

    def __init__(self, argument, options):
        self.name = f"vowels:{argument}"
        self.fingerprint = f"vowels-1-{argument}"
        self.options = options

    def embed_items(self, contents):
        return self.embed_queries([content.text for content in contents])

    def embed_queries(self, queries):
        return [np.array([query.count(vowel) for vowel in "aeiou"], np.float32) for query in queries]
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip leaves it: a module, and beside it what says that it brings embedders."""
    (tmp_path / "vowel_embedder.py").write_text(PLUGIN)
    info = tmp_path / "vowel_embedder-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vowel-embedder\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[vrag.embedders]\nvowels = vowel_embedder:Vowels\nbroken = vowel_embedder:Gone\n"
        "sentence = vowel_embedder:Vowels\n"
    )
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.usefixtures("plugin")
class TestEmbeddersOfOtherPackages:
    def test_open_by_their_name_with_the_options(self) -> None:
        opened = open_embedder("vowels:x", batch=3)
        assert opened.name == "vowels:x"
        assert opened.options.batch == 3  # type: ignore[attr-defined]  # pyright: ignore
        np.testing.assert_array_equal(opened.embed_items([EmbedContent(text="a tree")])[0], [1, 2, 0, 0, 0])

    def test_are_listed(self) -> None:
        assert "vowels:" in embedder_names()

    def test_that_do_not_load_say_which(self) -> None:
        with pytest.raises(EmbedError, match=r"'broken' of vowel_embedder:Gone cannot be loaded"):
            open_embedder("broken:x")

    def test_are_refused_under_the_name_of_ours(self, tmp_path: Path) -> None:
        refused = "'sentence' of vowel_embedder:Vowels has the name of a built-in one"
        with pytest.raises(EmbedError, match=refused):
            open_embedder(f"sentence:{tmp_path / 'gone'}")


class TestNames:
    def test_of_unknown_embedders_get_a_suggestion(self) -> None:
        with pytest.raises(EmbedError, match=r"Do you mean colqwen2\?"):
            open_embedder("colqwn2")
        with pytest.raises(EmbedError, match=r"Known: .*gve-3b.*sentence:"):
            open_embedder("???")

    @pytest.mark.parametrize("spec", ["", "sentence", "sentence:", ":x", "vowels:x"])
    def test_that_name_nothing_are_refused(self, spec: str) -> None:
        with pytest.raises(EmbedError, match="Unknown embedder"):
            open_embedder(spec)

    def test_short_ones_lead_to_what_the_reference_uses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        require("models", "torch")
        asked: list[str] = []

        def found(name: str) -> Path:
            asked.append(name)
            raise EmbedError("not here")

        for module in ("models.sentence", "models.qwen_vl", "model_files"):
            monkeypatch.setattr(f"vrag.embed.{module}.find_checkpoint", found)
        for short in SHORT_NAMES:
            with pytest.raises(EmbedError, match="not here"):
                open_embedder(short.upper())
        assert {"vidore/colqwen2-v1.0", "Alibaba-NLP/GVE-3B", "Qwen/Qwen3-VL-Embedding-2B"} <= set(asked)

    @pytest.mark.parametrize(
        ("folder", "scheme"),
        [
            ("gve", "gve"),
            ("qwen3-vl-embedding", "sentence"),
            ("qwen3-vl-tuned", "sentence"),
            ("colqwen2-modules", "sentence"),
            ("text", "sentence"),
        ],
    )
    def test_of_folders_get_the_scheme_of_their_files(
        self, models: Path, monkeypatch: pytest.MonkeyPatch, folder: str, scheme: str
    ) -> None:
        assert full_name(str(models / folder)) == f"{scheme}:{models / folder}"
        monkeypatch.chdir(models)
        assert full_name(f"./{folder}/") == full_name(folder) == f"{scheme}:{models / folder}"

    def test_of_folders_open_the_same_embedder_as_with_their_scheme(self, models: Path) -> None:
        opened = open_embedder(str(models / "gve"))
        assert (opened.name, opened.fingerprint) == (
            f"gve:{models / 'gve'}",
            open_embedder(f"gve:{models / 'gve'}").fingerprint,
        )

    def test_of_models_that_write_text_are_refused(self, models: Path, tmp_path: Path) -> None:
        chat = tmp_path / "Qwen2.5-VL-7B-Instruct"
        shutil.copytree(models / "gve", chat)
        with pytest.raises(EmbedError, match="writes text") as refused:
            full_name(str(chat))
        assert f"gve:{chat}" in (refused.value.hint or "")

    @pytest.mark.parametrize("path", ["/models/GVE-3B", "./GVE-3B", "a/b/c", "C:\\models\\GVE-3B"])
    def test_of_folders_that_do_not_exist_say_so(self, path: str) -> None:
        with pytest.raises(EmbedError, match="There is no folder"):
            open_embedder(path)

    @pytest.mark.parametrize("short", SHORT_NAMES)
    def test_of_the_hub_are_those_of_the_short_ones(self, short: str) -> None:
        assert (
            full_name(SHORT_NAMES[short].partition(":")[2].upper()) == SHORT_NAMES[short] == full_name(short)
        )

    def test_of_local_models_last_when_the_folder_changes(
        self, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(models)
        name = open_embedder("sentence:text").name
        monkeypatch.chdir(tmp_path)
        assert open_embedder(name).name == name == f"sentence:{models / 'text'}"
