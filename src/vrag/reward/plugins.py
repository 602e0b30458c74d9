"""Parts of a reward that other packages provide, found by the entry point `vrag.rewards`.

::

    [project.entry-points."vrag.rewards"]
    brevity = "my_package:Brevity"        # called without arguments, it returns a `RewardPart`
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

GROUP = "vrag.rewards"


def installed_parts() -> list[str]:
    """List the names of the parts that installed packages provide."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def load_parts(names: Iterable[str]) -> dict[str, RewardPart]:
    """Load parts by name, for `CompositeReward(…, extras=…)`.

    Raises `SettingsError` if one is not installed, cannot be loaded, or has the name of a built-in part.
    """
    return {name: _load(name) for name in dict.fromkeys(names)}


def _load(name: str) -> RewardPart:
    if name in OWN_PARTS:
        raise SettingsError(f"The reward part {name!r} is built in and always present.")
    entry = next(iter(entry_points(group=GROUP, name=name)), None)
    if entry is None:
        installed = ", ".join(installed_parts()) or "none"
        raise SettingsError(
            f"There is no reward part {name!r}.",
            f"Installed: {installed}. Install the package that provides it.",
        )
    try:
        part: RewardPart = entry.load()()
        usable = inspect.iscoroutinefunction(part.score)
    except Exception as error:  # importing foreign code may raise anything; the message names the package
        raise SettingsError(
            f"The reward part {name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}.",
            "Leave it out, or fix its package.",
        ) from error
    if not usable:
        raise SettingsError(
            f"The reward part {name} ({entry.value}) has no coroutine `score(case, run)`.",
            "Write it as `async def score`.",
        )
    return part
