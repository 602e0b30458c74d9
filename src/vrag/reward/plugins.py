"""Parts of a reward that other packages bring, found by the entry point `vrag.rewards`.

::

    [project.entry-points."vrag.rewards"]
    brevity = "my_package:Brevity"        # what is called without arguments and gives a `RewardPart`
"""

from __future__ import annotations

import inspect
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from vrag.errors import SettingsError
from vrag.reward.combine import OWN_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.reward.reward import RewardPart

__all__ = ["GROUP", "installed_parts", "load_parts"]

GROUP = "vrag.rewards"


def installed_parts() -> list[str]:
    """Names of what the packages installed here bring."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def load_parts(names: Iterable[str]) -> dict[str, RewardPart]:
    """The parts of these names, for `CompositeReward(…, extras=…)`.

    Raises:
        SettingsError: If one is not installed, cannot be loaded, or has the name of one of ours.
    """
    return {name: _load(name) for name in dict.fromkeys(names)}


def _load(name: str) -> RewardPart:
    if name in OWN_PARTS:
        raise SettingsError(f"The part {name!r} of the reward is one of ours, and always there.")
    entry = next(iter(entry_points(group=GROUP, name=name)), None)
    if entry is None:
        known = ", ".join(installed_parts()) or "none"
        raise SettingsError(
            f"There is no part {name!r} of a reward.",
            f"Installed: {known}. Install the package that has it.",
        )
    try:
        part: RewardPart = entry.load()()
        usable = inspect.iscoroutinefunction(part.score)
    except Exception as error:  # importing code of others may raise anything; it is told which package it was
        raise SettingsError(
            f"The part {name} of the reward ({entry.value}) cannot be loaded: "
            f"{type(error).__name__}: {error}.",
            "Leave it out, or mend its package.",
        ) from error
    if not usable:
        raise SettingsError(
            f"The part {name} of the reward ({entry.value}) has no coroutine `score(case, run)`.",
            "Write it as `async def score`.",
        )
    return part
