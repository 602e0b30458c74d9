"""Ten documents of one page each, with a question and a script about each, for the tests of the doors."""

from __future__ import annotations

import hashlib
import io
import json
from typing import TYPE_CHECKING, Any

from PIL import Image

from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.model_profiles import PROFILES
from vrag.testing import MemorySearcher, page
from vrag.types import Case

if TYPE_CHECKING:
    from vrag.types import Item

HARBOURS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper")
PROFILE = "qwen2.5-vl"
OPTIONS: dict[str, Any] = {"searcher": "door_pages:corpus", "profile": PROFILE, "steps": 4, "hits": 3}
UNREACHABLE = {"judge": {"kind": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "none"}}
NONSENSE = "I would rather not say."


def item(number: int) -> Item:
    text = f"Harbour of {HARBOURS[number]}\n{HARBOURS[number]} saw {7_000 + number} passengers."
    return page(f"{HARBOURS[number]}.pdf", 1, text)


def corpus() -> MemorySearcher:
    return MemorySearcher(tuple(map(item, range(len(HARBOURS)))))


def cases() -> list[Case]:
    return [
        Case(
            uid=name,
            query=f"How many passengers did {name} see?",
            reference_answer=str(7_000 + number),
            file_name=f"{name}.pdf",
            reference_page=(1,),
        )
        for number, name in enumerate(HARBOURS)
    ]


def script(number: int) -> tuple[str, ...]:
    """Search and answer rightly; every third one answers wrongly after a reply that is no action."""
    search = f"<think>Look.</think><search>{HARBOURS[number]}</search>"
    if number % 3:
        return search, f"<think>Seen.</think><answer>{7_000 + number}</answer>"
    return search, NONSENSE, "<think>Seen.</think><answer>31</answer>"


def graph_script(number: int) -> tuple[str, ...]:
    """Of VimRAG: search, memorize, which rebuilds the context, and answer."""
    name = HARBOURS[number]
    memory: dict[str, Any] = {
        "information_id": "Picture 1",
        "is_useful": True,
        "key_timestamp": [],
        "priority_score": 5,
    }
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("add_search_node", {"id": "harbour", "parent_ids": ["root"], "query": name}),
        ("summarize_and_memorize", {"summarize": "It tells.", "memorize": [memory]}),
        ("add_answer_node", {"parent_ids": ["harbour"], "answer": str(7_000 + number)}),
    )
    return tuple(
        f"<think>So.</think>\n<tool_call>{json.dumps({'name': called, 'arguments': arguments})}</tool_call>"
        for called, arguments in calls
    )


def reward(number: int) -> float:
    """r = 0.2 retrieval + 0.7 answer + 0.1 pattern: 1, or the retrieval alone."""
    return 1.0 if number % 3 else 0.2


def number_in(text: str) -> int:
    """Which of the questions a text holds."""
    return next(number for number, name in enumerate(HARBOURS) if f"did {name} see" in text)


def drawn(number: int) -> bytes:
    """The JPEG file of the page, drawn anew, as the model must see it."""
    environment = Environment(corpus(), PROFILES[PROFILE], EnvironmentOptions())
    return environment.whole(item(number), number=1).jpeg


def drawn_hash(number: int) -> str:
    return hashlib.sha256(drawn(number)).hexdigest()


def pixels_hash(image: Image.Image) -> str:
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def drawn_pixels_hash(number: int) -> str:
    return pixels_hash(Image.open(io.BytesIO(drawn(number))))
