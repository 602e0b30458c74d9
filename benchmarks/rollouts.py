"""Rollouts that advance independently, beside a loop that waits for the slowest of every turn.

A model server in a process of its own speaks chat completions with token ids over HTTP. How long each reply
takes is drawn from a log-normal distribution by seed, trajectory and turn: both sides get the same delays,
the same replies, and search the same sample documents with the same searcher. The server has room for every
call at once and is no slower for that, as an engine with continuous batching is until its memory is full.
Trajectories have two to five model calls, as with the reference's four turns and a closing one. The loop is
in `lockstep.py`.

Pictures are small, 16 to 32 visual tokens: at full size drawing and encoding them takes either side much of
a processor, and on few cores that hides who waits for whom. `--full` shows them at full size. `python -m
benchmarks.rollouts --study` measures several weights of the tail, beside what the delays alone would give
if everything else took no time. `--cpu` measures the processor time of the environment alone, with a script
in place of the model: as served, with located evidence, and as in training.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import multiprocessing
import statistics
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from benchmarks.lockstep import LockStep
from benchmarks.table import Comparison, compared, show
from tests.chat_server import Asked, ChatServer, Say
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import ImageShown
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policies.chat import ChatPolicy
from vrag.chat import ChatOptions, OpenAIChat
from vrag.corpus.converter import CorpusOptions
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.model_profiles import PROFILES
from vrag.rollouts.batched_search import BatchedSearcher
from vrag.rollouts.rollout import RolloutAttempt, roll_out
from vrag.samples import corpus_dir
from vrag.search.engine import Engine
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import Generator
    from multiprocessing.connection import Connection

__all__ = ["main"]

BATCH = 64
"""Of the loop; and trajectories in flight of ours, unless it says otherwise."""
RUNS = 3
MEDIAN_SECONDS = 0.1
TAIL = 1.0
"""Standard deviation of the logarithm of a delay: the slowest of a hundred takes ten times the median."""
TAILS = (0.25, 0.5, 1.0, 1.5)
STUDY_RUNS = 3
Cell: TypeAlias = tuple[int, int]
CELLS: tuple[Cell, ...] = ((BATCH, BATCH), (2 * BATCH, BATCH), (2 * BATCH, 16))
"""Trajectories, and how many of them ours has in flight at most."""
CALLS = (2, 5)
"""Of a trajectory, fewest and most."""
QUERIES = (
    "passengers Orla Saltby 2024",
    "speed tern colony",
    "carbon dioxide emitted",
    "shore power price",
    "maintenance and yard",
    "passengers by month",
    "hybrid ship cost",
    "bakery on board",
    "first crossing Guillemot",
    "single fare kayak",
)


@dataclass(frozen=True)
class Plan:
    """What a trajectory meets; its question tells all of it."""

    tail: float
    seed: int
    number: int

    @property
    def question(self) -> str:
        """For the server to read it from."""
        return f"What about {self.tail} {self.seed} {self.number}?"

    @classmethod
    def of(cls, question: str) -> Plan:
        """That of a question."""
        tail, seed, number = question.rstrip("?").split()[-3:]
        return cls(float(tail), int(seed), int(number))

    @property
    def delays(self) -> list[float]:
        """Seconds of each of its model calls."""
        draw = np.random.default_rng((self.seed, self.number))
        calls = int(draw.integers(CALLS[0], CALLS[1] + 1))
        return [float(one) for one in MEDIAN_SECONDS * np.exp(self.tail * draw.standard_normal(calls))]

    def reply(self, turn: int) -> str:
        """Searches, of four or more calls once a closer look, then the answer."""
        if turn == len(self.delays) - 1:
            return "<think>Seen.</think><answer>So it is.</answer>"
        if turn == 2:
            return "<think>A closer look.</think><bbox>[20, 20, 120, 100]</bbox>"
        return f"<think>It needs looking up.</think><search>{QUERIES[(self.number + turn) % 10]}</search>"


def said(asked: Asked) -> Say:
    """A reply that comes whole when its time has come, with tokens."""
    plan = Plan.of(asked.question)
    text, delay = plan.reply(asked.turn), plan.delays[asked.turn]
    ids = tuple(range(40))
    return Say(text, first=delay, piece=len(text), prompt_ids=ids, ids=ids, logprobs=(-0.5,) * len(ids))


def _serve(pipe: Connection) -> None:
    with ChatServer(said) as server:
        pipe.send(server.url)
        pipe.recv()


@contextmanager
def _server() -> Generator[str]:
    """The address of a model server in a process of its own."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send(None)
        process.join(10)


@dataclass(frozen=True)
class Bench:
    """Both sides over one collection and one server."""

    policy: ChatPolicy
    environment: Environment

    async def ours(self, plans: list[Plan], places: int) -> tuple[float, dict[str, list[str]]]:
        """Seconds, and the pictures that each question was shown."""
        agent = Agent(self.policy, self.environment, VragMethod())
        cases = [
            Case(uid=p.question, query=p.question, reference_answer="", file_name="a.pdf") for p in plans
        ]
        attempts = [RolloutAttempt(case=case, sample=0) for case in cases]
        shown: dict[str, list[str]] = {}
        begun = time.perf_counter()
        async for one in roll_out(attempts, lambda _: agent, concurrency=places, seconds=120):
            assert one.failure is None, one.failure
            images = [event for event in one.events if isinstance(event, ImageShown)]
            shown[one.attempt.case.uid] = [image.sha256 for image in images]
        seconds = time.perf_counter() - begun
        await agent.aclose()
        return seconds, shown

    async def theirs(self, plans: list[Plan]) -> tuple[list[float], dict[str, list[str]]]:
        """Seconds until each batch of the loop was done, and the pictures."""
        loop = LockStep(self.policy, self.environment, VragMethod())
        begun, done, shown = time.perf_counter(), list[float](), dict[str, list[str]]()
        for start in range(0, len(plans), BATCH):
            lanes = await loop.batch([plan.question for plan in plans[start : start + BATCH]])
            done.append(time.perf_counter() - begun)
            shown |= {lane.question: lane.shown for lane in lanes}
        await self.policy.aclose()
        return done, shown

    def compare(self, plans: list[Plan], cells: tuple[Cell, ...]) -> list[tuple[float, float]]:
        """For each cell the seconds of the loop and of ours; all show the same pictures."""
        done, expected = asyncio.run(self.theirs(plans))
        pairs: list[tuple[float, float]] = []
        for number, places in cells:
            seconds, shown = asyncio.run(self.ours(plans[:number], places))
            assert all(expected[question] == pictures for question, pictures in shown.items())
            pairs.append((done[number // BATCH - 1], seconds))
        return pairs


@contextmanager
def _bench(*, full: bool = False) -> Generator[Bench]:
    with tempfile.TemporaryDirectory() as folder, _server() as url:
        collection = Collection.create(Path(folder) / "collection", CorpusOptions(ocr="never"))
        add(collection, [corpus_dir()])
        searcher = BatchedSearcher(Engine(collection))
        chat = OpenAIChat(url, "scripted", concurrency=4 * BATCH)
        policy = ChatPolicy(chat, ChatOptions(temperature=1.0, token_ids=True, logprobs=True))
        profile = PROFILES["qwen2.5-vl"]
        small = replace(profile, min_tokens=16, max_tokens=32)
        environment = Environment(searcher, profile if full else small, EnvironmentOptions(hits=10))
        bench = Bench(policy, environment)
        bench.compare(_plans(0.0, 0, BATCH), ((BATCH, BATCH),))  # everything is loaded then
        yield bench


def _plans(tail: float, seed: int, number: int) -> list[Plan]:
    return [Plan(tail, seed, n) for n in range(number)]


def _ideal(plans: list[Plan], places: int) -> tuple[float, float]:
    """Seconds of the loop and of ours, if nothing but the model took time."""
    delays = [plan.delays for plan in plans]
    batches = [delays[start : start + BATCH] for start in range(0, len(delays), BATCH)]
    loop = sum(max(d[turn] for d in b if len(d) > turn) for b in batches for turn in range(max(map(len, b))))
    free = [0.0] * places
    for one in delays:
        heapq.heapreplace(free, free[0] + sum(one))
    return loop, max(free)


def main(*, full: bool = False) -> list[Comparison]:
    """One batch and two, ours with room for 64 and for 16; other delays in every run."""
    with _bench(full=full) as bench:
        runs = [bench.compare(_plans(TAIL, run, 2 * BATCH), CELLS) for run in range(1, RUNS + 1)]
    rows: list[Comparison] = []
    for (number, places), pairs in zip(CELLS, zip(*runs, strict=True), strict=True):
        name = f"rollouts: {number}, {places} in flight / in lock-step batches of {BATCH}"
        theirs, ours = (_middle([number / pair[side] for pair in pairs]) for side in (0, 1))
        rows.append(compared(name, ours, theirs, "rollouts/s", RUNS))
    return rows


def study(*, full: bool = False) -> None:
    """For each tail, size and bound: ratios measured and ideal, and how many model calls were in flight."""
    print(
        "tail  number  bound  | ratio: median (least–most)  ideal | seconds: loop  ours | calls: loop  ours"
    )
    with _bench(full=full) as bench:
        for tail in TAILS:
            planned = [_plans(tail, seed, 2 * BATCH) for seed in range(1, STUDY_RUNS + 1)]
            measured = [bench.compare(plans, CELLS) for plans in planned]
            for at, (number, places) in enumerate(CELLS):
                pairs = [(p[:number], *m[at]) for p, m in zip(planned, measured, strict=True)]
                _tell(tail, number, places, pairs)


def _tell(tail: float, number: int, places: int, runs: list[tuple[list[Plan], float, float]]) -> None:
    ratios = [loop / ours for _, loop, ours in runs]
    ideal = [loop / ours for loop, ours in (_ideal(plans, places) for plans, _, _ in runs)]
    waited = [sum(map(sum, (plan.delays for plan in plans))) for plans, _, _ in runs]
    loops, ours = [loop for _, loop, _ in runs], [one for _, _, one in runs]
    calls = [_middle([w / s for w, s in zip(waited, side, strict=True)]) for side in (loops, ours)]
    print(
        f"{tail:4.2f}  {number:6}  {places:5}  | {_middle(ratios):5.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        f"  {_middle(ideal):5.2f} | {_middle(loops):5.2f}  {_middle(ours):5.2f}"
        f" | {calls[0]:4.1f}  {calls[1]:4.1f}",
        flush=True,
    )


SCRIPTS: tuple[tuple[str, str, str], ...] = (
    ("How many passengers were carried in 2024?", QUERIES[0], "48,200"),
    ("What does shore power cost?", QUERIES[3], "0.21"),
    ("Who is responsible for maintenance?", QUERIES[4], "the yard"),
    ("When was the first crossing of the Guillemot?", QUERIES[8], "12 May 1974"),
)
"""Questions, queries, and answers that may or may not stand on the pages."""
ROLLOUTS = 64


def cpu(*, full: bool = False) -> None:
    """Print the milliseconds of processor time of a rollout: search, two looks, an answer."""
    from vrag.agent.answers.verification import VerifyMode
    from vrag.testing import ScriptedPolicy

    served = VragMethod(verify=VerifyMode.TELL)
    ways = {
        "as served: located, claims checked": {"method": served},
        "located": {"method": VragMethod(repair=False)},
        "as trained: not located": {"method": VragMethod(repair=False), "locate": False},
    }
    with tempfile.TemporaryDirectory() as folder:
        collection = Collection.create(Path(folder) / "collection", CorpusOptions(ocr="never"))
        add(collection, [corpus_dir()])
        profile = PROFILES["qwen2.5-vl"]
        small = replace(profile, min_tokens=16, max_tokens=32)
        searcher = BatchedSearcher(Engine(collection))
        environment = Environment(searcher, profile if full else small, EnvironmentOptions(hits=10))
        box = "[100, 100, 400, 300]" if full else "[20, 20, 120, 100]"
        for name, options in ways.items():
            spent: list[float] = []
            for number in range(ROLLOUTS + len(SCRIPTS)):
                question, query, answer = SCRIPTS[number % len(SCRIPTS)]
                replies = (
                    f"<think>Look.</think><search>{query}</search>",
                    f"<think>Closer.</think><bbox>{box}</bbox>",
                    f"<think>Seen.</think><answer>{answer}</answer>",
                )
                agent = Agent(ScriptedPolicy(replies), environment, **options)  # pyright: ignore
                begun = time.process_time()
                agent.run(question)
                spent.append(time.process_time() - begun)
            taken = spent[len(SCRIPTS) :]  # the first ones load what is needed
            print(f"{name:36} {1000 * statistics.fmean(taken):7.1f} ms", flush=True)


def _middle(values: list[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", action="store_true", help="several weights of the tail")
    parser.add_argument("--full", action="store_true", help="pictures at full size")
    parser.add_argument("--cpu", action="store_true", help="processor time of a rollout")
    given = parser.parse_args()
    if given.cpu:
        cpu(full=given.full)
    elif given.study:
        study(full=given.full)
    else:
        show(main(full=given.full))
