"""What experts are told, and what is understood of what they say."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING

import pytest
from distill_runs import QUESTION, SEARCH, crop
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.agent.actions import Answer, Crop, Search, parse
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.event_log import EventLog
from vrag.chat import ChatImage, ChatText
from vrag.distill.expert_messages import (
    ExpertView,
    PlannerReply,
    UnusableReplyError,
    box_sides,
    dump_turn,
    feasible,
    read_box,
    read_plan,
    read_score,
    seen_by,
    write_turn,
)
from vrag.distill.experts import read_experts
from vrag.errors import SettingsError
from vrag.geometry import Box, Size, Space, View, iou
from vrag.model_profiles import PROFILES
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.agent.policy import Message

LEARNER = PROFILES["qwen2.5-vl"]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I would search.", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"think": "t"}', "exactly one"),
        ('{"think": "t", "search": "a", "answer": "b"}', "exactly one"),
        ('{"search": "a"}', '"think" is missing'),
        ('{"think": "t", "search": "  "}', "query is empty"),
        ('{"think": "t", "search": ["a"]}', "not a text"),
        ('{"think": "t", "bbox": [1, 2, 3]}', "four numbers"),
        ('{"think": "t", "bbox": [1, 2, 3, NaN]}', "four numbers"),
        ('{"think": "t", "bbox": "1,2,3,4"}', "four numbers"),
        ('{"think": "t", "bbox": [1, 2, 3, 4], "image": "two"}', "number of a picture"),
        ('{"think": "t", "bbox": [1, 2, 3, 4], "image": 0}', "numbered from 1"),
    ],
)
def test_a_plan_that_cannot_be_used_says_why(reply: str, reason: str) -> None:
    with pytest.raises(UnusableReplyError, match=reason):
        read_plan(reply)


@given(st.text(max_size=60))
def test_no_reply_makes_reading_fail_in_another_way(reply: str) -> None:
    for read in (read_plan, read_box, read_score):
        with pytest.raises(UnusableReplyError):
            read("{" + reply.replace("{", "") if reply.count('"') < 4 else reply)


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_whatever_an_expert_writes_is_one_turn_of_the_grammar(thought: str, words: str) -> None:
    try:
        plan = read_plan(json.dumps({"think": thought, "search": words}))
    except UnusableReplyError:
        assert not thought.strip() or not words.strip()
        return
    turn = parse(write_turn(plan.thought, plan.action))
    assert turn.action == plan.action
    assert turn.thought == plan.thought
    assert not turn.flags


def test_tags_in_a_thought_are_written_otherwise() -> None:
    plan = read_plan('{"think": "A </think> and <image> <|im_end|>", "answer": 12.5}')
    assert plan == PlannerReply("A ‹/think> and ‹image> ‹|im_end|›", Answer("12.5"))


@pytest.mark.parametrize("action", [Search("a b"), Answer("12"), Crop((1, 2, 3.5, 4)), Crop((1, 2, 3, 4), 2)])
def test_a_turn_in_json_is_read_back(action: Search | Answer | Crop) -> None:
    assert read_plan(dump_turn(parse(write_turn("Why.", action)))) == PlannerReply("Why.", action)


@pytest.mark.parametrize(
    "score", ["0", "6", "true", "4.5", '"five"', '"' + "5" * 5000 + '"', '""', "null", "[5]", "1e999"]
)
def test_only_scores_from_1_to_5_count(score: str) -> None:
    with pytest.raises(UnusableReplyError):
        read_score(f'{{"score": {score}}}')
    assert read_score('{"score": " 4"}').score == 4
    assert repr(read_score('{"score": 5.0}').score) == "5"


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_boxes_come_through_every_family_and_back(name: str) -> None:
    profile = PROFILES[name]
    view = View.whole(Size(1700, 2200), LEARNER.shown_size(Size(1700, 2200)))
    theirs = seen_by(view, profile)
    box = Box(170, 220, 850, 660, Space.ITEM)
    again = feasible(box_sides(box, theirs, profile), theirs, profile)
    assert iou(again, box) > 0.98
    closer = View(view.item, Box(400, 600, 900, 1000, Space.ITEM), LEARNER.shown_size(Size(500, 400)))
    inner = Box(450, 650, 700, 900, Space.ITEM)
    theirs = seen_by(closer, profile)
    assert iou(feasible(box_sides(inner, theirs, profile), theirs, profile), inner) > 0.97
    with pytest.raises(UnusableReplyError):
        feasible((400, 400, 100, 100), theirs, profile)


def history() -> tuple[Message, ...]:
    """Of a run that searched, cropped and searched, as the environment tells it."""
    episode = VragMethod().begin(Environment(tiny_corpus(), LEARNER), QUESTION)
    for reply in (SEARCH, crop()):
        episode.context(last=False)
        episode.step(episode.parse(reply), EventLog("run"), more=True)
    return episode.context(last=True).messages


def test_an_expert_is_told_the_run_in_json_and_in_its_own_space() -> None:
    told = ExpertView(LEARNER, PROFILES["qwen3-vl"]).conversation(history(), "You plan.", "Now.")
    assert [message.role for message in told] == ["system", "user", "assistant", "user", "assistant", "user"]
    texts = ["".join(p.text for p in message.parts if isinstance(p, ChatText)) for message in told]
    assert texts[0] == "You plan."
    assert texts[1] == QUESTION
    assert json.loads(texts[2]) == {"think": "Who sails?", "search": "passengers in 2024"}
    shown = LEARNER.shown_size(Size(1000, 1400))
    theirs = json.loads(texts[4])["bbox"]
    assert theirs == pytest.approx(
        [
            28 / shown.width * 1000,
            28 / shown.height * 1000,
            280 / shown.width * 1000,
            140 / shown.height * 1000,
        ],
        abs=1,
    )
    assert texts[5].endswith("Now.")
    assert "<answer>" not in "".join(texts)
    images = [part for message in told for part in message.parts if isinstance(part, ChatImage)]
    for image in images:
        data = base64.b64decode(image.url.removeprefix("data:image/jpeg;base64,"))
        with Image.open(io.BytesIO(data)) as opened:
            assert opened.width % 32 == opened.height % 32 == 0
    assert len(images) == 2


def test_the_same_family_is_told_the_same_bytes() -> None:
    told = ExpertView(LEARNER, LEARNER).conversation(history(), "s", "r")
    images = [part for message in told for part in message.parts if isinstance(part, ChatImage)]
    pictures = [part for message in history() for part in message.parts if hasattr(part, "jpeg")]
    assert [base64.b64decode(image.url.split(",")[1]) for image in images] == [
        part.jpeg  # type: ignore[union-attr]
        for part in pictures
    ]


def test_keys_go_to_dashscope_and_to_whom_the_file_names(tmp_path: Path) -> None:
    for variable in ("DASHSCOPE_API_KEY", "DASH_SCOPE_KEY"):
        who = read_experts(None, {variable: "sk-1"})
        assert [expert.role for expert in who.all] == ["planner", "grounder", "judge"]
        assert {expert.model._key for expert in who.all} == {"sk-1"}  # type: ignore[attr-defined]
        assert "aliyuncs" in repr(who.planner.model)
    file = tmp_path / "experts.toml"
    section = 'model = "m"\nprofile = "qwen3-vl"\nbase_url = "http://127.0.0.1:1/v1"\n'
    file.write_text(f"grounder = false\n[planner]\n{section}[judge]\n{section}")
    who = read_experts(file, {"DASHSCOPE_API_KEY": "sk-1", "DASH_SCOPE_KEY": "sk-2"})
    assert who.grounder is None
    assert {expert.model._key for expert in who.all} == {None}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[planner]\nmodle = 'x'", r"planner\."),
        ("[judge", "cannot be read"),
        (
            "[planner]\nmodel = 'x'\nbase_url = 'http://127.0.0.1:1/v1'",
            "family of the planner x is not known",
        ),
        (
            "[planner]\nmodel = 'x'\nprofile = 'qwen9'\nbase_url = 'http://127.0.0.1:1/v1'",
            "Unknown model profile",
        ),
        ("[planner]\nmodel = 'x'\nkey_variable = 'MINE'", "Set MINE"),
    ],
)
def test_a_roster_that_cannot_be_used_says_why(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "experts.toml").write_text(text)
    with pytest.raises(SettingsError, match=reason):
        read_experts(tmp_path / "experts.toml", {"DASHSCOPE_API_KEY": "k"})
