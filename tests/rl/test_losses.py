"""Policy losses: by hand, against plain loops, and through a tiny network."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from extras import require
from hypothesis import given
from hypothesis import strategies as st

from vrag.errors import SettingsError
from vrag.rl.losses import LossOptions, PolicyLoss, RatioKind, policy_loss, row_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

torch: Any = pytest.importorskip("torch", reason="the extra `models` is not installed")
NAN = math.nan


def tensor(values: object) -> Any:  # noqa: ANN401
    return torch.tensor(values, dtype=torch.float64)


def loss_of(
    new: Sequence[Sequence[float]],
    old: Sequence[Sequence[float]],
    advantages: Sequence[float],
    mask: Sequence[Sequence[bool]],
    *,
    weights: Sequence[float] | None = None,
    options: LossOptions | None = None,
    **more: Any,  # noqa: ANN401
) -> tuple[PolicyLoss, list[list[float]]]:
    """The loss, and its gradient with respect to the new log-probabilities."""
    leaf = tensor(new).requires_grad_()
    given = row_weights([sum(row) for row in mask], range(len(mask))) if weights is None else weights
    found = policy_loss(
        leaf,
        tensor(old),
        tensor(advantages),
        torch.tensor(mask),
        weights=tensor(given),
        options=options or LossOptions(kl=0.0),
        **{name: value if value is None else tensor(value) for name, value in more.items()},
    )
    if found.total.requires_grad:
        found.total.backward()
    return found, (torch.zeros_like(leaf) if leaf.grad is None else leaf.grad).tolist()


def value(found: PolicyLoss) -> float:
    return found.total.detach().item()


class TestWeights:
    def test_a_trajectory_of_two_rows_counts_once(self) -> None:
        # 6 tokens of trajectory 0 in two rows, 2 of trajectory 1
        assert row_weights([4, 2, 2], [0, 0, 1]).tolist() == pytest.approx([1 / 12, 1 / 12, 1 / 4])

    def test_units_without_a_row_count_in_the_mean(self) -> None:
        assert row_weights([2, 2], [5, 7], count=4).tolist() == [0.125, 0.125]

    def test_a_row_without_own_tokens_divides_nothing(self) -> None:
        assert np.isfinite(row_weights([0, 3], [0, 1])).all()
        assert row_weights([], []).tolist() == []

    @pytest.mark.parametrize(("own", "units", "count"), [([1, 2], [0], None), ([1, 2], [0, 1], 1)])
    def test_what_does_not_fit_is_refused(self, own: list[int], units: list[int], count: int | None) -> None:
        with pytest.raises(ValueError, match=r"not one for each|there are 2 units"):
            row_weights(own, units, count=count)

    @given(
        st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=8),
        st.integers(0, 3),
    )
    def test_all_own_tokens_of_all_units_weigh_their_share(
        self, rows: list[tuple[int, int]], without: int
    ) -> None:
        units = {unit for _, unit in rows}
        count = len(units) + without
        found = row_weights([own for own, _ in rows], [unit for _, unit in rows], count=count)
        for unit in units:
            weight = sum(w * own for w, (own, of) in zip(found, rows, strict=True) if of == unit)
            assert weight == pytest.approx(1 / count)


class TestByHand:
    def test_on_policy_the_gradient_is_the_advantage_over_the_tokens(self) -> None:
        # ratio 1: the loss is -A, and its gradient -A / (tokens · rows)
        logs = [[-1.0, -2.0, -3.0], [-1.0, -1.0, -1.0]]
        mask = [[True, True, False], [True, False, False]]
        found, gradient = loss_of(logs, logs, [2.0, -1.0], mask)
        assert value(found) == pytest.approx((-2.0 + 1.0) / 2)
        assert gradient == [[-0.5, -0.5, 0.0], [0.5, 0.0, 0.0]]

    def test_a_token_beyond_the_clip_has_no_gradient(self) -> None:
        far = math.log(1.5)
        new = [[far, -far, far, -far]]
        each = [[1.0, 1.0, -1.0, -1.0]]
        found, gradient = loss_of(new, [[0.0] * 4], each, [[True] * 4])  # pyright: ignore[reportArgumentType]
        # min(1.5, 1.2), min(0.667, 0.8), min(-1.5, -1.2), min(-0.667, -0.8)
        assert value(found) == pytest.approx(-(1.2 + 1 / 1.5 - 1.5 - 0.8) / 4)
        assert [value == 0 for value in gradient[0]] == [True, False, False, True]
        assert found.statistics["clipped"] == 0.5

    def test_a_segment_has_one_ratio_the_geometric_mean(self) -> None:
        options = LossOptions(kind=RatioKind.SEGMENT, clip=(0.5, 0.5), kl=0.0)
        found, gradient = loss_of(
            [[0.3, -0.1, 9.0]], [[0.0, 0.0, 0.0]], [2.0], [[True, True, False]], options=options
        )
        assert value(found) == pytest.approx(-2 * math.exp(0.1))
        assert gradient[0] == pytest.approx([-math.exp(0.1), -math.exp(0.1), 0.0])
        assert found.statistics["ratio"] == pytest.approx(math.exp(0.1))

    def test_a_segment_is_clipped_as_a_whole_and_closely(self) -> None:
        options = LossOptions(kind=RatioKind.SEGMENT, kl=0.0)
        for drift, moved in ((3.9e-4, True), (4.1e-4, False)):
            _, gradient = loss_of([[drift, drift]], [[0.0, 0.0]], [1.0], [[True, True]], options=options)
            assert any(gradient[0]) is moved
        for drift, moved in ((-2.9e-4, True), (-3.1e-4, False)):
            _, gradient = loss_of([[drift, drift]], [[0.0, 0.0]], [-1.0], [[True, True]], options=options)
            assert any(gradient[0]) is moved

    def test_importance_weights_are_truncated(self) -> None:
        """Trainer over sampler: 0.5, 1.5 and 4, cut at 2; the ratio of the trainer to itself is 1."""
        logs = [[0.0, 0.0, 0.0]]
        sampled = [[math.log(2.0), -math.log(1.5), -math.log(4.0)]]
        found, gradient = loss_of(
            logs, logs, [3.0], [[True] * 3], sampled=sampled, options=LossOptions(kl=0.0, truncate=2.0)
        )
        assert value(found) == pytest.approx(-3.0 * (0.5 + 1.5 + 2.0) / 3)
        assert gradient[0] == pytest.approx([-0.5, -1.5, -2.0]), "weights have no gradient of their own"
        assert found.statistics["truncated"] == pytest.approx(1 / 3)
        assert found.statistics["drift"] == pytest.approx(math.log(2.0 * 1.5 * 4.0) / 3)
        assert "truncated" not in loss_of(logs, logs, [3.0], [[True] * 3])[0].statistics

    @pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, NAN])
    def test_a_bound_of_importance_weights_is_a_number_above_0(self, bound: float) -> None:
        with pytest.raises(SettingsError, match="truncated"):
            LossOptions(truncate=bound)

    def test_the_divergence_from_a_reference(self) -> None:
        logs, reference = [[-1.0, -1.0]], [[-1.0, -1.5]]
        found, gradient = loss_of(
            logs, logs, [0.0], [[True, True]], options=LossOptions(kl=0.1), reference=reference
        )
        expected = (math.exp(-0.5) + 0.5 - 1) / 2
        assert value(found) == pytest.approx(0.1 * expected)
        assert found.statistics["kl"] == pytest.approx(expected)
        assert gradient[0] == pytest.approx([0.0, 0.1 * (1 - math.exp(-0.5)) / 2])

    def test_entropy_is_rewarded(self) -> None:
        logs = [[-1.0, -1.0]]
        found, _ = loss_of(
            logs,
            logs,
            [0.0],
            [[True, False]],
            options=LossOptions(kl=0.0, entropy=0.01),
            entropies=[[2.0, 9.0]],
        )
        assert value(found) == pytest.approx(-0.02)
        assert found.statistics["entropy"] == 2.0

    def test_a_masked_segment_counts_in_the_mean_and_nowhere_else(self) -> None:
        logs = [[-1.0], [-1.0]]
        found, gradient = loss_of(logs, logs, [1.0, 1.0], [[True], [True]], masked=[0, 1])
        assert value(found) == -0.5
        assert gradient == [[-0.5], [0.0]]
        assert found.statistics["tokens"] == 1


Batch = tuple[list[list[tuple[float, float, float, float, bool]]], list[float], list[bool], list[float]]
NUMBER = st.floats(-3, 3).map(lambda value: round(value, 3))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    rows, width = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    token = st.tuples(NUMBER, NUMBER, NUMBER, NUMBER, st.booleans())
    cells = draw(st.lists(st.lists(token, min_size=width, max_size=width), min_size=rows, max_size=rows))
    each = st.tuples(st.sampled_from([-1.5, 0.0, 1.0]), st.booleans(), st.sampled_from([0.1, 0.5]))
    of = draw(st.lists(each, min_size=rows, max_size=rows))
    return cells, [one for one, _, _ in of], [one for _, one, _ in of], [one for _, _, one in of]


def plainly(batch: Batch, options: LossOptions) -> float:
    """The loss once more, token by token."""
    cells, advantages, masked, weights = batch
    low, high = options.clips
    total = 0.0
    for row, advantage, hidden, weight in zip(cells, advantages, masked, weights, strict=True):
        own = [cell for cell in row if cell[4]]
        if hidden or not own:
            continue
        mean = sum(new - old for new, old, *_ in own) / len(own)
        for new, old, reference, entropy, _ in own:
            ratio = math.exp(mean if options.kind is RatioKind.SEGMENT else new - old)
            within = max(1 - low, min(1 + high, ratio))
            term = -min(ratio * advantage, within * advantage)
            apart = math.exp(reference - new) - (reference - new) - 1
            total += weight * (term + options.kl * apart - options.entropy * entropy)
    return total


class TestAgainstALoop:
    @given(batch=batches(), kind=st.sampled_from(RatioKind), noise=st.sampled_from([NAN, math.inf, 0.0]))
    def test_gives_the_same_and_masked_tokens_have_exactly_no_gradient(
        self, batch: Batch, kind: RatioKind, noise: float
    ) -> None:
        cells, advantages, masked, weights = batch
        options = LossOptions(kind=kind, clip=(0.2, 0.3), kl=0.05, entropy=0.01)

        def column(at: int) -> list[list[float]]:
            """A column; what is not the model's own is noise."""
            return [[cell[at] if cell[4] else noise for cell in row] for row in cells]

        mask = [[cell[4] for cell in row] for row in cells]
        found, gradient = loss_of(
            column(0),
            column(1),
            advantages,
            mask,
            weights=weights,
            options=options,
            masked=[float(hidden) for hidden in masked],
            reference=column(2),
            entropies=column(3),
        )
        assert value(found) == pytest.approx(plainly(batch, options), abs=1e-9)
        for row, own, hidden in zip(gradient, mask, masked, strict=True):
            assert all(value == 0.0 for value, ours in zip(row, own, strict=True) if hidden or not ours)
        assert all(map(math.isfinite, found.statistics.values()))

    @given(batch=batches(), kind=st.sampled_from(RatioKind))
    def test_pieces_add_up_to_the_batch(self, batch: Batch, kind: RatioKind) -> None:
        cells, advantages, _, weights = batch
        options = LossOptions(kind=kind, clip=(0.2, 0.2), kl=0.0)
        new, old = ([[cell[at] for cell in row] for row in cells] for at in range(2))
        mask = [[cell[4] for cell in row] for row in cells]
        whole, gradient = loss_of(new, old, advantages, mask, weights=weights, options=options)
        pieces = [
            loss_of(
                [new[at]], [old[at]], [advantages[at]], [mask[at]], weights=[weights[at]], options=options
            )
            for at in range(len(cells))
        ]
        assert value(whole) == pytest.approx(sum(value(one) for one, _ in pieces), abs=1e-9)
        assert gradient == [row for _, rows in pieces for row in rows]


class TestFar:
    def test_advantages_of_tokens_that_are_not_its_own_say_nothing(self) -> None:
        each: Any = [[2.0, NAN]]
        found, gradient = loss_of([[-1.0, -1.0]], [[-1.0, -1.0]], each, [[True, False]])
        assert value(found) == -2.0
        assert gradient == [[-2.0, 0.0]]

    def test_nothing_overflows(self) -> None:
        found, gradient = loss_of(
            [[-1.0, -900.0]],
            [[-900.0, -1.0]],
            [-1.0],
            [[True, True]],
            options=LossOptions(kl=0.01),
            reference=[[-900.0, -1.0]],
        )
        assert math.isfinite(value(found))
        assert all(map(math.isfinite, gradient[0]))

    def test_nothing_of_its_own(self) -> None:
        found, gradient = loss_of([[-1.0]], [[-1.0]], [1.0], [[False]])
        assert (value(found), gradient) == (0.0, [[0.0]])
        assert set(found.statistics.values()) == {0.0}


@pytest.mark.parametrize(
    "wrong",
    [{"clip": (0.0, 0.2)}, {"clip": (1.1, 0.2)}, {"clip": (0.2, NAN)}, {"kl": -1.0}, {"entropy": NAN}],
)
def test_options_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        LossOptions(**wrong)


@pytest.fixture(scope="module")
def network() -> Any:  # noqa: ANN401 - not typed
    """A tiny Qwen2.5-VL."""
    require("models", "transformers")
    torch.set_num_threads(1)
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        tiny: Any = importlib.import_module("tiny_models")
    finally:
        sys.path.pop()
    tiny.seeded(3)
    made = tiny.tokenizer()
    kind: Any = importlib.import_module("transformers").Qwen2_5_VLForConditionalGeneration
    return tiny.enlarge(kind(tiny.qwen2_5_vl(made)))


Flat: TypeAlias = "NDArray[np.float64]"


def gradients(network: Any, masked: list[bool], kind: RatioKind) -> tuple[float, Flat]:  # noqa: ANN401
    """Loss over two rows with a picture each, and the gradient of all weights, flat."""
    image = network.config.image_token_id
    ids = torch.tensor([[10, 11, image, 12, 13, 14, 15], [10, image, 11, 20, 21, 22, 23]])
    mask = torch.tensor([[False] * 4 + [True] * 3, [False] * 3 + [True] * 3 + [False]])
    network.zero_grad(set_to_none=True)
    logits = network(
        input_ids=ids,
        mm_token_type_ids=(ids == image).int(),
        pixel_values=torch.linspace(-1, 1, 2 * 4 * 1176).reshape(8, 1176),
        image_grid_thw=torch.tensor([[1, 2, 2], [1, 2, 2]]),
    ).logits[:, :-1]
    laws = torch.log_softmax(logits, dim=-1)
    chosen = laws.gather(-1, ids[:, 1:, None])[..., 0]
    found = policy_loss(
        chosen,
        chosen.detach() - 1e-4,
        torch.tensor([1.0, -0.5]),
        mask[:, 1:],
        weights=torch.tensor(row_weights([3, 3], [0, 1])),
        masked=torch.tensor(masked),
        reference=chosen.detach() - 0.3,
        entropies=-(laws.exp() * laws).sum(-1),
        options=LossOptions(kind=kind, kl=0.01, entropy=0.01),
    )
    found.total.backward()
    parts = [
        weight.grad.double().numpy().ravel() for weight in network.parameters() if weight.grad is not None
    ]
    return value(found), np.concatenate(parts)


class TestThroughANetwork:
    @pytest.mark.parametrize("kind", RatioKind)
    def test_masked_rows_have_exactly_zero_gradient_in_every_weight(
        self,
        network: Any,  # noqa: ANN401
        kind: RatioKind,
    ) -> None:
        total, gradient = gradients(network, [True, True], kind)
        assert total == 0.0
        assert not gradient.any()

    def test_rows_that_are_not_masked_have_one_and_it_adds_up(self, network: Any) -> None:  # noqa: ANN401
        (_, both), (_, first), (_, second) = (
            gradients(network, masked, RatioKind.TOKEN)
            for masked in ([False, False], [False, True], [True, False])
        )
        assert first.any()
        assert second.any()
        assert np.abs(first - second).max() > 1e-3
        np.testing.assert_allclose(both, first + second, rtol=1e-3, atol=1e-5)
