"""Videos by the keys that questions have: by their names, or by the metadata files beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

from vrag.datasets.files.archive import members
from vrag.datasets.files.lookup import find_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from vrag.datasets.files.archive import Member
    from vrag.datasets.files.clean_cases import Remarks

SUFFIXES = (".mp4", ".mkv", ".webm", ".m4v", ".mov", ".avi")
"""Endings of videos; of one in several formats, the first is taken."""
MAX_METADATA_BYTES = 2**20
"""Length of a metadata file."""
_NUMBER = re.compile(r"\d{5,}")
"""Name of a video by video2dataset: the digits of its shard, then those of its place in it."""
_PLACES = ("embed", "live", "shorts", "v")
"""Parts before the key in the path of an address."""
_Video = TypeVar("_Video", bound="Path | Member")


def find_videos(folder: Path, keys: Collection[str], remarks: Remarks) -> dict[str, Path | Member]:
    """Find the videos in a folder, however deep; where some are missing, those in its zip archives as well.

    A video is named by its key; or by a number, as by video2dataset, with a `.json` beside it that has its
    address.

    Args:
        folder: Where to look.
        keys: Ids at YouTube of the videos that are asked about.
        remarks: Gets the numbered videos without metadata.

    Returns:
        By their keys, and by their names without ending.

    Raises:
        CaseError: If an archive that is looked into is damaged; see `members`.
    """
    videos = _in_order(path for path in find_all(folder, "*") if path.suffix.lower() in SUFFIXES)
    found: dict[str, Path | Member] = {}
    for video in videos:
        found.setdefault(video.stem, video)
    for video in videos:
        if _NUMBER.fullmatch(video.stem) and video.stem not in keys:
            metadata_keys = _keys_beside(video.with_suffix(".json"))
            found |= {key: video for key in metadata_keys if key not in found}
            if not metadata_keys:
                remarks.count(
                    "videos are named by a number, without a .json beside that says which they are",
                    video.name,
                )
    for archive in find_all(folder, "*.[zZ][iI][pP]"):
        if all(key in found for key in keys):
            break
        for video in _in_order(members(archive, SUFFIXES)):
            found.setdefault(video.path.stem, video)
    return found


def _in_order(videos: Iterable[_Video]) -> list[_Video]:
    return sorted(videos, key=lambda video: SUFFIXES.index(Path(video.name).suffix.lower()))


def _keys_beside(path: Path) -> list[str]:
    """Return the keys in the metadata file beside a video; none if there is no such file."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(MAX_METADATA_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    return list(dict.fromkeys(_keys(cast("dict[str, Any]", value)))) if isinstance(value, dict) else []


def _keys(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield candidates for the key, the surest first. The `key` of video2dataset is its number."""
    for name in ("url", "webpage_url", "original_url"):
        if key := _key_in(metadata.get(name)):
            yield key
    yield from (
        metadata[name] for name in ("video_id", "id", "youtube_id") if isinstance(metadata.get(name), str)
    )


def _key_in(url: object) -> str:
    """Return the id of a video in its address at YouTube; empty where there is none.

    >>> _key_in("https://www.youtube.com/watch?v=Cm73ma6Ibcs&t=5"), _key_in("https://youtu.be/Cm73ma6Ibcs")
    ('Cm73ma6Ibcs', 'Cm73ma6Ibcs')
    """
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        asked = parse_qs(parts.query).get("v", [""])[0]
    except ValueError:  # as of a half-open [
        return ""
    host, path = (parts.hostname or "").removeprefix("www.").removeprefix("m."), parts.path.split("/")[1:]
    if host == "youtu.be":
        return path[0] if path else ""
    if host != "youtube.com":
        return ""
    return asked or (path[1] if len(path) > 1 and path[0] in _PLACES else "")
