"""Messages to and from experts, in JSON: a run as the expert's own family has it, and its replies.

An expert may be of another family than the model that learns. Its images are drawn again at a size that its
family takes as it is, and each box is mapped through the page, by `vrag.geometry` alone. Replies are plans,
boxes and scores.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from vrag.agent.actions import Action, Answer, Crop, Invalid, Search, Turn, parse, render
from vrag.agent.answers.markers import take_markers
from vrag.agent.environment import fault_of
from vrag.agent.policy import EnclosedImage, Message, Picture, Role, Text
from vrag.agent.prompts import encodable, material
from vrag.agent.prompts import prompt as agent_prompt
from vrag.chat.messages import ChatImage, ChatMessage, ChatText, join_texts
from vrag.errors import as_sentence
from vrag.geometry import Box, Space, View, draw_view, encode_jpeg
from vrag.model_profiles import Profile

_START = re.compile(r"[{\[]")
_ACTIONS = ("search", "bbox", "answer")
MAX_STARTS = 200
"""Places at which reading is tried: a reply full of brackets is not JSON."""


class UnusableReplyError(ValueError):
    """A reply cannot be used; the message is a sentence for the expert."""


@dataclass(frozen=True, slots=True)
class PlannerReply:
    """A thought and an action."""

    thought: str
    action: Search | Crop | Answer
    """A box as the planner wrote it, in its own coordinate space."""


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """A judge's score of an answer."""

    score: int
    """From 1, wrong, to 5, the same as the reference."""
    why: str = ""


def first_object(reply: str) -> dict[str, object]:
    r"""Find the first JSON object in a reply, also inside a list or a code fence.

    Raises `UnusableReplyError` if there is none.

    >>> first_object('Sure! ```json\n[{"bbox_2d": [1, 2, 3, 4]}]\n```')
    {'bbox_2d': [1, 2, 3, 4]}
    """
    decoder = json.JSONDecoder()
    for number, start in enumerate(_START.finditer(reply)):
        if number == MAX_STARTS:
            break
        try:
            value = decoder.raw_decode(reply, start.start())[0]
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list) and value:
            value = cast("list[object]", value)[0]
        if isinstance(value, dict):
            return cast("dict[str, object]", value)
    raise UnusableReplyError("The reply holds no JSON object.")


def read_plan(reply: str) -> PlannerReply:
    """Read the plan in a reply.

    Tags of the grammar and of chat templates in its words are escaped, as in documents. Raises
    `UnusableReplyError` with the reason if it holds none.

    >>> read_plan('{"think": "Prices.", "search": "price list"}')
    PlannerReply(thought='Prices.', action=Search(query='price list'))
    """
    value = first_object(reply)
    thought = value.get("think")
    if not isinstance(thought, str) or not thought.strip():
        raise UnusableReplyError('"think" is missing.')
    named = [name for name in _ACTIONS if value.get(name) is not None]
    if len(named) != 1:
        raise UnusableReplyError('There must be exactly one of "search", "bbox" and "answer".')
    try:
        return PlannerReply(_clean(thought), _read_action(named[0], value))
    except UnusableReplyError:
        raise
    except ValueError as error:
        raise UnusableReplyError(as_sentence(str(error))) from None


def _read_action(name: str, value: dict[str, object]) -> Search | Crop | Answer:
    if name == "bbox":
        image = value.get("image")
        if image is not None and (not isinstance(image, int) or isinstance(image, bool)):
            raise UnusableReplyError('"image" is the number of a picture.')
        return Crop(_read_sides(value[name]), image)
    text = value[name]
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = json.dumps(text)
    if not isinstance(text, str):
        raise UnusableReplyError(f'"{name}" is not a text.')
    return Search(_clean(text)) if name == "search" else Answer(_clean(text))


def read_box(reply: str) -> tuple[float, float, float, float]:
    """Read the box in a grounder's reply, in its own space; raise `UnusableReplyError` if there is none.

    >>> read_box('{"bbox_2d": [1, 2, 3, 4], "label": "table"}')
    (1.0, 2.0, 3.0, 4.0)
    """
    value = first_object(reply)
    return _read_sides(value.get("bbox", value.get("bbox_2d")))


def read_score(reply: str) -> AnswerScore:
    """Read the score in a judge's reply; raise `UnusableReplyError` if there is none from 1 to 5.

    >>> read_score('{"why": "The same.", "score": 5}')
    AnswerScore(score=5, why='The same.')
    """
    value = first_object(reply)
    score, why = value.get("score"), value.get("why")
    if isinstance(score, str) and score.strip() in set("12345"):
        score = int(score)
    if not isinstance(score, int | float) or isinstance(score, bool) or score not in range(1, 6):
        raise UnusableReplyError('"score" is not a whole number from 1 to 5.')
    return AnswerScore(int(score), encodable(why) if isinstance(why, str) else "")


def cited_images(answer: str, shown: int) -> frozenset[int]:
    """Return the numbers of the images that an answer cites, of so many that were shown.

    >>> sorted(cited_images("It rose [1], to 12 crowns [Image 2][7].", 2))
    [1, 2]
    """

    def describe(reference: str) -> str | None:
        return reference if number(reference) in range(1, shown + 1) else None

    def number(reference: str) -> int:
        digits = reference.removeprefix("Image ")
        return int(digits) if digits.isdecimal() else 0

    references = [name for marker in take_markers(answer, describe).markers for name in marker.references]
    return frozenset(number(name) for name in references if describe(name))


def write_turn(thought: str, action: Action) -> str:
    """Write a turn in the grammar, as the model that learns from it is to write it."""
    return f"<think>{thought}</think>\n{render(action)}"


def dump_turn(turn: Turn[Action]) -> str:
    """Write a turn as a planner's reply: the inverse of `read_plan`, the box as in the turn."""
    value: dict[str, object] = {"think": turn.thought or ""}
    match turn.action:
        case Search(query):
            value["search"] = query
        case Answer(text):
            value["answer"] = text
        case Crop(box, image):
            value["bbox"] = [int(side) if side == int(side) else round(side, 4) for side in box]
            value |= {} if image is None else {"image": image}
        case Invalid() | _:
            pass
    return json.dumps(value, ensure_ascii=False)


def _read_sides(value: object) -> tuple[float, float, float, float]:
    sides = cast("list[object]", value) if isinstance(value, list) else []
    numbers = [side for side in sides if isinstance(side, int | float) and not isinstance(side, bool)]
    if len(sides) != 4 or len(numbers) != 4 or not all(abs(number) < 1e9 for number in numbers):
        raise UnusableReplyError("A box is a list of four numbers.")
    x1, y1, x2, y2 = map(float, numbers)
    return x1, y1, x2, y2


def _clean(text: str) -> str:
    """Return an expert's words in one line, with tags escaped."""
    return material(encodable(" ".join(text.split())))


Sides = tuple[float, float, float, float]


def pictures_in(history: Sequence[Message]) -> tuple[Picture, ...]:
    """List the images that were shown, in order: the one with the number `n` is the n-th."""
    return tuple(part for message in history for part in message.parts if isinstance(part, Picture))


def seen_by(view: View, profile: Profile) -> View:
    """Return the view of another family: the same part of the page, at a size of that family."""
    return replace(view, shown=profile.shown_size(view.canvas))


def box_sides(box: Box, view: View, profile: Profile) -> Sides:
    """Return a box in `Space.ITEM` as a family writes it on a view that it sees.

    The numbers are whole where its space counts pixels or thousandths.
    """
    mapped = view.from_item(box, profile.boxes)
    return profile.sides(mapped if profile.boxes is Space.RELATIVE else mapped.round_out())


def feasible(sides: Sides, view: View, profile: Profile) -> Box:
    """Return the part of the page that a family's box covers, in item pixels.

    Raises `UnusableReplyError` if nothing of it can be enlarged.
    """
    box = profile.box(sides)
    if fault := fault_of(view.cut(box)):
        raise UnusableReplyError(fault)
    return view.to_item(box)


@dataclass(frozen=True, slots=True)
class ExpertView:
    """A run as one family sees it. Blocking: images are drawn and encoded."""

    learner: Profile
    """The family that the run is recorded for."""
    expert: Profile
    """The family of the expert."""
    urls: dict[str, str] = field(default_factory=dict[str, str])
    """Data URLs of the images of a run, by hash: the same ones are shown turn after turn."""

    def conversation(self, history: Sequence[Message], system: str, request: str) -> list[ChatMessage]:
        """Build the messages of the run so far, with the request at the end.

        `system` is the expert's role, in place of the instruction with which `history` begins.
        """
        messages = [ChatMessage("system", (ChatText(system),))]
        pictures: list[Picture] = []
        grammar = agent_prompt("answer_now.md")
        for number, message in enumerate(history):
            if message.role is Role.ASSISTANT:
                messages.append(
                    ChatMessage("assistant", (ChatText(self._convert_turn(message.text, pictures)),))
                )
                continue
            parts = message.parts[1:] if number == 0 else message.parts
            pictures += (part for part in parts if isinstance(part, Picture))
            # Without the request to answer in the grammar of tags.
            kept = (part for part in parts if not (isinstance(part, Text) and part.text == grammar))
            texts = (ChatText(part.text) if isinstance(part, Text) else self._image(part) for part in kept)
            messages.append(ChatMessage("user", join_texts(texts)))
        end = messages[-1]
        messages[-1] = ChatMessage(end.role, join_texts([*end.parts, ChatText(request)]))
        return messages

    def _image(self, part: Picture | EnclosedImage) -> ChatImage:
        if part.sha256 not in self.urls:
            shown = self.expert.shown_size(part.canvas)
            jpeg = part.jpeg
            if shown != part.canvas:
                jpeg = encode_jpeg(draw_view(part.image, View.whole(part.canvas, shown)))
            self.urls[part.sha256] = f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
        return ChatImage(self.urls[part.sha256])

    def _convert_turn(self, text: str, pictures: Sequence[Picture]) -> str:
        """Convert an earlier turn to JSON, with its box in the space of the expert."""
        turn = parse(text)
        if isinstance(turn.action, Crop) and pictures:
            picture = pictures[(turn.action.image or len(pictures)) - 1]
            box = picture.view.to_item(self.learner.box(turn.action.box))
            sides = box_sides(box, seen_by(picture.view, self.expert), self.expert)
            turn = replace(turn, action=Crop(sides, turn.action.image))
        return dump_turn(turn)
