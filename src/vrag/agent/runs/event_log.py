"""The events of a run in progress, numbered, and the files that they name by hash."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vrag.agent.events import Event, EventBase, ImageShown, InvalidAction, PassageShown
from vrag.agent.policy import EnclosedImage, Message, Picture, Text
from vrag.errors import as_sentence
from vrag.geometry import Space
from vrag.types import Item

SaveFile = Callable[[str, bytes], None]
"""Saves a file that events name by hash, given its name `<sha256>.jpg` or `<sha256>.json` and its bytes."""

E = TypeVar("E", bound=EventBase)


@dataclass(slots=True)
class EventLog:
    """The events of a run that have not been yielded yet, and the number of the next."""

    run_id: str
    save: SaveFile | None = None
    step: int = 0
    seq: int = 0
    waiting: list[Event] = field(default_factory=list[Event])
    drained: int = 0
    """Number of the events that were returned by `drain`."""
    hashes: dict[Message, str] = field(default_factory=dict["Message", str])

    def add(self, kind: type[E], **values: Any) -> E:  # noqa: ANN401 - validated by the event itself
        """Add an event."""
        event = kind(run_id=self.run_id, seq=self.seq, ts=time.time(), step=self.step, **values)
        self.seq += 1
        self.waiting.append(event)  # pyright: ignore[reportArgumentType] - every kind is one of the union
        return event

    def drain(self) -> list[Event]:
        """Return the events added since the last call."""
        events, self.waiting = self.waiting, []
        self.drained += len(events)
        return events

    def detached(self) -> EventLog:
        """Return a log that goes on from here; what a thread still adds to this one no longer counts."""
        waiting = list(self.waiting)
        seq = self.drained + len(waiting)
        return EventLog(self.run_id, self.save, self.step, seq, waiting, self.drained, self.hashes)

    def reject(self, reason: str) -> str:
        """Add that a turn was not carried out; returns the reason as a sentence."""
        sentence = as_sentence(reason)
        self.add(InvalidAction, reason=sentence)
        return sentence

    def add_image(
        self, picture: Picture, item: Item, tokens: int, *, label: str, node: str | None = None
    ) -> ImageShown:
        """Add the event of a picture, and save its file."""
        self.save_file(f"{picture.sha256}.jpg", picture.jpeg)
        view = picture.view
        return self.add(
            ImageShown,
            number=picture.number,
            label=label,
            node=node,
            item=item.id,
            document=item.title,
            page=item.ordinal,
            seconds=picture.seconds,
            region=view.region.as_tuple(),
            box=view.convert(view.region, Space.UNIT).as_tuple(),
            width=view.canvas.width,
            height=view.canvas.height,
            visual_tokens=tokens,
            sha256=picture.sha256,
            crop=picture.crop,
            origin=picture.origin,
        )

    def add_passage(self, item: Item, *, label: str = "", node: str | None = None) -> PassageShown:
        """Add the event of a passage."""
        return self.add(
            PassageShown, item=item.id, document=item.title, page=item.ordinal, label=label, node=node
        )

    def save_message(self, message: Message) -> str:
        """Return the hash of a message, after saving its file, with pictures by the hash of theirs."""
        if message not in self.hashes:
            parts: list[dict[str, Any]] = []
            for part in message.parts:
                match part:
                    case Text(text, item):
                        parts.append({"text": text, "item": item})
                    case EnclosedImage():
                        parts.append({"picture": part.sha256, "attached": part.attached})
                    case Picture(number, item):
                        picture = {"picture": part.sha256, "number": number, "item": item}
                        parts.append({**picture, "seconds": part.seconds})
            content = {"role": message.role, "parts": parts}
            data = json.dumps(content, ensure_ascii=False).encode()
            self.hashes[message] = hashlib.sha256(data).hexdigest()
            self.save_file(f"{self.hashes[message]}.json", data)
            for part in message.parts:
                if isinstance(part, Picture | EnclosedImage):
                    self.save_file(f"{part.sha256}.jpg", part.jpeg)
        return self.hashes[message]

    def save_file(self, name: str, data: bytes) -> None:
        """Save a file, where files are kept."""
        if self.save is not None:
            self.save(name, data)
