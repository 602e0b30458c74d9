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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """Memory options of a forward pass. Results are the same but for their last bits."""

    logit_tokens: int = 1024
    """Tokens whose logits are in memory at once: each takes 4 bytes for each word of the vocabulary, and
    some copies of that. Where there are more, those of each chunk are made again in the backward pass."""
    activations: bool = True
    """True if activations are kept; else they are computed again in the backward pass, which takes about a
    third more time. Where layers can do so: see `TrainableModel.recompute`."""
    entropies: bool = True
    """True if the entropies have a graph."""


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
    how: Scoring | None = None,
) -> TokenScores:
    """Compute log-probabilities and entropies of the own tokens of rows, as they were drawn.

    Placeholders of images are out of the distribution, as when sampling. Positions are the model's own
    multimodal rotary ones, made by it from ids, kinds of tokens and grids. Logits are computed for own tokens
    alone, and not for all of them at once.

    Args:
        network: The trained model; it computes as precisely as when it samples.
        rows: Training rows.
        files: Their images, `<sha256>.jpg`.
        temperature: Of the sampling; 0 counts as 1.
        how: Memory options.

    Raises:
        ValueError: If the images of a row have other features than it has placeholders.
    """
    torch, options = library("torch"), how or Scoring()
    images = _see_images(network, rows, files)
    inputs = inputs_of(network, [row.tokens.tolist() for row in rows], images, left=False)
    ids = inputs["input_ids"]
    width, device = ids.shape[1], ids.device
    own = torch.from_numpy(_pad([row.own for row in rows], width).astype(bool)).to(device)[:, 1:]
    with network.computing(), _recomputing(network, wanted=not options.activations):
        hidden = network.model.model(**inputs, use_cache=False)[0][:, :-1][own]
    chosen, entropies = _score_tokens(network, hidden, ids[:, 1:][own], temperature or 1.0, options)
    blank = torch.zeros(own.shape, dtype=chosen.dtype, device=device)
    sampled = torch.from_numpy(_pad([row.logprobs for row in rows], width)).to(device)[:, 1:]
    return TokenScores(own, blank.masked_scatter(own, chosen), blank.masked_scatter(own, entropies), sampled)


def _see_images(
    network: TrainableModel, rows: Sequence[Row], files: Mapping[str, bytes]
) -> list[list[VisionInputs]]:
    """The images of each row, which have to have as many features as it has places."""
    seen = [[network.see(sha256, files[f"{sha256}.jpg"]) for sha256 in row.images] for row in rows]
    for row, images in zip(rows, seen, strict=True):
        places = int((row.tokens == network.image_token).sum())
        features = sum(image.tokens for image in images)
        if places != features:
            raise ValueError(f"a row has {places} places for {features} image features")
    return seen


def _score_tokens(
    network: TrainableModel,
    hidden: Any,  # noqa: ANN401
    ids: Any,  # noqa: ANN401
    temperature: float,
    how: Scoring,
) -> tuple[Any, Any]:
    """Log-probabilities and entropies, both (tokens,), chunk by chunk; `hidden` is (tokens, width)."""
    torch = library("torch")
    score_chunk = partial(_score_chunk, network, temperature, how.entropies)
    chunks = list(zip(hidden.split(how.logit_tokens), ids.split(how.logit_tokens), strict=True))
    if len(chunks) == 1 or not torch.is_grad_enabled():
        scores = [score_chunk(*chunk) for chunk in chunks]
    else:
        checkpoint = library("torch.utils.checkpoint").checkpoint
        options = {"use_reentrant": False, "preserve_rng_state": False}
        scores = [checkpoint(score_chunk, *chunk, **options) for chunk in chunks]
    logprobs, entropies = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _score_chunk(
    network: TrainableModel,
    temperature: float,
    graph: bool,
    hidden: Any,  # noqa: ANN401
    ids: Any,  # noqa: ANN401
) -> tuple[Any, Any]:
    """Log-probabilities and entropies of a chunk, both (tokens,)."""
    torch = library("torch")
    logits = network.model.lm_head(hidden).float()
    if temperature != 1.0:
        logits = logits / temperature
    banned = torch.tensor(network.checkpoint.banned, device=logits.device, dtype=torch.long)
    distributions = logits.index_fill(-1, banned, float("-inf")).log_softmax(dim=-1)
    chosen = distributions.gather(-1, ids[:, None])[:, 0]
    with torch.set_grad_enabled(graph and torch.is_grad_enabled()):
        finite = distributions.masked_fill(distributions == float("-inf"), 0.0)
        entropies = -(distributions.exp() * finite).sum(dim=-1)
    return chosen, entropies


@contextmanager
def _recomputing(network: TrainableModel, *, wanted: bool) -> Generator[None]:
    """Put layers into training mode, in which they recompute activations, but no other part of the network.

    Dropout would come with it, and a network that samples with a cache would lose that.
    """
    training = wanted and library("torch").is_grad_enabled()
    layers = [layer for layer in network.model.modules() if getattr(layer, "gradient_checkpointing", False)]
    for layer in layers:
        layer.training = training
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


def _pad(values: Sequence[Any], width: int) -> Any:  # noqa: ANN401
    padded = np.zeros((len(values), width), dtype=np.float32)
    for row, value in enumerate(values):
        padded[row, : len(value)] = value
    return padded
