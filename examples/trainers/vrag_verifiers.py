"""verifiers: a task for each case, a harness that plays an episode, and its reward."""

from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI

from vrag.cases.case_json import row_of
from vrag.datasets.registry import read_cases
from vrag.rl import AsyncEpisode

__all__ = ["VragHarness", "VragTaskset"]


class VragData(vf.TaskData):
    """A case, and the environment that it is played in."""

    case: dict[str, Any]
    options: dict[str, Any]
    method: str


class VragTask(vf.Task[VragData]):
    """A question; a missing reward is an error of its rollout, which leaves the group."""

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """Return the reward of the episode."""
        reward = trace.info["vrag"]
        if reward["total"] is None:
            raise ValueError(f"The reward is missing: {reward['why']}")
        return reward["total"]


class VragConfig(vf.TasksetConfig):
    """The file of cases, the section `vrag` of docs/verl.md, and the agent."""

    cases: Path = Path("cases.json")
    options: dict[str, Any] = {}
    method: str = "vrag"


class VragTaskset(vf.Taskset[VragTask, VragConfig]):
    """The cases of a file."""

    def load(self):
        """Yield a task for each case."""
        for case in read_cases(self.config.cases):
            row, config = row_of(case), self.config
            data = {"prompt": case.query, "case": row, "options": config.options, "method": config.method}
            yield VragTask(VragData(id=case.uid, **data), config.task)


class VragHarness(vf.Harness[vf.HarnessConfig]):
    """The agent, which asks the model that is trained; a context that VimRAG rebuilds is a branch."""

    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        """Play an episode; see `vf.Harness.launch`."""
        episode = AsyncEpisode.of(data.options, agent=data.method, images="url")
        client = AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0)
        try:
            messages = await episode.reset(data.case)
            while messages:
                chat = await client.chat.completions.create(model=ctx.model, messages=messages)
                said, cut = chat.choices[0].message.content or "", chat.choices[0].finish_reason == "length"
                messages = (await episode.step(said, cut=cut)).messages
            trace.info["vrag"] = episode.reward.as_dict()
        finally:
            await episode.aclose()
            await client.close()
        return vf.ProgramResult(0, "", "")
