"""The policy of a rollout, which asks the servers of verl by token ids.

Unlike other policies it belongs to one run: the conversation that it extends is that run's.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vrag.agent.policy import Delta, FinishReason, Reply, Sampled, Tokens
from vrag.errors import ContextTooLong, ModelError
from vrag.rl.trainers.verl.prompts import TokenConversation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from vrag.agent.policy import Message
    from vrag.rl.trainers.verl.prompts import ChatTemplate, TokenPrompt


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

    Args:
        server: verl's client for them.
        template: Of the model's conversations.
        sampling: verl's sampling parameters: temperature, top_p, top_k …
        budget: Limits of the tokens of a call.
        engine: `vllm` or `sglang`: they take biases of logits by different keys.
        session: Name of the run for the servers, so that its calls find their prefix where it was computed.
        priority: From verl.
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

        Raises:
            ContextTooLong: If the prompt leaves no room for a reply.
            ModelError: If the server fails, or aborts the reply because the weights change.
        """
        prompt = self._conversation.prompt(history)
        most = self._budget.left(len(prompt.ids))
        began = time.perf_counter()
        output = await self._sample(prompt, most)
        self.counter.add(output, time.perf_counter() - began)
        if output.stop_reason in {"abort", "aborted"} or not output.token_ids:
            raise ModelError(f"The rollout server aborted the reply ({output.stop_reason or 'no token'}).")
        ids = tuple(map(int, output.token_ids))
        text = self._conversation.add_reply(ids)
        ended = ids[-1] in self._template.vocabulary.ends
        yield Delta(text)
        yield Reply(
            text,
            FinishReason.LENGTH if len(ids) >= most and not ended else FinishReason.STOP,
            Tokens(prompt=len(prompt.ids), completion=len(ids)),
            Sampled(prompt_ids=prompt.ids, ids=ids, logprobs=_logprobs(output.log_probs, len(ids))),
        )

    async def aclose(self) -> None:
        """Do nothing: the servers are verl's."""

    async def _sample(self, prompt: TokenPrompt, most: int) -> Any:  # noqa: ANN401
        images = await asyncio.to_thread(lambda: [picture.image for picture in prompt.pictures])
        try:
            return await self._server.generate(
                request_id=self._session,
                prompt_ids=list(prompt.ids),
                sampling_params=self._parameters | {"max_tokens": most},
                image_data=images or None,
                priority=self._priority,
            )
        except Exception as error:  # a remote actor raises whatever it likes
            raise ModelError(f"The rollout server failed: {type(error).__name__}: {error}.") from error


def _logprobs(given: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Those of the server, if it returns all of them; verl computes its own for the update anyway."""
    known = tuple(map(float, given or ()))
    return known if len(known) == count and all(map(math.isfinite, known)) else (0.0,) * count
