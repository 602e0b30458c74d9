"""Replies for many runs at once: prompts in token ids, and batches of them through one network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrag.agent.policies.local_model import opening_of
from vrag.agent.policy import EnclosedImage, FinishReason, Message, Picture, Role
from vrag.embed.device import library
from vrag.errors import ContextTooLong, ModelError, SettingsError
from vrag.rl.model import TrainableModel, VisionInputs
from vrag.rl.rows import count_covering

_PARTS = 2**40
"""Resolution of probabilities; a token of less than one part is never drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """The options of sampling. Raises `SettingsError` if a value is out of range."""

    temperature: float = 1.0
    """0 takes the likeliest token each time."""
    max_tokens: int = 256
    """Maximum of tokens of a reply."""
    stop: tuple[str, ...] = ()
    """Strings that end a reply outside of thoughts, such as the end tags of actions. The token that completes
    one is its last: the string stays in the reply, and nothing is sampled behind it."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf") or self.max_tokens < 1:
            raise SettingsError(
                f"Replies of {self.max_tokens} tokens cannot be sampled at temperature {self.temperature}.",
                "The temperature must be 0 or more, and the number of tokens at least 1.",
            )
        if not all(self.stop):
            raise SettingsError("stop holds an empty string, which would stop every reply.")

    def is_complete(self, text: str) -> bool:
        """Check whether a reply, with the opening that its prompt gave it, holds a stop string.

        >>> options = SamplingOptions(stop=("</search>",))
        >>> options.is_complete("<think>a </search> b")
        False
        >>> options.is_complete("<think>a</think><search>b</SEARCH>")
        True
        """
        spoken = text.lower().rpartition("</think>")[2]  # tags may be in capitals
        return "<think>" not in spoken and any(stop.lower() in spoken for stop in self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class GenerationPrompt:
    """A prompt in the tokens of a network."""

    text: str
    """By the chat template, one placeholder for each image."""
    ids: tuple[int, ...]
    """One placeholder for each visual token."""
    seen: tuple[VisionInputs, ...]
    """Its images, in order."""
    messages: tuple[Message, ...]
    """Its source."""


@dataclass(frozen=True, slots=True)
class GeneratedReply:
    """A sampled reply."""

    text: str
    ids: tuple[int, ...]
    """The end-of-turn token included, where it was sampled; a stop string ends a reply without it."""
    logprobs: tuple[float, ...]
    """Natural logarithms of the sampling probabilities; at temperature 0 of the model's own."""
    finish: FinishReason


def first_prompt(network: TrainableModel, history: Sequence[Message]) -> GenerationPrompt:
    """Build the first prompt of a conversation."""
    text = network.checkpoint.prompt(history)
    return _extend(network, GenerationPrompt("", (), (), ()), text, text, history)


def next_prompt(
    network: TrainableModel, before: GenerationPrompt, reply: GeneratedReply, history: Sequence[Message]
) -> GenerationPrompt:
    """Build a prompt that extends the last one and its reply, where the history does.

    The ids of both are kept, and only newer text is encoded: a reply is never decoded and encoded again.
    Where the history is another one, such as a context that was rebuilt, it is a first prompt.
    """
    known = len(before.messages)
    if len(history) <= known or any(a is not b for a, b in zip(before.messages, history, strict=False)):
        return first_prompt(network, history)
    message, text = history[known], network.checkpoint.prompt(history)
    executed = message.text.removeprefix(opening_of(before.text))
    start = before.text + executed
    if message.role is not Role.ASSISTANT or not reply.text.startswith(message.text):
        return first_prompt(network, history)
    if not text.startswith(start):
        return first_prompt(network, history)
    kept = count_covering(reply.ids, executed, network.checkpoint.decode)
    begun = GenerationPrompt(start, (*before.ids, *reply.ids[:kept]), before.seen, before.messages)
    return _extend(network, begun, text[len(start) :], text, history)


def _extend(
    network: TrainableModel, begun: GenerationPrompt, added: str, text: str, history: Sequence[Message]
) -> GenerationPrompt:
    """Add text to a prompt, and its images."""
    pictures = pictures_of(history)[len(begun.seen) :]
    new = [network.see(picture.sha256, picture.jpeg) for picture in pictures]
    ids = expand_images(network.encode(added), network.image_token, [image.tokens for image in new])
    return GenerationPrompt(text, (*begun.ids, *ids), (*begun.seen, *new), tuple(history))


def pictures_of(messages: Iterable[Message]) -> list[Picture | EnclosedImage]:
    """List the images of messages, in order."""
    parts = (part for message in messages for part in message.parts)
    return [part for part in parts if isinstance(part, Picture | EnclosedImage)]


def expand_images(ids: Sequence[int], placeholder: int, tokens: Sequence[int]) -> list[int]:
    """Repeat the placeholder of each image as often as the image has tokens.

    Raises `ModelError` if there are more or fewer placeholders than images.
    """
    places = ids.count(placeholder)
    if places != len(tokens):
        raise ModelError(f"The chat template has {places} places for {len(tokens)} pictures.")
    counts = iter(tokens)
    return [id for token in ids for id in [token] * (next(counts) if token == placeholder else 1)]


def write(
    network: TrainableModel,
    prompts: Sequence[GenerationPrompt],
    sampling: SamplingOptions,
    randoms: Sequence[np.random.Generator],
) -> list[GeneratedReply]:
    """Sample replies to several prompts, in one batch.

    A reply depends on its prompt, its generator and, in the last bits of floating point, on the batch: the
    same batch gives the same replies. The room that one prompt leaves is no limit of others.

    `randoms` has a generator for each prompt. Raises `ContextTooLong` if a prompt leaves no room for a reply.
    """
    most = [min(sampling.max_tokens, room_of(network, prompt)) for prompt in prompts]
    length = max(most)
    noise = np.stack([random.random(length) for random in randoms])
    torch = library("torch")
    openings = [opening_of(prompt.text) for prompt in prompts]
    sampler = _TokenSampler(network, sampling, torch.from_numpy(noise), most, openings)
    inputs = inputs_of(
        network, [prompt.ids for prompt in prompts], [prompt.seen for prompt in prompts], left=True
    )
    with torch.inference_mode():
        network.model.generate(
            **inputs, max_new_tokens=length, logits_processor=[sampler.choose], use_cache=True
        )
    return [sampler.reply(row) for row in range(len(prompts))]


def room_of(network: TrainableModel, prompt: GenerationPrompt) -> int:
    """Count the tokens that may follow a prompt; raise `ContextTooLong` if none may."""
    context = network.checkpoint.context
    if len(prompt.ids) >= context:
        raise ContextTooLong(
            f"A prompt has {len(prompt.ids)} tokens, and the model takes {context} with the reply.",
            "Allow fewer steps, or fewer or smaller pictures.",
        )
    return context - len(prompt.ids)


def inputs_of(
    network: TrainableModel,
    ids: Sequence[Sequence[int]],
    seen: Sequence[Sequence[VisionInputs]],
    *,
    left: bool,
) -> dict[str, Any]:
    """Build the tensors of a batch: ids, attention, kinds of tokens, images.

    `ids` and `seen` are the tokens, with placeholders expanded, and the images of each row. Shorter rows are
    padded on the left for sampling (`left`), otherwise on the right.
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
class _TokenSampler:
    """Draws the tokens of a batch: a hook of `generate`, which then takes the only one left possible.

    The noise is drawn beforehand, one number in [0, 1) a token: a token is where that number falls among the
    cumulative probabilities. So no state of any generator is touched while a batch is sampled.

    A reply ends by its end-of-turn token, with a stop string, or where its room ends. From then on `generate`
    is given end-of-turn tokens for it, which are not recorded, until all replies have ended.
    """

    network: TrainableModel
    sampling: SamplingOptions
    noise: Any
    """(rows, tokens)"""
    room: Sequence[int]
    """Maximum of tokens of each reply."""
    openings: Sequence[str]
    """The beginning of each reply that its prompt gave it."""
    drawn: int = 0
    """Tokens drawn so far in each row, those behind the end of a reply included."""
    ids: list[list[int]] = field(init=False)
    logprobs: list[list[float]] = field(init=False)
    finishes: list[FinishReason | None] = field(init=False)
    """None for a reply that goes on."""
    last_characters: frozenset[str] = field(init=False)
    """Of the stop strings: a token without any of them completes none."""

    def __post_init__(self) -> None:
        self.ids = [[] for _ in range(len(self.noise))]
        self.logprobs = [[] for _ in range(len(self.noise))]
        self.finishes = [None] * len(self.noise)
        self.last_characters = frozenset(stop[-1] for stop in self.sampling.stop)

    def choose(self, _ids: Any, scores: Any) -> Any:  # noqa: ANN401
        """Draw from scores, (rows, vocabulary)."""
        torch = library("torch")
        scores = scores.float()
        scores[:, list(self.network.checkpoint.banned)] = float("-inf")
        logprobs = torch.log_softmax(scores / (self.sampling.temperature or 1.0), dim=-1)
        drawn = self._draw(logprobs)
        self.drawn += 1
        chosen = logprobs.gather(-1, drawn)
        for row, (token, logprob) in enumerate(zip(drawn[:, 0].tolist(), chosen[:, 0].tolist(), strict=True)):
            if self.finishes[row] is None:
                self.ids[row].append(token)
                self.logprobs[row].append(logprob)
                self.finishes[row] = self._finish_of(row)
            else:
                drawn[row] = self._end
        return torch.full_like(scores, float("-inf")).scatter_(-1, drawn, 0.0)

    def reply(self, row: int) -> GeneratedReply:
        """Return what was sampled for a row."""
        ids = self.ids[row]
        text = self.openings[row] + self.network.checkpoint.decode(ids)
        finish = self.finishes[row] or FinishReason.LENGTH
        return GeneratedReply(text, tuple(ids), tuple(self.logprobs[row]), finish)

    @property
    def _end(self) -> int:
        return int(self.network.checkpoint.tokenizer.eos_token_id)

    def _finish_of(self, row: int) -> FinishReason | None:
        """Return why a reply ends with its last token; None if it goes on."""
        checkpoint, ids = self.network.checkpoint, self.ids[row]
        if ids[-1] in checkpoint.ends or (self._may_complete(ids[-1]) and self._is_complete(row)):
            return FinishReason.STOP
        return FinishReason.LENGTH if len(ids) >= self.room[row] else None

    def _may_complete(self, token: int) -> bool:
        """Check whether a token may be the last of a stop string; one that is part of a character may."""
        if not self.last_characters:
            return False
        piece = self.network.checkpoint.decode([token])
        return "\ufffd" in piece or not self.last_characters.isdisjoint(piece)

    def _is_complete(self, row: int) -> bool:
        return self.sampling.is_complete(self.openings[row] + self.network.checkpoint.decode(self.ids[row]))

    def _draw(self, logprobs: Any) -> Any:  # noqa: ANN401
        if not self.sampling.temperature:
            return logprobs.argmax(dim=-1, keepdim=True)
        # Whole numbers: their sums are the same in any order.
        cumulative = (logprobs.double().exp() * _PARTS).long().cumsum(dim=-1)
        place = (self.noise[:, self.drawn, None].to(cumulative.device) * cumulative[:, -1:]).long()
        drawn = library("torch").searchsorted(cumulative, place, right=True)
        return drawn.clamp(max=logprobs.shape[-1] - 1)
