"""Runs of VRAG as experts would make them, by a script: for what comes after sampling."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from vrag.agent.actions import Answer, Crop, Search
from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.methods.vrag import VragMethod
from vrag.distill.expert_messages import write_turn
from vrag.distill.sample_store import Sample, SampleOutcome, SampleStore
from vrag.model_profiles import PROFILES
from vrag.testing import ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.runs.run_store import StoredRun
    from vrag.model_profiles import Profile

QWEN25 = PROFILES["qwen2.5-vl"]
QUESTION = "How many passengers?"
SEARCH = write_turn("Who sails?", Search("passengers in 2024"))
OTHER = write_turn("The price.", Search("ticket prices"))
ANSWER = write_turn("It says so.", Answer("48,200 [1]"))


def crop(*box: float, image: int | None = None) -> str:
    x1, y1, x2, y2 = box or (28.0, 28.0, 280.0, 140.0)
    return write_turn("Too small.", Crop((x1, y1, x2, y2), image))


def record_run(
    store: SampleStore, *replies: str, profile: Profile = QWEN25, question: str = QUESTION
) -> StoredRun:
    """A run with these replies, recorded."""
    environment = Environment(tiny_corpus(), profile, EnvironmentOptions())
    agent = Agent(ScriptedPolicy(replies), environment, VragMethod())

    async def run() -> str:
        with store.runs.record() as recording:
            async for event in agent.astream(question, run_id=recording.id, save=recording.save):
                recording.write(event)
        return recording.id

    return store.runs.read(asyncio.run(run()))


def record_sample(
    store: SampleStore, uid: str, *replies: str, score: int = 5, profile: Profile = QWEN25
) -> Sample:
    """The same with a record."""
    run = record_run(store, *replies, profile=profile)
    sample = Sample(
        uid=uid,
        query=QUESTION,
        reference_answer="48,200",
        outcome=SampleOutcome.SCORED,
        run=run.id,
        score=score,
        why="So.",
    )
    add_record(store, sample)
    return sample


def add_record(store: SampleStore, sample: Sample) -> None:
    store.directory.mkdir(parents=True, exist_ok=True)
    with store.samples.open() as journal:
        store.samples.append(journal, sample)


def store_in(directory: Path) -> SampleStore:
    return SampleStore(directory / "samples")
