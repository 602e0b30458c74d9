"""The forward pass of training: log-probabilities of the tokens that a model sampled."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.embed.device import library
from vrag.rl.generation import inputs_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from vrag.rl.model import TrainableModel, VisionInputs
    from vrag.rl.rows import Row

__all__ = ["Scoring", "TokenScores", "piles", "score"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How a forward pass spends memory. What comes of it is the same but for its last bits."""

    logit_tokens: int = 1024
    """Tokens whose logits are in memory at once: each takes 4 bytes for each word of the vocabulary, and
    some copies of that. Where there are more, those of each chunk are made again in the backward pass."""
    activations: bool = True
    """Whether what layers pass on is kept; else it is made again in the backward pass, which takes about a
    third more time. Where layers can do so: see `TrainableModel.recompute`."""
    entropies: bool = True
    """Whether the entropies have a graph."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """What a network makes of rows. All of shape (rows, n - 1): the first token of a row follows nothing."""

    own: Any
    """True where the model sampled the token."""
    logprobs: Any
    """Of each token that follows, with their graph; 0 where it is not its own."""
    entropies: Any
    """Of the distribution each was drawn from, in nats, with their graph; 0 likewise."""
    sampled: Any
    """What the sampler said of `logprobs`; 0 likewise."""


def piles(rows: Sequence[Row], tokens: int) -> Iterator[list[int]]:
    """Numbers of rows that are computed together, longest first, so that little is filled up.

    Args:
        rows: What is computed.
        tokens: Of a pile at most, filled up; a row that is longer stands alone.
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
    how: Scoring | None = None,
) -> TokenScores:
    """Log-probabilities and entropies of the own tokens of rows, as they were drawn.

    Placeholders of pictures are out of the distribution, as when sampling. Positions are the model's own
    multimodal rotary ones, made by it from ids, kinds of tokens and grids. Logits are computed for own tokens
    alone, and not for all of them at once.

    Args:
        network: What is trained; it computes as precisely as when it samples.
        rows: Training rows.
        files: Their pictures, `<sha256>.jpg`.
        temperature: With which they were drawn; 0 counts as 1.
        how: How memory is spent.

    Raises:
        ValueError: If the pictures of a row have other features than it has placeholders.
    """
    torch, ours = library("torch"), how or Scoring()
    inputs = inputs_of(
        network, [row.tokens.tolist() for row in rows], _seen(network, rows, files), left=False
    )
    ids = inputs["input_ids"]
    own = torch.from_numpy(_filled([row.own for row in rows], ids.shape[1]).astype(bool)).to(ids.device)[
        :, 1:
    ]
    with network.computing(), _layers(network, recomputed=not ours.activations):
        hidden = network.model.model(**inputs, use_cache=False)[0][:, :-1][own]
    chosen, entropies = _score_tokens(network, hidden, ids[:, 1:][own], temperature or 1.0, ours)
    blank = torch.zeros(own.shape, dtype=chosen.dtype, device=ids.device)
    sampled = torch.from_numpy(_filled([row.logprobs for row in rows], ids.shape[1])).to(ids.device)[:, 1:]
    return TokenScores(
        own,
        blank.masked_scatter(own, chosen),
        blank.masked_scatter(own, entropies),
        sampled,
    )


def _seen(
    network: TrainableModel, rows: Sequence[Row], files: Mapping[str, bytes]
) -> list[list[VisionInputs]]:
    """The pictures of each row, which have to be as many features as it has places."""
    seen = [[network.see(sha256, files[f"{sha256}.jpg"]) for sha256 in row.images] for row in rows]
    for row, pictures in zip(rows, seen, strict=True):
        places = int((row.tokens == network.image_token).sum())
        if places != sum(picture.tokens for picture in pictures):
            raise ValueError(
                f"a row has {places} places for {sum(p.tokens for p in pictures)} image features"
            )
    return seen


def _score_tokens(
    network: TrainableModel,
    hidden: Any,  # noqa: ANN401
    ids: Any,  # noqa: ANN401
    temperature: float,
    how: Scoring,
) -> tuple[Any, Any]:
    """Log-probabilities and entropies, both (tokens,), chunk by chunk.

    Args:
        network: Whose head.
        hidden: What it is given, (tokens, width).
        ids: What followed, (tokens,).
        temperature: With which it was drawn.
        how: Tokens of a chunk.
    """
    torch = library("torch")
    law = partial(_law, network, temperature, how.entropies)
    chunks = list(zip(hidden.split(how.logit_tokens), ids.split(how.logit_tokens), strict=True))
    if len(chunks) == 1 or not torch.is_grad_enabled():
        made = [law(*chunk) for chunk in chunks]
    else:
        again = library("torch.utils.checkpoint").checkpoint
        made = [again(law, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
    logprobs, entropies = zip(*made, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _law(network: TrainableModel, temperature: float, graph: bool, hidden: Any, ids: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Log-probabilities and entropies of a chunk, both (tokens,)."""
    torch = library("torch")
    logits = network.model.lm_head(hidden).float()
    if temperature != 1.0:
        logits = logits / temperature
    banned = torch.tensor(network.checkpoint.banned, device=logits.device, dtype=torch.long)
    laws = logits.index_fill(-1, banned, float("-inf")).log_softmax(dim=-1)
    chosen = laws.gather(-1, ids[:, None])[:, 0]
    with torch.set_grad_enabled(graph and torch.is_grad_enabled()):
        entropies = -(laws.exp() * laws.masked_fill(laws == float("-inf"), 0.0)).sum(dim=-1)
    return chosen, entropies


@contextmanager
def _layers(network: TrainableModel, *, recomputed: bool) -> Generator[None]:
    """Layers recompute while they are said to be in training, which nothing else of a network may be.

    Dropout would come with it, and a network that samples with a cache would lose that.
    """
    wanted = recomputed and library("torch").is_grad_enabled()
    layers = [one for one in network.model.modules() if getattr(one, "gradient_checkpointing", False)]
    for layer in layers:
        layer.training = wanted
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


def _filled(values: Sequence[Any], width: int) -> Any:  # noqa: ANN401
    filled = np.zeros((len(values), width), dtype=np.float32)
    for row, value in enumerate(values):
        filled[row, : len(value)] = value
    return filled
