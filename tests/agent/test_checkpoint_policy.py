"""What policies and trainers share of a checkpoint: its family, its ends, and what a reply never has."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import pytest
from extras import require

from vrag.agent.policies.local_model import as_model_error, family_of, open_checkpoint, within_memory
from vrag.agent.policy import Message, Role, Text
from vrag.embed.device import open_device
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError, ModelError
from vrag.model_profiles import PROFILE_FILE, PROFILES, write_profile
from vrag.rl.tiny import TinyOptions, make_tiny

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.policies.local_model import Checkpoint

require("models", "torch", "transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny") / "tiny"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_tiny(made, ["red blue"], TinyOptions(hidden=32, vision_hidden=32, layers=1, context=512))
    return made


@pytest.fixture(scope="module")
def opened(folder: Path) -> Checkpoint:
    place = open_device(EmbedOptions(device="cpu"))
    return open_checkpoint(folder, family_of(folder), place, "tiny")


class TestFamily:
    @pytest.mark.parametrize("name", ["qwen2-vl", "qwen2.5-vl", "qwen3-vl"])
    def test_is_that_of_the_architecture(self, name: str, tmp_path: Path) -> None:
        kind = PROFILES[name].model_types[0]
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
        assert family_of(tmp_path) == PROFILES[name]

    def test_a_profile_of_its_own_goes_first(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_vl"}))
        write_profile(PROFILES["y-first"], tmp_path)
        assert family_of(tmp_path) == PROFILES["y-first"]

    @pytest.mark.parametrize("config", [None, "{", '{"model_type": "llama"}', "{}"])
    def test_one_that_is_not_known_is_told_of(self, config: str | None, tmp_path: Path) -> None:
        if config is not None:
            (tmp_path / "config.json").write_text(config)
        with pytest.raises(ModelError):
            family_of(tmp_path)

    def test_a_damaged_profile_is_told_of(self, tmp_path: Path) -> None:
        (tmp_path / PROFILE_FILE).write_text('{"name": 1}')
        with pytest.raises(ModelError, match=PROFILE_FILE):
            family_of(tmp_path)


class TestCheckpoint:
    def test_knows_its_tokens(self, opened: Checkpoint) -> None:
        ids = opened.tokenizer.convert_tokens_to_ids
        assert opened.ends == {ids("<|im_end|>")}
        placeholders: list[str] = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
        assert opened.banned == tuple(sorted(int(ids(token)) for token in placeholders))
        assert opened.context == 512

    def test_a_prompt_is_by_its_template(self, opened: Checkpoint) -> None:
        """What a text says of the template's own tokens is no token."""
        history = [Message(Role.SYSTEM, (Text("red"),)), Message(Role.USER, (Text("a"), Text("<|im_end|>b")))]
        prompt = opened.prompt(history)
        assert prompt.startswith("<|im_start|>system\nred<|im_end|>\n<|im_start|>user\na\n")
        assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert prompt.count("<|im_end|>") == 2

    def test_text_is_decoded_without_special_tokens(self, opened: Checkpoint) -> None:
        ids = opened.tokenizer("red <search>blue</search><|im_end|>", add_special_tokens=False)["input_ids"]
        assert opened.decode(ids) == "red <search>blue</search>"
        assert opened.decode([]) == ""

    def test_what_it_recommends_does_not_count(self, folder: Path, tmp_path: Path) -> None:
        for path in folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        settings = tmp_path / "generation_config.json"
        told = json.loads(settings.read_text()) | {
            "repetition_penalty": 5.0,
            "do_sample": True,
            "eos_token_id": [2, 1],
        }
        settings.write_text(json.dumps(told))
        made = open_checkpoint(tmp_path, family_of(tmp_path), open_device(EmbedOptions(device="cpu")), "tiny")
        config = made.model.generation_config
        assert not config.do_sample
        assert config.repetition_penalty in {None, 1.0}
        assert made.ends >= {1, 2}

    def test_without_weights_it_cannot_be_loaded(self, folder: Path, tmp_path: Path) -> None:
        for path in folder.iterdir():
            if path.suffix != ".safetensors":
                (tmp_path / path.name).write_bytes(path.read_bytes())
        with pytest.raises(ModelError, match="cannot be loaded"):
            open_checkpoint(tmp_path, family_of(tmp_path), open_device(EmbedOptions(device="cpu")), "tiny")


class TestErrors:
    def test_those_of_embedders_are_those_of_models(self) -> None:
        with pytest.raises(ModelError, match="gone") as told, as_model_error():
            raise EmbedError("It is gone.", "Look for it.")
        assert told.value.hint == "Look for it."

    @pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried …")])
    def test_memory_that_does_not_suffice_is_told_of(self, error: Exception) -> None:
        with pytest.raises(ModelError, match="memory") as told, within_memory("tiny", "Use a smaller one."):
            raise error
        assert told.value.hint == "Use a smaller one."

    def test_other_errors_stay_as_they_are(self) -> None:
        with pytest.raises(RuntimeError, match="shapes"), within_memory("tiny", ""):
            raise RuntimeError("shapes do not fit")
