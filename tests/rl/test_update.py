# ruff: noqa: ANN401 - the libraries are not typed
"""Steps that change the weights: what is learned, what stays, and that piles do not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import ValidationError
from tiny_world import (
    FAMILIES,
    TOLERANCE,
    files_of,
    noise,
    opened,
    randoms,
    row_of,
    same,
    shared,
    torch,
    user,
    weights,
)

from vrag.errors import ModelError
from vrag.rl import update
from vrag.rl.generation import SamplingOptions, first_prompt, inputs_of, write
from vrag.rl.losses import LossOptions, RatioKind
from vrag.rl.model import open_network
from vrag.rl.update import TrainBatch, UpdateOptions, Updates, score

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vrag.rl.model import TrainableModel
    from vrag.rl.rows import Row

PLAIN = LossOptions(kl=0.0)


def rows(network: TrainableModel, count: int = 4) -> tuple[list[Row], dict[str, bytes]]:
    """Of several lengths, every other one with a picture."""
    told = [[user("red " * (at + 1), *([noise(at)] if at % 2 else []))] for at in range(count)]
    prompts = [first_prompt(network, history) for history in told]
    replies = write(network, prompts, SamplingOptions(max_tokens=6), randoms(count))
    made = [row_of(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)]
    return made, files_of(*prompts)


def lesson(made: Sequence[Row], advantages: Sequence[float], masked: Sequence[bool] = ()) -> TrainBatch:
    return TrainBatch(
        made,
        np.array(advantages, np.float64),
        np.array(masked or [False] * len(made)),
        np.arange(len(made)),
        len(made),
    )


def improved(
    network: TrainableModel, taught: TrainBatch, files: dict[str, bytes], **more: Any
) -> dict[str, float]:
    options: LossOptions = more.pop("loss", PLAIN)
    reference = more.pop("reference", None)
    updates = Updates(network, UpdateOptions(lr=1e-2, **more))
    return updates.improve(taught, files, options, temperature=1.0, reference=reference)


class TestImproving:
    def test_without_an_advantage_nothing_changes(self) -> None:
        """All rewards of a group alike, and no entropy: the weights stay bit by bit."""
        network = opened()
        made, files = rows(network)
        before = weights(network)
        measured = improved(network, lesson(made, [0.0] * 4), files)
        assert measured["grad_norm"] == 0.0
        assert same(before, weights(network))

    def test_but_for_weight_decay(self) -> None:
        network = opened()
        made, files = rows(network)
        before = weights(network)
        improved(network, lesson(made, [0.0] * 4), files, weight_decay=0.1)
        for name, weight in weights(network).items():
            assert torch().allclose(weight, before[name] * (1 - 1e-2 * 0.1), atol=1e-7)

    def test_and_for_entropy(self) -> None:
        network = opened()
        made, files = rows(network)
        first = improved(network, lesson(made, [0.0] * 4), files, loss=LossOptions(kl=0.0, entropy=0.5))
        assert first["grad_norm"] > 0

    def test_masked_rows_teach_nothing(self) -> None:
        network = opened()
        made, files = rows(network)
        before = weights(network)
        masks = [True] * 4
        measured = improved(network, lesson(made, [1.0, -1.0, 2.0, 0.5], masks), files)
        assert measured["grad_norm"] == 0.0
        assert same(before, weights(network))

    def test_what_was_worth_more_becomes_likelier(self) -> None:
        network = opened()
        made, files = rows(network)
        updates = Updates(network, UpdateOptions(lr=3e-4))
        taught = lesson(made, [1.0, -1.0, 1.0, -1.0])
        with torch().no_grad():
            before = score(network, made, files).logprobs.sum(-1)
        updates.improve(taught, files, PLAIN, temperature=1.0)
        with torch().no_grad():
            change = score(network, made, files).logprobs.sum(-1) - before
        assert (change.sign() == torch().tensor([1.0, -1.0, 1.0, -1.0])).all()

    def test_the_sampler_is_the_policy_at_first(self) -> None:
        network = opened()
        made, files = rows(network)
        measured = improved(network, lesson(made, [1.0, -1.0, 1.0, -1.0]), files)
        assert measured["drift"] == pytest.approx(0.0, abs=TOLERANCE)
        assert measured["ratio"] == pytest.approx(1.0, abs=1e-5)
        assert measured["clipped"] == 0.0
        assert 0 < measured["entropy"] < np.log(2000)

    def test_a_gradient_that_is_no_number_is_thrown_away(self) -> None:
        network = opened()
        made, files = rows(network)
        before = weights(network)
        measured = improved(network, lesson(made, [1.0, np.nan, 1.0, 1.0]), files)
        assert np.isnan(measured["grad_norm"])
        assert same(before, weights(network))

    def test_a_segment_is_compared_with_the_forward_pass_and_a_token_with_the_sampler(self) -> None:
        """A sampler that rounds, as in half precision, by more than the narrow clip of segments."""
        network = opened()
        made, files = rows(network)
        rounded = [replace(row, logprobs=row.logprobs - np.float32(0.01) * row.own) for row in made]
        taught = lesson(rounded, [1.0, -1.0, 1.0, -1.0])
        segment, token = (
            improved(opened(), taught, files, loss=LossOptions(kl=0.0, kind=kind))
            for kind in (RatioKind.SEGMENT, RatioKind.TOKEN)
        )
        assert (segment["ratio"], segment["clipped"]) == (1.0, 0.0)
        assert token["ratio"] == pytest.approx(np.exp(0.01), abs=1e-5)
        assert segment["drift"] == pytest.approx(token["drift"]) != 0.0

    def test_piles_do_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All rows at once or each alone: the same gradient, the same means."""
        measured: list[dict[str, float]] = []
        norms: list[Any] = []
        for tokens in (10_000, 1):
            network = opened()
            made, files = rows(network)
            monkeypatch.setattr(update, "PILE_TOKENS", tokens)
            updates = Updates(network, UpdateOptions(lr=1e-3))
            reference = shared()
            options = LossOptions(kl=0.1, entropy=0.01)
            measured.append(
                updates.improve(
                    lesson(made, [1.0, -0.5, 0.2, -1.0], [False, False, True, False]),
                    files, options, temperature=1.0, reference=reference,
                )
            )  # fmt: skip
            norms.append(weights(network)["lm_head.weight"])
        assert measured[0].keys() == measured[1].keys()
        for name, value in measured[0].items():
            assert measured[1][name] == pytest.approx(value, rel=2e-3, abs=1e-6), name
        assert torch().allclose(norms[0], norms[1], atol=3e-4)

    def test_the_divergence_is_from_the_reference(self) -> None:
        network = opened()
        made, files = rows(network)
        updates = Updates(network, UpdateOptions(lr=1e-3))
        taught, options = lesson(made, [1.0, -1.0, 1.0, -1.0]), LossOptions(kl=0.1)
        values = [
            updates.improve(taught, files, options, temperature=1.0, reference=shared())["kl"]
            for _ in range(3)
        ]
        assert values[0] == pytest.approx(0.0, abs=1e-8)
        assert values[0] < values[1] < values[2]

    def test_tokens_are_weighted_by_how_far_the_sampler_was_off(self) -> None:
        """A sampler that gave each token exp(-0.5) of its probability, and the others exp(0.5)."""
        network = opened()
        made, files = rows(network)
        for number, row in enumerate(made):
            row.logprobs[row.own] += 0.5 if number % 2 else -0.5
        lessons = lesson(made, [1.0, 1.0, -1.0, -1.0])
        measured = {
            bound: Updates(opened(), UpdateOptions(lr=1e-3)).improve(
                lessons, files, LossOptions(kl=0.0, truncate=bound), temperature=1.0
            )
            for bound in (None, 1.2, 5.0)
        }
        assert {bound: values["drift"] for bound, values in measured.items()} == {
            bound: pytest.approx(0.5, abs=1e-4) for bound in measured
        }
        assert "truncated" not in measured[None]
        off = sum(row.own.sum() for row in made[::2]) / sum(row.own.sum() for row in made)
        assert measured[1.2]["truncated"] == pytest.approx(off)
        assert measured[5.0]["truncated"] == 0.0
        assert measured[1.2]["ratio"] == 1.0, "the ratio is that of the trainer to itself"
        assert measured[1.2]["grad_norm"] < measured[5.0]["grad_norm"]


class TestLearning:
    def test_rows_are_learned_by_heart(self) -> None:
        """Four rows, two with pictures, in a second or so."""
        network = opened()
        made, files = rows(network)
        updates = Updates(network, UpdateOptions(lr=1e-2, warmup=5))
        losses = [updates.learn(made, files)["loss"] for _ in range(40)]
        assert losses[0] > 5
        assert losses[-1] < 0.05

    def test_its_loss_is_the_mean_over_tokens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = opened()
        made, files = rows(network)
        values: list[dict[str, float]] = []
        for tokens in (10_000, 1):
            monkeypatch.setattr(update, "PILE_TOKENS", tokens)
            values.append(Updates(opened(), UpdateOptions(lr=1e-9)).learn(made, files))
        said = np.concatenate([row.logprobs[row.own] for row in made])
        assert values[0]["loss"] == pytest.approx(-said.mean(), rel=1e-4)
        assert values[0]["tokens"] == len(said)
        assert values[1]["loss"] == pytest.approx(values[0]["loss"], rel=1e-5)
        assert values[1]["grad_norm"] == pytest.approx(values[0]["grad_norm"], rel=1e-3)


class TestOptions:
    def test_a_frozen_tower_stays_and_keeps_no_gradients(self) -> None:
        network = opened()
        made, files = rows(network)
        before = weights(network)
        Updates(network, UpdateOptions(lr=1e-2, freeze_vision=True)).learn(made, files)
        changed = {name for name, value in weights(network).items() if not torch().equal(value, before[name])}
        assert changed
        assert not any(".visual." in name for name in changed)
        assert all(weight.grad is None for weight in network.model.parameters())

    def test_the_rate_rises_to_what_it_is(self) -> None:
        updates = Updates(opened(), UpdateOptions(lr=0.4, warmup=4))
        rates: list[float] = []
        for _ in range(6):
            updates._step()  # pyright: ignore[reportPrivateUsage]
            rates.append(updates.optimizer.param_groups[0]["lr"])
        assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])

    def test_gradients_are_clipped(self) -> None:
        network = opened()
        made, files = rows(network)
        updates = Updates(network, UpdateOptions(lr=1e-3, clip_norm=1e-3))
        norms: list[float] = []
        step = updates.optimizer.step

        def noted(*how: Any) -> Any:
            grads = [weight.grad for weight in network.model.parameters() if weight.grad is not None]
            norms.append(float(torch().stack([grad.norm() for grad in grads]).norm()))
            return step(*how)

        updates.optimizer.step = noted
        assert updates.learn(made, files)["grad_norm"] > 1
        assert norms == [pytest.approx(1e-3, rel=1e-3)]

    @pytest.mark.parametrize("wrong", [{"lr": 0}, {"warmup": -1}, {"clip_norm": 0}, {"rate": 1}])
    def test_what_cannot_be_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            UpdateOptions(**wrong)


class TestSkipping:
    """Rows from which nothing is learned are not computed, and nothing else comes of it."""

    ADVANTAGES, MASKED = (1.0, 0.0, -0.5, 2.0), (False, False, False, True)

    def all_of_them(
        self, taught: TrainBatch, files: dict[str, bytes], options: LossOptions
    ) -> tuple[float, Any]:
        """Loss and gradients by one pass over all rows."""
        from vrag.rl.losses import policy_loss, row_weights

        network = opened()
        Updates(network, UpdateOptions())
        scored = score(network, taught.rows, files)
        lengths = [int(row.own.sum()) for row in taught.rows]
        loss = policy_loss(
            scored.logprobs,
            scored.sampled,
            torch().tensor(taught.advantages).float(),
            scored.own,
            weights=torch().tensor(row_weights(lengths, taught.units, count=taught.count)).float(),
            masked=torch().tensor(taught.masked),
            entropies=scored.entropies,
            options=options,
        )
        loss.total.backward()
        return float(loss.total.detach()), network

    @pytest.mark.parametrize(("entropy", "skipped"), [(0.0, 0.5), (0.01, 0.25)])
    def test_loss_and_gradients_are_the_same(
        self, entropy: float, skipped: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network, options = opened(), LossOptions(kl=0.0, entropy=entropy)
        made, files = rows(network)
        taught = lesson(made, self.ADVANTAGES, self.MASKED)
        wanted, whole = self.all_of_them(taught, files, options)
        grads: dict[str, Any] = {}
        updates = Updates(network, UpdateOptions(clip_norm=1e9))

        def noted() -> None:
            grads.update({name: weight.grad.clone() for name, weight in network.model.named_parameters()})

        monkeypatch.setattr(updates.optimizer, "step", noted)
        measured = updates.improve(taught, files, options, temperature=1.0)
        assert measured["loss"] == pytest.approx(wanted, abs=1e-7)
        assert measured["skipped"] == skipped
        left = [0, 2] if not entropy else [0, 1, 2]
        assert measured["computed"] == sum(len(made[at].tokens) for at in left)
        for name, weight in whole.model.named_parameters():
            grad = torch().zeros_like(weight) if weight.grad is None else weight.grad
            assert torch().allclose(grads[name], grad, rtol=1e-4, atol=1e-6), name

    def test_a_divergence_is_of_all_rows_but_masked_ones(self) -> None:
        network = opened()
        made, files = rows(network)
        taught = lesson(made, [0.0] * 4, self.MASKED)
        options = LossOptions(kl=0.1)
        measured = improved(network, taught, files, loss=options, reference=shared())
        assert measured["skipped"] == 0.25
        assert "kl" in measured
        assert improved(opened(), taught, files, loss=options)["skipped"] == 1.0

    def test_momentum_goes_on_where_all_are_skipped(self) -> None:
        """As with the gradient of 0 that they have."""
        network = opened()
        made, files = rows(network)
        updates = Updates(network, UpdateOptions(lr=1e-2))
        updates.improve(lesson(made, [1.0, -1.0, 1.0, -1.0]), files, PLAIN, temperature=1.0)
        before = weights(network)
        measured = updates.improve(lesson(made, [0.0] * 4), files, PLAIN, temperature=1.0)
        assert measured == {"loss": 0.0, "grad_norm": 0.0, "skipped": 1.0, "computed": 0.0}
        assert not same(before, weights(network))


class TestAdapters:
    OPTIONS = UpdateOptions(lr=1e-2, lora_rank=4)

    def test_nothing_changes_before_they_are_trained(self) -> None:
        made, files = rows(shared())
        network = opened()
        network.add_adapters(4)
        with torch().no_grad():
            assert torch().equal(score(network, made, files).logprobs, score(shared(), made, files).logprobs)

    def test_they_alone_are_trained(self) -> None:
        network = opened()
        made, files = rows(network)
        updates = Updates(network, self.OPTIONS)
        before = weights(network)
        losses = [updates.learn(made, files)["loss"] for _ in range(10)]
        after = weights(network)
        assert losses[-1] < losses[0]
        changed = {name for name, value in after.items() if not torch().equal(before[name], value)}
        assert changed == set(network.adapters())
        assert len(changed) == 2 * 7 * 2, "A and B of seven layers in two blocks"

    @pytest.mark.parametrize("family", FAMILIES)
    def test_the_merged_checkpoint_computes_alike(self, family: str, tmp_path: Path) -> None:
        network = opened(family)
        made, files = rows(network)
        updates = Updates(network, self.OPTIONS)
        for _ in range(3):
            updates.learn(made, files)
        network.save(tmp_path)
        merged = open_network(tmp_path, device="cpu")
        assert weights(merged).keys() == weights(shared(family)).keys()
        assert not merged.adapters()
        inputs = inputs_of(network, [row.tokens.tolist() for row in made[:1]], [[]], left=False)
        with torch().no_grad():
            wanted, found = (model.model(**inputs).logits for model in (network, merged))
            plain = shared(family).model(**inputs).logits
        assert torch().allclose(wanted, found, atol=1e-4)
        assert not torch().allclose(wanted, plain, atol=1e-2), "and they have learned something"


class TestMemory:
    def test_what_does_not_suffice_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = opened()
        made, files = rows(network)

        def full(*_: Any, **__: Any) -> Any:
            raise torch().OutOfMemoryError("CUDA out of memory.")

        monkeypatch.setattr(update, "score", full)
        with pytest.raises(ModelError, match="not enough memory for the update") as told:
            Updates(network, UpdateOptions()).learn(made, files)
        assert "--lora-rank" in (told.value.hint or "")
