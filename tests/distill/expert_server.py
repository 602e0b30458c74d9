"""Three experts behind one server, each with faults that go by the number of the question.

All questions are about the second page of `tiny_corpus`. The planner searches, looks closer at a box that
is wrong on purpose, and answers; the grounder knows the right box, in thousandths and y-first.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chat_server import Hang, Refuse, Say

from vrag.agent.budget import Prices
from vrag.chat import ChatRetries, ChatTimeouts, OpenAIChat
from vrag.distill.experts import Expert, Experts
from vrag.model_profiles import PROFILES
from vrag.types import Case

if TYPE_CHECKING:
    from chat_server import Asked, Reply

FAULTS = {
    "none": 0,
    "planner says no JSON, twice": 1,
    "planner never says JSON": 2,
    "429, twice": 3,
    "late": 4,
    "wrong boxes, twice": 5,
    "wrong boxes always": 6,
    "judge says no JSON; a low score": 7,
}
"""What goes wrong with question `n` is the one with `n % 8`."""
FAILING = {2, 6}
RIGHT_BOX = (40.0, 70.0, 400.0, 130.0)
"""On the page, in item pixels: around the sentence with the answer."""
Y_FIRST = [50, 40, 93, 400]
"""The same as the grounder writes it: the page has 1000 × 1400 pixels."""
_WRONG = ['{"bbox": [1, 2, 3]}', '{"bbox": [5000, 5000, 6000, 6000]}']


def cases(count: int) -> list[Case]:
    """So many questions, numbered from 0."""
    return [
        Case(
            uid=f"case-{number}",
            query=f"Question {number}: How many passengers?",
            reference_answer="48,200",
            file_name="ferry.pdf",
            reference_page=(2,),
        )
        for number in range(count)
    ]


def experts(url: str, *, late: float = 1.0, grounder: bool = True) -> Experts:
    """The three, each of another family."""
    timeouts = ChatTimeouts(first_token_seconds=late)
    retries = ChatRetries(times=3, first_pause=0.02, longest_pause=0.1)

    def expert(role: str, profile: str) -> Expert:
        chat = OpenAIChat(url, role, timeouts=timeouts, retries=retries)
        prices = Prices(prompt=1.0, completion=10.0)
        return Expert(role=role, model=chat, profile=PROFILES[profile], prices=prices)

    return Experts(
        planner=expert("planner", "qwen3-vl"),
        grounder=expert("grounder", "y-first") if grounder else None,
        judge=expert("judge", "qwen2.5-vl"),
    )


@dataclass
class ExpertScript:
    """What the experts say; remembers what it was asked."""

    faults: bool = True
    asked: Counter[tuple[int, str, int]] = field(default_factory=Counter[tuple[int, str, int]])
    """Calls by question, role and pictures in sight."""
    slow: float = 0.0
    """Seconds before each reply."""

    def __call__(self, asked: Asked) -> Reply:
        found = re.search(r"Question (\d+)", asked.text)
        assert found, asked.text
        number, role, images = int(found[1]), str(asked.body["model"]), len(asked.images)
        before = self.asked[number, role, images]
        self.asked[number, role, images] += 1
        fault = number % 8 if self.faults else 0
        return getattr(self, f"_{role}")(fault, images, before)

    def _planner(self, fault: int, images: int, before: int) -> Reply:
        if fault == 2 or (fault == 1 and images == 0 and before < 2):
            return self._say("I would look for the passengers first.")
        if images == 0 and fault == 3 and before < 2:
            return Refuse(429, "slow down")
        if images == 0 and fault == 4 and before < 1:
            return Hang()
        if images == 0:
            return self._say('```json\n{"think": "Who sails?", "search": "passengers in 2024 ferry"}\n```')
        if images == 1:
            return self._say('{"think": "Too small to read.", "bbox": [0, 0, 1000, 1000]}')
        return self._say('{"think": "It says 48,200.", "answer": "48,200 [2]"}')

    def _grounder(self, fault: int, images: int, before: int) -> Reply:
        if fault == 6:
            return self._say('{"bbox": [400, 400, 100, 100]}')
        if fault == 5 and before < 2:
            return self._say(_WRONG[before])
        return self._say(json.dumps([{"bbox_2d": Y_FIRST, "label": "passengers"}]))

    def _judge(self, fault: int, images: int, before: int) -> Reply:
        if fault == 7 and before < 1:
            return self._say("Rather good.")
        return self._say(json.dumps({"why": "Compared.", "score": 2 if fault == 7 else 5}))

    def _say(self, text: str) -> Say:
        return Say(text, first=self.slow, piece=200)
