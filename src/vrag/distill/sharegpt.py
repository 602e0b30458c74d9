"""A recorded run as a conversation for a trainer, from its events and its files and nothing else.

What the model is told is, word for word, what the environment told it, with `<image>` where a picture
stood: the texts of a message are joined as they are for a served model. The model's turns end with the
action that was carried out.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vrag.agent.actions import Crop, parse, render
from vrag.agent.environment import encode_jpeg
from vrag.agent.events import ModelCalled
from vrag.agent.prompts import with_question, worded
from vrag.distill.expert_prompt import box_sides
from vrag.distill.trace import trace, view_of
from vrag.errors import SampleError
from vrag.geometry import Size, View, draw_view
from vrag.model_profiles import profile_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.events import ImageShown
    from vrag.agent.runs.run_store import StoredRun
    from vrag.model_profiles import Profile

__all__ = ["IMAGE", "Conversation", "conversation_of"]

IMAGE = "<image>"
"""What stands for a picture."""
_PLACES = re.compile(r"<(?=/?(?:image|video|audio)>)|<(?=\|)", re.IGNORECASE)
"""What a trainer takes for a picture, a film, a sound, or a token of its template."""
_BOX = re.compile(r"<bbox\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One sample of a trainer's set."""

    messages: tuple[tuple[str, str], ...]
    """Role and text of each turn: `user` and `assistant` in turn, the last is the answer."""
    images: tuple[bytes, ...]
    """JPEG files, one for each `<image>`, in order, each of the size at which the model is shown it."""


def conversation_of(run: StoredRun, target: Profile) -> Conversation:
    """The conversation of a run of VRAG, for a model of a family.

    Where the run was recorded for another family, pictures get the size that this one is shown, boxes
    are mapped through the page, and the instruction says how this family writes boxes.

    Args:
        run: One that ended with an answer, with every turn carried out.
        target: The family of the model that is trained.

    Raises:
        SampleError: If it cannot be made; says why.
        SettingsError: If the run was recorded for a family that is not known.
    """
    told = _RunConversion(run, profile_named(run.started.settings.profile), target)
    called = [event for event in run.events if isinstance(event, ModelCalled)]
    steps = trace(run)
    if not called or run.started.settings.agent != "vrag" or steps.refused:
        raise SampleError(f"The run {run.id} is no whole run of vrag with every turn carried out.")
    turns = [told.user(name, first=number == 0) for number, name in enumerate(called[-1].messages[::2])]
    images = [told.image(image) for image in steps.images]
    messages: list[tuple[str, str]] = []
    for text, event, crop in zip(turns, called, steps.cropped, strict=True):
        messages += [("user", text), ("assistant", told.reply(event, crop))]
    whole = Conversation(tuple(messages), tuple(images))
    _check(run, whole)
    return whole


def _check(run: StoredRun, whole: Conversation) -> None:
    """Refuses what a trainer would load with pictures in the wrong places."""
    places = sum(text.count(IMAGE) for _, text in whole.messages)
    if places != len(whole.images):
        raise SampleError(f"The run {run.id} has {len(whole.images)} pictures and {places} places for them.")


@dataclass(frozen=True, slots=True)
class _RunConversion:
    """A run, the family that it was recorded for, and the one that learns."""

    run: StoredRun
    source: Profile
    target: Profile

    def user(self, sha256: str, *, first: bool) -> str:
        """A message of the environment.

        Raises:
            SampleError: If its file is missing or damaged.
        """
        try:
            message: dict[str, Any] = json.loads(self._file(sha256, "json"))
            parts: list[dict[str, Any]] = list(message["parts"])
        except (ValueError, KeyError, TypeError) as error:
            raise SampleError(f"A message of the run {self.run.id} is damaged: {error}.") from error
        if message["role"] != "user" or any("attached" in part for part in parts):
            raise SampleError(f"The run {self.run.id} is not a conversation about pages alone.")
        if first and self.source != self.target:
            parts = self._opening(parts)
        return _joined(parts)

    def reply(self, event: ModelCalled, cropped: ImageShown | None) -> str:
        """A turn of the model, up to the end of its action, its box in the words of the target.

        Raises:
            SampleError: If it holds what a trainer takes for a picture or a token.
        """
        text = event.reply[: event.executed]
        action = parse(text).action
        if isinstance(action, Crop) and cropped is not None and self.source != self.target:
            box = view_of(cropped).to_item(self.source.box(action.box))
            sides = box_sides(box, view_of(cropped, self._size(cropped)), self.target)
            start = [found.start() for found in _BOX.finditer(text)][-1]
            text = text[:start] + render(replace(action, box=sides))
        if found := _PLACES.search(text):
            cut = text[found.start() : found.start() + 20]
            raise SampleError(f"A reply of the run {self.run.id} holds {cut!r}, a word of the trainer's own.")
        return text

    def image(self, image: ImageShown) -> bytes:
        """A picture that was shown, as the target is shown it.

        Raises:
            SampleError: If its file is missing or damaged.
        """
        from PIL import Image

        data, size = self._file(image.sha256, "jpg"), self._size(image)
        try:
            with Image.open(io.BytesIO(data), formats=("JPEG",)) as opened:
                shown = Size(*opened.size)
                if shown == size:
                    return data
                drawn = draw_view(opened.convert("RGB"), View.whole(shown, size))
        except (OSError, SyntaxError) as error:
            raise SampleError(f"A picture of the run {self.run.id} is damaged: {error}.") from error
        return encode_jpeg(drawn)

    def _size(self, image: ImageShown) -> Size:
        """At which the target is shown the part of the page that a picture is."""
        if self.source == self.target:
            return Size(image.width, image.height)
        region = view_of(image).region
        return self.target.shown_size(Size(int(region.width), int(region.height)))

    def _opening(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The first message in the words of the target: its instruction, and the question as it was told."""
        started = self.run.started
        own = started.settings.instruction or self.target.instruction
        instruction = worded(own, self.target.prompt, actions="", profile=self.target)
        if (whole := with_question(instruction, started.question)) is not None:
            return [{"text": whole}]
        rest = parts[1:] or [{"text": f"The question:\n{started.question}"}]
        return [{"text": instruction}, *rest]

    def _file(self, sha256: str, suffix: str) -> bytes:
        """A file of the run, checked against its name."""
        try:
            data = self.run.file(sha256, suffix).read_bytes()
        except OSError as error:
            raise SampleError(f"A file of the run {self.run.id} is missing: {sha256}.{suffix}.") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise SampleError(f"A file of the run {self.run.id} is damaged: {sha256}.{suffix}.")
        return data


def _joined(parts: Sequence[dict[str, Any]]) -> str:
    """The parts of a message as one text: texts in a row with a line break, nothing around pictures."""
    text, after_text = "", False
    for part in parts:
        is_text = "text" in part
        if is_text:
            text += ("\n" if after_text else "") + _PLACES.sub("‹", part["text"])
        else:
            text += IMAGE
        after_text = is_text
    return text
