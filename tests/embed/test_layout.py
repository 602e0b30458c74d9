"""What sentence-transformers would load as something else is refused from the files alone."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from extras import require

from vrag.embed.model_kind import EmbedderRole, Route, read_layout
from vrag.embed.models.sentence import SentenceEmbedder
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from pathlib import Path

require("models", "transformers")


@pytest.mark.parametrize(
    ("name", "role", "route"),
    [
        ("colqwen2", EmbedderRole.MULTI, Route.NATIVE),
        ("colqwen2-modules", EmbedderRole.MULTI, Route.MODULES),
        ("qwen3-vl-embedding", EmbedderRole.SINGLE, Route.MODULES),
        ("qwen3-vl-reranker", EmbedderRole.RERANK, Route.MODULES),
        ("text", EmbedderRole.SINGLE, Route.MODULES),
        ("cross-encoder", EmbedderRole.RERANK, Route.NATIVE),
    ],
)
def test_the_kind_is_read_from_the_files(
    models: Path, tmp_path: Path, name: str, role: EmbedderRole, route: Route
) -> None:
    renamed = shutil.copytree(models / name, tmp_path / "bert-gve-colpali-reranker")
    layout = read_layout(renamed)
    assert (layout.role, layout.route) == (role, route)


def changed(models: Path, tmp_path: Path, name: str, file: str, **more: object) -> Path:
    """A copy of a model with some settings of one of its files replaced; None takes one away."""
    folder = shutil.copytree(models / name, tmp_path / name)
    settings = json.loads((folder / file).read_text()) | more
    (folder / file).write_text(
        json.dumps({key: value for key, value in settings.items() if value is not None})
    )
    return folder


def without(models: Path, tmp_path: Path, name: str, *files: str) -> Path:
    folder = shutil.copytree(models / name, tmp_path / name)
    for file in files:
        (folder / file).unlink()
    return folder


class TestIsRefused:
    def test_a_bare_adapter_whose_projection_would_be_random(self, models: Path, tmp_path: Path) -> None:
        with pytest.raises(EmbedError, match="projection would be random"):
            read_layout(without(models, tmp_path, "colqwen2-modules", "modules.json"))

    def test_a_bare_network_whose_pooling_would_be_invented(self, models: Path, tmp_path: Path) -> None:
        for name in ("qwen3-vl-embedding", "text"):
            with pytest.raises(EmbedError, match="would be invented"):
                read_layout(without(models, tmp_path, name, "modules.json"))

    def test_a_vision_network_loaded_for_text_alone(self, models: Path, tmp_path: Path) -> None:
        folder = without(models, tmp_path, "qwen3-vl-embedding", "sentence_bert_config.json")
        with pytest.raises(EmbedError, match="loaded for text alone"):
            SentenceEmbedder(str(folder))

    def test_code_of_its_own(self, models: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(models / "text", tmp_path / "text")
        listed = json.loads((folder / "modules.json").read_text())
        listed[1]["type"] = "my_code.Pooling"
        (folder / "modules.json").write_text(json.dumps(listed))
        with pytest.raises(EmbedError, match=r"own code \(my_code.Pooling\)"):
            read_layout(folder)
        unknown = changed(models, tmp_path, "colqwen2", "config.json", architectures=["ColNewForRetrieval"])
        with pytest.raises(EmbedError, match="comes with code"):
            read_layout(unknown)

    def test_an_activation_that_would_be_replaced(self, models: Path, tmp_path: Path) -> None:
        folder = changed(
            models, tmp_path, "colqwen2-modules", "1_Dense/config.json", activation_function="mine.Swish"
        )
        with pytest.raises(EmbedError, match=r"mine.Swish"):
            read_layout(folder)

    @pytest.mark.parametrize(
        ("name", "told"), [("colqwen2-modules", "SentenceTransformer"), ("text", "MultiVectorEncoder")]
    )
    def test_files_that_contradict_each_other(
        self, models: Path, tmp_path: Path, name: str, told: str
    ) -> None:
        folder = changed(models, tmp_path, name, "config_sentence_transformers.json", model_type=told)
        with pytest.raises(EmbedError, match="Correct model_type"):
            read_layout(folder)

    def test_a_sparse_model(self, models: Path, tmp_path: Path) -> None:
        folder = changed(
            models, tmp_path, "text", "config_sentence_transformers.json", model_type="SparseEncoder"
        )
        with pytest.raises(EmbedError, match="SparseEncoder"):
            read_layout(folder)

    def test_a_projection_without_weights(self, models: Path, tmp_path: Path) -> None:
        folder = without(models, tmp_path, "colqwen2-modules", "1_Dense/model.safetensors")
        with pytest.raises(EmbedError, match=r"has no model.safetensors"):
            read_layout(folder)

    def test_a_head_that_lacks_weights(self, models: Path, tmp_path: Path) -> None:
        """transformers fills them with random numbers and says so in a log."""
        import tiny_models as tiny

        folder = shutil.copytree(models / "colqwen2", tmp_path / "colqwen2")
        weights = tiny.load("safetensors.torch").load_file(folder / "model.safetensors")
        del weights["embedding_proj_layer.weight"]
        tiny.load("safetensors.torch").save_file(
            weights, folder / "model.safetensors", metadata={"format": "pt"}
        )
        with pytest.raises(EmbedError, match=r"lacks weights.*embedding_proj_layer"):
            SentenceEmbedder(str(folder))

    def test_an_adapter_without_its_base(self, models: Path, tmp_path: Path) -> None:
        folder = changed(
            models,
            tmp_path,
            "colqwen2-modules",
            "adapter_config.json",
            base_model_name_or_path=str(tmp_path / "gone"),
        )
        with pytest.raises(EmbedError, match="There is no folder"):
            read_layout(folder)

    def test_pickled_weights(self, models: Path, tmp_path: Path) -> None:
        folder = without(models, tmp_path, "text", "model.safetensors")
        (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
        with pytest.raises(EmbedError, match="safetensors"):
            SentenceEmbedder(str(folder))

    @pytest.mark.parametrize("content", ["[", "[]", "{}", "[{}]", '[{"type": 1}]', "null", '"x"'])
    def test_damaged_lists_of_modules(self, models: Path, tmp_path: Path, content: str) -> None:
        folder = shutil.copytree(models / "text", tmp_path / "text")
        (folder / "modules.json").write_text(content)
        with pytest.raises(EmbedError):
            read_layout(folder)

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        with pytest.raises(EmbedError, match="is not a model"):
            read_layout(tmp_path)
