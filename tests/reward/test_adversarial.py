"""No trajectory earns more than it may; the table is that of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from adversarial import ATTACKS, Attack, page_text

SLACK = 0.01
"""Looks are cut at whole pixels."""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.kind}: {attack.name}")
def test_earns_what_it_may_and_no_more(attack: Attack) -> None:
    composite, outcome = attack.rewards
    assert composite.total == pytest.approx(attack.composite, abs=SLACK), attack.why
    assert outcome.total == attack.outcome, attack.why


def test_the_table_is_large_and_of_all_kinds() -> None:
    assert len(ATTACKS) >= 70
    assert len({(attack.kind, attack.name) for attack in ATTACKS}) == len(ATTACKS)
    assert {attack.outcome for attack in ATTACKS} == {0, 1}


def test_no_attack_earns_as_much_as_an_honest_run() -> None:
    """Those that are free of charge are named: they gain nothing either."""
    free = {"the same crop three times", "a wrong crop beside the exact one that is named"}
    most = max(attack.composite for attack in ATTACKS if attack.kind != "honest" and attack.name not in free)
    assert most < 1


def test_the_page_of_the_documentation_is_this_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "reward-attacks.md"
    assert page.read_text(encoding="utf-8") == page_text(), "write it again: see adversarial.py"
