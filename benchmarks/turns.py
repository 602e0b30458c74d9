"""What a turn costs beside the model: opening, cutting, resizing and encoding pictures, and the messages.

The reference's steps are in `reference_turns.py`. Ours is the whole agent from the question to the answer:
the loop, the environment over a collection, the conversation as JSON of a request, and every event of the
run; only the server is missing. Both get the same pages, stored as the same JPEG files, search results
that stand, and the same replies: for VRAG search, search, crop, search, answer; for VimRAG six times search
and summarise, with two of three pages kept, then answer. They run in processes of their own with one thread,
in turn, over other pages for each question. Time is that of the processor.

Neither keeps files. Rows with "checked" are ours with what comes after the answer and the reference has not:
all evidence is drawn again and compared with what was shown; those with "kept" also write the run to disk, as
`vrag ask` does. "Uncut" is the reference without its limit of 38,000 bytes for a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contender import Contender, contest
from benchmarks.real_documents import PDFS, collected, pages_of
from benchmarks.reference_turns import MOST_BYTES, VimragTurns, VragTurns
from benchmarks.table import Comparison, compared, show
from vrag.agent.actions import Answer, Crop, Search, render
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerGiven, InvalidAction, UsageReported
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.chat import ChatPolicy
from vrag.agent.replies.tool_calls import AnswerNode, Memorize, Note, SearchNode, render_call
from vrag.agent.runs.run_store import RunStore
from vrag.chat.messages import ChatDelta, ChatOptions, ChatReply, request_body
from vrag.index.collection import Collection
from vrag.index.schema import blob_of
from vrag.model_profiles import PROFILES
from vrag.types import Hit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from PIL.Image import Image

    from vrag.agent.events import Event
    from vrag.chat.messages import ChatMessage
    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.types import Item, Query

__all__ = ["Ours", "Theirs", "main"]

RUNS = 3
QUESTIONS = {"vrag": 6, "vimrag": 2}
"""Of a run."""
SEARCHES = {"vrag": 3, "vimrag": 6}
HITS = {"vrag": 10, "vimrag": 3}
FILES = 6
"""Of the documents, the smallest files."""
QUESTION = "What do these documents say about revenue, members and certification?"
THOUGHT = "The page lists members by year, but says nothing about fees. I need the page with prices."
INSTRUCTION = 20 * THOUGHT
"""In place of theirs, and about as long."""
OURS = "from benchmarks.turns import Ours as Side"
THEIRS = "from benchmarks.turns import Theirs as Side"
LOOP = """
side = Side(*sys.argv[1:])
say()
for line in sys.stdin:
    say(**side.do(line.strip()))
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the searches of a question find: ids for us, and paths of the same pages for them."""

    ids: list[list[str]]
    paths: list[list[str]]


@dataclass(slots=True)
class Meter:
    """Processor seconds of this process from `begin` on, and the requests that were made."""

    answered: float = 0.0
    """Until the last turn was over."""
    ended: float = 0.0
    """Until all was."""
    wall: float = 0.0
    """By the clock, until the last turn was over."""
    turns: int = 0
    size: int = 0
    """Bytes of all requests."""

    def begin(self) -> None:
        """A question is asked."""
        now = time.process_time()
        self.answered -= now
        self.ended -= now
        self.wall -= time.perf_counter()

    def answer(self) -> None:
        """Its last turn is over."""
        self.answered += time.process_time()
        self.wall += time.perf_counter()

    def end(self) -> None:
        """All is over."""
        self.ended += time.process_time()

    def per_turn(self) -> dict[str, float]:
        """Milliseconds and megabytes."""
        turns = self.turns
        return {
            "ms": 1000 * self.answered / turns,
            "checked": 1000 * self.ended / turns,
            "wall": 1000 * self.wall / turns,
            "megabytes": self.size / turns / 1e6,
        }


class Theirs:
    """The reference's steps.

    Args:
        plans: The file of the plans.
    """

    def __init__(self, plans: str) -> None:
        self._plans = _read(plans)

    def do(self, what: str) -> dict[str, float]:
        """Asks all questions."""
        name, *_ = what.split()
        meter = Meter()
        for plan in self._plans[name]:
            meter.begin()
            for body in _requests(what, plan):
                meter.turns += 1
                meter.size += len(body)
            meter.answer()
            meter.end()
        return meter.per_turn()


def _requests(what: str, plan: Plan) -> Iterator[bytes]:
    if what.startswith("vrag"):
        return VragTurns(INSTRUCTION, plan.paths).requests(QUESTION, vrag_replies())
    most = None if "uncut" in what else MOST_BYTES
    agent = VimragTurns(INSTRUCTION, THOUGHT, plan.paths, most)
    return agent.requests(QUESTION, vimrag_replies())


class Ours:
    """The agents of this package, each question with a new one, so that nothing is remembered.

    Args:
        plans: The file of the plans.
        collection: Its directory.
        runs: Where runs are kept.
    """

    def __init__(self, plans: str, collection: str, runs: str) -> None:
        self._collection = Collection.open(Path(collection))
        self._found = {
            agent: [_hits(self._collection, plan) for plan in made] for agent, made in _read(plans).items()
        }
        self._runs = RunStore(Path(runs))
        self._runner = asyncio.Runner()

    def do(self, what: str) -> dict[str, float]:
        """Asks all questions."""
        name, *rest = what.split()
        meter = Meter()
        for found in self._found[name]:
            model = _Scripted(vrag_replies() if name == "vrag" else vimrag_replies())
            agent = self._agent(name, model, found)
            self._runner.run(self._run(agent, meter, kept="kept" in rest))
            meter.turns += len(model.sizes)
            meter.size += sum(model.sizes)
        return meter.per_turn()

    def _agent(self, name: str, model: _Scripted, found: Sequence[Sequence[Hit]]) -> Agent:
        searcher = _Fixed(self._collection, found)
        options = EnvironmentOptions(hits=HITS[name])
        environment = Environment(searcher, PROFILES["qwen2.5-vl"], options)
        return Agent(ChatPolicy(model), environment, VragMethod() if name == "vrag" else Vimrag())

    async def _run(self, agent: Agent, meter: Meter, *, kept: bool) -> None:
        steps = len(vrag_replies() if agent.method.name == "vrag" else vimrag_replies())
        events: list[Event] = []
        meter.begin()
        with self._runs.record() if kept else nullcontext() as recording:
            save = recording.save if recording else None
            async for event in agent.astream(QUESTION, save=save):
                if recording:
                    recording.write(event)
                events.append(event)
                if isinstance(event, UsageReported) and event.step == steps:
                    meter.answer()
        meter.end()
        assert isinstance(events[-1], AnswerGiven), events[-1]
        assert not any(isinstance(event, InvalidAction) for event in events)


class _Scripted:
    """A model that is asked by JSON like a real one, and says what it was told to say."""

    name = "benchmark"

    def __init__(self, replies: Sequence[str]) -> None:
        self._replies = iter(replies)
        self.sizes: list[int] = []
        """Bytes of each request."""

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        options: ChatOptions = ChatOptions(),  # noqa: B008 - frozen
    ) -> AsyncGenerator[ChatDelta | ChatReply, None]:
        """The next reply, in one piece."""
        self.sizes.append(len(request_body(self.name, messages, options)))
        text = next(self._replies)
        yield ChatDelta(text)
        yield ChatReply(text=text)

    async def aclose(self) -> None:
        """Holds nothing."""


class _Fixed:
    """A `Searcher` whose searches find what was settled before, each the next of it."""

    version = "benchmark"

    def __init__(self, collection: Collection, found: Sequence[Sequence[Hit]]) -> None:
        self._collection = collection
        self._found = iter(found)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """What the next search finds."""
        return [list(next(self._found)[:top_k]) for _ in queries]

    def item(self, id: str) -> Item:
        """Of the collection."""
        return self._collection.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Of the collection."""
        return self._collection.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Of the collection."""
        return self._collection.frames(id, fps=fps, most=most)

    def part(self, id: str, view: View) -> Image | None:
        """Of the collection."""
        return self._collection.part(id, view)


def _hits(collection: Collection, plan: Plan) -> list[list[Hit]]:
    items = collection.items([id for ids in plan.ids for id in ids])
    return [[_hit(items[id], rank) for rank, id in enumerate(ids, 1)] for ids in plan.ids]


def _hit(item: Item, rank: int) -> Hit:
    return Hit(item.id, 1 / rank, rank, item.document, item.document_name, item.ordinal, item.kind)


def vrag_replies() -> list[str]:
    """Search, search, crop, search, answer."""
    search = [render(Search(f"revenue and members, part {number}")) for number in (1, 2, 3)]
    crop, answer = render(Crop((60, 80, 420, 380))), render(Answer("48,200"))
    return [f"<think>{THOUGHT}</think>{action}" for action in (*search[:2], crop, search[2], answer)]


def vimrag_replies() -> list[str]:
    """Searches, each summarised with two of three pages kept, then the answer."""
    said: list[str] = []
    parent = "root"
    notes = (Note("Picture 1", useful=True, priority=5), Note("Picture 2", useful=False))
    notes += (Note("Picture 3", useful=True, priority=3),)
    for number in range(1, SEARCHES["vimrag"] + 1):
        search = SearchNode(f"node_{number}", (parent,), f"revenue and members, part {number}")
        said += [render_call(search), render_call(Memorize(THOUGHT, notes))]
        parent = search.id if number % 2 else parent
    said.append(render_call(AnswerNode((parent,), "48,200")))
    return [f"<think>{THOUGHT}</think>{call}" for call in said]


def plans(collection: Collection) -> dict[str, list[Plan]]:
    """For each agent the questions, over pages drawn from all documents."""
    chance = random.Random(0)
    pages = [item for item in pages_of(collection) if item.image]
    made: dict[str, list[Plan]] = {}
    for agent, searches in SEARCHES.items():
        made[agent] = []
        for _ in range(QUESTIONS[agent]):
            drawn = chance.sample(pages, searches * HITS[agent])
            found = [drawn[at : at + HITS[agent]] for at in range(0, len(drawn), HITS[agent])]
            paths = [[_path(collection, item) for item in items] for items in found]
            made[agent].append(Plan([[item.id for item in items] for items in found], paths))
    return made


def _path(collection: Collection, item: Item) -> str:
    assert item.image is not None
    return str(collection.store.blobs.path(blob_of(item.image)))


def _read(file: str) -> dict[str, list[Plan]]:
    stored = json.loads(Path(file).read_text(encoding="utf-8"))
    return {agent: [Plan(**plan) for plan in made] for agent, made in stored.items()}


def main(pdfs: Path = PDFS, runs: int = RUNS) -> list[Comparison]:
    """Has both sides ask the same questions, in turn."""
    if not pdfs.is_dir():
        print(f"turns: skipped, there is no folder {pdfs}")
        return []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = sorted(pdfs.glob("*.pdf"), key=lambda file: file.stat().st_size)[:FILES]
        made = plans(collected(folder / "collection", files))
        stored = folder / "plans.json"
        stored.write_text(json.dumps({a: [asdict(plan) for plan in ps] for a, ps in made.items()}))
        sides = (
            Contender(OURS + LOOP, [stored, folder / "collection", folder / "runs"]),
            Contender(THEIRS + LOOP, [stored]),
        )
        with contest(*sides):
            return [*_rows("vrag", "VRAG", sides, runs), *_rows("vimrag", "VimRAG", sides, runs)]


def _rows(agent: str, name: str, sides: tuple[Contender, Contender], runs: int) -> Iterator[Comparison]:
    """Everything of one agent, in turn."""
    mine, reference = sides
    asked = [(mine, agent), (reference, agent), (mine, f"{agent} kept")]
    if agent == "vimrag":
        asked.append((reference, f"{agent} uncut"))
    said: list[list[dict[str, float]]] = [[] for _ in asked]
    for counts in range(runs + 1):
        for (side, what), answers in zip(asked, said, strict=True):
            answer = side.do(what)
            if counts:  # the first warms up
                answers.append(answer)
    ours, theirs, kept, *uncut = [
        {name: statistics.median(answer[name] for answer in answers) for name in answers[0]}
        for answers in said
    ]
    for who, figures in (("ours", ours), ("theirs", theirs)):
        print(f"{name}, {who}: " + ", ".join(f"{key} {value:.2f}" for key, value in figures.items()))
    yield compared(f"a turn of {name}", ours["ms"], theirs["ms"], "CPU ms", runs)
    yield from (compared(f"a turn of {name}, uncut", ours["ms"], one["ms"], "CPU ms", runs) for one in uncut)
    yield compared(f"a turn of {name}, checked", ours["checked"], theirs["ms"], "CPU ms", runs)
    yield compared(f"a turn of {name}, checked and kept", kept["checked"], theirs["ms"], "CPU ms", runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pdfs", type=Path, default=PDFS)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    show(main(arguments.pdfs, arguments.runs))
