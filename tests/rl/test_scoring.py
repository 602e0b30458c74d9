# ruff: noqa: ANN401 - the libraries are not typed
"""How a forward pass spends memory: chunks, layers made again, half precision; and that it is the same."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from tiny_world import (
    FAMILIES,
    TOLERANCE,
    drift,
    factor,
    files_of,
    histories,
    opened,
    randoms,
    row_of,
    same,
    shared,
    tiny,
    torch,
    weights,
)

from vrag.embed.device import Device
from vrag.errors import ModelError
from vrag.rl.generation import SamplingOptions, first_prompt, write
from vrag.rl.model import TrainableModel, autocast_of, open_network
from vrag.rl.update import Scoring, UpdateOptions, Updates, score

if TYPE_CHECKING:
    from vrag.rl.rows import Row


def made(network: TrainableModel, tokens: int = 7) -> tuple[list[Row], dict[str, bytes]]:
    prompts = [first_prompt(network, history) for history in histories(factor(network))]
    replies = write(network, prompts, SamplingOptions(max_tokens=tokens), randoms(len(prompts)))
    return [row_of(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)], files_of(*prompts)


def gradients(network: TrainableModel, how: Scoring, temperature: float = 0.7) -> tuple[Any, dict[str, Any]]:
    """What is scored, and the gradient of something that is made of all of it."""
    rows, files = made(shared(network.checkpoint.profile.name.removeprefix("tiny-")))
    network.model.requires_grad_(True)
    scored = score(network, rows, files, temperature, how)
    total = (scored.logprobs * torch().linspace(-1, 2, scored.logprobs.shape[1])).sum()
    if how.entropies:
        total = total + 0.3 * scored.entropies.sum()
    total.backward()
    given = {name: weight.grad for name, weight in network.model.named_parameters()}
    return scored, {name: grad for name, grad in given.items() if grad is not None}


class TestChunks:
    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("entropies", [True, False])
    def test_do_not_matter(self, family: str, entropies: bool) -> None:
        whole, wanted = gradients(opened(family), Scoring(entropies=entropies))
        for size in (1, 5):
            parts, found = gradients(opened(family), Scoring(logit_tokens=size, entropies=entropies))
            assert torch().allclose(parts.logprobs, whole.logprobs, rtol=0, atol=5e-6)
            assert torch().allclose(parts.entropies, whole.entropies, rtol=0, atol=5e-6)
            assert found.keys() == wanted.keys()
            for name, grad in found.items():
                assert torch().allclose(grad, wanted[name], rtol=1e-4, atol=2e-5), name

    def test_are_of_that_many_tokens_and_made_again(self) -> None:
        """Never more logits at once than that; in the backward pass a second time, and only where asked."""
        network = opened()
        rows, files = made(network)
        asked: list[int] = []

        def note(_: Any, given: Any) -> None:
            asked.append(len(given[0]))

        network.model.lm_head.register_forward_pre_hook(note)
        own = sum(int(row.own.sum()) for row in rows)
        scored = score(network, rows, files, how=Scoring(logit_tokens=4))
        there = -(-own // 4)
        assert len(asked) == there
        assert max(asked) == 4
        assert sum(asked) == own
        scored.logprobs.sum().backward()
        assert len(asked) == 2 * there
        asked.clear()
        with torch().no_grad():
            score(network, rows, files, how=Scoring(logit_tokens=own))
        assert asked == [own]

    def test_keep_no_logits(self) -> None:
        """What waits for the backward pass: no table of tokens by words is among it."""
        network = opened()
        rows, files = made(network)
        own = sum(int(row.own.sum()) for row in rows)
        words, width = network.model.lm_head.weight.shape
        assert width != own

        def kept(how: Scoring) -> set[int]:
            tables: set[int] = set()

            def keep(tensor: Any) -> Any:
                if tensor.shape[-1] == words and tensor.shape[0] != width:
                    tables.add(tensor.shape[0])
                return tensor

            def back(tensor: Any) -> Any:
                return tensor

            with torch().autograd.graph.saved_tensors_hooks(keep, back):
                score(network, rows, files, how=how)
            return tables

        assert kept(Scoring(logit_tokens=own)) == {own}
        assert kept(Scoring(logit_tokens=4)) == set()

    def test_without_own_tokens_there_is_nothing(self) -> None:
        network = shared()
        rows, files = made(network)
        blank = [type(row)(row.tokens, row.own & False, row.logprobs, row.images, 0) for row in rows]
        with torch().no_grad():
            assert not score(network, blank, files).logprobs.any()


@pytest.mark.parametrize("family", FAMILIES)
class TestLayersMadeAgain:
    def test_give_the_same_gradients_bit_by_bit(self, family: str) -> None:
        """Of the language model and of the vision tower, and each layer computed twice."""
        plain, wanted = gradients(opened(family), Scoring())
        network = opened(family)
        network.recompute()
        calls = {"layers": 0, "blocks": 0}
        inner = network.model.model

        def count(name: str, at: Any) -> None:
            def note(*_: Any) -> None:
                calls[name] += 1

            at.register_forward_pre_hook(note)

        count("layers", inner.language_model.layers[0].mlp)
        count("blocks", inner.visual.blocks[0].mlp)
        again, found = gradients(network, Scoring(activations=False))
        assert calls == {"layers": 2, "blocks": 2}
        assert torch().equal(plain.logprobs, again.logprobs)
        assert same(found, wanted)

    def test_disturb_no_sampling(self, family: str, caplog: pytest.LogCaptureFixture) -> None:
        """With its cache, in the same words, before and after; nothing is left in training."""
        network = opened(family)
        rows, _ = made(network)
        network.recompute()
        with caplog.at_level(logging.WARNING):
            gradients(network, Scoring(activations=False))
            later, _ = made(network)
        assert not caplog.records
        assert [row.tokens.tolist() for row in rows] == [row.tokens.tolist() for row in later]
        assert all((row.logprobs == other.logprobs).all() for row, other in zip(rows, later, strict=True))
        assert not any(module.training for module in network.model.modules())

    def test_train_alike(self, family: str) -> None:
        after: list[Any] = []
        for recomputed in (False, True):
            network = opened(family)
            rows, files = made(network)
            updates = Updates(network, UpdateOptions(lr=1e-3, checkpoint_activations=recomputed))
            for _ in range(2):
                updates.learn(rows, files)
            after.append(weights(network))
        assert same(*after)


def halved(family: str = "qwen3-vl") -> TrainableModel:
    return open_network(tiny(family), device="cpu", autocast="bfloat16")


class TestAutocast:
    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("temperature", [1.0, 0.7])
    def test_sampler_and_trainer_agree(self, family: str, temperature: float) -> None:
        """In other batches, filled up on the other side: as far as eight bits go, with logits that differ."""
        networks = [halved(family), opened(family)]
        for network in networks:
            head = network.model.lm_head
            head.weight = torch().nn.Parameter(10 * head.weight.detach())  # random ones say all alike
        network, precise = networks
        prompts = [first_prompt(network, history) for history in histories(factor(network))]
        replies = write(network, prompts, SamplingOptions(temperature=temperature, max_tokens=9), randoms(4))
        rows = [row_of(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)]
        files = files_of(*prompts)
        ours, other = drift(network, rows, files, temperature), drift(precise, rows, files, temperature)
        assert ours < 0.02
        assert other > 10 * TOLERANCE, "it is in force"
        assert not torch().is_autocast_enabled("cpu"), "and inside alone"

    @pytest.mark.parametrize("recomputed", [False, True])
    def test_weights_and_gradients_and_logits_stay_precise(self, recomputed: bool) -> None:
        network = halved()
        seen: list[Any] = []
        layer = network.model.model.language_model.layers[0].mlp.gate_proj

        def note(_: Any, __: Any, given: Any) -> None:
            seen.append(given.dtype)

        layer.register_forward_hook(note)
        if recomputed:
            network.recompute()
        scored, grads = gradients(network, Scoring(logit_tokens=5, activations=not recomputed))
        assert scored.logprobs.dtype == torch().float32
        assert seen == [torch().bfloat16] * (1 + recomputed)
        assert {grad.dtype for grad in grads.values()} == {torch().float32}
        assert grads.keys() == gradients(opened(), Scoring())[1].keys()
        with network.computing():
            hidden = torch().rand(3, network.model.lm_head.in_features)
            logits = network.model.lm_head(hidden)
        assert torch().allclose(logits, hidden @ network.model.lm_head.weight.T, rtol=0, atol=1e-6)

    def test_learns(self) -> None:
        network = halved()
        rows, files = made(network)
        updates = Updates(network, UpdateOptions(lr=1e-2, warmup=3))
        losses = [updates.learn(rows, files)["loss"] for _ in range(25)]
        assert losses[-1] < losses[0] / 3

    def test_is_saved_as_any_other(self, tmp_path: Any) -> None:
        network = halved()
        network.save(tmp_path)
        assert same(weights(network), weights(open_network(tmp_path, device="cpu")))

    def test_is_on_where_it_is_asked_for(self) -> None:
        cpu = Device("cpu", "float32")
        assert autocast_of(cpu, "auto") == "off"
        assert autocast_of(cpu, "bfloat16") == "bfloat16"
        assert not opened().halved
        with pytest.raises(ModelError, match="float16 already"):
            autocast_of(Device("cpu", "float16"), "bfloat16")

    @pytest.mark.parametrize(("able", "dtype", "wanted"), [
        (True, "float32", "bfloat16"), (False, "float32", "off"), (True, "bfloat16", "off"),
    ])  # fmt: skip
    def test_on_cuda_it_is_on_where_it_can_be(
        self, able: bool, dtype: str, wanted: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch().cuda, "is_bf16_supported", lambda: able)
        assert autocast_of(Device("cuda:0", dtype), "auto") == wanted
        assert autocast_of(Device("cuda:0", dtype), "off") == "off"
