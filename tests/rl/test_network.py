"""A checkpoint that is trained: what is changed in it, what it sees, and how it is saved."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest
from tiny_world import FAMILIES, noise, opened, randoms, same, shared, tiny, torch, user, weights

from vrag.agent.policies.local import open_local
from vrag.errors import ModelError, TrainingError
from vrag.rl import model as networks
from vrag.rl.generation import SamplingOptions, first_prompt, write
from vrag.rl.model import open_network

if TYPE_CHECKING:
    from pathlib import Path


class TestSaving:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_what_is_saved_is_the_same_network(self, family: str, tmp_path: Path) -> None:
        """Weights, tokenizer, pictures, profile: bit by bit, so that a training goes on from it."""
        network = opened(family)
        with torch().no_grad():
            for weight in network.trained():
                weight.mul_(1.25)
        network.save(tmp_path / "a")
        again = open_network(tmp_path / "a", device="cpu")
        assert same(weights(network), weights(again))
        assert again.checkpoint.profile == network.checkpoint.profile
        prompt, other = (
            first_prompt(one, [user("red", noise(1, factor=one.checkpoint.profile.factor))])
            for one in (network, again)
        )
        assert prompt.ids == other.ids
        replies = [
            write(one, [told], SamplingOptions(max_tokens=5), randoms(1))
            for one, told in ((network, prompt), (again, other))
        ]
        assert replies[0] == replies[1]
        again.save(tmp_path / "b")
        names = {path.name for path in (tmp_path / "b").iterdir()}
        assert names >= {path.name for path in tiny(family).iterdir()}
        for name in names:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name

    def test_what_is_saved_is_served(self, tmp_path: Path) -> None:
        shared().save(tmp_path)
        assert open_local(str(tmp_path), device="cpu").profile == shared().checkpoint.profile
        transformers = importlib.import_module("transformers")
        assert transformers.AutoModelForImageTextToText.from_pretrained(tmp_path) is not None


class TestWeights:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_vision_is_the_tower_and_its_projector(self, family: str) -> None:
        network = shared(family)
        count = [sum(weight.numel() for weight in network.trained(vision=vision)) for vision in (True, False)]
        visual = sum(weight.numel() for weight in network.model.model.visual.parameters())
        assert visual > 0
        assert count[0] - count[1] == visual
        assert count[0] == sum(weight.numel() for weight in network.model.parameters())


class TestPictures:
    def test_are_seen_once(self) -> None:
        network = opened()
        picture = noise(1)
        first = network.see(picture.sha256, picture.jpeg)
        assert network.see(picture.sha256, b"") is first
        assert (first.grid, first.tokens) == ((1, 4, 4), 4)

    def test_take_so_much_memory_at_most(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Counted in bytes: a real page has a thousand times the pixels of a tiny one."""
        one = opened().see(noise(1).sha256, noise(1).jpeg)
        monkeypatch.setattr(networks, "MAX_CACHE_BYTES", 2 * one.bytes)
        network = opened()
        shown = [noise(seed) for seed in range(5)]
        for picture in shown:
            network.see(picture.sha256, picture.jpeg)
        assert list(network.seen) == [picture.sha256 for picture in shown[-2:]]
        large = noise(9, 6, 6)
        assert network.see(large.sha256, large.jpeg).tokens == 36
        assert large.sha256 not in network.seen, "it is larger than the cache, and returned all the same"


class TestOpening:
    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(TrainingError, match="no checkpoint") as told:
            open_network(tmp_path / "gone")
        assert "make-tiny" in (told.value.hint or "")

    def test_a_folder_without_weights(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError):
            open_network(tmp_path)
        for path in tiny().iterdir():
            if path.suffix != ".safetensors":
                (tmp_path / path.name).write_bytes(path.read_bytes())
        with pytest.raises(ModelError, match="cannot be loaded"):
            open_network(tmp_path)

    def test_a_device_that_is_not_there(self) -> None:
        with pytest.raises(ModelError, match="warp"):
            open_network(tiny(), device="warp")

    def test_weights_are_precise(self) -> None:
        assert opened().model.dtype == torch().float32
