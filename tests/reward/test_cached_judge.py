"""Verdicts that are kept: asked for once, in memory and in a file that survives its writers."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from reward_runs import ToldJudge

from vrag.errors import JudgeError
from vrag.reward.cached_judge import CachedJudge
from vrag.reward.reward import Verdict

if TYPE_CHECKING:
    from pathlib import Path

GRADED = Verdict(correct=False, score=0.25, why="It is near. 差不多")


def ask(judge: CachedJudge, *content: str) -> Verdict:
    return asyncio.run(judge.judge(*(content or ("q", "r", "a"))))


def test_the_same_answer_is_judged_once() -> None:
    judge = ToldJudge(GRADED)
    cached = CachedJudge(judge)
    assert [ask(cached) for _ in range(3)] == [GRADED] * 3
    assert len(judge.asked) == 1


def test_everything_that_a_verdict_depends_on_counts() -> None:
    judge = ToldJudge()
    cached = CachedJudge(judge)
    contents = [("q", "r", "a"), ("qr", "", "a"), ("q", "ra", ""), ("Q", "r", "a"), ('q", "r', "a", "")]
    for content in contents * 2:
        ask(cached, *content)
    assert judge.asked == contents


def test_a_verdict_of_another_judge_is_another(tmp_path: Path) -> None:
    ask(CachedJudge(ToldJudge(identity="one"), tmp_path / "v"))
    other = ToldJudge(identity="other")
    ask(CachedJudge(other, tmp_path / "v"))
    assert len(other.asked) == 1


def test_it_outlives_the_process_whole(tmp_path: Path) -> None:
    ask(CachedJudge(ToldJudge(GRADED), tmp_path / "new" / "verdicts.sqlite"))
    silent = ToldJudge(JudgeError("not to be asked"))
    assert ask(CachedJudge(silent, tmp_path / "new" / "verdicts.sqlite")) == GRADED
    assert not silent.asked


def test_what_failed_is_not_kept(tmp_path: Path) -> None:
    judge = ToldJudge(JudgeError("No verdict."))
    cached = CachedJudge(judge, tmp_path / "v")
    for _ in range(2):
        with pytest.raises(JudgeError):
            ask(cached)
    judge.verdict = GRADED
    assert ask(cached) == GRADED


def test_memory_is_bounded() -> None:
    judge = ToldJudge()
    cached = CachedJudge(judge, most=2)
    for answer in ("a", "b", "c", "c", "b", "a"):
        ask(cached, "q", "r", answer)
    assert [answer for _, _, answer in judge.asked] == ["a", "b", "c", "a"]


class Slow:
    """A judge that is waited for."""

    identity = "slow"

    def __init__(self, failure: JudgeError | None = None) -> None:
        self.calls, self.failure = 0, failure
        self.open = asyncio.Event()

    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        self.calls += 1
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        return GRADED

    async def aclose(self) -> None:
        """Holds nothing."""


class TestAtOnce:
    @pytest.mark.parametrize("failure", [None, JudgeError("No verdict.")])
    def test_whoever_asks_meanwhile_waits_for_the_same(self, failure: JudgeError | None) -> None:
        async def ask_all() -> list[Verdict | BaseException]:
            asking = [asyncio.create_task(cached.judge("q", "r", "a")) for _ in range(5)]
            await asyncio.sleep(0)
            slow.open.set()
            return await asyncio.gather(*asking, return_exceptions=True)

        slow = Slow(failure)
        cached = CachedJudge(slow)
        said = asyncio.run(ask_all())
        assert slow.calls == 1
        assert said == [failure or GRADED] * 5

    def test_one_who_is_cancelled_leaves_the_others_theirs(self) -> None:
        async def cancel_first() -> Verdict:
            first, second = (asyncio.create_task(cached.judge("q", "r", "a")) for _ in range(2))
            await asyncio.sleep(0.01)
            first.cancel()
            slow.open.set()
            with pytest.raises(asyncio.CancelledError):
                await first
            return await second

        slow = Slow()
        cached = CachedJudge(slow)
        assert asyncio.run(cancel_first()) == GRADED
        assert slow.calls == 1


WRITER = """
import asyncio, sys
from pathlib import Path
from vrag.reward.reward import Verdict
from vrag.reward.cached_judge import CachedJudge

class Judge:
    identity = "writer"
    async def judge(self, question, reference, answer):
        return Verdict(True, None, answer)

async def main():
    cached = CachedJudge(Judge(), Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        await cached.judge("q", sys.argv[2], str(number))
        print(number, flush=True)

asyncio.run(main())
"""


def writer(path: Path, name: str, verdicts: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), name, str(verdicts)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


class TestTheFile:
    @pytest.mark.slow
    def test_processes_write_at_once_and_one_is_killed(self, tmp_path: Path) -> None:
        path = tmp_path / "verdicts.sqlite"
        with writer(path, "killed", 100_000) as killed, writer(path, "other", 30) as other:
            assert killed.stdout is not None
            told = [next(killed.stdout) for _ in range(20)]
            killed.send_signal(signal.SIGKILL)
            assert other.wait(30) == 0
        assert len(told) == 20
        silent = ToldJudge(JudgeError("not to be asked"), identity="writer")
        cached = CachedJudge(silent, path)
        for name, count in (("killed", 20), ("other", 30)):
            for number in range(count):
                assert ask(cached, "q", name, str(number)).why == str(number)
        with sqlite3.connect(path) as table:
            assert table.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        table.close()

    @pytest.mark.parametrize("content", [b"no database " * 100, b""])
    def test_that_is_none_is_refused_and_an_empty_one_is_taken(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "v"
        path.write_bytes(content)
        if not content:
            assert ask(CachedJudge(ToldJudge(), path)).correct
            return
        with pytest.raises(JudgeError, match="Verdicts cannot be cached in"):
            CachedJudge(ToldJudge(), path)

    def test_of_another_shape_is_refused(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "v") as table:
            table.execute("CREATE TABLE verdicts (other TEXT)")
        table.close()
        with pytest.raises(JudgeError, match="no such column"):
            CachedJudge(ToldJudge(), tmp_path / "v")

    def test_that_breaks_later_costs_no_verdict(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        judge = ToldJudge(GRADED)
        cached = CachedJudge(judge, tmp_path / "v")
        (tmp_path / "v").write_bytes(b"no database any more" * 100)
        with caplog.at_level(logging.WARNING):
            assert [ask(cached), ask(cached)] == [GRADED, GRADED]
        assert len(judge.asked) == 1
        assert "cannot be written" in caplog.text
