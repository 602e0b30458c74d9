"""What the trainer recomputes is what the sampler said, for every shape of row and batch."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tiny_world import (
    ANSWER,
    DONE,
    FAMILIES,
    NODE,
    NOTES,
    SEARCH,
    TOLERANCE,
    drift,
    factor,
    files_of,
    force,
    histories,
    in_order,
    noise,
    opened,
    randoms,
    rolled,
    row_of,
    shared,
    tiny,
    torch,
    turns,
    user,
)

from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.policies.local import LocalOptions, open_local
from vrag.agent.policy import Reply
from vrag.rl.generation import SamplingOptions, first_prompt, write
from vrag.rl.rows import Row, rows_of
from vrag.rl.sft_dataset import vocabulary_of
from vrag.rl.update import piles, score

if TYPE_CHECKING:
    from vrag.agent.policy import EnclosedImage
    from vrag.rl.model import TrainableModel
    from vrag.rollouts.rollout import Rollout


def rows_in(network: TrainableModel, rollouts: list[Rollout]) -> tuple[list[Row], dict[str, bytes]]:
    made = [rows_of(one.events, one.files, vocabulary_of(network)) for one in rollouts]
    assert not [one.failure for one in rollouts if one.failure]
    assert not [fault for one in made for fault in one.dropped]
    assert not [step for one in made for step in one.breaks]
    return [row for one in made for row in one.rows], {
        name: data for one in rollouts for name, data in one.files.items()
    }


@pytest.mark.parametrize("family", FAMILIES)
class TestTheSamplersLogProbabilities:
    @pytest.mark.parametrize("temperature", [0.0, 1.0, 1.7])
    def test_are_recomputed(self, family: str, temperature: float) -> None:
        """Written in one batch filled up on the left, computed in others filled up on the right."""
        network = shared(family)
        prompts = [first_prompt(network, history) for history in histories(factor(network))]
        replies = write(
            network, prompts, SamplingOptions(temperature=temperature, max_tokens=9), randoms(len(prompts))
        )
        rows = [row_of(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)]
        files = files_of(*prompts)
        assert drift(network, rows, files, temperature) < TOLERANCE
        assert drift(network, rows[::-1], files, temperature) < TOLERANCE
        for row in rows:
            assert drift(network, [row], files, temperature) < TOLERANCE

    def test_of_a_served_model_are_recomputed(self, family: str) -> None:
        policy = open_local(
            str(tiny(family)), device="cpu", options=LocalOptions(temperature=1.0, seed=3, max_tokens=9)
        )
        network = shared(family)
        history = histories(factor(network))[2]
        prompt = first_prompt(network, history)

        async def ask() -> Reply:
            return await anext(part async for part in policy.reply(history) if isinstance(part, Reply))

        sampled = asyncio.run(ask()).sampled
        assert sampled is not None
        assert sampled.prompt_ids == prompt.ids
        own = np.arange(len(prompt.ids) + len(sampled.ids)) >= len(prompt.ids)
        logprobs = np.zeros(len(own), np.float32)
        logprobs[own] = sampled.logprobs
        images = tuple(name.removesuffix(".jpg") for name in files_of(prompt))
        row = Row(np.array([*prompt.ids, *sampled.ids]), own, logprobs, images, 0)
        assert drift(network, [row], files_of(prompt)) < TOLERANCE

    def test_of_runs_are_recomputed(self, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """VRAG with a page that it looked at, and the segments of VimRAG, in one batch."""
        network = shared(family)
        force(monkeypatch, turns(SEARCH, ANSWER))
        linear, files = rows_in(network, rolled(network, 2))
        force(monkeypatch, in_order(NODE, NOTES, DONE))
        graph, others = rows_in(network, rolled(network, 1, method=Vimrag(), steps=4, tokens=60))
        assert [row.segment for row in linear] == [0, 0]
        assert [row.segment for row in graph] == [0, 1]
        assert all(row.images for row in [*linear, *graph])
        assert drift(network, [graph[0], *linear, graph[1]], files | others) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
class TestPictures:
    def test_another_picture_gives_other_log_probabilities(self, family: str) -> None:
        """Everything else is the same: one public engine trained without pixels, and nobody saw it."""
        network = shared(family)
        side = factor(network)
        prompts = [first_prompt(network, [user("red", noise(at, factor=side), "blue")]) for at in (1, 2)]
        reply = write(network, prompts[:1], SamplingOptions(max_tokens=5), randoms(1))[0]
        rows = [row_of(prompt, reply) for prompt in prompts]
        assert rows[0].tokens.tolist() == rows[1].tokens.tolist()
        with torch().no_grad():
            scored = score(network, rows, files_of(*prompts)).logprobs
            alone = [score(network, [row], files_of(*prompts)).logprobs[0] for row in rows]
        assert float((scored[0] - scored[1]).abs().max()) > 100 * TOLERANCE
        for row, one in zip(scored, alone, strict=True):
            assert torch().allclose(row, one, atol=TOLERANCE)

    def test_order_matters(self, family: str) -> None:
        network = shared(family)
        shown: list[EnclosedImage] = [noise(at, factor=factor(network)) for at in (1, 2)]
        prompts = [first_prompt(network, [user("red", *order)]) for order in (shown, shown[::-1])]
        reply = write(network, prompts[:1], SamplingOptions(max_tokens=5), randoms(1))[0]
        with torch().no_grad():
            there, back = score(network, [row_of(one, reply) for one in prompts], files_of(*prompts)).logprobs
        assert float((there - back).abs().max()) > 10 * TOLERANCE

    def test_pixels_have_a_gradient(self, family: str) -> None:
        """The vision tower learns from what the language model said."""
        network = opened(family)
        prompt = first_prompt(network, [user("red", noise(1, factor=factor(network)))])
        reply = write(network, [prompt], SamplingOptions(max_tokens=5), randoms(1))[0]
        (-score(network, [row_of(prompt, reply)], files_of(prompt)).logprobs.sum()).backward()
        tower = [w for name, w in network.model.named_parameters() if ".visual." in name]
        assert sum(float(w.grad.abs().sum()) for w in tower if w.grad is not None) > 0

    def test_features_and_places_have_to_agree(self, family: str) -> None:
        network = shared(family)
        prompt = first_prompt(network, [user("red", noise(1, factor=factor(network)))])
        reply = write(network, [prompt], SamplingOptions(max_tokens=2), randoms(1))[0]
        row = row_of(prompt, reply)
        with pytest.raises(ValueError, match="4 places for 0 image features"):
            score(network, [replace(row, images=())], {})
        with pytest.raises(ValueError, match="4 places for 8 image features"):
            score(network, [replace(row, images=row.images * 2)], files_of(prompt))


class TestTheDistribution:
    def test_placeholders_are_out_of_it(self) -> None:
        """Their embeddings get no gradient as an output, and all other tokens share the whole probability."""
        network = shared()
        banned = network.checkpoint.banned
        assert len(banned) == 4
        prompt = first_prompt(network, [user("red")])
        vocabulary = network.model.config.get_text_config().vocab_size
        total = 0.0
        for start in range(0, vocabulary, 512):
            ids = [token for token in range(start, min(start + 512, vocabulary)) if token not in banned]
            rows = [
                Row(
                    np.array([*prompt.ids, token]),
                    np.array([False] * len(prompt.ids) + [True]),
                    np.zeros(len(prompt.ids) + 1, np.float32),
                    (),
                    0,
                )
                for token in ids
            ]
            with torch().no_grad():
                total += float(score(network, rows, {}).logprobs[:, -1].exp().sum())
        assert total == pytest.approx(1.0, abs=1e-4)

    def test_a_placeholder_that_stands_as_sampled_is_impossible(self) -> None:
        network = shared()
        prompt = first_prompt(network, [user("red")])
        token = next(token for token in network.checkpoint.banned if token != network.image_token)
        row = Row(
            np.array([*prompt.ids, token]),
            np.array([False] * len(prompt.ids) + [True]),
            np.zeros(len(prompt.ids) + 1, np.float32),
            (),
            0,
        )
        with torch().no_grad():
            assert float(score(network, [row], {}).logprobs.min()) == float("-inf")

    def test_entropy_is_that_of_the_distribution(self) -> None:
        network = shared()
        prompt = first_prompt(network, [user("red")])
        reply = write(network, [prompt], SamplingOptions(max_tokens=3), randoms(1))[0]
        with torch().no_grad():
            found = score(network, [row_of(prompt, reply)], {}).entropies
            logits = network.model(input_ids=torch().tensor([[*prompt.ids, *reply.ids]])).logits[0].float()
        logits[:, list(network.checkpoint.banned)] = float("-inf")
        laws = logits.softmax(-1)[len(prompt.ids) - 1 : -1]
        wanted = -(laws * laws.clamp(min=1e-30).log()).sum(-1)
        assert torch().allclose(found[0, -len(reply.ids) :], wanted, atol=1e-4)
        assert not found[0, : -len(reply.ids)].any()


class TestPiles:
    @staticmethod
    def rows(*lengths: int) -> list[Row]:
        return [Row(np.zeros(n, np.int64), np.ones(n, bool), np.zeros(n, np.float32), (), 0) for n in lengths]

    def test_every_row_is_in_one(self) -> None:
        rows = self.rows(3, 9, 1, 9, 4, 20)
        made = list(piles(rows, 18))
        assert made == [[5], [1, 3], [4, 0, 2]]
        assert all(len(pile) * len(rows[pile[0]].tokens) <= 18 for pile in made[1:])

    def test_of_nothing_there_are_none(self) -> None:
        assert list(piles([], 10)) == []
