"""Replies of both methods, and what a test watches: what the model was told, what a run said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Picture
from vrag.model_profiles import PROFILES
from vrag.testing import MemorySearcher, ScriptedPolicy, clip, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

    from vrag.agent.events import Event
    from vrag.agent.method import Method
    from vrag.agent.policy import Delta, Message, Reply
    from vrag.model_profiles import Profile
    from vrag.search.searcher import Searcher

PROFILE = PROFILES["qwen2.5-vl"]
QUESTION = "How many passengers?"

E = TypeVar("E")


def call(name: str, /, **arguments: object) -> str:
    """A reply that calls a tool."""
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<think>So.</think>\n<tool_call>{written}</tool_call>"


def searches(node: str, query: str = "ferry passengers", parents: Sequence[str] = ("root",)) -> str:
    """VimRAG: makes a node."""
    return call("add_search_node", id=node, parent_ids=list(parents), query=query)


def note(label: str, score: int = 5, *seconds: float) -> dict[str, Any]:
    """What is useful; a score of 0 says that it is not."""
    entry: dict[str, Any] = {"information_id": label, "is_useful": score > 0, "priority_score": score}
    return entry | {"key_timestamp": list(seconds)}


def memorizes(*notes: Mapping[str, Any], summary: str = "It says so.") -> str:
    """VimRAG: completes the node."""
    return call("summarize_and_memorize", summarize=summary, memorize=list(notes))


def answers(*parents: str, text: str = "48,200") -> str:
    """VimRAG: ends."""
    return call("add_answer_node", parent_ids=list(parents), answer=text)


def enlarges(node: str, parent: str, label: str, box: object) -> str:
    """VimRAG: makes a node of a closer look."""
    return call("add_crop_node", id=node, parent_ids=[parent], information_id=label, box=box)


@dataclass(frozen=True)
class Way:
    """One method, and how the same is said in it."""

    method: Method
    search: Callable[[str], str]
    answer: Callable[[str], str]
    extend: Callable[[str, str], str]
    """Of the name of a custom tool and its text."""

    def script(self, query: str = "ferry passengers", answer: str = "48,200") -> tuple[str, str]:
        """One search, then the answer."""
        return self.search(query), self.answer(answer)


VRAG = Way(
    VragMethod(),
    lambda query: f"<think>Look.</think><search>{query}</search>",
    lambda text: f"<think>Seen.</think><answer>{text}</answer>",
    lambda name, text: f"<think>So.</think><{name}>{text}</{name}>",
)
VIMRAG = Way(
    Vimrag(),
    lambda query: searches("found", query),
    lambda text: answers("root", text=text),
    lambda name, text: call(name, id=f"by_{name}", parent_ids=["root"], text=text),
)
WAYS = (VRAG, VIMRAG)


def way_name(way: object) -> str:
    """For ids of parametrised tests."""
    return way.method.name if isinstance(way, Way) else repr(way)


@dataclass(frozen=True)
class Watching:
    """A scripted policy that keeps what it was told, call by call."""

    replies: tuple[str | Exception, ...]
    told: list[tuple[Message, ...]] = field(default_factory=list["tuple[Message, ...]"])
    name: str = "watching"

    @property
    def sampling(self) -> dict[str, float | int | str | bool]:
        return {}

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        self.told.append(tuple(history))
        async for part in ScriptedPolicy(self.replies).reply(history, turn):
            yield part

    async def aclose(self) -> None:
        pass

    def pictures(self, call: int) -> list[Picture]:
        """All pictures that it was told in a call, from 0."""
        return [part for message in self.told[call] for part in message.parts if isinstance(part, Picture)]

    def text(self, call: int) -> str:
        """All text that it was told in a call."""
        return "\n".join(message.text for message in self.told[call])


def environment(
    searcher: Searcher | None = None, profile: Profile = PROFILE, **options: object
) -> Environment:
    """An environment of the tiny corpus, three hits to a search."""
    chosen = EnvironmentOptions.model_validate({"hits": 3} | options)
    return Environment(searcher or tiny_corpus(), profile, chosen)


def events_of(
    method: Method, *replies: str | Exception, where: Environment | None = None
) -> tuple[list[Event], Watching]:
    """What a run of a script says, and what the model was told in it."""
    policy = Watching(replies)
    agent = Agent(policy, where or environment(), method)
    return list(agent.stream(QUESTION)), policy


def of(kind: type[E], events: Iterable[object]) -> list[E]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def film_corpus() -> MemorySearcher:
    """The tiny corpus and two clips of a film; the second is seen from 30 to 40 seconds of it."""
    return MemorySearcher(
        (
            *tiny_corpus().items,
            clip("harbour.mp4", 1, "waves gulls", 0.0, 30.0),
            clip("harbour.mp4", 2, "the ferry lands passengers", 30.0, 40.0),
        )
    )
