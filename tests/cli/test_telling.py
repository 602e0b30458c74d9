"""What `--json` says of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.events import UsageReported
from vrag.agent.runs import RunStore
from vrag.agent.trajectory import Trajectory
from vrag.assemble import open_agent
from vrag.cli.telling import as_json
from vrag.settings import load_settings
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from pathlib import Path

SUMMED = ("visual_tokens", "pixels", "seconds", "model_seconds")


def test_what_each_step_cost_is_told_and_adds_up(tmp_path: Path) -> None:
    agent = open_agent(load_settings(agent="vimrag").settings, tiny_corpus())
    with RunStore(tmp_path).record() as recording:
        events = list(agent.stream("How many passengers did the ferry carry?", save=recording.save))
    told = as_json(Trajectory.of(events), recording)
    reported = [event for event in events if isinstance(event, UsageReported)]
    assert len(told["steps"]) == len(reported) > 1
    for step, event in zip(told["steps"], reported, strict=True):
        assert step["usage"]["fresh_tokens"] == event.fresh_tokens
        assert step["usage"]["memory_tokens"] == event.memory_tokens
        assert step["usage"].keys() >= {"prompt_tokens", "completion_tokens", "cached_tokens", "cost"}
    for name in SUMMED:
        assert abs(told["usage"][name] - sum(step["usage"][name] for step in told["steps"])) < 0.01
    assert told["usage"]["pixels"] > 0
    assert told["usage"]["cached_tokens"] is None
