"""An episode is the same run, with the same reward, as that of our agent with the same replies."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import ImageShown
from vrag.agent.methods import build_method
from vrag.cases.case_json import row_of
from vrag.errors import CaseError, JudgeError, SearchError, SettingsError
from vrag.geometry import decode_jpeg
from vrag.model_profiles import PROFILES
from vrag.reward.combine import CompositeReward
from vrag.reward.rules_judge import RulesJudge
from vrag.rl import AsyncEpisode, Episode
from vrag.rl.episodes.episode import MAX_REPLY_CHARACTERS
from vrag.rollouts.rollout import RolloutAttempt, ScoredRollout, play_attempt
from vrag.testing import MemorySearcher, ScriptedPolicy, tiny_corpus
from vrag.types import Case

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vrag.reward.reward import Verdict
    from vrag.search.searcher import Searcher
    from vrag.types import Hit, Query

CASE = Case(
    uid="c1",
    query="How many passengers did the ferry carry?",
    reference_answer="48,200",
    file_name="ferry.pdf",
    reference_page=(2,),
)
SCRIPT = (
    "<think>Look.</think><search>ferry passengers</search>",
    "<think>Seen.</think><answer>48,200</answer>",
)
TAGS = (
    *SCRIPT,
    "<think>Look.</think><search>prices return ticket</search>",
    "<search>nothing like it</search>",
    "<think>Closer.</think><bbox>[0, 0, 300, 200]</bbox>",
    "<bbox>[900, 900, 100, 100]</bbox>",
    "<answer>a wrong one</answer>",
    "<answer></answer>",
    "No action at all. ",
    "\n<search>ferry</search> \n",
    "<search>ferry</search><answer>48,200</answer>",
    "<think>never closed <search>ferry</search>",
    "<|im_end|><search>passengers<|image_pad|></search>",
    "\ud800<search>ferry</search> and more",
    "",
)


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


REVIEWED: list[dict[str, Any]] = [
    {"information_id": label, "is_useful": True, "key_timestamp": [], "priority_score": 4}
    for label in ("Text 1", "Picture 1", "Picture 2")
]
MEMORIZE = call("summarize_and_memorize", summarize="It says so.", memorize=REVIEWED)
CALLS = (
    call("add_search_node", id="found", parent_ids=["root"], query="ferry passengers"),
    call("add_answer_node", parent_ids=["root"], answer="48,200"),
    call("add_search_node", id="b", parent_ids=["found"], query="car"),
    MEMORIZE,
    call("summarize_and_memorize"),
    call("add_answer_node", parent_ids=["nowhere"], answer="1"),
    "<tool_call>{broken",
    "No call.",
    "",
)


def agent_of(method: str, replies: Sequence[str] = (), searcher: Searcher | None = None) -> Agent:
    environment = Environment(
        searcher or tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=3, show=1)
    )
    policy = ScriptedPolicy(tuple(replies), piece=10_000)
    return Agent(policy, environment, build_method(method, repair=False), Limits(steps=4))


SCORER = CompositeReward(RulesJudge())


async def play_episode(episode: AsyncEpisode, replies: Sequence[str]) -> ScoredRollout:
    await episode.reset(CASE)
    for text in replies:
        if (await episode.step(text)).done:
            break
    assert episode.played is not None
    return episode.played


def outline(played: ScoredRollout) -> tuple[Any, ...]:
    """Everything but names, times and the name of the policy."""
    events = [
        event.model_dump(exclude={"run_id", "ts", "seconds", "model_seconds"})
        for event in played.rollout.events
    ]
    for event in events:
        if event["type"] == "run_started":
            event["settings"].pop("policy")
    return events, dict(played.rollout.files), played.reward, played.rollout.failure


@pytest.mark.parametrize(("method", "pool"), [("vrag", TAGS), ("vimrag", CALLS)])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_script_gives_the_same_run_and_reward_as_through_our_agent(
    method: str, pool: tuple[str, ...], data: st.DataObject
) -> None:
    replies = data.draw(st.lists(st.sampled_from(pool), min_size=4, max_size=4))
    attempt = RolloutAttempt(case=CASE, sample=0)

    async def both() -> tuple[ScoredRollout, ScoredRollout]:
        ours = await play_attempt(attempt, agent_of(method, replies), lambda: SCORER)
        return ours, await play_episode(AsyncEpisode(agent_of(method), SCORER), replies)

    ours, theirs = asyncio.run(both())
    assert outline(theirs) == outline(ours)
    assert not theirs.reward.missing


def pictures(messages: Sequence[dict[str, Any]]) -> list[Any]:
    return [
        part
        for message in messages
        for part in message["content"]
        if isinstance(message["content"], list) and part["type"] != "text"
    ]


def shown(episode: Episode) -> list[str]:
    assert episode.rollout is not None
    return [event.sha256 for event in episode.rollout.events if isinstance(event, ImageShown)]


def test_pictures_are_the_files_of_the_run_in_each_form(tmp_path: Path) -> None:
    for form in ("pil", "url", tmp_path):
        episode = Episode(agent_of("vrag"), SCORER, images=form)
        episode.reset(CASE)
        [part] = pictures(episode.step(TAGS[0]).messages)
        episode.step(TAGS[1])
        [sha256] = shown(episode)
        jpeg = episode.rollout.files[f"{sha256}.jpg"] if episode.rollout else b""
        if form == "pil":
            assert part["image"].tobytes() == decode_jpeg(jpeg).tobytes()
        elif form == "url":
            url = part["image_url"]["url"].removeprefix("data:image/jpeg;base64,")
            assert hashlib.sha256(base64.b64decode(url)).hexdigest() == sha256
        else:
            assert part["image"] == str(tmp_path / f"{sha256}.jpg")
            assert (tmp_path / f"{sha256}.jpg").read_bytes() == jpeg


def test_what_is_new_follows_the_reply_and_a_context_that_is_rebuilt_says_so() -> None:
    episode = Episode(agent_of("vrag"), SCORER)
    first = episode.reset(row_of(CASE))
    assert episode.observation == first
    step = episode.step(TAGS[0])
    assert step.messages[: len(first)] == first
    assert step.messages[len(first)] == {"role": "assistant", "content": TAGS[0]}
    assert episode.observation == step.messages[len(first) + 1 :]
    graph = Episode(agent_of("vimrag"), SCORER)
    graph.reset(CASE)
    graph.step(CALLS[0])
    assert graph.observation
    graph.step(MEMORIZE)
    assert graph.observation is None


def test_the_end_is_returned_again_and_a_reset_begins_anew() -> None:
    episode = Episode(agent_of("vrag"), SCORER)
    with pytest.raises(RuntimeError, match="call reset first"):
        episode.step("")
    for _ in range(2):
        assert episode.reset(CASE)
        assert not episode.step(TAGS[0]).done
        assert episode.reward is None
        end = episode.step(TAGS[1])
        assert end == ([], 1.0, True)
        assert episode.step("<search>more</search>") == end


def test_the_last_step_ends_the_episode_and_so_does_a_model_that_cannot_reply() -> None:
    episode = Episode(agent_of("vrag"), SCORER)
    episode.reset(CASE)
    assert [episode.step("No action.").done for _ in range(4)] == [False, False, False, True]
    assert episode.reward is not None
    assert (episode.reward.total, episode.reward.why) == (
        0,
        "The run ended without an answer (out_of_steps).",
    )
    episode.reset(CASE)
    episode.step(TAGS[0])
    assert episode.step(None)[1:] == (0, True)
    assert "out_of_tokens" in episode.reward.why
    episode.reset(CASE)
    assert episode.step("<think>cut off in the middle", cut=True)[1:] == (0, True)


@dataclass(frozen=True, slots=True)
class BrokenSearcher(MemorySearcher):
    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        raise SearchError("The server is gone.")


class SilentJudge(RulesJudge):
    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        raise JudgeError("No verdict.")


class BrokenJudge(RulesJudge):
    async def judge(self, question: str, reference: str, answer: str) -> Verdict:
        raise ZeroDivisionError("a fault of the judge")


@pytest.mark.parametrize(
    ("searcher", "judge", "why"),
    [
        (BrokenSearcher(tiny_corpus().items), RulesJudge(), "SearchError: The server is gone."),
        (tiny_corpus(), SilentJudge(), "No verdict."),
        (tiny_corpus(), BrokenJudge(), "ZeroDivisionError: a fault of the judge"),
    ],
)
def test_faults_of_search_and_judge_are_missing_rewards(
    searcher: Searcher, judge: RulesJudge, why: str
) -> None:
    episode = Episode(agent_of("vrag", searcher=searcher), CompositeReward(judge))
    episode.reset(CASE)
    steps = [episode.step(text) for text in SCRIPT]
    assert steps[-1] == ([], None, True)
    assert episode.reward is not None
    assert episode.reward.why.startswith(why)


def test_the_deadline_counts_the_time_of_the_replies() -> None:
    episode = Episode(agent_of("vrag"), SCORER, seconds=0.2)
    episode.reset(CASE)
    time.sleep(0.5)
    assert episode.step(TAGS[0]) == ([], None, True)
    assert episode.reward is not None
    assert episode.reward.why.startswith("Deadline")


def test_closing_cancels_the_run_and_ends_a_step_that_waits() -> None:
    async def give_up() -> None:
        episode = AsyncEpisode(agent_of("vrag"), SCORER)
        await episode.reset(CASE)
        stepping = asyncio.create_task(episode.step(TAGS[0]))
        await asyncio.sleep(0)
        await episode.aclose()
        assert await stepping == ([], None, True)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        assert episode.reward is None
        assert await episode.step(TAGS[0]) == ([], None, True)
        assert await episode.reset(CASE)
        for text in SCRIPT:
            await episode.step(text)
        await episode.aclose()
        assert episode.reward is not None  # of a run that has ended

    asyncio.run(give_up())


def test_many_episodes_run_at_once_in_a_loop_and_in_threads() -> None:
    async def play_all() -> list[ScoredRollout]:
        episodes = [AsyncEpisode(agent_of("vrag"), SCORER) for _ in range(24)]
        return await asyncio.gather(*(play_episode(episode, SCRIPT) for episode in episodes))

    def play_one(_: int) -> float | None:
        episode = Episode(agent_of("vrag"), SCORER)
        episode.reset(CASE)
        return [episode.step(text) for text in SCRIPT][-1].reward

    assert {played.reward.total for played in asyncio.run(play_all())} == {1.0}
    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(play_one, range(24))) == {1.0}


def test_options_open_the_environment_of_our_trainer() -> None:
    options = {"searcher": "vrag.testing:tiny_corpus", "profile": "qwen2.5-vl", "steps": 2, "hits": 3}
    episode = Episode.of(options)
    episode.reset(json.dumps(row_of(CASE)))
    assert [episode.step(text).done for text in SCRIPT] == [False, True]
    assert episode.reward is not None
    assert episode.reward.parts == {"retrieval": 1.0, "answer": 1.0, "pattern": 1.0}


def test_options_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(SettingsError, match="need the option `profile`"):
        Episode.of({"searcher": "vrag.testing:tiny_corpus"})
    with pytest.raises(SettingsError, match="no episodes of the agent 'rag'"):
        Episode.of({"searcher": "vrag.testing:tiny_corpus", "profile": "qwen2.5-vl"}, agent="rag")


def test_bad_input_is_refused_and_the_episode_goes_on() -> None:
    episode = Episode(agent_of("vrag"), SCORER)
    with pytest.raises(RuntimeError, match="call reset first"):
        episode.step("<search>ferry</search>")
    episode.reset(CASE)
    for text in ("", "no JSON", "[" * 100_000, "null", "{}"):
        with pytest.raises((ValueError, CaseError)):
            episode.reset(text)
    with pytest.raises(TypeError, match="text or None, not list"):
        episode.step([{"type": "text", "text": "<search>ferry</search>"}])  # pyright: ignore[reportArgumentType]
    assert [episode.step(text).done for text in SCRIPT] == [False, True]
    assert episode.reward is not None
    assert episode.reward.total == 1.0


def test_a_huge_reply_is_cut() -> None:
    episode = Episode(agent_of("vrag"), SCORER)
    episode.reset(CASE)
    assert episode.step("<search>" + "ferry " * 1_000_000 + "</search>").done
    assert episode.rollout is not None
    (step,) = episode.rollout.trajectory.steps
    assert len(step.reply) == MAX_REPLY_CHARACTERS


@pytest.mark.slow
def test_a_process_ends_quietly_with_episodes_that_go_on() -> None:
    code = (
        "from vrag.rl import Episode; from vrag.testing import tiny_corpus\n"
        "episode = Episode.of({'searcher': 'vrag.testing:tiny_corpus', 'profile': 'qwen2.5-vl'})\n"
        f"episode.reset({json.dumps(row_of(CASE))!r}); episode.step('<think>a</think><search>ferry</search>')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.slow
def test_no_torch_is_imported() -> None:
    code = (
        "import sys; from vrag.rl import Episode; Episode.of({'searcher': 'vrag.testing:tiny_corpus', "
        "'profile': 'qwen2.5-vl'}); print([m for m in ('torch', 'transformers', 'verl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
