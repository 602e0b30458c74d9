"""A check: what it found and what to do about it. Checks run one by one, and none brings down another."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from vrag.errors import VragError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Check", "CheckStatus", "examine"]


class CheckStatus(StrEnum):
    """How a check went."""

    OK = "ok"
    """All is as it should be."""
    WARNING = "warning"
    """It works, and something about it should be known."""
    FAILED = "failed"
    """It does not work."""
    SKIPPED = "skipped"
    """It was not looked at: it is not used, or what it needs has failed."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found."""

    name: str
    """What was looked at, in a word or two."""
    status: CheckStatus
    message: str
    """What was found, in one sentence."""
    hint: str = ""
    """What to do; empty where nothing has to be done."""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Numbers and names for machines; JSON."""
    seconds: float = 0.0
    """How long it took."""


def examine(name: str, probe: Callable[[], Check], seconds: float, hint: str = "") -> Check:
    """Runs a check in a thread of its own, for a limited time.

    Args:
        name: What is looked at.
        probe: Looks at it. What it raises is a failed check.
        seconds: Time limit. A probe that is still at work then is left behind; it does not keep the
            process from ending.
        hint: What to do about an error that says nothing of that itself.
    """
    found: list[Check] = []
    thread = threading.Thread(target=lambda: found.append(_attempt(name, probe)), name=name, daemon=True)
    start = time.monotonic()
    thread.start()
    thread.join(seconds)
    check = found[0] if found else _late(name, seconds)
    if check.status is CheckStatus.FAILED:
        check = replace(check, hint=check.hint or hint)
    return replace(check, name=name, seconds=time.monotonic() - start)


def _attempt(name: str, probe: Callable[[], Check]) -> Check:
    try:
        return probe()
    except VragError as error:
        return Check(name, CheckStatus.FAILED, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - a fault of one check must not hide what the others found
        message = f"The check itself broke: {type(error).__name__}: {error}"
        return Check(
            name, CheckStatus.FAILED, message, "Report this, with the output of `vrag doctor --json`."
        )


def _late(name: str, seconds: float) -> Check:
    return Check(
        name,
        CheckStatus.FAILED,
        f"Nothing was found out within {seconds:g} s.",
        "Try again when the machine is less busy, or wait longer: --seconds",
    )
