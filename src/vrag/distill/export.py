"""Samples as a data set of LLaMA-Factory: its sharegpt format, with pictures."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.atomic_io import write_whole
from vrag.distill.sharegpt import conversation_of
from vrag.errors import RunError, SampleError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vrag.agent.runs.run_store import RunStore
    from vrag.distill.sharegpt import Conversation
    from vrag.model_profiles import Profile

__all__ = ["Export", "export_sft"]

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
"""How the trainer reads the file."""


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    file: Path
    samples: int
    images: int
    """Files; a picture that several samples show is one."""
    refused: tuple[tuple[str, str], ...]
    """Ids of runs that could not be written, each with the reason."""


def export_sft(runs: RunStore, ids: Iterable[str], target: Profile, folder: Path, name: str) -> Export:
    """Writes runs as a data set.

    ::

        FOLDER/<name>.json         a list of {"messages": [{"role", "content"}], "images": [path]}
        FOLDER/dataset_info.json   how the trainer reads it; entries of others stay
        FOLDER/images/<sha256>.jpg named by content, so that nothing is ever overwritten

    Args:
        runs: Where they lie.
        ids: Which of them.
        target: The family of the model that is trained.
        folder: Made if it is not there.
        name: Of the data set.

    Raises:
        SampleError: If the name cannot be one, `dataset_info.json` is damaged, nothing at all can be
            exported, or the disk refuses.
    """
    if not _NAME.fullmatch(name) or name == "dataset_info":
        raise SampleError(f"{name!r} cannot be the name of a data set.", "Take letters, digits and hyphens.")
    try:
        (folder / "images").mkdir(parents=True, exist_ok=True)
        known = _known(folder)
        rows, refused = _rows(runs, ids, target, folder)
        if not rows:
            reason = f" The first: {refused[0][1]}" if refused else ""
            raise SampleError(
                f"No sample can be exported.{reason}", "Select samples first: vrag data select."
            )
        file = folder / f"{name}.json"
        write_whole(file, _json(rows, indent=1))
        known[name] = {"file_name": file.name, **_COLUMNS}
        write_whole(folder / "dataset_info.json", _json(known, indent=2))
    except OSError as error:
        raise SampleError(
            f"{folder} cannot be written: {error.strerror or error}.", "Make room, or name another."
        ) from error
    pictures = {path for row in rows for path in row["images"]}
    return Export(file, len(rows), len(pictures), tuple(refused))


def _rows(
    runs: RunStore, ids: Iterable[str], target: Profile, folder: Path
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The samples as they stand in the file, their pictures written; and what is refused."""
    rows: list[dict[str, Any]] = []
    refused: list[tuple[str, str]] = []
    for id in ids:
        try:
            whole = conversation_of(runs.read(id), target)
        except (SampleError, RunError, SettingsError) as error:
            refused.append((id, error.message))
        else:
            rows.append(_row(whole, folder))
    return rows, refused


def _json(value: object, *, indent: int) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent).encode() + b"\n"


def _known(folder: Path) -> dict[str, Any]:
    """The data sets that the folder has."""
    path = folder / "dataset_info.json"
    if not path.exists():
        return {}
    try:
        known: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise SampleError(f"{path} is not JSON: {error}.") from error
    if not isinstance(known, dict):
        raise SampleError(f"{path} is no list of data sets.")
    return known  # pyright: ignore[reportUnknownVariableType] - the trainer's own


def _row(whole: Conversation, folder: Path) -> dict[str, Any]:
    """A sample as it stands in the file, once its pictures are there."""
    return {
        "messages": [{"role": role, "content": text} for role, text in whole.messages],
        "images": [_picture(jpeg, folder) for jpeg in whole.images],
    }


def _picture(jpeg: bytes, folder: Path) -> str:
    """The path of a picture, relative to the folder, as the trainer looks for it."""
    path = f"images/{hashlib.sha256(jpeg).hexdigest()}.jpg"
    target = folder / path
    if not target.exists() or target.stat().st_size != len(jpeg):
        unfinished = target.with_suffix(".new")
        unfinished.write_bytes(jpeg)
        unfinished.replace(target)
    return path
