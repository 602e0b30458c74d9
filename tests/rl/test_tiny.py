# ruff: noqa: ANN401 - the libraries are not typed
"""The tiny checkpoint: one like any other, the same for the same seed, with the grammar in its vocabulary."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_world import FAMILIES, WORDS, case, shared, tiny, torch

from vrag.agent.actions import Answer, Crop, Search, render
from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.local import LocalOptions, open_local
from vrag.agent.replies.tool_calls import AnswerNode, Memorize, Note, SearchNode, render_call
from vrag.agent.runs.replay import differences, replay
from vrag.agent.runs.run_store import RunStore
from vrag.embed.models.loader import PROCESSOR_SETTINGS, loading
from vrag.errors import ModelError, SettingsError, TrainingError
from vrag.model_profiles import PROFILE_FILE, PROFILES, read_profile
from vrag.rl.tiny import TINY_FAMILIES, TinyOptions, make_tiny
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

SMALL = TinyOptions(hidden=32, vision_hidden=32, layers=1)
ARGUMENTS = ("zqz", "kvk")
CALLS = [
    render(Search("zqz")),
    render(Answer("zqz")),
    render_call(SearchNode("zqz", ("root",), "kvk")),
    render_call(SearchNode("n1", ("root",), "kvk")),
    render_call(SearchNode("n2", ("n1",), "kvk")),
    render_call(Memorize("zqz", (Note("Picture 1", True, 5),))),
    render_call(Memorize("zqz", (Note("Picture 1", False, 0),))),
    render_call(Memorize("zqz", ())),
    render_call(AnswerNode(("n1",), "zqz")),
    render_call(AnswerNode(("n1", "n2"), "zqz")),
]


def made(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class TestCheckpoint:
    @pytest.mark.slow
    @pytest.mark.parametrize("family", FAMILIES)
    def test_is_one_that_transformers_loads(self, family: str) -> None:
        transformers = importlib.import_module("transformers")
        folder = tiny(family)
        with loading():  # transformers wants torchvision for the videos of any Qwen-VL
            processor = transformers.AutoProcessor.from_pretrained(folder, **PROCESSOR_SETTINGS)
        model = transformers.AutoModelForImageTextToText.from_pretrained(tiny(family))
        assert type(processor).__name__ == f"{'Qwen3VL' if family == 'qwen3-vl' else 'Qwen2_5_VL'}Processor"
        assert type(model).__name__.startswith("Qwen3VL" if family == "qwen3-vl" else "Qwen2_5_VL")
        assert sum(weight.numel() for weight in model.parameters()) < 1e6
        assert processor.tokenizer.vocab_size <= model.config.get_text_config().vocab_size

    def test_depends_on_its_seed_alone(self, tmp_path: Path) -> None:
        """For another process see the trainer that is killed."""
        before = torch().random.get_rng_state()
        make_tiny(tmp_path / "a", WORDS, SMALL)
        assert torch().equal(before, torch().random.get_rng_state()), "nobody else's chance is touched"
        make_tiny(tmp_path / "b", list(WORDS), SMALL)
        make_tiny(tmp_path / "c", WORDS, replace(SMALL, seed=1))
        assert made(tmp_path / "a") == made(tmp_path / "b")
        differ = {name for name, data in made(tmp_path / "a").items() if data != made(tmp_path / "c")[name]}
        assert differ == {"model.safetensors"}

    def test_has_the_size_that_was_asked_for(self, tmp_path: Path) -> None:
        options = TinyOptions(hidden=64, layers=3, vision_layers=2, picture_tokens=9, context=512)
        profile = make_tiny(tmp_path / "m", WORDS, options)
        config = json.loads((tmp_path / "m" / "config.json").read_text())
        text, vision = config["text_config"], config["vision_config"]
        assert (text["hidden_size"], text["num_hidden_layers"], vision["depth"]) == (64, 3, 2)
        assert text["max_position_embeddings"] == 512
        assert (profile.min_tokens, profile.max_tokens, profile.graph_tokens) == (9, 9, 9)

    def test_a_folder_with_something_in_it_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(SettingsError, match="not empty"):
            make_tiny(tmp_path, WORDS, SMALL)
        with pytest.raises(SettingsError, match="not empty"):
            make_tiny(tmp_path / "mine.txt", WORDS, SMALL)
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    def test_an_empty_folder_is_taken(self, tmp_path: Path) -> None:
        make_tiny(tmp_path, [], SMALL)
        assert read_profile(tmp_path) is not None

    def test_a_disk_that_refuses_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("vrag.rl.tiny.write_profile", full)
        with pytest.raises(TrainingError, match="No space left") as told:
            make_tiny(tmp_path / "m", WORDS, SMALL)
        assert "Free some disk space" in (told.value.hint or "")
        assert not list(tmp_path.iterdir())


class TestOptions:
    @pytest.mark.parametrize(
        "wrong",
        [{"family": "qwen2-vl"}, {"hidden": 48}, {"hidden": 0}, {"vision_hidden": 33}, {"layers": 0},
         {"picture_tokens": 0}],
    )  # fmt: skip
    def test_what_cannot_be_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(SettingsError):
            TinyOptions(**wrong)

    def test_families_are_profiles(self) -> None:
        assert set(TINY_FAMILIES) <= set(PROFILES)


class TestTokens:
    @given(st.text())
    def test_every_text_is_its_tokens(self, text: str) -> None:
        """Byte for byte: grammar, words, and what is neither."""
        checkpoint = shared().checkpoint
        special = checkpoint.tokenizer.all_special_tokens
        if not any(token in text for token in special):
            assert checkpoint.decode(shared().encode(text)) == text

    @given(st.lists(st.sampled_from([*CALLS, *WORDS, "<bbox>[1, 2]</bbox>", '"', "\\", "{", "é", " ", "\n"])))
    def test_and_so_is_what_looks_like_the_grammar(self, parts: list[str]) -> None:
        text = "".join(parts)
        assert shared().checkpoint.decode(shared().encode(text)) == text

    @pytest.mark.parametrize("call", CALLS)
    def test_the_grammar_is_made_of_pieces(self, call: str) -> None:
        """What an action says beside its arguments is few tokens. A changed grammar needs changed pieces."""
        network = shared()
        tokenizer = network.checkpoint.tokenizer
        added = set(tokenizer.get_added_vocab().values())
        ids = network.encode(call)
        left = "".join(network.checkpoint.decode([token]) for token in ids if token not in added)
        for argument in (*ARGUMENTS, "root", "n1", "n2"):
            left = left.replace(argument, "")
        assert left == ""
        pieces = [token for token in ids if token in added]
        assert len(pieces) <= 8

    def test_a_box_is_made_of_pieces(self) -> None:
        network = shared()
        ids = network.encode(render(Crop((1, 2, 3, 4))))
        told = [network.checkpoint.decode([token]) for token in ids]
        assert told[0] == "<bbox>["
        assert told[-1].endswith("]</bbox>") or "".join(told[-8:]).endswith("</bbox>")

    def test_words_are_one_token(self) -> None:
        network = shared()
        assert len(network.encode(" passengers")) == 1

    def test_special_tokens_are_not_text(self) -> None:
        checkpoint = shared().checkpoint
        ids = shared().encode("red<|im_end|>")
        assert ids[-1] in checkpoint.ends
        assert checkpoint.decode(ids) == "red"


class TestProfile:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_travels_with_the_weights(self, family: str) -> None:
        profile = open_local(str(tiny(family)), device="cpu").profile
        assert profile.name == f"tiny-{family}"
        assert profile.instruction
        assert profile.graph_instruction
        assert profile.max_tokens == 4
        assert profile.boxes is PROFILES[family].boxes

    @pytest.mark.parametrize("method", [VragMethod(), Vimrag()])
    def test_runs_made_with_it_replay(self, method: Any, tmp_path: Path) -> None:
        policy = open_local(str(tiny()), device="cpu", options=LocalOptions(max_tokens=6))
        agent = Agent(policy, Environment(tiny_corpus(), policy.profile), method, Limits(steps=2))
        store = RunStore(tmp_path)
        with store.record() as recording:
            for event in agent.stream(case().query, run_id=recording.id, save=recording.save):
                recording.write(event)
        stored = store.read(recording.id)
        started: Any = stored.events[0]
        assert started.settings.own_profile == policy.profile
        assert list(differences(stored.events, list(replay(stored, tiny_corpus())))) == []

    @pytest.mark.parametrize(
        "content", ["", "{", "[]", '{"name": "x"}', '{"name": "x", "factor": 28, "boxes": "feet"}']
    )
    def test_one_that_is_damaged_is_told_of(self, content: str, tmp_path: Path) -> None:
        (tmp_path / PROFILE_FILE).write_text(content)
        with pytest.raises(ModelError, match=PROFILE_FILE) as told:
            open_local(str(tmp_path), device="cpu")
        assert "Remove the file" in (told.value.hint or "")
