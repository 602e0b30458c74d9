"""Runs with custom tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agent_scripts import WAYS, Watching, Way, of, way_name

from vrag.agent.agent import Agent
from vrag.agent.events import ImageShown

if TYPE_CHECKING:
    from vrag.agent.environment import Environment
    from vrag.agent.events import Event

both = pytest.mark.parametrize("way", WAYS, ids=way_name)


def run(way: Way, where: Environment, *replies: str) -> tuple[list[Event], Watching]:
    policy = Watching(replies)
    return list(Agent(policy, where, way.method).stream("What is on the page after that one?")), policy


def shown(events: list[Event]) -> list[int]:
    return [image.page for image in of(ImageShown, events)]
