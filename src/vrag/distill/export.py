"""Samples as a data set of LLaMA-Factory: conversations in its sharegpt format, with images.

A conversation is made from the events and the files of a recorded run and nothing else. Its user messages
are, word for word, those of the environment, with `<image>` where an image stood: the texts of a message are
joined as they are for a served model. The model's turns end with the action that was carried out.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vrag.agent.actions import Crop, parse, render
from vrag.agent.events import ImageShown, ModelCalled
from vrag.agent.methods import METHODS
from vrag.agent.prompts import with_question, worded
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.atomic_io import write_whole
from vrag.distill.expert_messages import box_sides
from vrag.distill.select import trace, view_of
from vrag.errors import RunError, SampleError, SettingsError
from vrag.geometry import Size, View, draw_view, encode_jpeg
from vrag.model_profiles import Profile, profile_named
from vrag.parsing import parse_json
from vrag.rollouts.resumable_store import report_disk_errors

IMAGE = "<image>"
"""The placeholder of an image."""
_MARKS = re.compile(r"<(?=/?(?:image|video|audio)>)|<(?=\|)", re.IGNORECASE)
"""Text that a trainer takes for an image, a video, a sound, or a token of its template."""
_BOX = re.compile(r"<bbox\b", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_COLUMNS: dict[str, Any] = {
    "formatting": "sharegpt",
    "columns": {"messages": "messages", "images": "images"},
    "tags": {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "system_tag": "system",
    },
}
"""The entry of a data set in `dataset_info.json`."""


@dataclass(frozen=True, slots=True)
class Export:
    """The files that were written."""

    file: Path
    samples: int
    images: int
    """Files; an image that several samples show is one."""
    refused: tuple[tuple[str, str], ...]
    """Ids of runs that could not be written, each with the reason."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One sample of a trainer's data set."""

    messages: tuple[tuple[str, str], ...]
    """Role and text of each turn: `user` and `assistant` in turn, the last is the answer."""
    images: tuple[bytes, ...]
    """JPEG files, one for each `<image>`, in order, each of the size at which the model is shown it."""


def export_sft(runs: RunStore, ids: Iterable[str], target: Profile, folder: Path, name: str) -> Export:
    """Write runs as a data set.

    ::

        FOLDER/<name>.json         a list of {"messages": [{"role", "content"}], "images": [path]}
        FOLDER/dataset_info.json   how the trainer reads it; entries of others stay
        FOLDER/images/<sha256>.jpg named by content, so that nothing is ever overwritten

    Args:
        runs: The store with the runs.
        ids: The runs to export.
        target: The family of the model that is trained.
        folder: Created if it does not exist.
        name: Of the data set.

    Raises:
        SampleError: If the name cannot be one, `dataset_info.json` is damaged, nothing at all can be
            exported, or the disk refuses.
    """
    if not _NAME.fullmatch(name) or name == "dataset_info":
        raise SampleError(f"{name!r} cannot be the name of a data set.", "Use letters, digits and hyphens.")
    rows: list[dict[str, Any]] = []
    refused: list[tuple[str, str]] = []
    with report_disk_errors(folder, SampleError):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        known = _read_info(folder / "dataset_info.json")
        for id in ids:
            try:
                conversation = conversation_of(runs.read(id), target)
            except (SampleError, RunError, SettingsError) as error:
                refused.append((id, error.message))
                continue
            messages = [{"role": role, "content": text} for role, text in conversation.messages]
            images = [_write_image(jpeg, folder) for jpeg in conversation.images]
            rows.append({"messages": messages, "images": images})
        if not rows:
            reason = f" The first: {refused[0][1]}" if refused else ""
            raise SampleError(
                f"No sample can be exported.{reason}", "Select samples first: vrag data select."
            )
        file = folder / f"{name}.json"
        write_whole(file, _dump(rows, indent=1))
        known[name] = {"file_name": file.name, **_COLUMNS}
        write_whole(folder / "dataset_info.json", _dump(known, indent=2))
    paths = {path for row in rows for path in row["images"]}
    return Export(file, len(rows), len(paths), tuple(refused))


def _dump(value: object, *, indent: int) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent).encode() + b"\n"


def _read_info(path: Path) -> dict[str, Any]:
    """Read the data sets that the folder has."""
    if not path.exists():
        return {}
    try:
        known: Any = parse_json(path.read_bytes())
    except ValueError as error:
        raise SampleError(f"{path} is not JSON: {error}.") from error
    if not isinstance(known, dict):
        raise SampleError(f"{path} is not a list of data sets.")
    return known  # pyright: ignore[reportUnknownVariableType] - the trainer's own


def _write_image(jpeg: bytes, folder: Path) -> str:
    """Write an image; return its path relative to the folder, as the trainer looks for it."""
    path = f"images/{hashlib.sha256(jpeg).hexdigest()}.jpg"
    target = folder / path
    if not target.exists() or target.stat().st_size != len(jpeg):
        unfinished = target.with_suffix(".new")
        unfinished.write_bytes(jpeg)
        unfinished.replace(target)
    return path


def conversation_of(run: StoredRun, target: Profile) -> Conversation:
    """Convert a run of VRAG to a conversation for `target`, the family of the model that is trained.

    Where the run was recorded for another family, images get the size that this one is shown, boxes
    are mapped through the page, and the instruction describes how this family writes boxes.

    Raises `SampleError` with the reason if it cannot be converted, such as where a turn was not carried out,
    and `SettingsError` if the run was recorded for a family that is not known.
    """
    conversion = _RunConversion(run, profile_named(run.started.settings.profile), target)
    calls = [event for event in run.events if isinstance(event, ModelCalled)]
    steps = trace(run)
    method = METHODS.get(run.started.settings.agent)
    follows_checkpoints = method is not None and method.follows_checkpoints
    if not calls or not follows_checkpoints or steps.refused:
        raise SampleError(f"The run {run.id} is not a complete run of vrag with every turn carried out.")
    turns = [conversion.user(name, first=number == 0) for number, name in enumerate(calls[-1].messages[::2])]
    images = tuple(conversion.image(image) for image in steps.images)
    messages: list[tuple[str, str]] = []
    for text, call, cropped in zip(turns, calls, steps.cropped, strict=True):
        messages += [("user", text), ("assistant", conversion.reply(call, cropped))]
    places = sum(text.count(IMAGE) for _, text in messages)
    if places != len(images):  # a trainer would load it with images in the wrong places
        raise SampleError(f"The run {run.id} has {len(images)} pictures and {places} places for them.")
    return Conversation(tuple(messages), images)


@dataclass(frozen=True, slots=True)
class _RunConversion:
    """A run, the family that it was recorded for, and the one that learns."""

    run: StoredRun
    source: Profile
    target: Profile

    def user(self, sha256: str, *, first: bool) -> str:
        """Convert a message of the environment; raise `SampleError` if its file is missing or damaged."""
        try:
            message: dict[str, Any] = parse_json(self._file(sha256, "json"))
            parts: list[dict[str, Any]] = list(message["parts"])
        except (ValueError, KeyError, TypeError) as error:
            raise SampleError(f"A message of the run {self.run.id} is damaged: {error}.") from error
        if message["role"] != "user" or any("attached" in part for part in parts):
            raise SampleError(f"The run {self.run.id} is not a conversation about pages alone.")
        if first and self.source != self.target:
            parts = self._reword_opening(parts)
        return _join(parts)

    def reply(self, event: ModelCalled, cropped: ImageShown | None) -> str:
        """Convert a turn of the model, up to the end of its action, its box as the target writes it.

        Raises `SampleError` if it holds text that a trainer takes for an image or a token.
        """
        text = event.reply[: event.executed]
        action = parse(text).action
        if isinstance(action, Crop) and cropped is not None and self.source != self.target:
            box = view_of(cropped).to_item(self.source.box(action.box))
            sides = box_sides(box, view_of(cropped, self._size(cropped)), self.target)
            start = [found.start() for found in _BOX.finditer(text)][-1]
            text = text[:start] + render(replace(action, box=sides))
        if found := _MARKS.search(text):
            cut = text[found.start() : found.start() + 20]
            raise SampleError(f"A reply of the run {self.run.id} holds {cut!r}, which the trainer reserves.")
        return text

    def image(self, image: ImageShown) -> bytes:
        """Convert an image to the size of the target; raise `SampleError` if it is missing or damaged."""
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
        """Return the size at which the target is shown the part of the page in an image."""
        if self.source == self.target:
            return Size(image.width, image.height)
        region = view_of(image).region
        return self.target.shown_size(Size(int(region.width), int(region.height)))

    def _reword_opening(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write the first message with the instruction of the target and the recorded question."""
        started = self.run.started
        own = started.settings.instruction or self.target.instruction
        instruction = worded(own, self.target.prompt, actions="", profile=self.target)
        if (whole := with_question(instruction, started.question)) is not None:
            return [{"text": whole}]
        rest = parts[1:] or [{"text": f"The question:\n{started.question}"}]
        return [{"text": instruction}, *rest]

    def _file(self, sha256: str, suffix: str) -> bytes:
        """Read a file of the run, checked against its name."""
        try:
            return self.run.read_file(sha256, suffix)
        except FileNotFoundError as error:
            raise SampleError(f"A file of the run {self.run.id} is missing: {sha256}.{suffix}.") from error
        except OSError as error:
            raise SampleError(f"A file of the run {self.run.id} is damaged: {sha256}.{suffix}.") from error


def _join(parts: Sequence[dict[str, Any]]) -> str:
    """Join the parts of a message: texts in a row with a line break, nothing around images."""
    text, after_text = "", False
    for part in parts:
        is_text = "text" in part
        if is_text:
            text += ("\n" if after_text else "") + _MARKS.sub("‹", part["text"])
        else:
            text += IMAGE
        after_text = is_text
    return text
