"""Replies for many runs at once: prompts in token ids, and batches of them through one network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.agent.policies.local_model import opening_of
from vrag.agent.policy import EnclosedImage, FinishReason, Picture, Role
from vrag.embed.device import library
from vrag.errors import ContextTooLong, SettingsError
from vrag.rl.rows import covering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vrag.agent.policy import Message
    from vrag.rl.model import TrainableModel, VisionInputs

__all__ = [
    "GeneratedReply",
    "GenerationPrompt",
    "SamplingOptions",
    "first_prompt",
    "inputs_of",
    "next_prompt",
    "room_of",
    "write",
]


_PARTS = 2**40
"""Into so many parts probability is cut; what is likely to less than one of them is never drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How replies are drawn.

    Raises:
        SettingsError: If a value is out of range.
    """

    temperature: float = 1.0
    """0 takes the likeliest token each time."""
    max_tokens: int = 256
    """Tokens of a reply at most."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf") or self.max_tokens < 1:
            raise SettingsError(
                f"No reply of {self.max_tokens} tokens can be drawn at a temperature of {self.temperature}.",
                "A temperature is 0 or more, and a reply has at least one token.",
            )


@dataclass(frozen=True, slots=True, eq=False)
class GenerationPrompt:
    """What a network is told, in its tokens."""

    text: str
    """By the chat template, one placeholder a picture."""
    ids: tuple[int, ...]
    """One placeholder for each visual token."""
    seen: tuple[VisionInputs, ...]
    """Its pictures, in order."""
    messages: tuple[Message, ...]
    """What it was made of."""


@dataclass(frozen=True, slots=True)
class GeneratedReply:
    """A reply."""

    text: str
    ids: tuple[int, ...]
    """The end-of-turn token included."""
    logprobs: tuple[float, ...]
    """Natural logarithms of the probabilities they were drawn with; at temperature 0 of the model's own."""
    finish: FinishReason


def first_prompt(network: TrainableModel, history: Sequence[Message]) -> GenerationPrompt:
    """A prompt from scratch."""
    text = network.checkpoint.prompt(history)
    return _grown(network, GenerationPrompt("", (), (), ()), text, text, history)


def next_prompt(
    network: TrainableModel, before: GenerationPrompt, reply: GeneratedReply, history: Sequence[Message]
) -> GenerationPrompt:
    """A prompt that goes on from the one before and its reply, where the history does.

    The ids of both are taken over, and only what was added since is encoded: a reply is never decoded and
    encoded again. Where the history is another one, such as a context that was rebuilt, it begins anew.

    Args:
        network: Whose tokens.
        before: What the network was told last.
        reply: What it said to that.
        history: What it is told now.
    """
    known = len(before.messages)
    if len(history) <= known or any(a is not b for a, b in zip(before.messages, history, strict=False)):
        return first_prompt(network, history)
    said, text = history[known], network.checkpoint.prompt(history)
    wanted = said.text.removeprefix(opening_of(before.text))
    start = before.text + wanted
    if said.role is not Role.ASSISTANT or not reply.text.startswith(said.text) or not text.startswith(start):
        return first_prompt(network, history)
    decode = network.checkpoint.decode
    kept = covering(reply.ids, wanted, decode)
    begun = GenerationPrompt(start, (*before.ids, *reply.ids[:kept]), before.seen, before.messages)
    return _grown(network, begun, text[len(start) :], text, history)


def _grown(
    network: TrainableModel, begun: GenerationPrompt, added: str, text: str, history: Sequence[Message]
) -> GenerationPrompt:
    """A prompt with more text, and the pictures that stand in it."""
    parts = [part for message in history for part in message.parts]
    pictures = [part for part in parts if isinstance(part, Picture | EnclosedImage)]
    new = [network.see(picture.sha256, picture.jpeg) for picture in pictures[len(begun.seen) :]]
    ids: list[int] = list(begun.ids)
    coming = iter(new)
    for token in network.encode(added):
        ids += [token] * (next(coming).tokens if token == network.image_token else 1)
    return GenerationPrompt(text, tuple(ids), (*begun.seen, *new), tuple(history))


def write(
    network: TrainableModel,
    prompts: Sequence[GenerationPrompt],
    sampling: SamplingOptions,
    randoms: Sequence[np.random.Generator],
) -> list[GeneratedReply]:
    """Replies to several prompts, in one batch.

    A reply depends on its prompt, its generator and, in the last bits of floating point, on the batch: the
    same batch gives the same replies. What one prompt leaves room for is no other's limit.

    Args:
        network: What writes.
        prompts: What it is told.
        sampling: How it draws.
        randoms: One source of chance for each prompt.

    Raises:
        ContextTooLong: If a prompt leaves no room for a reply.
    """
    most = [min(sampling.max_tokens, room_of(network, prompt)) for prompt in prompts]
    length = max(most)
    noise = np.stack([random.random(length) for random in randoms])
    torch = library("torch")
    drawer = _Drawer(network, sampling, torch.from_numpy(noise))
    inputs = inputs_of(
        network, [prompt.ids for prompt in prompts], [prompt.seen for prompt in prompts], left=True
    )
    with torch.inference_mode(), network.computing():
        network.model.generate(
            **inputs, max_new_tokens=length, logits_processor=[drawer.choose], use_cache=True
        )
    return [
        _written(network, prompt, ids[:room], logprobs[:room])
        for prompt, room, ids, logprobs in zip(prompts, most, drawer.ids, drawer.logprobs, strict=True)
    ]


def room_of(network: TrainableModel, prompt: GenerationPrompt) -> int:
    """How many tokens may follow a prompt.

    Raises:
        ContextTooLong: If none may.
    """
    context = network.checkpoint.context
    if len(prompt.ids) >= context:
        raise ContextTooLong(
            f"A prompt has {len(prompt.ids)} tokens, and the model takes {context} with the reply.",
            "Allow fewer steps, or show fewer or smaller pictures.",
        )
    return context - len(prompt.ids)


def _written(
    network: TrainableModel, prompt: GenerationPrompt, ids: list[int], logprobs: list[float]
) -> GeneratedReply:
    ends = network.checkpoint.ends
    end = next((at + 1 for at, token in enumerate(ids) if token in ends), len(ids))
    text = opening_of(prompt.text) + network.checkpoint.decode(ids[:end])
    finish = FinishReason.STOP if end and ids[end - 1] in ends else FinishReason.LENGTH
    return GeneratedReply(text, tuple(ids[:end]), tuple(logprobs[:end]), finish)


def inputs_of(
    network: TrainableModel,
    ids: Sequence[Sequence[int]],
    seen: Sequence[Sequence[VisionInputs]],
    *,
    left: bool,
) -> dict[str, Any]:
    """The tensors of a batch: ids, attention, kinds of tokens, pictures.

    Args:
        network: Whose input it is.
        ids: Of each row; placeholders of pictures expanded.
        seen: The pictures of each row.
        left: Whether shorter rows are filled up on the left, as for writing, or on the right.
    """
    torch = library("torch")
    width = max(map(len, ids))
    pad = network.checkpoint.tokenizer.pad_token_id
    filled: NDArray[np.int64] = np.full((len(ids), width), pad, dtype=np.int64)
    attention: NDArray[np.int64] = np.zeros((len(ids), width), dtype=np.int64)
    for row, tokens in enumerate(ids):
        place = slice(width - len(tokens), width) if left else slice(0, len(tokens))
        filled[row, place], attention[row, place] = tokens, 1
    tokens = torch.from_numpy(filled)
    inputs = {
        "input_ids": tokens,
        "attention_mask": torch.from_numpy(attention),
        "mm_token_type_ids": (tokens == network.image_token).int(),
    }
    pictures = [picture for row in seen for picture in row]
    if pictures:
        inputs["pixel_values"] = torch.cat([picture.pixels for picture in pictures])
        inputs["image_grid_thw"] = torch.tensor([picture.grid for picture in pictures])
    return {name: value.to(network.checkpoint.device.name) for name, value in inputs.items()}


@dataclass(slots=True)
class _Drawer:
    """Draws the tokens of a batch: a hook of `generate`, which then takes the only one left possible.

    Chance is drawn beforehand, one number in [0, 1) a token: a token is where that number falls among the
    probabilities laid end to end. So no state of any generator is touched while a batch is written.
    """

    network: TrainableModel
    sampling: SamplingOptions
    noise: Any
    """(rows, tokens)"""
    ids: list[list[int]] = field(init=False)
    logprobs: list[list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = [[] for _ in range(len(self.noise))]
        self.logprobs = [[] for _ in range(len(self.noise))]

    def choose(self, _ids: Any, scores: Any) -> Any:  # noqa: ANN401
        """Draws from scores, (rows, vocabulary)."""
        torch = library("torch")
        scores = scores.float()
        scores[:, list(self.network.checkpoint.banned)] = float("-inf")
        logprobs = torch.log_softmax(scores / (self.sampling.temperature or 1.0), dim=-1)
        drawn = self._drawn(logprobs)
        chosen = logprobs.gather(-1, drawn)
        for row, (token, logprob) in enumerate(zip(drawn[:, 0].tolist(), chosen[:, 0].tolist(), strict=True)):
            self.ids[row].append(token)
            self.logprobs[row].append(logprob)
        return torch.full_like(scores, float("-inf")).scatter_(-1, drawn, 0.0)

    def _drawn(self, logprobs: Any) -> Any:  # noqa: ANN401
        if not self.sampling.temperature:
            return logprobs.argmax(dim=-1, keepdim=True)
        laid = (
            (logprobs.double().exp() * _PARTS).long().cumsum(dim=-1)
        )  # whole numbers: in any order the same
        at = (self.noise[:, len(self.ids[0]), None].to(laid.device) * laid[:, -1:]).long()
        drawn = library("torch").searchsorted(laid, at, right=True)
        return drawn.clamp(max=logprobs.shape[-1] - 1)
