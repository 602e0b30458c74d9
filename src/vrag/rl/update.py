"""The forward pass of training, and updates of the weights, a pile of rows at a time.

The forward pass computes the log-probabilities of the tokens that a model sampled. Steps are supervised, or
by a policy loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from vrag.agent.policies.local_model import within_memory
from vrag.embed.device import library
from vrag.rl.generation import inputs_of
from vrag.rl.losses import LossOptions, RatioKind, policy_loss, row_weights
from vrag.rl.model import TrainableModel
from vrag.rl.rows import Row

PILE_TOKENS = 16_384
"""Tokens that are computed together at most."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """Scores of the tokens of rows, all of shape (rows, n - 1): the first token of a row follows nothing."""

    own: Any
    """True where the model sampled the token."""
    logprobs: Any
    """Of each token that follows, with their graph; 0 where it is not its own."""
    entropies: Any
    """Of the distribution each was drawn from, in nats, with their graph; 0 likewise."""
    sampled: Any
    """The sampler's own `logprobs`; 0 likewise."""


def piles(rows: Sequence[Row], tokens: int) -> Iterator[list[int]]:
    """Group the numbers of rows that are computed together, longest first, so that there is little padding.

    A pile has at most so many tokens, padding included; a row that is longer is alone.
    """
    order = sorted(range(len(rows)), key=lambda at: (-len(rows[at].tokens), at))
    pile: list[int] = []
    for at in order:
        if pile and (len(pile) + 1) * len(rows[pile[0]].tokens) > tokens:
            yield pile
            pile = []
        pile.append(at)
    if pile:
        yield pile


def score(
    network: TrainableModel,
    rows: Sequence[Row],
    files: Mapping[str, bytes],
    temperature: float = 1.0,
) -> TokenScores:
    """Compute log-probabilities and entropies of the own tokens of rows, as they were drawn.

    Placeholders of images are out of the distribution, as when sampling. Positions are the model's own
    multimodal rotary ones, made by it from ids, kinds of tokens and grids. Logits are computed for own tokens
    alone.

    `files` holds the images of the rows, `<sha256>.jpg`; a temperature of 0 counts as 1. Raises ValueError if
    the images of a row have other features than it has placeholders.
    """
    torch = library("torch")
    images = [[network.see(sha256, files[f"{sha256}.jpg"]) for sha256 in row.images] for row in rows]
    for row, seen in zip(rows, images, strict=True):
        places, features = int((row.tokens == network.image_token).sum()), sum(image.tokens for image in seen)
        if places != features:
            raise ValueError(f"a row has {places} places for {features} image features")
    inputs = inputs_of(network, [row.tokens.tolist() for row in rows], images, left=False)
    ids = inputs["input_ids"]
    width, device = ids.shape[1], ids.device
    own = torch.from_numpy(_pad([row.own for row in rows], width).astype(bool)).to(device)[:, 1:]
    hidden = network.model.model(**inputs, use_cache=False)[0][:, :-1][own]
    chosen, entropies = _score_tokens(network, hidden, ids[:, 1:][own], temperature or 1.0)
    blank = torch.zeros(own.shape, dtype=chosen.dtype, device=device)
    sampled = torch.from_numpy(_pad([row.logprobs for row in rows], width)).to(device)[:, 1:]
    return TokenScores(own, blank.masked_scatter(own, chosen), blank.masked_scatter(own, entropies), sampled)


def _score_tokens(network: TrainableModel, hidden: Any, ids: Any, temperature: float) -> tuple[Any, Any]:  # noqa: ANN401
    """Compute log-probabilities and entropies, both (tokens,); `hidden` is (tokens, width)."""
    banned = library("torch").tensor(
        network.checkpoint.banned, device=hidden.device, dtype=library("torch").long
    )
    logits = network.model.lm_head(hidden).float()
    if temperature != 1.0:
        logits = logits / temperature
    distributions = logits.index_fill(-1, banned, float("-inf")).log_softmax(dim=-1)
    chosen = distributions.gather(-1, ids[:, None])[:, 0]
    finite = distributions.masked_fill(distributions == float("-inf"), 0.0)
    return chosen, -(distributions.exp() * finite).sum(dim=-1)


def _pad(values: Sequence[Any], width: int) -> Any:  # noqa: ANN401
    padded = np.zeros((len(values), width), dtype=np.float32)
    for row, value in enumerate(values):
        padded[row, : len(value)] = value
    return padded


_USE_LESS = "Train with fewer rows per step, with --lora-rank or with --freeze-vision."
"""Advice where memory does not suffice."""


class UpdateOptions(BaseModel):
    """The options of an update."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lr: float = Field(default=1e-6, gt=0, description="Learning rate of AdamW.")
    warmup: int = Field(default=0, ge=0, description="Steps in which the learning rate rises to that.")
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float = Field(default=1.0, gt=0, description="Norm of the gradient at most.")
    freeze_vision: bool = Field(
        default=False, description="Leave the vision tower and its projector as they are."
    )
    lora_rank: int | None = Field(
        default=None,
        ge=1,
        description="Train low-rank adapters of the language model; none: all of its weights.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class TrainBatch:
    """Rows of a step with their advantages."""

    rows: Sequence[Row]
    advantages: NDArray[np.float64]
    """Shape (rows,)."""
    masked: NDArray[np.bool_]
    """Rows without any gradient, shape (rows,)."""
    units: NDArray[np.int64]
    """The trajectory or segment of each: within one the mean is over tokens; shape (rows,)."""
    count: int
    """Number of units, those without rows included."""

    def needed(self, *, everywhere: bool) -> list[int]:
        """List the rows from which anything is learned.

        With `everywhere`, the loss has terms for rows without an advantage as well.
        """
        taught = ~self.masked if everywhere else ~self.masked & (self.advantages != 0)
        return [int(at) for at in np.flatnonzero(taught)]


@dataclass(slots=True, eq=False)
class Updates:
    """The optimizer of a network.

    Bit by bit the same for the same batches in the same order, on the same machine with the same libraries
    and number of threads; on CUDA see `vrag.rl.checkpoints`.
    """

    network: TrainableModel
    options: UpdateOptions
    done: int = 0
    """Number of steps."""
    optimizer: Any = field(init=False)

    def __post_init__(self) -> None:
        if self.options.lora_rank is not None:
            self.network.add_adapters(self.options.lora_rank)
        trained = self.network.trained(vision=not self.options.freeze_vision)
        self.network.model.requires_grad_(False)  # frozen weights need no gradient
        for weight in trained:
            weight.requires_grad_(True)
        self.optimizer = library("torch").optim.AdamW(
            trained,
            lr=self.options.lr,
            weight_decay=self.options.weight_decay,
            foreach=False,  # on CUDA it is the default, and takes another copy of all weights
        )

    @within_memory("the update", _USE_LESS)
    def learn(self, rows: Sequence[Row], files: Mapping[str, bytes]) -> dict[str, float]:
        """Make a supervised step: the mean of the own tokens' negative log-probabilities.

        Returns `loss` in nats a token, `grad_norm`, `tokens`: those learned, and `computed`: all of the rows.
        Raises `ModelError` if the memory does not suffice.
        """
        tokens = sum(int(row.own.sum()) for row in rows)
        loss = 0.0
        for pile in piles(rows, PILE_TOKENS):
            scored = score(self.network, [rows[at] for at in pile], files)
            part = -scored.logprobs.sum() / max(tokens, 1)
            part.backward()
            loss += float(part.detach())
        return {
            "loss": loss,
            "grad_norm": self._step(),
            "tokens": float(tokens),
            "computed": _count_tokens(rows),
        }

    @within_memory("the update", _USE_LESS)
    def improve(
        self,
        train_batch: TrainBatch,
        files: Mapping[str, bytes],
        options: LossOptions,
        *,
        temperature: float,
        reference: TrainableModel | None = None,
    ) -> dict[str, float]:
        """Make a policy step.

        Rows from which nothing is learned are not computed: masked ones, and those without an advantage
        where neither entropy nor divergence is in the loss. Loss and gradient are the same without them.

        Returns `loss`, `grad_norm`, `skipped`: share of the rows that were not computed, `computed`: tokens
        of those that were; and means over the own tokens of these: `kl`, `entropy`, `clipped`, `truncated`,
        `drift`: how far the log-probabilities of sampler and forward pass differ, which should be the same.
        Without such tokens there are no means. Raises `ModelError` if the memory does not suffice.
        """
        lengths = np.array([row.own.sum() for row in train_batch.rows])
        weights = row_weights(lengths, train_batch.units, count=train_batch.count)
        needed = train_batch.needed(
            everywhere=bool(options.entropy or (options.kl and reference is not None))
        )
        rows = [train_batch.rows[at] for at in needed]
        sums: dict[str, float] = {"loss": 0.0}
        for within in piles(rows, PILE_TOKENS):
            pile = [needed[at] for at in within]
            found = self._learn_pile(train_batch, pile, weights, files, options, temperature, reference)
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + value * (
                    1.0 if name in {"loss", "tokens"} else found["tokens"]
                )
        tokens = max(sums.pop("tokens", 0.0), 1.0)
        means = {name: value if name == "loss" else value / tokens for name, value in sums.items()}
        skipped = 1.0 - len(needed) / max(len(train_batch.rows), 1)
        return means | {"grad_norm": self._step(), "skipped": skipped, "computed": _count_tokens(rows)}

    def _learn_pile(
        self,
        train_batch: TrainBatch,
        pile: Sequence[int],
        weights: NDArray[np.float64],
        files: Mapping[str, bytes],
        options: LossOptions,
        temperature: float,
        reference: TrainableModel | None,
    ) -> dict[str, float]:
        torch = library("torch")
        rows = [train_batch.rows[at] for at in pile]
        known = None
        if reference is not None and options.kl:
            with torch.no_grad():
                known = score(reference, rows, files, temperature).logprobs
        scored = score(self.network, rows, files, temperature)
        place = scored.logprobs.device
        # One update a batch: the policy is the one that sampled. By segment the clip is narrower than what
        # half precision rounds, so that the ratio is taken from the same forward pass; and with importance
        # weights it is these that correct for the sampler.
        same_pass = options.kind is RatioKind.SEGMENT or options.truncate is not None
        old = scored.logprobs.detach() if same_pass else scored.sampled
        loss = policy_loss(
            scored.logprobs,
            old,
            torch.from_numpy(train_batch.advantages[list(pile)]).float().to(place),
            scored.own,
            weights=torch.from_numpy(weights[list(pile)]).float().to(place),
            masked=torch.from_numpy(train_batch.masked[list(pile)]).to(place),
            reference=known,
            entropies=scored.entropies,
            sampled=scored.sampled,
            options=options,
        )
        if loss.total.requires_grad:
            loss.total.backward()
        return {"loss": float(loss.total.detach()), **loss.statistics}

    def _step(self) -> float:
        """Apply the accumulated gradients; return their norm.

        Gradients that are no numbers are dropped: weights would never recover from them. A weight
        that no row has touched has a gradient of 0: it moves by its momentum, whatever was skipped.
        """
        self.done += 1
        rate = self.options.lr * min(1.0, self.done / max(self.options.warmup, 1))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        trained = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        for weight in trained:
            if weight.grad is None:
                weight.grad = weight.new_zeros(weight.shape)
        norm = library("torch").nn.utils.clip_grad_norm_(trained, self.options.clip_norm)
        if math.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)


def _count_tokens(rows: Sequence[Row]) -> float:
    """Count all tokens of rows, not their own alone."""
    return float(sum(len(row.tokens) for row in rows))
