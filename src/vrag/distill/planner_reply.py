"""What a planner decides in a turn, in JSON, and the action of the grammar that it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.actions import Action, Answer, Crop, Invalid, Search, render
from vrag.agent.replies.sanitize import encodable, material
from vrag.distill.json_extract import Unusable, first_object, four_numbers

if TYPE_CHECKING:
    from vrag.agent.actions import Turn

__all__ = ["PlannerReply", "dump_turn", "read_box", "read_plan", "written"]

_ACTIONS = ("search", "bbox", "answer")


@dataclass(frozen=True, slots=True)
class PlannerReply:
    """A thought, and what to do."""

    thought: str
    action: Search | Crop | Answer
    """A box as the planner wrote it, in its own coordinate space."""


def read_plan(reply: str) -> PlannerReply:
    """The plan that a reply holds.

    Tags of the grammar and of chat templates in its words are written otherwise, as in documents.

    Raises:
        Unusable: If it holds none; the message says why.

    >>> read_plan('{"think": "Prices.", "search": "price list"}')
    Plan(thought='Prices.', action=Search(query='price list'))
    """
    value = first_object(reply)
    thought = value.get("think")
    if not isinstance(thought, str) or not thought.strip():
        raise Unusable('"think" is missing.')
    named = [name for name in _ACTIONS if value.get(name) is not None]
    if len(named) != 1:
        raise Unusable('There must be exactly one of "search", "bbox" and "answer".')
    try:
        return PlannerReply(_words(thought), _action(named[0], value))
    except Unusable:
        raise
    except ValueError as error:
        raise Unusable(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None


def _action(name: str, value: dict[str, object]) -> Search | Crop | Answer:
    if name == "bbox":
        return Crop(four_numbers(value[name]), _image(value.get("image")))
    text = value[name]
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = json.dumps(text)
    if not isinstance(text, str):
        raise Unusable(f'"{name}" is not a text.')
    return Search(_words(text)) if name == "search" else Answer(_words(text))


def _image(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unusable('"image" is the number of a picture.')
    return value


def read_box(reply: str) -> tuple[float, float, float, float]:
    """The box that a grounder names, in its own coordinate space.

    Raises:
        Unusable: If it names none.

    >>> read_box('{"bbox_2d": [1, 2, 3, 4], "label": "table"}')
    (1.0, 2.0, 3.0, 4.0)
    """
    value = first_object(reply)
    return four_numbers(value.get("bbox", value.get("bbox_2d")))


def written(thought: str, action: Action) -> str:
    """A turn in the grammar, as the model that learns of it is to write it."""
    return f"<think>{thought}</think>\n{render(action)}"


def dump_turn(turn: Turn[Action]) -> str:
    """A turn in the words of a planner: the inverse of `read_plan`, the box as in the turn."""
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


def _words(text: str) -> str:
    """Words of an expert, in which nothing is a tag."""
    return material(encodable(" ".join(text.split())))
