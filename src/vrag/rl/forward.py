"""The forward pass of training: log-probabilities of the tokens that a model sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.embed.device import library
from vrag.rl.generation import inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.rl.network import Network
    from vrag.rl.rows import Row

__all__ = ["Scored", "piles", "score"]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
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
    network: Network, rows: Sequence[Row], files: Mapping[str, bytes], temperature: float = 1.0
) -> Scored:
    """Log-probabilities and entropies of the own tokens of rows, as they were drawn.

    Placeholders of pictures are out of the distribution, as when sampling. Positions are the model's own
    multimodal rotary ones, made by it from ids, kinds of tokens and grids. Logits are computed for own tokens
    alone.

    Args:
        network: What is trained.
        rows: Training rows.
        files: Their pictures, `<sha256>.jpg`.
        temperature: With which they were drawn; 0 counts as 1.

    Raises:
        ValueError: If the pictures of a row have other features than it has placeholders.
    """
    torch = library("torch")
    seen = [[network.see(sha256, files[f"{sha256}.jpg"]) for sha256 in row.images] for row in rows]
    for row, pictures in zip(rows, seen, strict=True):
        places = int((row.tokens == network.image_token).sum())
        if places != sum(picture.tokens for picture in pictures):
            raise ValueError(
                f"a row has {places} places for {sum(p.tokens for p in pictures)} image features"
            )
    inputs = inputs_of(network, [row.tokens.tolist() for row in rows], seen, left=False)
    ids = inputs["input_ids"]
    own = torch.from_numpy(_filled([row.own for row in rows], ids.shape[1]).astype(bool)).to(ids.device)[
        :, 1:
    ]
    hidden = network.model.model(**inputs, use_cache=False)[0][:, :-1][own]
    logits = network.model.lm_head(hidden).float() / (temperature or 1.0)
    banned = torch.tensor(network.checkpoint.banned, device=logits.device, dtype=torch.long)
    laws = logits.index_fill(-1, banned, float("-inf")).log_softmax(dim=-1)
    chosen = laws.gather(-1, ids[:, 1:][own][:, None])[:, 0]
    entropies = -(laws.exp() * laws.masked_fill(laws == float("-inf"), 0.0)).sum(dim=-1)
    blank = torch.zeros(own.shape, dtype=chosen.dtype, device=ids.device)
    sampled = torch.from_numpy(_filled([row.logprobs for row in rows], ids.shape[1])).to(ids.device)[:, 1:]
    return Scored(
        own,
        blank.masked_scatter(own, chosen),
        blank.masked_scatter(own, entropies),
        sampled,
    )


def _filled(values: Sequence[Any], width: int) -> Any:  # noqa: ANN401
    filled = np.zeros((len(values), width), dtype=np.float32)
    for row, value in enumerate(values):
        filled[row, : len(value)] = value
    return filled
