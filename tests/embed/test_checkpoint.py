from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("safetensors", reason="the extra `models` is not installed")

from vrag.embed import model_files
from vrag.embed.model_files import checkpoint_digest, find_checkpoint
from vrag.embed.model_kind import read_layout
from vrag.embed.models.sentence import SentenceEmbedder
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def model(models: Path, tmp_path: Path) -> Path:
    return shutil.copytree(models / "colqwen2-modules", tmp_path / "model")


def patch(path: Path, place: int) -> None:
    """Changes one byte, counted from the end."""
    data = bytearray(path.read_bytes())
    data[-place] ^= 0x55
    path.write_bytes(data)


class TestTheDigest:
    def test_does_not_change_when_the_model_moves(self, models: Path, tmp_path: Path) -> None:
        moved = shutil.copytree(models / "colqwen2-modules", tmp_path / "elsewhere" / "model")
        base = shutil.copytree(models / "colqwen2-base", tmp_path / "elsewhere" / "base")
        adapter = json.loads((moved / "adapter_config.json").read_text())
        adapter["base_model_name_or_path"] = str(base)
        (moved / "adapter_config.json").write_text(json.dumps(adapter, indent=7))
        here, there = (SentenceEmbedder(str(f)) for f in (models / "colqwen2-modules", moved))
        assert here.fingerprint == there.fingerprint
        assert here.name != there.name

    @pytest.mark.parametrize(
        "name",
        ["adapter_model.safetensors", "1_Dense/model.safetensors", "chat_template.jinja", "tokenizer.json"],
    )
    def test_changes_with_one_byte(self, model: Path, name: str) -> None:
        before = checkpoint_digest(model)
        patch(model / name, 3)
        assert checkpoint_digest(model) != before

    @pytest.mark.parametrize("name", ["config_sentence_transformers.json", "preprocessor_config.json"])
    def test_changes_with_a_setting(self, model: Path, name: str) -> None:
        before = checkpoint_digest(model)
        settings = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps(settings | {"more": 1}))
        assert checkpoint_digest(model) != before

    def test_does_not_change_with_what_people_read(self, model: Path) -> None:
        before = checkpoint_digest(model)
        (model / "README.md").write_text("# A model")
        (model / "eval").mkdir()
        (model / "eval" / "scores.json").write_text("{}")
        assert checkpoint_digest(model) == before

    @pytest.mark.parametrize("name", ["dense", "parts/projection"])
    def test_covers_a_part_whatever_its_folder_is_called(self, model: Path, name: str) -> None:
        (model / name).parent.mkdir(exist_ok=True)
        (model / "1_Dense").rename(model / name)
        modules = json.loads((model / "modules.json").read_text())
        for part in modules:
            part["path"] = name if part["path"] == "1_Dense" else part["path"]
        (model / "modules.json").write_text(json.dumps(modules))
        before = checkpoint_digest(model)
        patch(model / name / "model.safetensors", 3)
        assert checkpoint_digest(model) != before
        (model / name / "deeper").mkdir()
        (model / name / "deeper" / "config.json").write_text("{}")
        after = checkpoint_digest(model)
        (model / name / "deeper" / "config.json").write_text('{"a": 1}')
        assert checkpoint_digest(model) != after

    def test_covers_the_parts_of_a_router_at_the_top(self, model: Path) -> None:
        (model / "query_0_Dense").mkdir()
        modules = [{"path": "", "type": "sentence_transformers.models.Router"}]
        (model / "modules.json").write_text(json.dumps(modules))
        before = checkpoint_digest(model)
        (model / "query_0_Dense" / "config.json").write_text("{}")
        assert checkpoint_digest(model) != before

    @pytest.mark.parametrize("how", ["absolute", "above", "link"])
    def test_of_a_part_outside_of_the_folder_is_refused(self, model: Path, tmp_path: Path, how: str) -> None:
        outside = tmp_path / "outside"
        (model / "1_Dense").rename(outside)
        (model / "linked").symlink_to(outside)
        path = {"absolute": str(outside), "above": "../outside", "link": "linked"}[how]
        modules = json.loads((model / "modules.json").read_text())
        for part in modules:
            part["path"] = path if part["path"] == "1_Dense" else part["path"]
        (model / "modules.json").write_text(json.dumps(modules))
        for opened in (checkpoint_digest, read_layout):
            with pytest.raises(EmbedError, match="outside of the model's folder"):
                opened(model)

    def test_of_the_base_counts(self, models: Path, tmp_path: Path) -> None:
        base = shutil.copytree(models / "colqwen2-base", tmp_path / "base")
        moved = shutil.copytree(models / "colqwen2-modules", tmp_path / "model")
        adapter = json.loads((moved / "adapter_config.json").read_text())
        (moved / "adapter_config.json").write_text(
            json.dumps(adapter | {"base_model_name_or_path": str(base)})
        )
        before = SentenceEmbedder(str(moved)).fingerprint
        patch(base / "model.safetensors", 400)
        assert SentenceEmbedder(str(moved)).fingerprint != before


class TestLargeWeightsAreSampled:
    @pytest.fixture(autouse=True)
    def small_means_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(model_files, "_MAX_WHOLE_BYTES", 0)

    def test_a_change_of_any_whole_tensor_shows(self, models: Path, tmp_path: Path) -> None:
        import tiny_models as tiny

        folder = shutil.copytree(models / "text", tmp_path / "text")
        store: Any = tiny.load("safetensors.torch")
        weights = store.load_file(folder / "model.safetensors")
        seen = {checkpoint_digest(folder)}
        for name in list(weights)[:8]:
            store.save_file(
                weights | {name: weights[name] + 1e-3}, folder / "model.safetensors", {"format": "pt"}
            )
            seen.add(checkpoint_digest(folder))
        assert len(seen) == 9

    @pytest.mark.parametrize("part", [0.0, 0.5, 0.999])
    def test_a_change_at_the_beginning_middle_or_end_of_a_tensor_shows(
        self, models: Path, tmp_path: Path, part: float
    ) -> None:
        import tiny_models as tiny

        folder = shutil.copytree(models / "text", tmp_path / "text")
        store: Any = tiny.load("safetensors.torch")
        weights = store.load_file(folder / "model.safetensors")
        before = checkpoint_digest(folder)
        numbers = weights["embeddings.word_embeddings.weight"].reshape(-1)
        numbers[int(part * len(numbers)) + 8] += 1e-3
        store.save_file(weights, folder / "model.safetensors", {"format": "pt"})
        assert checkpoint_digest(folder) != before

    @pytest.mark.parametrize("cut", [4, 9, 300])
    def test_damaged_files_are_refused(self, models: Path, tmp_path: Path, cut: int) -> None:
        folder = shutil.copytree(models / "text", tmp_path / "text")
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(EmbedError, match="damaged"):
            checkpoint_digest(folder)


class TestFinding:
    def test_a_folder(self, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(model.parent)
        assert find_checkpoint("model") == model.resolve()

    @pytest.mark.parametrize("name", ["gone", "./a/b", "/a/b", "~/a/b", "a/b/c", "", "a b/c"])
    def test_what_is_neither_a_folder_nor_a_name(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(EmbedError, match="There is no folder"):
            find_checkpoint(str(tmp_path / "gone") if name == "gone" else name or str(tmp_path / "none"))

    def test_a_model_that_was_downloaded_before(
        self, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Laid out as the hub's client keeps it; nothing is asked of the network."""
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        repository = tmp_path / "models--some--model"
        commit = "0123456789abcdef0123456789abcdef01234567"
        shutil.copytree(models / "text", repository / "snapshots" / commit)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(commit)

        def asked(*_: object, **__: object) -> None:
            raise AssertionError("the network was asked")

        monkeypatch.setattr("socket.socket.connect", asked)
        assert find_checkpoint("some/model") == repository / "snapshots" / commit
        assert find_checkpoint(f"some/model@{commit}") == repository / "snapshots" / commit

    def test_a_hub_that_cannot_be_reached_says_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

        def unreachable(*_: object, local_files_only: bool = False, **__: object) -> None:
            raise OSError("not cached" if local_files_only else "Network is unreachable")

        monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
        with pytest.raises(EmbedError, match=r"Network is unreachable.*hf download some/model"):
            find_checkpoint("some/model")

    def test_a_download_that_was_cut_is_taken_up_again(
        self, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cut = shutil.copytree(models / "text", tmp_path / "cut")
        index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
        (cut / "model.safetensors.index.json").write_text(json.dumps(index))
        calls: list[bool] = []

        def download(*_: object, local_files_only: bool = False, **__: object) -> str:
            calls.append(local_files_only)
            return str(cut if local_files_only else models / "text")

        monkeypatch.setattr("huggingface_hub.snapshot_download", download)
        assert find_checkpoint("some/model") == models / "text"
        assert calls == [True, False]
