"""Random trajectories through the agent: the region reward is that of a script written from its docstring."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from region_oracle import HEIGHT, WIDTH, region_reward_of

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_result import RunResult
from vrag.geometry import Box, Size
from vrag.model_profiles import PROFILES
from vrag.reward.parts import region_reward
from vrag.testing import ScriptedPolicy, tiny_corpus
from vrag.types import Case, Region

if TYPE_CHECKING:
    from vrag.agent.events import Event

RUNS = 300
QUERIES = ("ferry passengers 2024", "prices return ticket", "annual report", "january ice")
SHOWN = PROFILES["qwen2.5-vl"].shown_size(Size(WIDTH, HEIGHT))


def draw_box(draw: random.Random, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A box in whole pixels, large ones among them, and once in a while all of it."""
    if draw.random() < 0.1:
        return 0, 0, *size
    x1, y1 = draw.randrange(size[0] - 40), draw.randrange(size[1] - 40)
    return x1, y1, draw.randint(x1 + 30, size[0]), draw.randint(y1 + 30, size[1])


def draw_case(draw: random.Random) -> Case:
    """Gold boxes on up to three pages, of one or two annotators; none in some cases."""
    regions = [
        Region(
            page,
            Box.unit(*(side / whole for side, whole in zip(box, (WIDTH, HEIGHT) * 2, strict=True))),
            document=draw.choice(["", "ferry.pdf", "other.pdf"]),
            annotator=draw.choice(["", "a", "b"]),
        )
        for page in draw.sample(range(1, 4), draw.choice([0, 1, 1, 2, 3]))
        for box in [draw_box(draw, (WIDTH, HEIGHT)) for _ in range(draw.randint(1, 2))]
    ]
    return Case(
        uid="c", query="How many?", reference_answer="9", file_name="ferry.pdf", regions=tuple(regions)
    )


def draw_replies(draw: random.Random) -> list[str]:
    """Searches and crops, some of which are refused, and mostly an answer, which may name what was shown."""
    replies: list[str] = []
    for _ in range(draw.randint(1, 7)):
        if draw.random() < 0.3 or not replies:
            replies.append(f"<think>.</think><search>{draw.choice(QUERIES)}</search>")
        else:
            image = f' image="{draw.randint(1, 4)}"' if draw.random() < 0.7 else ""
            replies.append(f"<think>.</think><bbox{image}>{list(draw_box(draw, SHOWN))}</bbox>")
    text = draw.choice(["9", "9", "9 people [2]", "9 people [1] [3]", "It is 9 [4].", "Not answerable"])
    return [*replies, *([f"<think>.</think><answer>{text}</answer>"] if draw.random() < 0.9 else [])]


def trajectory(seed: int) -> tuple[Case, list[Event]]:
    draw = random.Random(seed)
    environment = Environment(tiny_corpus(), PROFILES["qwen2.5-vl"], EnvironmentOptions(hits=4))
    replies = (*draw_replies(draw), *["Nothing."] * 8)
    agent = Agent(
        ScriptedPolicy(replies), environment, VragMethod(), Limits(steps=8), locate=draw.random() < 0.1
    )
    case = draw_case(draw)
    return case, list(agent.stream(case.query))


def as_json(case: Case) -> dict[str, Any]:
    regions = [
        {
            "page": region.page,
            "box": region.box.as_tuple(),
            "document": region.document,
            "annotator": region.annotator,
        }
        for region in case.regions
    ]
    return {"file_name": case.file_name, "regions": regions}


@pytest.mark.slow
def test_random_trajectories_have_the_reward_of_the_docstring() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(RUNS):
        case, events = trajectory(seed)
        found = region_reward(case, RunResult.of(events))
        written = [json.loads(event.model_dump_json()) for event in events]
        assert found == pytest.approx(region_reward_of(written, as_json(case)), abs=1e-9), seed
        kinds["0" if found == 0 else "1" if found == 1 else "between"] += 1
    assert min(kinds.values()) >= RUNS / 20, kinds
    assert len(kinds) == 3
