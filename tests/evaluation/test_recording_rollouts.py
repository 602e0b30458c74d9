"""Runs are judged, and short answers made of theirs, as they come: of what, and what a failure leaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chat_server import Asked, ChatServer, Refuse, Reply, Say

from vrag.agent.events import AnswerGiven, RunSettings, RunStarted, StopReason
from vrag.cases import UNANSWERABLE
from vrag.chat import OpenAIChat
from vrag.datasets.registry import RULES
from vrag.evaluation.answer_extraction import Extractor
from vrag.evaluation.record import CaseOutcome, CaseRecord, Extraction, record_of
from vrag.evaluation.relevance import DocumentNames
from vrag.evaluation.result_store import record_rollouts
from vrag.reward import Reward
from vrag.rollouts.rollout import Rollout, RolloutAttempt
from vrag.types import AnswerFormat, Case

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from vrag.agent.runs.run_result import RunResult

CASE = Case(
    uid="nine", query="How many?", reference_answer="9", file_name="a.pdf", answer_format=AnswerFormat.INTEGER
)
UNKNOWN = replace(CASE, uid="unknown", reference_answer=UNANSWERABLE, answer_format=AnswerFormat.NONE)
SHORT = {
    "There are nine of them.": "<format>Integer</format><extracted>9</extracted>",
    "No page tells it.": "<extracted>Not answerable</extracted>",
    "I think of a number.": "I do not know.",
}


def rollout(uid: str, answer: str | None, stop: StopReason = StopReason.ANSWERED) -> Rollout:
    case = replace(UNKNOWN if uid == "unknown" else CASE, uid=uid)
    common: dict[str, Any] = {"run_id": uid, "seq": 0, "ts": 0.0, "step": 0}
    settings = RunSettings(agent="vrag", policy="told", profile="qwen2.5-vl")
    events = (
        RunStarted(**common, question=case.query, settings=settings, collection="1"),
        AnswerGiven(**common, text=answer, evidence=(), stop_reason=stop),
    )
    return Rollout(
        attempt=RolloutAttempt(case=case, sample=0), events=events, files={}, failure=None, seconds=1.0
    )


RUNS = (
    rollout("sentence", "There are nine of them."),
    rollout("again", "There are nine of them."),
    rollout("unknown", "No page tells it."),
    rollout("unclear", "I think of a number."),
    rollout("refused", "Nobody extracts this."),
    rollout("abstained", None, StopReason.ABSTAINED),
    rollout("out", None, StopReason.OUT_OF_STEPS),
    rollout("broken", None, StopReason.FAULT),
)


def reply(asked: Asked) -> Reply:
    said = asked.body["messages"][0]["content"]
    return next((Say(short) for answer, short in SHORT.items() if answer in str(said)), Refuse(400))


class Right:
    async def score(self, case: Case, run: RunResult) -> Reward:
        return Reward(total=1.0, correct=True)


def kept(
    made: Rollout,
    reward: Reward | None,
    extraction: Extraction | None = None,
    facts: Sequence[bool] | None = None,
) -> CaseRecord:
    case = made.attempt.case
    return record_of(
        case,
        0,
        made,
        reward,
        DocumentNames.of([]),
        judge="a",
        rule=RULES["mmlongbench"],
        extraction=extraction,
        facts=facts,
    )


def recorded(url: str | None, path: Path) -> dict[str, CaseRecord]:
    async def runs() -> AsyncGenerator[Rollout, None]:
        for one in RUNS:
            yield one

    async def work() -> dict[tuple[str, int], CaseRecord]:
        extractor = None if url is None else Extractor(OpenAIChat(url, "scripted"), path, attempts=2)
        try:
            return await record_rollouts(runs(), Right(), kept, extractor=extractor)
        finally:
            if extractor is not None:
                await extractor.aclose()

    return {uid: record for (uid, _), record in asyncio.run(work()).items()}


def marks(records: dict[str, CaseRecord]) -> dict[str, float | None]:
    return {uid: record.measures.get("mmlongbench") for uid, record in records.items()}


def test_short_answers_are_what_rules_compare_and_failures_are_left_out(tmp_path: Path) -> None:
    with ChatServer(reply) as server:
        records = recorded(server.url, tmp_path / "kept")
        calls = len(server.requests)
    assert calls == 1 + 1 + 2 + 1  # the sentence once for both who say it, and nothing of the last three
    assert marks(records) == {
        "sentence": 1.0,
        "again": 1.0,
        "unknown": 1.0,
        "unclear": None,
        "refused": None,
        "abstained": 0.0,
        "out": 0.0,
        "broken": 0.0,
    }
    extracted = {uid: record.extracted and record.extracted.answer for uid, record in records.items()}
    assert (extracted["sentence"], extracted["unknown"]) == ("9", "Not answerable")
    assert {uid for uid, record in records.items() if record.extracted is None} == {
        "abstained",
        "out",
        "broken",
    }
    told = records["unclear"].extracted
    assert told is not None
    assert "in 2 attempts" in told.why
    assert {uid for uid, record in records.items() if record.declined} == {"unknown", "abstained"}


def test_what_is_judged_does_not_depend_on_it(tmp_path: Path) -> None:
    with ChatServer(reply) as server:
        with_it = recorded(server.url, tmp_path / "kept")
    without = recorded(None, tmp_path)
    assert {uid: one.outcome for uid, one in with_it.items()} == {
        uid: one.outcome for uid, one in without.items()
    }
    assert with_it["unknown"].outcome is CaseOutcome.RIGHT
    assert with_it["unknown"].declined
    assert marks(without) == dict.fromkeys(marks(without), 0.0)
    assert all(record.extracted is None for record in without.values())


def test_those_that_were_made_are_not_made_again(tmp_path: Path) -> None:
    with ChatServer(reply) as server:
        first = recorded(server.url, tmp_path / "kept")
        before = len(server.requests)
        assert recorded(server.url, tmp_path / "kept") == first
        assert len(server.requests) - before == 3  # what could not be had is asked for again
