"""A model decides which gold facts an answer states; its replies are read, or there is no verdict."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from chat_server import Asked, ChatServer, Say

from vrag.chat import OpenAIChat
from vrag.evaluation.fact_judge import FactJudge
from vrag.evaluation.measures.docscope import PageFacts
from vrag.types import GoldFact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TWO = PageFacts(2, (GoldFact("Two ferries sail.", 2), GoldFact("One is <red>.", 2)), ("Two ferries sail.",))
SILENT = PageFacts(3, (GoldFact("It snows.", 3),), (" ",))


def judged(
    *replies: str, pages: Sequence[PageFacts] = (TWO,), path: Path | None = None
) -> tuple[tuple[bool, ...] | None, list[Asked]]:
    async def work(url: str) -> tuple[bool, ...] | None:
        judge = FactJudge(OpenAIChat(url, "scripted"), path, attempts=2)
        try:
            return await judge.judge("How many?", pages)
        finally:
            await judge.aclose()

    with ChatServer([Say(reply) for reply in replies or ("?",)]) as server:
        return asyncio.run(work(server.url)), server.requests


@pytest.mark.parametrize(
    "reply", ["<stated>yes, no</stated>", "It says <stated>no, no</stated>.\n<stated>Yes,no</stated>."]
)
def test_the_end_of_a_reply_is_the_verdict(reply: str) -> None:
    assert judged(reply)[0] == (True, False)


@pytest.mark.parametrize(
    "reply",
    [
        "<stated>yes</stated>",  # one word for two facts
        "<stated>yes, maybe</stated>",
        "<stated>yes, no</stated> or so",
        "<think>well <stated>yes, no</stated>",
        "yes, no",
    ],
)
def test_other_replies_are_asked_again_and_then_give_no_verdict(reply: str) -> None:
    verdicts, requests = judged(reply)
    assert verdicts is None
    assert len(requests) == 2
    assert judged(reply, "<stated>no, yes</stated>")[0] == (False, True)


def test_facts_are_quoted_as_data_and_asked_of_one_page_at_a_time() -> None:
    verdicts, (asked,) = judged("<stated>yes, no</stated>", pages=(TWO, SILENT))
    assert verdicts == (True, False, False)  # nothing is said of the other page, and no model is asked
    assert "1. Two ferries sail.\n2. One is &lt;red&gt;." in asked.text
    assert "- Two ferries sail." in asked.text


def test_verdicts_are_kept(tmp_path: Path) -> None:
    first, _ = judged("<stated>yes, no</stated>", path=tmp_path / "kept")
    again, requests = judged("<stated>no, no</stated>", path=tmp_path / "kept")
    assert again == first
    assert requests == []


def test_without_facts_there_is_nothing_to_decide() -> None:
    assert judged(pages=()) == ((), [])
