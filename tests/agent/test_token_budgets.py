"""No call shows more than its budgets, as the model families' own image processors count the files.

`benchmarks/tokens.py` measures the same over real documents; here pages and films are invented, of
every shape: strips, stamps, posters.
"""

from __future__ import annotations

import importlib
import io
import random
import re
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from agent_scripts import QUESTION, answers, enlarges, memorizes, note, of, searches
from extras import require
from PIL import Image

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerGiven, CropRequested, InvalidAction, UsageReported
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.policy import Picture, Reply, Text
from vrag.geometry import Size
from vrag.model_profiles import PROFILES
from vrag.testing import MemorySearcher, clip, page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from vrag.agent.events import Event
    from vrag.agent.policy import Message
    from vrag.model_profiles import Profile

SEARCHES = 12
STEPS = 26
SIZES = (
    Size(1224, 1584),
    Size(1536, 864),
    Size(90, 60),
    Size(3000, 40),
    Size(30, 2500),
    Size(2400, 3200),
    Size(500, 700),
    Size(1000, 1000),
    Size(28, 28),
    Size(1191, 1684),
)
FILMS = (Size(640, 360), Size(64, 48), Size(1920, 1080), Size(300, 900))
PROCESSORS = {"qwen2.5-vl": (14, 3136, 12_845_056), "qwen3-vl": (16, 65_536, 16_777_216)}
"""Patch size and pixel limits that the checkpoints come with."""


@cache
def corpus() -> MemorySearcher:
    """What a search for a word finds: two pages and a film of every kind in turn."""
    pages = [page(f"p{n}.pdf", 1, f"w{n % 6} common", size=size) for n, size in enumerate(SIZES)]
    films = [clip(f"f{n}.mp4", 1, f"w{n} common", 0.0, 9.0 * n + 3, size=s) for n, s in enumerate(FILMS)]
    return MemorySearcher((*pages, *films))


@cache
def processor(profile: str) -> Any:  # noqa: ANN401 - not typed
    require("models", "transformers")
    patch, least, most = PROCESSORS[profile]
    kind = importlib.import_module("transformers").Qwen2VLImageProcessorPil
    return kind(min_pixels=least, max_pixels=most, patch_size=patch, merge_size=2)


@cache
def tokens_of(profile: str, size: tuple[int, int]) -> int:
    """Visual tokens of a picture, which the processor must leave at its size."""
    made = processor(profile)(images=[Image.new("RGB", size)], return_tensors="np")
    frames, high, wide = made["image_grid_thw"][0].tolist()
    patch = PROCESSORS[profile][0]
    assert (frames, wide * patch, high * patch) == (1, *size), "it is resized once more"
    return wide * high // 4


def counted(profile: str, pictures: Iterable[Picture]) -> int:
    return sum(tokens_of(profile, Image.open(io.BytesIO(picture.jpeg)).size) for picture in pictures)


@dataclass(slots=True)
class Diligent:
    """Searches and summarises by chance from what it is shown, and keeps what each call gave it."""

    seed: int
    crops: bool
    calls: list[tuple[list[Picture], list[Picture]]] = field(
        default_factory=list[tuple[list[Picture], list[Picture]]]
    )
    """Of each call: what memory showed, and what the last step brought."""
    name: str = "diligent"
    sampling: dict[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Reply, None]:
        self.calls.append((pictures(history[1:2]), pictures(history[2:])))
        yield Reply(self.next(history, turn, random.Random(f"{self.seed} {turn}")))

    def next(self, history: Sequence[Message], turn: int, chance: random.Random) -> str:
        if turn % 2 == 0:
            return memorizes(*notes(history[-1], chance))
        if turn > 2 * SEARCHES:
            return answers("root")
        graph, memory = history[1].text, history[1].parts
        node = chance.choice(re.findall(r'"id": ?"([^"]+)"', graph))
        seen = [
            (named[1], named[2])
            for before, part in pairwise(memory)
            if isinstance(before, Text) and isinstance(part, Picture) and part.view.canvas.width > 200
            if (named := re.fullmatch(r"Node (\S+), (Picture \d+):", before.text))
        ]
        if self.crops and seen and turn % 4 == 3:
            return enlarges(f"n{turn}", *chance.choice(seen), [10, 10, 170, 120])
        return searches(f"n{turn}", f"w{chance.randrange(6)} turn{turn}", [node])

    async def aclose(self) -> None:
        """Holds nothing."""


def pictures(messages: Iterable[Message]) -> list[Picture]:
    return [part for message in messages for part in message.parts if isinstance(part, Picture)]


def notes(message: Message, chance: random.Random) -> list[dict[str, Any]]:
    """Three of four results are useful, and of a film every second frame."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    labels = list(dict.fromkeys(re.findall(r"(?:Text|Picture|Video) \d+", texts[-1])))
    seconds = [
        part.seconds for part in message.parts if isinstance(part, Picture) and part.seconds is not None
    ]
    made: list[dict[str, Any]] = []
    for label in labels:
        score = chance.choice([0, 1, 3, 5])
        made.append(note(label, score, *(seconds[::2] if score and label.startswith("Video") else ())))
    return made


def run(policy: Diligent, profile: Profile, memory: MemoryOptions) -> list[Event]:
    environment = Environment(corpus(), profile, EnvironmentOptions(hits=3))
    return list(Agent(policy, environment, Vimrag(memory=memory), Limits(steps=STEPS)).stream(QUESTION))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize(("seed", "crops"), [(0, False), (1, False), (2, True)])
@pytest.mark.parametrize(("remembered", "fresh"), [(1280, 4096), (520, 1100)])
def test_no_call_exceeds_its_budgets(name: str, seed: int, crops: bool, remembered: int, fresh: int) -> None:
    policy = Diligent(seed, crops)
    events = run(
        policy, PROFILES[name], MemoryOptions(tokens=remembered, fresh_tokens=fresh, crop_nodes=crops)
    )
    (end,) = of(AnswerGiven, events)
    assert end.text
    assert not of(InvalidAction, events)
    assert len(policy.calls) == 2 * SEARCHES + 1
    spent = [(counted(name, memory), counted(name, brought)) for memory, brought in policy.calls]
    assert all(memory <= remembered and brought <= fresh for memory, brought in spent)
    assert max(memory for memory, _ in spent) > remembered // 2, "memory was never tried"
    assert max(brought for _, brought in spent) > fresh // 2, "fresh results were never tried"
    assert bool(of(CropRequested, events)) == crops
    said = of(UsageReported, events)
    assert [(one.memory_tokens, one.fresh_tokens) for one in said] == spent


@pytest.mark.parametrize("name", PROCESSORS)
def test_pictures_of_vrag_are_within_the_limits_of_the_profile(name: str) -> None:
    profile, shown = PROFILES[name], list[Picture]()
    box = [10, 10, 170, 120]
    said = [f"<think>So.</think><search>common {n}</search>" for n in range(len(SIZES))]
    said = [part for one in said for part in (one, f"<think>So.</think><bbox>{box}</bbox>")]

    @dataclass(frozen=True)
    class Watching:
        name: str = "watching"
        sampling: dict[str, float | int | str | bool] = field(
            default_factory=dict[str, "float | int | str | bool"]
        )

        async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Reply, None]:
            shown[:] = pictures(history)
            yield Reply(said[turn - 1] if turn <= len(said) else "<think>So.</think><answer>1</answer>")

        async def aclose(self) -> None:
            pass

    environment = Environment(corpus(), profile)
    list(Agent(Watching(), environment, VragMethod(), Limits(steps=STEPS)).stream(QUESTION))
    assert len(shown) > len(SIZES)
    for picture in shown:
        assert counted(name, [picture]) <= profile.max_tokens
