"""Videos by the keys that questions have: by their names, or by what a downloader left beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

from vrag.evaluation.sources.archive import members
from vrag.evaluation.sources.source_files import find_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from vrag.evaluation.sources.archive import Member
    from vrag.evaluation.sources.load_report import Remarks

__all__ = ["SUFFIXES", "find_videos"]

SUFFIXES = (".mp4", ".mkv", ".webm", ".m4v", ".mov", ".avi")
"""Of videos; of one in several forms, the first is taken."""
LONGEST = 2**20
"""Bytes of a file beside a video."""
_NUMBER = re.compile(r"\d{5,}")
"""How video2dataset calls a video: the digits of its shard, then those of its place in it."""
_PLACES = ("embed", "live", "shorts", "v")
"""Before the key in the path of an address."""
_Film = TypeVar("_Film", bound="Path | Member")


def find_videos(folder: Path, keys: Collection[str], remarks: Remarks) -> dict[str, Path | Member]:
    """The videos in a folder, however deep; where some are missing, those in its zip archives as well.

    A video is called by its key; or by a number, as video2dataset does, with a `.json` beside it that has
    the address it came from.

    Args:
        folder: Where to look.
        keys: Of videos that are asked about: their ids at YouTube.
        remarks: Are told of numbered videos of which nothing says which they are.

    Returns:
        By their keys, and by their names without ending.

    Raises:
        CaseError: If an archive that is looked into is damaged; see `members`.
    """
    films = _in_order(path for path in find_all(folder, "*") if path.suffix.lower() in SUFFIXES)
    found: dict[str, Path | Member] = {}
    for film in films:
        found.setdefault(film.stem, film)
    for film in films:
        if _NUMBER.fullmatch(film.stem) and film.stem not in keys:
            told = _told_keys(film.with_suffix(".json"))
            found |= {key: film for key in told if key not in found}
            if not told:
                remarks.count("videos are called by a number, and no .json beside says which", film.name)
    for archive in find_all(folder, "*.[zZ][iI][pP]"):
        if all(key in found for key in keys):
            break
        for film in _in_order(members(archive, SUFFIXES)):
            found.setdefault(film.path.stem, film)
    return found


def _in_order(films: Iterable[_Film]) -> list[_Film]:
    return sorted(films, key=lambda film: SUFFIXES.index(Path(film.name).suffix.lower()))


def _told_keys(path: Path) -> list[str]:
    """The keys that the file beside a video tells; none of what is no such file."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(LONGEST))
    except (OSError, ValueError, RecursionError):
        return []
    return list(dict.fromkeys(_keys(cast("dict[str, Any]", value)))) if isinstance(value, dict) else []


def _keys(told: dict[str, Any]) -> Iterator[str]:
    """What may be the key, the surest first. The `key` of video2dataset is its number."""
    for name in ("url", "webpage_url", "original_url"):
        if key := _key_in(told.get(name)):
            yield key
    yield from (told[name] for name in ("video_id", "id", "youtube_id") if isinstance(told.get(name), str))


def _key_in(url: object) -> str:
    """The id of a video in its address at YouTube; empty where there is none.

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
