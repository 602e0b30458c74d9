"""Thirty-two runs at once over one agent, with faults in model and search: all end, none meets another.

The model is behind a real HTTP server. What it answers is a digest of all that it was told, so that a word or
a pixel of another run would show in the answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

import pytest
from agent_scripts import PROFILE, VRAG, WAYS, Way, answers, memorizes, note, of, searches, way_name
from chat_server import Asked, ChatServer, Cut, Hang, Raw, Refuse, Reply, Say

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerGiven, Event, ImageShown, ModelRetried, RunFailed, StopReason
from vrag.agent.policies.chat import ChatPolicy
from vrag.chat import ChatRetries, ChatTimeouts, OpenAIChat
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Size
from vrag.testing import MemorySearcher, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vrag.types import Hit, Query

RUNS = 32
SECONDS = 240.0
"""After which a run counts as hanging; all of them take a few seconds on a quiet machine."""


class Fault(Enum):
    """What goes wrong in a run: question n has the fault n modulo their number."""

    NONE = auto()
    BUSY = auto()
    BROKEN_ONCE = auto()
    HALF_A_STREAM = auto()
    HALF_WITHOUT_END = auto()
    CUT_BEFORE_HEADERS = auto()
    SILENT_ONCE = auto()
    SILENT_IN_MID_REPLY = auto()
    GARBAGE_IN_STREAM = auto()
    ERROR_IN_STREAM = auto()
    WEB_PAGE = auto()
    BROKEN_FOR_EVER = auto()
    NO_ACTION = auto()
    NOTHING_FOUND = auto()
    SEARCH_FAILS = auto()
    PICTURE_DAMAGED = auto()


FAULTS = list(Fault)
CONTENT = {Fault.NO_ACTION, Fault.NOTHING_FOUND, Fault.PICTURE_DAMAGED}
"""Faults that the model sees: they stand in the prompts of a run alone as well."""
ENDS = {
    Fault.BROKEN_FOR_EVER: StopReason.MODEL_ERROR,
    Fault.WEB_PAGE: StopReason.MODEL_ERROR,
    Fault.SEARCH_FAILS: StopReason.SEARCH_ERROR,
}
"""Every other fault passes, and the run is answered."""
assert RUNS % len(FAULTS) == 0


def fault_of(number: int) -> Fault:
    return FAULTS[number % len(FAULTS)]


def mark_of(text: str) -> int:
    """The number of the question that a text is about; it must be about one."""
    (number,) = set(re.findall(r"mark(\d+)", text))
    return int(number)


@dataclass(frozen=True, slots=True)
class Searching(MemorySearcher):
    """One page for every question, and the faults of searching."""

    faults: frozenset[Fault] = frozenset(Fault)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        fault = fault_of(mark_of(queries[0].text))
        if fault in self.faults and fault is Fault.SEARCH_FAILS:
            raise SearchError("The index is gone.")
        if fault in self.faults and fault is Fault.NOTHING_FOUND:
            return [[]]
        time.sleep(0.01)
        return MemorySearcher.search(self, queries, top_k)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        if (
            fault_of(mark_of(self.item(id).text)) is Fault.PICTURE_DAMAGED
            and Fault.PICTURE_DAMAGED in self.faults
        ):
            raise CollectionError("The picture cannot be opened.")
        return MemorySearcher.image(self, id, least=least)


def corpus(faults: frozenset[Fault]) -> Searching:
    pages = (page(f"d{number}.pdf", 1, f"mark{number}", size=Size(500, 400)) for number in range(RUNS))
    return Searching(tuple(pages), faults=faults)


@dataclass
class Model:
    """Says what is to be said next, from the conversation alone; and the faults of being served."""

    way: Way
    faults: frozenset[Fault]
    asked: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    """How often each call was made: by question and length of the conversation."""

    def __call__(self, asked: Asked) -> Reply:
        number = mark_of(asked.text)
        place = number, len(asked.body["messages"])
        self.asked[place] += 1
        fault = fault_of(number)
        said = self.next(asked, number)
        if fault not in self.faults or (self.asked[place] > 1 and fault is not Fault.BROKEN_FOR_EVER):
            return said
        return faulty(fault, said)

    def next(self, asked: Asked, number: int) -> Say:
        text = asked.text
        if fault_of(number) is Fault.NO_ACTION and asked.turn == 0 and "not carried out" not in text:
            return Say('<think>Hm.</think><tool_call>{"name": "add_search_node", "arg')
        digest = hashlib.sha256(json.dumps(asked.body["messages"]).encode()).hexdigest()
        if self.way is VRAG:
            said = self.way.search(f"mark{number}") if "<search>mark" not in text else self.way.answer(digest)
        elif "with an entry for each of" in text:
            said = memorizes(note("Picture 1"), summary=f"mark{number} was seen.")
        elif '"memorize", or answer' in text:
            said = memorizes(summary=f"mark{number} was not found.")
        else:
            found = '"kind":"search"' in text
            said = answers("found", text=digest) if found else searches("found", f"mark{number}")
        return native(said) if number % 3 == 0 and self.way is not VRAG else Say(said, piece=16)


def native(said: str) -> Say:
    """The same as a tool call of the server's own, after a thought in a field of its own."""
    call = json.loads(said[said.index("{") : said.rindex("}") + 1])
    return Say(thought="So.", calls=((call["name"], json.dumps(call["arguments"])),), finish="tool_calls")


def faulty(fault: Fault, said: Say) -> Reply:
    """What is sent in its place."""
    half = Say(said.text[: len(said.text) // 2], said.thought, finish=None)
    instead: dict[Fault, Reply] = {
        Fault.BUSY: Refuse(429, "slow down", {"Retry-After": "0.1"}),
        Fault.BROKEN_ONCE: Refuse(500, "boom"),
        Fault.BROKEN_FOR_EVER: Refuse(500, "boom"),
        Fault.HALF_A_STREAM: replace(said, cut=3),
        Fault.HALF_WITHOUT_END: half,
        Fault.CUT_BEFORE_HEADERS: Cut(),
        Fault.SILENT_ONCE: Hang(),
        Fault.SILENT_IN_MID_REPLY: replace(said, hang=3),
        Fault.GARBAGE_IN_STREAM: replace(said, garbage=2),
        Fault.ERROR_IN_STREAM: replace(said, error=2),
        Fault.WEB_PAGE: Raw((b"<html>Bad gateway</html>",), "text/html"),
    }
    return instead.get(fault, said)


@dataclass
class Told:
    """What one run said, and the messages that it kept."""

    number: int
    events: list[Event] = field(default_factory=list[Event])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def end(self) -> AnswerGiven | RunFailed:
        last = self.events[-1]
        assert isinstance(last, AnswerGiven | RunFailed)
        return last

    @property
    def answer(self) -> str | None:
        return self.end.text if isinstance(self.end, AnswerGiven) else None


def agent_over(url: str, way: Way, faults: frozenset[Fault]) -> Agent:
    timeouts = ChatTimeouts(connect_seconds=20, first_token_seconds=8, token_seconds=8, call_seconds=60)
    retries = ChatRetries(times=3, first_pause=0.05, longest_pause=1)
    policy = ChatPolicy(OpenAIChat(url, "scripted", timeouts=timeouts, retries=retries))
    where = Environment(corpus(faults), PROFILE, EnvironmentOptions(hits=3))
    return Agent(policy, where, way.method, Limits(steps=8))


async def told(agent: Agent, number: int) -> Told:
    run = Told(number)
    async with asyncio.timeout(SECONDS):
        async for event in agent.astream(f"What of mark{number}?", save=run.files.__setitem__):
            run.events.append(event)
    return run


async def one_after_the_other(agent: Agent) -> list[Told]:
    runs = [await told(agent, number) for number in range(RUNS)]
    await agent.aclose()
    return runs


async def all_at_once(agent: Agent) -> list[Told]:
    runs = await asyncio.gather(*(told(agent, number) for number in range(RUNS)))
    await agent.aclose()
    return list(runs)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_all_of_many_runs_at_once_end_as_they_would_alone(way: Way) -> None:
    quiet = frozenset(CONTENT)
    with ChatServer(Model(way, quiet)) as server:
        alone = asyncio.run(one_after_the_other(agent_over(server.url, way, quiet)))
    faults = frozenset(Fault)
    with ChatServer(Model(way, faults), slow=0.2) as server:
        crowd = asyncio.run(all_at_once(agent_over(server.url, way, faults)))
        peak, images = server.peak, [url for asked in server.requests for url in asked.images]
    for one, many in zip(alone, crowd, strict=True):
        fault = fault_of(many.number)
        assert many.end.stop_reason is ENDS.get(fault, StopReason.ANSWERED), (fault, many.end)
        assert one.answer is not None
        assert many.answer == (None if fault in ENDS else one.answer), fault
        speaks_of_itself_alone(many)
    retried = {fault_of(run.number) for run in crowd if of(ModelRetried, run.events)}
    # On a busy machine a reply without a fault may come after its time limit, and is asked for again too.
    assert retried >= set(Fault) - CONTENT - {Fault.NONE, Fault.WEB_PAGE, Fault.SEARCH_FAILS}
    assert len({run.answer for run in crowd if run.answer}) == RUNS - len(ENDS) * RUNS // len(Fault)
    assert peak > RUNS // 2, peak
    assert images
    assert all(url.startswith("data:image/jpeg;base64,") for url in images)


def speaks_of_itself_alone(run: Told) -> None:
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    assert len(of(AnswerGiven, run.events)) + len(of(RunFailed, run.events)) == 1
    assert len({event.run_id for event in run.events}) == 1
    said = "\n".join(event.model_dump_json() for event in run.events)
    messages = b"\n".join(data for name, data in run.files.items() if name.endswith(".json")).decode()
    assert mark_of(said + messages) == run.number
    shown = {image.document for image in of(ImageShown, run.events)}
    assert shown <= {f"d{run.number}.pdf"}
    if run.answer is not None:
        assert isinstance(run.end, AnswerGiven)
        assert {evidence.document for evidence in run.end.evidence} == shown
