"""Profiles: known by name, an unknown one is an error with the choices."""

from __future__ import annotations

import pytest

from vrag.errors import SettingsError
from vrag.geometry import Size
from vrag.profiles import PROFILES, profile_named


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
