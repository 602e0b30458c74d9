"""TRL: episodes for `GRPOTrainer(environment_factory=…)`, for VRAG.

TRL knows tool calls, and the agent writes actions as text. So every reply that gives no answer is a call of
the tool `act`, and what it returns is the next turn of the user: the prompts are those of the agent.
"""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from vrag.agent.actions import Answer, parse
from vrag.cases.case_json import row_of
from vrag.rl import Episode
from vrag.rl.episodes.options import EpisodeOptions, validate_options
from vrag.types import Case

TEMPLATE = """\
{%- set turns = namespace(all=[]) -%}
{%- for turn in messages -%}
{%- if turn.role == 'tool' -%}{%- set turns.all = turns.all + [{'role': 'user', 'content': turn.content}] -%}
{%- elif turn.tool_calls -%}
{%- set call = turn.tool_calls[0].function | tojson -%}
{%- set turns.all = turns.all + [{'role': 'assistant', 'content': [{'type': 'text', 'text': call}]}] -%}
{%- else -%}{%- set turns.all = turns.all + [turn] -%}{%- endif -%}
{%- endfor -%}
{%- set messages, tools = turns.all, none -%}
"""
"""The beginning of the chat template: results of tools are turns of the user, and no tool is described."""


def prepare(processor: Any) -> Any:
    """Let the processor of a model write and read the agent's turns; return it."""
    tokenizer = processor.tokenizer

    def parse_response(ids: list[int], **_: Any) -> dict[str, Any]:
        text = tokenizer.decode(ids, skip_special_tokens=True)
        call = {"type": "function", "function": {"name": "act", "arguments": {"reply": text}}}
        calls = {} if isinstance(parse(text).action, Answer) else {"tool_calls": [call]}
        return {"role": "assistant", "content": text, **calls}

    processor.chat_template = TEMPLATE + processor.chat_template
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "fields": {"content": {"content": "text"}},
    }
    tokenizer.parse_response = parse_response
    return processor


class VragEnvironment:
    """One episode: its case is the column `case` of the data set, as JSON."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Take the section `vrag` of docs/verl.md."""
        self._episode, self._acted = Episode.of(options), 0

    def reset(self, case: str, **_: Any) -> Any:
        """Begin the episode; return the agent's prompt."""
        self._acted = 0
        messages = self._episode.reset(case)
        return messages[-1]["content"] if messages else None

    def act(self, reply: str) -> Any:
        """Carry out a reply.

        Args:
            reply: The reply.
        """
        self._acted += 1
        self._episode.step(reply)
        return self._episode.observation[-1]["content"] if self._episode.observation else ""

    def _finish(self, completion: list[dict[str, Any]]) -> float | None:
        replies = [message["content"] for message in completion if message["role"] == "assistant"]
        if len(replies) > self._acted:  # the answer, or what no room is left after
            self._episode.step(replies[-1])
        return self._episode.step(None).reward  # nothing, if it has ended


def vrag_reward(
    completions: list[list[dict[str, Any]]], environments: list[VragEnvironment], **_: Any
) -> list[float | None]:
    """End the episodes; return their rewards, None for missing ones."""
    return [environment._finish(turns) for environment, turns in zip(environments, completions, strict=True)]


def make_trainer(
    model: Any, processor: Any, cases: Iterable[Case], options: dict[str, Any], **settings: Any
) -> GRPOTrainer:
    """Make the trainer of a model. `settings` are those of `GRPOConfig`; a completion is a whole episode."""
    rows = [{"prompt": [{"role": "user", "content": ""}], "case": json.dumps(row_of(case))} for case in cases]
    steps = validate_options(EpisodeOptions, options).steps
    limits = {"max_tool_calling_iterations": steps - 1, "max_completion_length": 8192}
    return GRPOTrainer(
        model=model,
        processing_class=prepare(processor),
        reward_funcs=vrag_reward,
        train_dataset=Dataset.from_list(rows),
        environment_factory=partial(VragEnvironment, options),
        args=GRPOConfig(**limits | settings),
    )
