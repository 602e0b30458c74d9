"""Prompts of rollout servers: token ids, each prompt an extension of the one before.

A conversation keeps the sampled ids: the model's own text is never decoded and encoded again. Only newer
messages are encoded, as the model's own chat template writes them behind a turn of the model.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vrag.agent.policies.local_model import as_chat, opening_of
from vrag.agent.policy import EnclosedImage, Picture, Role
from vrag.errors import ModelError
from vrag.rl.rows import Vocabulary, count_covering

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vrag.agent.policy import Message
    from vrag.geometry import Size


_VISION = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
_TURNS = ("<|im_start|>",)


class Tokenizer(Protocol):
    """The used part of a tokenizer of transformers."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Encode text; special tokens in it are recognized."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ChatTemplate:
    """The conversion of one model's conversations to tokens. One serves all conversations."""

    render: Callable[[list[dict[str, Any]]], str]
    """Messages to text, with the opening of the model's next turn."""
    encode: Callable[[str], list[int]]
    vocabulary: Vocabulary
    banned: tuple[int, ...] = ()
    """Tokens that the model must not sample: marks of pictures and of turns."""

    def tokens(self, text: str, pictures: Sequence[Size]) -> list[int]:
        """Encode a text, with as many placeholders for each picture as it has features.

        Raises:
            ModelError: If the text has another number of places for pictures.
        """
        given = iter(pictures)
        ids: list[int] = []
        places = 0
        for token in self.encode(text):
            if token != self.vocabulary.image:
                ids.append(token)
                continue
            places += 1
            if (size := next(given, None)) is not None:
                ids += [token] * self.vocabulary.features(size)
        if places != len(pictures):
            raise ModelError(f"The chat template has {places} places for {len(pictures)} pictures.")
        return ids


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """The prompt of one reply."""

    ids: tuple[int, ...]
    pictures: tuple[Picture | EnclosedImage, ...]
    """In the order of their placeholders."""
    opening: str
    """The beginning of the reply by the template, such as `<think>`; its tokens are the prompt's."""


@dataclass(slots=True)
class TokenConversation:
    """The prompts of one run, in order."""

    template: ChatTemplate
    _history: tuple[Message, ...] = ()
    _prompt: TokenPrompt | None = None
    _sampled: tuple[int, ...] = field(default=())

    def prompt(self, history: Sequence[Message]) -> TokenPrompt:
        """Build the next prompt: an extension of the last one, or a new one where the context was rebuilt.

        Raises:
            ModelError: If the chat template cannot write it.
        """
        new = history[len(self._history) :]
        goes_on = (
            self._prompt is not None
            and self._sampled
            and tuple(history[: len(self._history)]) == self._history
            and len(new) > 1
            and new[0].role is Role.ASSISTANT
        )
        self._prompt = self._extend(new) if goes_on else self._start(history)
        self._history, self._sampled = tuple(history), ()
        return self._prompt

    def add_reply(self, ids: Sequence[int]) -> str:
        """Add the sampled reply to the last prompt; return its text."""
        assert self._prompt is not None
        self._sampled = tuple(ids)
        return self._prompt.opening + self.template.vocabulary.decode(ids)

    def _start(self, history: Sequence[Message]) -> TokenPrompt:
        text = self._render(map(as_chat, history))
        pictures = _pictures(history)
        ids = self.template.tokens(text, [picture.canvas for picture in pictures])
        return TokenPrompt(tuple(ids), pictures, opening_of(text))

    def _extend(self, new: Sequence[Message]) -> TokenPrompt:
        assert self._prompt is not None
        reply, *messages = new
        mark = secrets.token_hex(16)
        base = [{"role": "user", "content": "-"}, {"role": "assistant", "content": mark}]
        _, found, text = self._render([*base, *map(as_chat, messages)]).partition(mark)
        if not found:
            raise ModelError("The chat template leaves out the model's reply.")
        pictures = _pictures(messages)
        added = self.template.tokens(text, [picture.canvas for picture in pictures])
        kept = self._kept(len(reply.text))
        if kept and added and kept[-1] == added[0]:
            added = added[1:]  # the model ended its turn itself, and the template ends it too
        return TokenPrompt(
            (*self._prompt.ids, *kept, *added), (*self._prompt.pictures, *pictures), opening_of(text)
        )

    def _kept(self, executed: int) -> tuple[int, ...]:
        """The sampled tokens through the end of the action that ran, as `vrag.rl.rows` keeps them.

        `executed` counts characters of the reply that ran, with its beginning by the template.
        """
        assert self._prompt is not None
        vocabulary, ids = self.template.vocabulary, self._sampled
        wanted = vocabulary.decode(ids)[: max(0, executed - len(self._prompt.opening))]
        count = count_covering(ids, wanted, vocabulary.decode)
        return ids[: count + (count < len(ids) and ids[count] in vocabulary.ends)]

    def _render(self, messages: Any) -> str:  # noqa: ANN401 - an iterable of what chat templates take
        try:
            return self.template.render(list(messages))
        except Exception as error:  # templates are code of others, and raise what they like
            raise ModelError(f"The chat template cannot write the conversation: {error}.") from error


def open_template(
    processor: Any,  # noqa: ANN401 - the library is not typed
    tokenizer: Any,  # noqa: ANN401
    features: Callable[[Size], int],
    options: Mapping[str, Any] | None = None,
) -> ChatTemplate:
    """Open the chat template of a model of transformers.

    Args:
        processor: Its processor; its chat template is the one that knows pictures.
        tokenizer: Its tokenizer.
        features: How many tokens a picture takes: `Profile.visual_tokens`.
        options: Of the chat template: `data.apply_chat_template_kwargs`.

    Raises:
        ModelError: If the model has no vision tokens.
    """
    image = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    if image is None or image == tokenizer.unk_token_id:
        raise ModelError("The tokenizer has no <|image_pad|>.", "Take a model of a Qwen-VL family.")
    named = {name: tokenizer.convert_tokens_to_ids(name) for name in (*_VISION, *_TURNS)}
    known = {name: id for name, id in named.items() if id is not None and id != tokenizer.unk_token_id}
    writer = processor if getattr(processor, "chat_template", None) else tokenizer
    extra = dict(options or {})

    def render(messages: list[dict[str, Any]]) -> str:
        return writer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **extra)

    def decode(ids: Sequence[int]) -> str:
        return tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    ends = {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.pad_token_id}
    return ChatTemplate(
        render=render,
        encode=lambda text: list(tokenizer.encode(text, add_special_tokens=False)),
        vocabulary=Vocabulary(
            decode=decode,
            ends=frozenset(end for end in ends if end is not None and end != tokenizer.unk_token_id),
            image=image,
            forbidden=frozenset(id for name, id in known.items() if name in _VISION),
            features=features,
        ),
        banned=tuple(known.values()),
    )


def _pictures(messages: Sequence[Message]) -> tuple[Picture | EnclosedImage, ...]:
    parts = (part for message in messages for part in message.parts)
    return tuple(part for part in parts if isinstance(part, Picture | EnclosedImage))
