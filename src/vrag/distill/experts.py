"""Experts: models behind endpoints, their configuration, what they cost, and how they are asked.

They are configured by a TOML file, or are the defaults at DashScope::

    [planner]
    model = "qwen3.5-plus"                  # or with its provider: "ollama:qwen3-vl:8b", "openai:gpt-5"
    base_url = "http://localhost:8002/v1"   # DashScope where it is left out
    key_variable = "PLANNER_KEY"            # variable with the key; the file itself never holds one
    profile = "qwen3-vl"                    # by the model's name where it is left out
    price_prompt = 0.8                      # of a million tokens, in any currency
    [grounder]
    [judge]

A section that is left out is the default; `grounder = false` leaves the boxes to the planner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.budget import Prices
from vrag.agent.policy import Retry
from vrag.agent.prompts import prompt_in
from vrag.chat import ChatOptions, ChatRetries, ChatTimeouts, OpenAIChat, ThinkingSwitch
from vrag.chat.messages import ChatMessage, ChatModel, ChatReply, ChatRetry, ChatText
from vrag.distill.expert_messages import UnusableReplyError
from vrag.distill.sample_store import ExpertUsage
from vrag.errors import ModelError, SettingsError
from vrag.model_profiles import PROFILES, Profile, profile_named, profile_of
from vrag.parsing import parse_toml
from vrag.providers import DASHSCOPE, is_dashscope, split_model

T = TypeVar("T")
MAX_QUOTED_CHARACTERS = 4000
"""Of an unusable reply that the expert is shown again."""
prompt = partial(prompt_in, "vrag.distill.prompts")
"""As `vrag.agent.prompts.prompt`, of the files in `prompts/`: every text that an expert is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """A model that is good at one thing."""

    role: str
    """`planner`, `grounder` or `judge`."""
    model: ChatModel
    profile: Profile
    """Its family: the sizes of images that it sees as they are, and the space of its boxes."""
    options: ChatOptions = field(default_factory=ChatOptions)
    prices: Prices = field(default_factory=Prices)
    tries: int = 3
    """Maximum of replies, until one can be used."""

    @property
    def identity(self) -> dict[str, Any]:
        """The JSON values that its replies depend on, without its server and its prices."""
        return {"model": self.model.name, "profile": self.profile.name, **asdict(self.options)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The experts that make samples."""

    planner: Expert
    judge: Expert
    grounder: Expert | None = None
    """None leaves the boxes to the planner."""

    @property
    def all(self) -> tuple[Expert, ...]:
        """All of them."""
        return tuple(expert for expert in (self.planner, self.grounder, self.judge) if expert is not None)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        for expert in self.all:
            await expert.model.aclose()


async def consult(
    expert: Expert,
    messages: Sequence[ChatMessage],
    read: Callable[[str], T],
    usage: ExpertUsage,
    report: Callable[[Retry], None] = lambda _: None,
) -> T:
    """Ask an expert and return what `read` finds in its reply.

    An unusable reply is shown to the expert again with its fault, `Expert.tries` times in all; only the
    latest one is, so that the prompt does not grow. `read` raises `UnusableReplyError` with a sentence for
    the expert. Each reply, usable or not, is added to `usage`; `report` is called before each further try.

    Raises `ContextTooLong` if the conversation is longer than the model can take, and `ModelError` if no
    reply can be had, or none that can be used.
    """
    conversation = list(messages)
    reason = ""
    for number in range(1, expert.tries + 1):
        text = await _complete(expert, conversation, usage, report)
        try:
            return read(text)
        except UnusableReplyError as error:
            reason = str(error)
        usage.faults += 1
        quote = ChatText(text[:MAX_QUOTED_CHARACTERS].strip() or "(nothing)")
        correction = ChatText(prompt("again.md", reason=reason))
        conversation = [*messages, ChatMessage("assistant", (quote,)), ChatMessage("user", (correction,))]
        if number < expert.tries:
            report(Retry(f"The {expert.role} is asked again: {reason}"))
    raise ModelError(
        f"The {expert.role} sent {expert.tries} unusable replies; the last: {reason}",
        f"Is {expert.model.name} the right model for it?",
    )


async def _complete(
    expert: Expert, messages: Sequence[ChatMessage], usage: ExpertUsage, report: Callable[[Retry], None]
) -> str:
    """Return the text of the reply; raise `ModelError` if none can be had."""
    began = time.perf_counter()
    try:
        async with aclosing(expert.model.stream(messages, expert.options)) as parts:
            async for part in parts:
                if isinstance(part, ChatRetry):
                    usage.retries += 1
                    report(Retry(f"The {expert.role}: {part.reason}", part.seconds))
                elif isinstance(part, ChatReply):
                    tokens = part.tokens
                    call = ExpertUsage(
                        model=expert.model.name,
                        calls=1,
                        prompt_tokens=tokens.prompt or 0,
                        completion_tokens=tokens.completion or 0,
                        seconds=time.perf_counter() - began,
                        cost=expert.prices.cost(tokens.prompt, tokens.completion, tokens.cached),
                    )
                    usage.add(call)
                    return part.text
    except ModelError as error:
        raise type(error)(f"The {expert.role}: {error.message}", error.hint) from error
    raise ModelError(f"The {expert.role} ended without a reply.")


_TIMEOUTS = {"connect_seconds", "first_token_seconds", "token_seconds", "call_seconds"}
_SAMPLING = {"temperature", "top_p", "seed", "max_tokens", "thinking", "thinking_switch"}
_DASHSCOPE_KEYS = ("DASHSCOPE_API_KEY", "DASH_SCOPE_KEY")
"""Variables with the key for DashScope: its own, and the one of the reference's scripts."""


class _Section(BaseModel):
    """An expert in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1)
    base_url: str = DASHSCOPE
    key_variable: str | None = None
    profile: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    max_tokens: int = Field(default=2048, ge=1)
    thinking: bool | None = None
    thinking_switch: ThinkingSwitch = ThinkingSwitch.TOP
    tries: int = Field(default=3, ge=1, le=20)
    requests: int = Field(default=16, ge=1)
    retries: int = Field(default=5, ge=0, le=100)
    connect_seconds: float = Field(default=10.0, gt=0)
    first_token_seconds: float = Field(default=120.0, gt=0)
    token_seconds: float = Field(default=60.0, gt=0)
    call_seconds: float = Field(default=600.0, gt=0)
    price_prompt: float | None = Field(default=None, ge=0)
    price_completion: float | None = Field(default=None, ge=0)
    price_cached: float | None = Field(default=None, ge=0)


class _ExpertsConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    planner: _Section = _Section(model="qwen3.5-plus", temperature=0.7)
    grounder: _Section | Literal[False] = _Section(model="qwen3-vl-plus", temperature=0.0)
    judge: _Section = _Section(model="qwen3.5-plus", temperature=0.0)


def read_experts(path: Path | None, environment: Mapping[str, str]) -> Experts:
    """Read the experts from a TOML file; return the defaults if `path` is None.

    Keys are read from the variables in `environment`.

    Raises `SettingsError` if the file cannot be used, a key is missing, or the family of a model is not
    known.
    """
    try:
        values = {} if path is None else parse_toml(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise SettingsError(f"The experts {path} cannot be read: {reason}.") from error
    try:
        config = _ExpertsConfig.model_validate(values)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise SettingsError(f"The experts {path} cannot be used: {place}: {fault['msg']}.") from error
    grounder = config.grounder
    return Experts(
        planner=_expert("planner", config.planner, environment),
        grounder=_expert("grounder", grounder, environment) if grounder else None,
        judge=_expert("judge", config.judge, environment),
    )


def _expert(role: str, section: _Section, environment: Mapping[str, str]) -> Expert:
    provider, model = split_model(section.model)
    if provider is not None:  # its address, key and thinking switch, unless the section has its own
        values: dict[str, Any] = {"base_url": provider.base_url, "thinking_switch": provider.thinking_switch}
        if provider.key_variable:
            values["key_variable"] = provider.key_variable
        section = section.model_validate(values | section.model_dump(exclude_unset=True) | {"model": model})
    key, variable = _key(role, section, environment)
    chat = OpenAIChat(
        section.base_url,
        section.model,
        api_key=key,
        key_variable=variable,
        timeouts=ChatTimeouts(**section.model_dump(include=_TIMEOUTS)),
        retries=ChatRetries(times=section.retries),
        concurrency=section.requests,
    )
    return Expert(
        role=role,
        model=chat,
        profile=_profile(role, section),
        options=ChatOptions(**section.model_dump(include=_SAMPLING)),
        prices=Prices(
            prompt=section.price_prompt, completion=section.price_completion, cached=section.price_cached
        ),
        tries=section.tries,
    )


def _key(role: str, section: _Section, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Find the key and its variable; return no key where the server asks for none."""
    defaults = _DASHSCOPE_KEYS if is_dashscope(section.base_url) else ()
    names = (section.key_variable,) if section.key_variable else defaults
    for name in names:
        if key := environment.get(name):
            return key, name
    if names:
        raise SettingsError(
            f"The {role} needs a key.",
            f"Set {' or '.join(names)}, or use another server: --experts FILE.",
        )
    return None, "key_variable"


def _profile(role: str, section: _Section) -> Profile:
    if section.profile:
        return profile_named(section.profile)
    if (known := profile_of(section.model)) is not None:
        return known
    if role == "judge":
        return PROFILES["qwen2.5-vl"]  # it is shown no picture
    raise SettingsError(
        f"The family of the {role} {section.model} is not known: how does it write boxes?",
        f'Add profile = "…" to [{role}]; `vrag doctor --coords` finds out which.',
    )
