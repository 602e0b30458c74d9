"""Profiles: known by name, an unknown one is an error with the choices."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from vrag.errors import SettingsError
from vrag.geometry import Size
from vrag.model_profiles import PROFILE_FILE, PROFILES, Profile, profile_named, read_profile, write_profile

if TYPE_CHECKING:
    from pathlib import Path


def test_a_profile_is_found_by_its_name() -> None:
    assert all(profile_named(name) is profile for name, profile in PROFILES.items())


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"gpt-9.*qwen2\.5-vl"):
        profile_named("gpt-9")


def test_the_limits_are_those_of_the_published_training() -> None:
    """200,704 to 401,408 pixels for Qwen2.5-VL (VRAG-RL, arXiv 2505.22019)."""
    profile = profile_named("qwen2.5-vl")
    area = profile.factor**2
    assert (profile.min_tokens * area, profile.max_tokens * area) == (200_704, 401_408)
    assert profile.visual_tokens(Size(28 * 3, 28 * 5)) == 15


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_one_that_travels_is_the_same(profile: Profile, tmp_path: Path) -> None:
    """Beside the weights of a checkpoint, its instructions and all."""
    own = replace(
        profile, name="mine", instruction="Look.\n«é»", graph_instruction="", graph_tokens=4, stop=("</a>",)
    )
    for one in (profile, own):
        write_profile(one, tmp_path)
        assert read_profile(tmp_path) == one


def test_without_a_file_there_is_none(tmp_path: Path) -> None:
    assert read_profile(tmp_path) is None
    assert read_profile(tmp_path / "gone") is None


@pytest.mark.parametrize(
    "change",
    [
        {"factor": None},
        {"factor": "wide"},
        {"boxes": "stored"},
        {"boxes": "feet"},
        {"name": None},
        {"stop": 1},
    ],
)
def test_one_that_is_none_is_told_of(change: dict[str, Any], tmp_path: Path) -> None:
    write_profile(PROFILES["qwen3-vl"], tmp_path)
    path = tmp_path / PROFILE_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SettingsError, match=PROFILE_FILE) as told:
        read_profile(tmp_path)
    assert "Remove the file" in (told.value.hint or "")


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b"\xff"])
def test_a_file_that_is_no_profile_is_told_of(content: bytes, tmp_path: Path) -> None:
    (tmp_path / PROFILE_FILE).write_bytes(content)
    with pytest.raises(SettingsError, match=PROFILE_FILE):
        read_profile(tmp_path)
