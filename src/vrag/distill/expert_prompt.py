"""A run as an expert is told it: in JSON, with pictures and boxes as its own family has them.

An expert may be of another family than the model that learns. What it is shown is drawn again at a size
that its family takes as it is, and each box is mapped through the page, by `vrag.geometry` alone.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vrag.agent.actions import Crop, parse
from vrag.agent.environment import encode_jpeg, fault_of
from vrag.agent.policy import EnclosedImage, Picture, Role, Text
from vrag.agent.prompts import prompt as agent_prompt
from vrag.chat.messages import ChatImage, ChatMessage, ChatText
from vrag.distill.json_extract import Unusable
from vrag.distill.planner_reply import dump_turn
from vrag.geometry import Space, View, draw_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.agent.policy import Message
    from vrag.chat.messages import ChatPart
    from vrag.geometry import Box, Size
    from vrag.model_profiles import Profile

__all__ = ["ExpertView", "box_sides", "feasible", "pictures_in", "seen_by"]

Sides = tuple[float, float, float, float]


def pictures_in(history: Sequence[Message]) -> tuple[Picture, ...]:
    """The pictures that were shown, in order: the one that is called `n` is the n-th."""
    return tuple(part for message in history for part in message.parts if isinstance(part, Picture))


def seen_by(view: View, profile: Profile) -> View:
    """A picture as another family sees it: the same part of the page, at a size of that family."""
    return replace(view, shown=profile.shown_size(view.canvas))


def box_sides(box: Box, view: View, profile: Profile) -> Sides:
    """A box as a model of a family writes it, in whole numbers where its space counts pixels or thousandths.

    Args:
        box: In `Space.ITEM`.
        view: The picture on which it lies, as the family sees it.
        profile: The family.
    """
    mapped = view.from_item(box, profile.boxes)
    return profile.sides(mapped if profile.boxes is Space.RELATIVE else mapped.round_out())


def feasible(sides: Sides, view: View, profile: Profile) -> Box:
    """What a family's box covers of the page, in item pixels.

    Raises:
        Unusable: If nothing of it can be enlarged.
    """
    box = profile.box(sides)
    if fault := fault_of(view.cut(box)):
        raise Unusable(fault)
    return view.to_item(box)


@dataclass(frozen=True, slots=True)
class ExpertView:
    """How one family is told a run.

    It may block: pictures are drawn and encoded.
    """

    learner: Profile
    """The family that the run is recorded for."""
    expert: Profile
    """The family that is told."""
    urls: dict[str, str] = field(default_factory=dict[str, str])
    """Data URLs of the pictures of a run, by hash: the same ones are told turn after turn."""

    def conversation(self, history: Sequence[Message], system: str, request: str) -> list[ChatMessage]:
        """The run so far.

        Args:
            history: As the environment tells it: instruction and question first.
            system: What the expert is, in place of the instruction.
            request: What it is asked now, at the end.
        """
        told = [ChatMessage("system", (ChatText(system),))]
        pictures: list[Picture] = []
        for number, message in enumerate(history):
            if message.role is Role.ASSISTANT:
                told.append(ChatMessage("assistant", (ChatText(self._said(message.text, pictures)),)))
                continue
            parts = message.parts[1:] if number == 0 else message.parts
            pictures += (part for part in parts if isinstance(part, Picture))
            told.append(ChatMessage("user", self._parts(parts)))
        end = told[-1]
        told[-1] = ChatMessage(end.role, _joined([*end.parts, ChatText(request)]))
        return told

    def _parts(self, parts: Sequence[Text | Picture | EnclosedImage]) -> tuple[ChatPart, ...]:
        """A message of the environment, without the request to answer in the grammar of tags."""
        grammar = agent_prompt("answer_now.md")
        kept = (part for part in parts if not (isinstance(part, Text) and part.text == grammar))
        return _joined(ChatText(part.text) if isinstance(part, Text) else self._image(part) for part in kept)

    def _image(self, part: Picture | EnclosedImage) -> ChatImage:
        if part.sha256 not in self.urls:
            shown = self.expert.shown_size(part.canvas)
            jpeg = part.jpeg if shown == part.canvas else _drawn(part, shown)
            self.urls[part.sha256] = f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
        return ChatImage(self.urls[part.sha256])

    def _said(self, text: str, pictures: Sequence[Picture]) -> str:
        """An earlier turn, in JSON, with its box in the space of the expert."""
        turn = parse(text)
        if isinstance(turn.action, Crop) and pictures:
            picture = pictures[(turn.action.image or len(pictures)) - 1]
            box = picture.view.to_item(self.learner.box(turn.action.box))
            sides = box_sides(box, seen_by(picture.view, self.expert), self.expert)
            turn = replace(turn, action=Crop(sides, turn.action.image))
        return dump_turn(turn)


def _drawn(part: Picture | EnclosedImage, shown: Size) -> bytes:
    return encode_jpeg(draw_view(part.image, View.whole(part.canvas, shown)))


def _joined(parts: Iterable[ChatPart]) -> tuple[ChatPart, ...]:
    """The parts with texts in a row made one, since servers put nothing between them."""
    joined: list[ChatPart] = []
    for part in parts:
        if isinstance(part, ChatText) and joined and isinstance(before := joined[-1], ChatText):
            joined[-1] = ChatText(f"{before.text}\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)
