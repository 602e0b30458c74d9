"""The published rules by which answers are compared, by name; each is a module of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.evaluation.rules import anls, hotpotqa, lvbench, mmlongbench, slidevqa, squad, webqa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.evaluation.rule import Rule

__all__ = ["RULES"]

RULES: Mapping[str, Rule] = {
    "squad": squad.measures,
    "hotpotqa": hotpotqa.measures,
    "anls": anls.measures,
    "mmlongbench": mmlongbench.measures,
    "slidevqa": slidevqa.measures,
    "lvbench": lvbench.measures,
    "webqa": webqa.measures,
}
"""What each measures, its `measures` say."""
