# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN001, ANN003, ANN201, ANN401
"""What the model says in `verl_job.py`, and the server that says it."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from typing import Any

ANSWER = "48,200"
END = "<|im_end|>"
GOLD = "carried 48,200"
"""Words of the annotated page alone."""


class Script:
    """In the place of verl's `LLMServerClient`: says what is scripted, token by token.

    A conversation is told from another by its `request_id`, which begins with the number of the rollout in
    its group: that of its script.
    """

    def __init__(self, folder: str, scripts: list[list[str | None]]) -> None:
        self.folder, self.scripts = folder, scripts
        self.said: Counter[str] = Counter()
        self.calls: list[dict[str, Any]] = []

    async def generate(self, request_id, *, prompt_ids, sampling_params, image_data=None, **more):
        from transformers import AutoTokenizer
        from verl.workers.rollout.replica import TokenOutput

        own = AutoTokenizer.from_pretrained(self.folder)
        text = self.scripts[int(request_id.partition("-")[0])][self.said[request_id]]
        self.said[request_id] += 1
        if text is None:
            raise RuntimeError("the server is gone")
        ids = own.encode(text, add_special_tokens=False)
        self.calls.append(
            {
                "prompt": len(prompt_ids),
                "max_tokens": sampling_params["max_tokens"],
                "bias": sorted(map(int, sampling_params["logit_bias"])),
                "images": [list(image.size) for image in image_data or []],
                "places": [len(list(run)) for token, run in groupby(prompt_ids) if token == image_of(own)],
            }
        )
        return TokenOutput(
            token_ids=ids,
            log_probs=[-0.25] * len(ids),
            num_preempted=0,
            extra_fields={"global_steps": 7, "min_global_steps": 7, "max_global_steps": 7},
        )


class InterruptedScript:
    """verl's client of asynchronous trainers. New weights cut every reply of its server in two."""

    def __init__(self, folder: str, scripts: list[list[str | None]]) -> None:
        from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient

        whole, rests = Script(folder, scripts), {}
        self.calls = whole.calls

        async def generate(_client, request_id, *, prompt_ids, **more) -> Any:
            if request_id in rests:  # it is given the prompt and the first half
                start, output = rests.pop(request_id)
                assert prompt_ids[-len(start) :] == start
                output.extra_fields = {"global_steps": 8}
                return output
            output = await whole.generate(request_id, prompt_ids=prompt_ids, **more)
            half = len(output.token_ids) // 2
            rest = output.model_copy(
                update={"token_ids": output.token_ids[half:], "log_probs": output.log_probs[half:]}
            )
            rests[request_id] = (output.token_ids[:half], rest)
            output.token_ids, output.log_probs = output.token_ids[:half], output.log_probs[:half]
            output.stop_reason, output.extra_fields = "aborted", {"global_steps": 7}
            return output

        LLMServerClient.generate = generate
        self.client = FullyAsyncLLMServerClient(config=None)

    async def generate(self, request_id, **more):
        return await self.client.generate(request_id, **more)


def image_of(tokenizer) -> int:
    """The placeholder of a picture."""
    return tokenizer.convert_tokens_to_ids("<|image_pad|>")


def call(name: str, **arguments: Any) -> str:
    return (
        "<think>So.</think>\n<tool_call>"
        + json.dumps({"name": name, "arguments": arguments})
        + "</tool_call>"
    )


def searches(node: str, query: str, parents: list[str]) -> str:
    return call("add_search_node", id=node, parent_ids=parents, query=query)


def memorizes(*, useful: bool) -> str:
    """Of the one result that each of these searches has."""
    note = {"information_id": "Picture 1", "is_useful": useful, "key_timestamp": [], "priority_score": 5}
    return call("summarize_and_memorize", summarize="It says so.", memorize=[note])


def answers(text: str, parents: list[str]) -> str:
    return call("add_answer_node", parent_ids=parents, answer=text)


VRAG = [
    [  # right, with something written behind the first action, and a crop
        f"<think>Look.</think><search>ferry passengers</search> and so on{END}",
        f"<think>Closer.</think><bbox>[10, 10, 300, 200]</bbox>{END}",
        f"<think>Seen.</think><answer>{ANSWER}</answer>{END}",
    ],
    [  # wrong
        f"<think>Look.</think><search>return ticket</search>{END}",
        f"<think>Seen.</think><answer>12</answer>{END}",
    ],
    [  # an invalid action first, then right
        f"I shall look.{END}",
        f"<think>Look.</think><search>ferry passengers</search>{END}",
        f"<think>Seen.</think><answer>{ANSWER}</answer>{END}",
    ],
    [None],  # the server fails: no reward
]
VIMRAG = [
    [  # right, and one node on which the answer does not rest
        searches("found", GOLD, ["root"]) + END,
        memorizes(useful=True) + END,
        searches("dead", "return ticket", ["root"]) + END,
        memorizes(useful=False) + END,
        answers(ANSWER, ["found"]) + END,
    ],
    [  # wrong, though its first search found the page; the second one is invalid at first
        searches("found", GOLD, ["root"]) + END,
        memorizes(useful=True) + END,
        searches("other", "children travel", ["nowhere"]) + END,
        searches("other", "children travel", ["root"]) + END,
        memorizes(useful=False) + END,
        answers("12", ["other"]) + END,
    ],
    [  # right, straight from the results
        searches("found", GOLD, ["root"]) + END,
        answers(ANSWER, ["found"]) + END,
    ],
    [None],
]
