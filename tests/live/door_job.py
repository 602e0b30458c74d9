# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN401
"""Run by a Python that has the trainers: ten episodes in the real package; prints a line of JSON.

Usage: python door_job.py skyrl | openenv URL | trl MODEL FOLDER
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from door_pages import OPTIONS, UNREACHABLE, cases, number_in, script

from vrag.cases.case_json import row_of

IMAGE = re.compile(r"(?:<\|image_pad\|>)+")


def sent_hashes(messages: Iterable[dict[str, Any]]) -> list[str]:
    """Hashes of the pictures that are sent as data URLs."""
    parts = [
        part for message in messages if isinstance(message["content"], list) for part in message["content"]
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [hashlib.sha256(base64.b64decode(url.partition(",")[2])).hexdigest() for url in urls]


def skyrl() -> dict[str, Any]:
    import skyrl_gym
    import vrag_skyrl

    vrag_skyrl.register(OPTIONS)
    episodes = []
    for number, case in enumerate(cases()):
        extras = {"case": json.dumps(row_of(case)), "max_turns": 4}
        env = skyrl_gym.make("vrag", env_config={}, extras=extras)
        conversation, _ = env.init([{"role": "user", "content": case.query}])
        done, rewards, metadata = False, [], {}
        for text in script(number):
            step = env.step(text)
            conversation += [{"role": "assistant", "content": text}, *step["observations"]]
            rewards, done, metadata = [*rewards, step["reward"]], step["done"], step["metadata"]
        metrics = env.get_metrics()
        env.close()
        episodes.append({"rewards": rewards, "done": done, "pictures": sent_hashes(conversation)})
        episodes[-1] |= {"roles": [one["role"] for one in conversation], "total": metadata["total"]}
        episodes[-1] |= {"metrics": metrics}
    env = skyrl_gym.make(
        "vrag", env_config={}, extras={"case": row_of(cases()[1])}, options=OPTIONS | UNREACHABLE
    )
    env.init([])
    last = [env.step(text) for text in script(1)][-1]
    return {"episodes": episodes, "broken": last, "missing": env.get_metrics()["missing"]}


def openenv(url: str) -> dict[str, Any]:
    from vrag_openenv import VragAction, VragClient

    episodes = []
    for number, case in enumerate(cases()):
        with VragClient(base_url=url).sync() as client:
            result, rewards = client.reset(episode_id=case.uid, **row_of(case)), []
            pictures: list[str] = []
            for text in script(number):
                result = client.step(VragAction(text=text))
                pictures = sent_hashes(result.observation.messages) or pictures
                rewards.append(result.reward)
            state = client.state()
        episodes.append({"rewards": rewards, "done": result.done, "pictures": pictures})
        episodes[-1] |= {"total": result.observation.metadata["total"], "state": state.model_dump()}
    return {"episodes": episodes}


def trl(model: str, folder: str) -> dict[str, Any]:
    """Five steps of GRPO on ten cases: the replies are scripted, all else is TRL's and the network's own."""
    import torch
    import vrag_trl
    from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

    processor = AutoProcessor.from_pretrained(model, min_pixels=4 * 28**2, max_pixels=512 * 28**2)
    network: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32)
    tokenizer = processor.tokenizer
    seen: dict[int, set[str]] = {}
    prompts: dict[int, set[str]] = {}
    rewards: dict[int, list[float | None]] = {}
    forward_pixels = []

    def generate(input_ids: Any, attention_mask: Any, **fields: Any) -> Any:
        """The next reply of each row. The second of two rows of a question answers wrongly."""
        pixels: Any = fields.get("pixel_values")
        grids = iter(fields.get("image_grid_thw", ()))
        replies, first, rows = [], 0, Counter[int]()
        for ids, mask in zip(input_ids, attention_mask, strict=True):
            text = tokenizer.decode(ids[mask.bool()])
            number, turn = number_in(text), text.count("<|im_start|>assistant\n") - 1
            prompts.setdefault(number, set()).add(IMAGE.sub("<|image_pad|>", text))
            for _ in range(text.count("<|vision_start|>")):
                size = int(next(grids).prod())
                seen.setdefault(number, set()).add(tensor_hash(pixels[first : first + size]))
                first += size
            reply = script(number)[turn]
            if rows[number]:
                reply = reply.replace(f"<answer>{7_000 + number}", "<answer>31")
            rows[number] += 1
            replies.append([*tokenizer.encode(reply, add_special_tokens=False), tokenizer.eos_token_id])
        longest = max(map(len, replies))
        padded = [reply + [tokenizer.pad_token_id] * (longest - len(reply)) for reply in replies]
        return torch.cat([input_ids, torch.tensor(padded)], dim=1)

    vrag_reward = vrag_trl.vrag_reward

    def score(**fields: Any) -> list[float | None]:
        found = vrag_reward(**fields)
        for case, reward in zip(fields["case"], found, strict=True):
            rewards.setdefault(number_in(json.loads(case)["query"]), []).append(reward)
        return found

    def watch(module: Any, arguments: Any, fields: dict[str, Any]) -> None:
        if fields.get("pixel_values") is not None and torch.is_grad_enabled():
            forward_pixels.append(tuple(fields["pixel_values"].shape))

    vrag_trl.vrag_reward, network.generate = score, generate
    network.register_forward_pre_hook(watch, with_kwargs=True)
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    trainer = vrag_trl.make_trainer(
        network,
        processor,
        cases(),
        OPTIONS,
        output_dir=folder,
        per_device_train_batch_size=4,
        num_generations=2,
        max_steps=5,
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        shuffle_dataset=False,
    )
    trainer.train()
    vrag_trl.vrag_reward = vrag_reward
    logs = [line for line in trainer.state.log_history if "loss" in line]
    changed = [name for name, weight in network.named_parameters() if not torch.equal(weight, before[name])]
    expected = {number: expected_pixels(processor, number) for number in range(len(cases()))}
    return {
        "steps": trainer.state.global_step,
        "losses": [line["loss"] for line in logs],
        "norms": [line["grad_norm"] for line in logs],
        "calls": [line.get("tools/call_frequency") for line in logs],
        "failures": [line.get("tools/failure_frequency") for line in logs],
        "pictures": {number: sorted(hashes) for number, hashes in seen.items()},
        "expected": expected,
        "rewards": rewards,
        "changed": len(changed),
        "vision_changed": any("visual" in name for name in changed),
        "forward": len(forward_pixels),
        "prompts": {number: sorted(found, key=len) for number, found in prompts.items()},
        "ends": trl_ends(),
        "agent_prompts": {number: agent_prompts(model, number) for number in range(len(cases()))},
    }


def trl_ends() -> dict[str, float | None]:
    """Rewards of episodes that do not end by an answer which TRL leaves for the reward."""
    from vrag_trl import VragEnvironment, vrag_reward

    def reward(options: dict[str, Any], carried_out: Iterable[str], said: Iterable[str]) -> float | None:
        environment = VragEnvironment(OPTIONS | options)
        environment.reset(json.dumps(row_of(cases()[1])))
        for text in carried_out:
            environment.act(text)
        turns = [{"role": "assistant", "content": text} for text in said]
        return vrag_reward(completions=[turns], environments=[environment])[0]

    search, answer = script(1)
    return {
        "answered": reward({}, [search], [search, answer]),
        "no judge": reward(UNREACHABLE, [search], [search, answer]),
        "no room for the result": reward({}, [search], [search]),
        "no room for the call": reward({}, [search], [search, search]),
        "out of steps": reward({}, [search] * 3, [search] * 4),
    }


def agent_prompts(model: str, number: int) -> list[str]:
    """The prompts of the agent by the model's own chat template."""
    from transformers import AutoProcessor

    from vrag.rl import Episode

    processor, episode = AutoProcessor.from_pretrained(model), Episode.of(OPTIONS)
    messages, prompts = episode.reset(cases()[number]), []
    for text in script(number):
        prompts.append(processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        messages = episode.step(text).messages
    return prompts


def tensor_hash(pixels: Any) -> str:
    return hashlib.sha256(pixels.float().contiguous().numpy().tobytes()).hexdigest()


def expected_pixels(processor: Any, number: int) -> str:
    """The hash of what the processor makes of the page, drawn anew."""
    import io

    from door_pages import drawn
    from PIL import Image

    image = Image.open(io.BytesIO(drawn(number))).convert("RGB")
    return tensor_hash(processor.image_processor(images=[image], return_tensors="pt")["pixel_values"])


JOBS = {"skyrl": skyrl, "openenv": openenv, "trl": trl}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))  # noqa: T201
