"""What one run says: events with their place in it, and the files that they name by hash."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from vrag.agent.events import Event, EventBase, ImageShown, InvalidAction, PassageShown
from vrag.agent.policy import EnclosedImage, Picture, Text
from vrag.geometry import Space

if TYPE_CHECKING:
    from vrag.agent.policy import Message, Part
    from vrag.types import Item

__all__ = ["EventLog", "SaveFile"]

SaveFile = Callable[[str, bytes], None]
"""Keeps a file that events name by hash: `<sha256>.jpg` or `<sha256>.json`, and its bytes."""

E = TypeVar("E", bound=EventBase)


@dataclass(slots=True)
class EventLog:
    """The events of a run that have not been given out yet, and what numbers the next."""

    run_id: str
    save: SaveFile | None = None
    step: int = 0
    seq: int = 0
    waiting: list[Event] = field(default_factory=list[Event])
    taken: int = 0
    """Events that were given out."""
    hashes: dict[Message, str] = field(default_factory=dict["Message", str])

    def tell(self, kind: type[E], **values: Any) -> E:  # noqa: ANN401 - validated by the event itself
        """Adds an event."""
        event = kind(run_id=self.run_id, seq=self.seq, ts=time.time(), step=self.step, **values)
        self.seq += 1
        self.waiting.append(event)  # pyright: ignore[reportArgumentType] - every kind is one of the union
        return event

    def take(self) -> list[Event]:
        """The events added since this was asked last."""
        taken, self.waiting = self.waiting, []
        self.taken += len(taken)
        return taken

    def alone(self) -> EventLog:
        """The record of the same run from here on, when what a thread still tells no longer counts."""
        waiting = list(self.waiting)
        seq = self.taken + len(waiting)
        return EventLog(self.run_id, self.save, self.step, seq, waiting, self.taken, self.hashes)

    def refuse(self, reason: str) -> str:
        """Adds that a turn was not carried out; the reason as a sentence."""
        sentence = f"{reason[:1].upper()}{reason[1:].rstrip('.')}."
        self.tell(InvalidAction, reason=sentence)
        return sentence

    def show(
        self, picture: Picture, item: Item, tokens: int, *, label: str, node: str | None = None
    ) -> ImageShown:
        """Adds the event of a picture, and keeps its file."""
        self.keep(f"{picture.sha256}.jpg", picture.jpeg)
        view = picture.view
        return self.tell(
            ImageShown,
            number=picture.number,
            label=label,
            node=node,
            item=item.id,
            document=item.document_name,
            page=item.ordinal,
            seconds=picture.seconds,
            region=view.region.as_tuple(),
            box=view.convert(view.region, Space.UNIT).as_tuple(),
            width=view.canvas.width,
            height=view.canvas.height,
            visual_tokens=tokens,
            sha256=picture.sha256,
            crop=picture.crop,
        )

    def read(self, item: Item, *, label: str = "", node: str | None = None) -> PassageShown:
        """Adds the event of a passage."""
        return self.tell(
            PassageShown, item=item.id, document=item.document_name, page=item.ordinal, label=label, node=node
        )

    def message(self, message: Message) -> str:
        """The hash of a message, whose file is kept."""
        if message not in self.hashes:
            data = json.dumps(_as_json(message), ensure_ascii=False).encode()
            self.hashes[message] = hashlib.sha256(data).hexdigest()
            self.keep(f"{self.hashes[message]}.json", data)
            for part in message.parts:
                if isinstance(part, Picture | EnclosedImage):
                    self.keep(f"{part.sha256}.jpg", part.jpeg)
        return self.hashes[message]

    def keep(self, name: str, data: bytes) -> None:
        """Keeps a file, where files are kept."""
        if self.save is not None:
            self.save(name, data)


def _as_json(message: Message) -> dict[str, Any]:
    """A message; pictures by the hash of their file."""
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text, "item": part.item}
    if isinstance(part, EnclosedImage):
        return {"picture": part.sha256, "attached": part.attached}
    return {"picture": part.sha256, "number": part.number, "item": part.item, "seconds": part.seconds}
