"""OpenEnv: a server of episodes, `uvicorn vrag_openenv:app`, and its client."""

import json
import os
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from vrag.rl import Episode

OPTIONS: dict[str, Any] = json.loads(os.environ.get("VRAG_EPISODE", "{}"))
"""The section `vrag` of docs/verl.md; `method` is the agent and `sessions` the number of episodes at once."""
METHOD, SESSIONS = OPTIONS.pop("method", "vrag"), OPTIONS.pop("sessions", 64)


class VragAction(Action):
    """A reply of the model."""

    text: str | None
    """None if it cannot reply, since its context is full."""
    cut: bool = False
    """True if it was cut off at its token limit."""


class VragObservation(Observation):
    """What comes next. The reward is None before the end, and where it is missing: `metadata` says why."""

    messages: list[dict[str, Any]] = []
    """The whole context of the next reply, its pictures as data URLs; empty at the end."""


class VragEnvironment(Environment[VragAction, VragObservation, State]):
    """One episode at a time, for each session one environment."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.episode = Episode.of(OPTIONS, agent=METHOD, images="url")
        self.id, self.steps = None, 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **case: Any) -> VragObservation:
        """Begin an episode with a case: its fields are named as in files of cases."""
        self.id, self.steps = episode_id, 0
        messages = self.episode.reset(case)
        return VragObservation(messages=messages, done=not messages, metadata=self._parts())

    def step(self, action: VragAction, timeout_s: float | None = None, **_: Any) -> VragObservation:
        """Carry out a reply."""
        self.steps += 1
        messages, reward, done = self.episode.step(action.text, cut=action.cut)
        return VragObservation(messages=messages, reward=reward, done=done, metadata=self._parts())

    def _parts(self) -> dict[str, Any]:
        return self.episode.reward.as_dict() if self.episode.reward else {}

    @property
    def state(self) -> State:
        """The number of replies."""
        return State(episode_id=self.id, step_count=self.steps)

    def close(self) -> None:
        """Cancel the run, if it goes on."""
        self.episode.close()


class VragClient(EnvClient[VragAction, VragObservation, State]):
    """The client of such a server."""

    def _step_payload(self, action: VragAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[VragObservation]:
        known = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        return StepResult(observation=VragObservation(**payload["observation"], **known), **known)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


app = create_fastapi_app(VragEnvironment, VragAction, VragObservation, max_concurrent_envs=SESSIONS)
