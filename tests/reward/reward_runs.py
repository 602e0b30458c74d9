"""Runs to score: made of events by hand or by the agents, and a judge that is told what to say."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import ImageShown, StopReason
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_result import RunResult, RunStep
from vrag.errors import JudgeError
from vrag.model_profiles import PROFILES
from vrag.reward import Verdict
from vrag.testing import MemorySearcher, ScriptedPolicy, clip, page, tiny_corpus
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = "ferry.pdf"
SEARCH = "<think>Look.</think><search>ferry passengers 2024</search>"
ANSWER = "<think>Seen.</think><answer>48,200</answer>"


def case(*pages: int, answer: str = "48,200", file: str = FILE) -> Case:
    return Case(
        uid="c", query="How many passengers?", reference_answer=answer, file_name=file, reference_page=pages
    )


def image(
    number: int, *, document: str = FILE, crop: bool = False, seconds: float | None = None
) -> ImageShown:
    """A picture of the page of that number, shown whole unless it is a crop."""
    return ImageShown(
        run_id="r",
        seq=0,
        ts=0.0,
        step=1,
        number=1,
        label="Image 1",
        item=f"{document}-{number}",
        document=document,
        page=number,
        seconds=seconds,
        region=(0, 0, 1, 1),
        box=(0, 0, 1, 1),
        width=28,
        height=28,
        visual_tokens=1,
        sha256="0",
        crop=crop,
    )


def run_of(
    *shown: ImageShown,
    answer: str | None = "48,200",
    stop: StopReason | None = StopReason.ANSWERED,
    query: str | None = "ferry",
    invalid: str | None = None,
    flags: tuple[str, ...] = (),
    failure: str | None = None,
) -> RunResult:
    """One search that showed these, and the end."""
    steps = (
        RunStep(number=1, query=query, shown=shown, invalid=invalid),
        RunStep(number=2, flags=flags),
    )
    return RunResult(run_id="r", steps=steps, answer=answer, stop_reason=stop, failure=failure)


def vrag_run(*replies: str | Exception) -> RunResult:
    """What VRAG does with these replies on the tiny corpus and a film."""
    return _run(VragMethod(), replies)


def vimrag_run(*replies: str | Exception) -> RunResult:
    return _run(Vimrag(), replies)


def call(name: str, /, **arguments: object) -> str:
    """VimRAG: a reply that calls a tool."""
    return f"<think>So.</think>\n<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def _run(method: VragMethod | Vimrag, replies: Sequence[str | Exception]) -> RunResult:
    searcher = MemorySearcher(
        (
            *tiny_corpus().items,
            page("other.pdf", 2, "quay"),
            clip("harbour.mp4", 2, "gulls", 0.0, 3.0),
        )
    )
    where = Environment(searcher, PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=3))
    return Agent(ScriptedPolicy(tuple(replies)), where, method).run("How many passengers?")


@dataclass
class ToldJudge:
    """Says what it was told to say, and keeps what it was asked: tests count its calls."""

    verdict: Verdict | JudgeError = field(default_factory=lambda: Verdict(correct=True))
    asked: list[tuple[str, str, str]] = field(default_factory=list["tuple[str, str, str]"])
    identity: str = "told"

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        self.asked.append((question, reference, answer))
        if isinstance(self.verdict, JudgeError):
            raise self.verdict
        return self.verdict

    async def aclose(self) -> None:
        """Holds nothing."""
