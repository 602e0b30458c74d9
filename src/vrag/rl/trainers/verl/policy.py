"""The policy of a rollout, which asks the servers of verl by token ids, and its prompts.

Unlike other policies it belongs to one run: the conversation that it extends is that run's. The conversation
keeps the sampled ids: the model's own text is never decoded and encoded again. Only newer messages are
encoded, as the model's own chat template writes them behind a turn of the model.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from vrag.agent.policies.local_model import as_chat, opening_of
from vrag.agent.policy import (
    Delta,
    EnclosedImage,
    FinishReason,
    Message,
    Picture,
    Reply,
    Role,
    Sampled,
    Tokens,
)
from vrag.errors import ContextTooLong, ModelError
from vrag.geometry import Size
from vrag.rl.generation import expand_images, pictures_of
from vrag.rl.rows import Vocabulary, count_covering

_VISION = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
_TURNS = ("<|im_start|>",)


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
        """Encode a text, with as many placeholders for each picture as it has features."""
        counts = [self.vocabulary.features(size) for size in pictures]
        return expand_images(self.encode(text), self.vocabulary.image, counts)


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
        """Build the next prompt: an extension of the last one, or a new one where the context was rebuilt."""
        new = history[len(self._history) :]
        goes_on = (
            self._prompt is not None
            and self._sampled
            and tuple(history[: len(self._history)]) == self._history
            and len(new) > 1
            and new[0].role is Role.ASSISTANT
        )
        if goes_on:
            self._prompt = self._extend(new)
        else:
            text = self._render(map(as_chat, history))
            pictures = tuple(pictures_of(history))
            ids = self.template.tokens(text, [picture.canvas for picture in pictures])
            self._prompt = TokenPrompt(tuple(ids), pictures, opening_of(text))
        self._history, self._sampled = tuple(history), ()
        return self._prompt

    def add_reply(self, ids: Sequence[int]) -> str:
        """Add the sampled reply to the last prompt; return its text."""
        assert self._prompt is not None
        self._sampled = tuple(ids)
        return self._prompt.opening + self.template.vocabulary.decode(ids)

    def _extend(self, new: Sequence[Message]) -> TokenPrompt:
        assert self._prompt is not None
        reply, *messages = new
        mark = secrets.token_hex(16)
        base = [{"role": "user", "content": "-"}, {"role": "assistant", "content": mark}]
        _, found, text = self._render([*base, *map(as_chat, messages)]).partition(mark)
        if not found:
            raise ModelError("The chat template leaves out the model's reply.")
        pictures = pictures_of(messages)
        added = self.template.tokens(text, [picture.canvas for picture in pictures])
        # Tokens through the end of the action that ran, as `vrag.rl.rows` keeps them, without the opening.
        vocabulary, ids = self.template.vocabulary, self._sampled
        wanted = vocabulary.decode(ids)[: max(0, len(reply.text) - len(self._prompt.opening))]
        count = count_covering(ids, wanted, vocabulary.decode)
        kept = ids[: count + (count < len(ids) and ids[count] in vocabulary.ends)]
        if kept and added and kept[-1] == added[0]:
            added = added[1:]  # the model ended its turn itself, and the template ends it too
        return TokenPrompt(
            (*self._prompt.ids, *kept, *added), (*self._prompt.pictures, *pictures), opening_of(text)
        )

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
    """Open the chat template of a model of transformers; raise `ModelError` if it has no vision tokens.

    The template of the processor is the one that knows pictures, which take `features` tokens
    (`Profile.visual_tokens`). `options` are those of the template: `data.apply_chat_template_kwargs`.
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


_NEVER = -100.0
"""Added to the logit of a token that must not be sampled; vLLM takes nothing smaller."""


class Server(Protocol):
    """The used part of verl's `LLMServerClient`."""

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - what verl hands on to its servers
    ) -> Any:  # noqa: ANN401 - a `TokenOutput`
        """Sample a reply to a prompt."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """Limits of the tokens of a call."""

    prompt: int
    """`rollout.prompt_length`."""
    reply: int
    total: int
    """Of both together: `rollout.max_model_len`, or the sum of its two lengths."""

    def left(self, prompt: int) -> int:
        """Return the tokens left for a reply after a prompt; raise `ContextTooLong` if there are none."""
        left = min(self.reply, self.total - prompt)
        if prompt > self.prompt or left < 1:
            raise ContextTooLong(f"The prompt has {prompt:,} tokens, and {self.prompt:,} are allowed.")
        return left


@dataclass(slots=True)
class TokenCounter:
    """The calls of one run, for verl's metrics."""

    calls: int = 0
    seconds: float = 0.0
    """Waiting for replies."""
    preempted: int = -1
    """Counted by the server; -1 where it does not count."""
    steps: list[int] = field(default_factory=list[int])
    """Versions of the weights that wrote the replies."""

    def add(self, output: Any, seconds: float) -> None:  # noqa: ANN401
        """Count a call."""
        self.calls += 1
        self.seconds += seconds
        if output.num_preempted is not None:
            self.preempted = max(self.preempted, 0) + output.num_preempted
        extra: Mapping[str, Any] = output.extra_fields or {}
        versions = (extra.get("min_global_steps"), extra.get("max_global_steps"))
        self.steps += [version for version in versions if version is not None]


class RolloutPolicy:
    """A `Policy` over verl's rollout servers, for one run.

    `sampling` has verl's parameters: temperature, top_p, top_k. `engine` is `vllm` or `sglang`, which takes
    the tokens of `logit_bias` as strings; `session` names the run for the servers, so that its calls find
    their prefix where it was computed.
    """

    name = "verl"

    def __init__(
        self,
        server: Server,
        template: ChatTemplate,
        sampling: Mapping[str, Any],
        budget: TokenBudget,
        *,
        engine: str = "vllm",
        session: str = "",
        priority: int = 0,
    ) -> None:
        self.counter = TokenCounter()
        self._server, self._budget = server, budget
        self._conversation = TokenConversation(template)
        self._template = template
        self._session, self._priority = session, priority
        self._sampling = dict(sampling)
        bias = {token if engine == "vllm" else str(token): _NEVER for token in template.banned}
        self._parameters = self._sampling | ({"logit_bias": bias} if bias else {})

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """The sampling parameters, for run files."""
        simple = int | float | str
        known = {name: value for name, value in self._sampling.items() if isinstance(value, simple)}
        return known | {"max_tokens": self._budget.reply}

    async def reply(
        self,
        history: Sequence[Message],
        turn: int = 1,  # noqa: ARG002 - the history is enough
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Sample the next reply; see `Policy`.

        Raises `ContextTooLong` if the prompt leaves no room for a reply, and `ModelError` if the server
        fails, or aborts the reply because the weights change.
        """
        prompt = self._conversation.prompt(history)
        most = self._budget.left(len(prompt.ids))
        began = time.perf_counter()
        images = await asyncio.to_thread(lambda: [picture.image for picture in prompt.pictures])
        try:
            output = await self._server.generate(
                request_id=self._session,
                prompt_ids=list(prompt.ids),
                sampling_params=self._parameters | {"max_tokens": most},
                image_data=images or None,
                priority=self._priority,
            )
        except Exception as error:  # a remote actor raises whatever it likes
            raise ModelError(f"The rollout server failed: {type(error).__name__}: {error}.") from error
        self.counter.add(output, time.perf_counter() - began)
        if output.stop_reason in {"abort", "aborted"} or not output.token_ids:
            raise ModelError(f"The rollout server aborted the reply ({output.stop_reason or 'no token'}).")
        ids = tuple(map(int, output.token_ids))
        text = self._conversation.add_reply(ids)
        ended = ids[-1] in self._template.vocabulary.ends
        logprobs = tuple(map(float, output.log_probs or ()))
        if len(logprobs) != len(ids) or not all(map(math.isfinite, logprobs)):
            logprobs = (0.0,) * len(ids)  # verl computes its own for the update anyway
        yield Delta(text)
        yield Reply(
            text,
            FinishReason.LENGTH if len(ids) >= most and not ended else FinishReason.STOP,
            Tokens(prompt=len(prompt.ids), completion=len(ids)),
            Sampled(prompt_ids=prompt.ids, ids=ids, logprobs=logprobs),
        )

    async def aclose(self) -> None:
        """Do nothing: the servers are verl's."""
