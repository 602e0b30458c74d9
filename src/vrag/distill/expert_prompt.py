"""Prompts of experts: a run in JSON, with images and boxes as the expert's own family has them.

An expert may be of another family than the model that learns. Its images are drawn again at a size that its
family takes as it is, and each box is mapped through the page, by `vrag.geometry` alone.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vrag.agent.actions import Crop, parse
from vrag.agent.environment import fault_of
from vrag.agent.jpeg import encode_jpeg
from vrag.agent.policy import EnclosedImage, Picture, Role, Text
from vrag.agent.prompts import prompt as agent_prompt
from vrag.chat.messages import ChatImage, ChatMessage, ChatText
from vrag.distill.expert_reply import UnusableReplyError, dump_turn
from vrag.geometry import Space, View, draw_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.agent.policy import Message
    from vrag.chat.messages import ChatPart
    from vrag.geometry import Box
    from vrag.model_profiles import Profile


Sides = tuple[float, float, float, float]


def pictures_in(history: Sequence[Message]) -> tuple[Picture, ...]:
    """List the images that were shown, in order: the one with the number `n` is the n-th."""
    return tuple(part for message in history for part in message.parts if isinstance(part, Picture))


def seen_by(view: View, profile: Profile) -> View:
    """Return the view of another family: the same part of the page, at a size of that family."""
    return replace(view, shown=profile.shown_size(view.canvas))


def box_sides(box: Box, view: View, profile: Profile) -> Sides:
    """Return a box as a family writes it, in whole numbers where its space counts pixels or thousandths.

    Args:
        box: In `Space.ITEM`.
        view: The image on which it lies, as the family sees it.
        profile: The family.
    """
    mapped = view.from_item(box, profile.boxes)
    return profile.sides(mapped if profile.boxes is Space.RELATIVE else mapped.round_out())


def feasible(sides: Sides, view: View, profile: Profile) -> Box:
    """Return the part of the page that a family's box covers, in item pixels.

    Raises:
        UnusableReplyError: If nothing of it can be enlarged.
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
        """Build the messages of the run so far.

        Args:
            history: From the environment: instruction and question first.
            system: The expert's role, in place of the instruction.
            request: The request at the end.
        """
        messages = [ChatMessage("system", (ChatText(system),))]
        pictures: list[Picture] = []
        for number, message in enumerate(history):
            if message.role is Role.ASSISTANT:
                messages.append(
                    ChatMessage("assistant", (ChatText(self._convert_turn(message.text, pictures)),))
                )
                continue
            parts = message.parts[1:] if number == 0 else message.parts
            pictures += (part for part in parts if isinstance(part, Picture))
            messages.append(ChatMessage("user", self._convert_parts(parts)))
        end = messages[-1]
        messages[-1] = ChatMessage(end.role, _join([*end.parts, ChatText(request)]))
        return messages

    def _convert_parts(self, parts: Sequence[Text | Picture | EnclosedImage]) -> tuple[ChatPart, ...]:
        """Convert a message of the environment, without the request to answer in the grammar of tags."""
        grammar = agent_prompt("answer_now.md")
        kept = (part for part in parts if not (isinstance(part, Text) and part.text == grammar))
        return _join(ChatText(part.text) if isinstance(part, Text) else self._image(part) for part in kept)

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


def _join(parts: Iterable[ChatPart]) -> tuple[ChatPart, ...]:
    """Join texts in a row, since servers put nothing between them."""
    joined: list[ChatPart] = []
    for part in parts:
        if isinstance(part, ChatText) and joined and isinstance(before := joined[-1], ChatText):
            joined[-1] = ChatText(f"{before.text}\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)
