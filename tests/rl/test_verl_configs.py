"""The plugin for verl, as far as it needs no verl: configurations, options, prompts, rows, credit."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from vrag.agent.methods import METHODS
from vrag.errors import MissingExtra, SettingsError, TrainingError
from vrag.geometry import Box
from vrag.model_profiles import PROFILES, write_profile
from vrag.reward import CompositeReward, UnidocReward
from vrag.rl.episodes.options import open_scorer
from vrag.rl.rows import Vocabulary
from vrag.rl.trainers.verl import CREDIT, LOOPS, TRAINERS, agent_loops
from vrag.rl.trainers.verl.agent_loops import (
    Output,
    case_of,
    loop_class,
    open_profile,
    outputs_of,
    play,
    record,
)
from vrag.rl.trainers.verl.options import VerlOptions, read_options, shipped
from vrag.rl.trainers.verl.plugin import reward_of, unpack_features
from vrag.rl.trainers.verl.policy import ChatTemplate, RolloutPolicy, TokenBudget
from vrag.rl.trainers.verl.trainer import BatchCredit, batch_credit, sessions_of
from vrag.rollouts.rollout import RolloutAttempt, ScoredRollout
from vrag.types import Case, Region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
CONFIGS = next(iter(shipped().values())).parent
SECTIONS = {"hydra", "defaults", "data", "actor_rollout_ref", "algorithm", "reward", "trainer", "vrag"}
KNOWN = set(
    """actor.clip_ratio actor.clip_ratio_high actor.clip_ratio_low actor.entropy_coeff
    actor.fsdp_config.model_dtype actor.fsdp_config.optimizer_offload actor.fsdp_config.param_offload
    actor.kl_loss_coef actor.kl_loss_type actor.loss_agg_mode actor.optim.lr actor.optim.lr_warmup_steps
    actor.policy_loss.loss_mode actor.ppo_epochs actor.ppo_max_token_len_per_gpu
    actor.ppo_micro_batch_size_per_gpu actor.ppo_mini_batch_size actor.use_dynamic_bsz actor.use_kl_loss
    model.enable_gradient_checkpointing model.exclude_modules model.lora_alpha model.lora_rank
    model.override_config.attn_implementation model.path model.target_modules model.use_remove_padding
    ref.fsdp_config.param_offload ref.log_prob_micro_batch_size_per_gpu rollout.agent.default_agent_loop
    hybrid_engine rollout.agent.num_workers rollout.calculate_log_probs rollout.checkpoint_engine.backend
    rollout.enforce_eager rollout.n_gpus_per_node rollout.nnodes
    rollout.gpu_memory_utilization rollout.layered_summon rollout.load_format
    rollout.log_prob_micro_batch_size_per_gpu rollout.max_model_len rollout.max_num_seqs rollout.n
    rollout.name rollout.temperature rollout.tensor_model_parallel_size rollout.top_k rollout.top_p
    rollout.val_kwargs.n rollout.val_kwargs.temperature""".split()
)
"""Keys of verl's section `actor_rollout_ref` that our configurations set."""


def test_every_trainable_method_has_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: dict[str, object] = {}

    def register(name: str) -> Callable[[object], object]:
        return partial(registered.setdefault, name)

    def library(_: str) -> SimpleNamespace:
        return SimpleNamespace(register=register)

    monkeypatch.setattr(agent_loops, "library", library)
    agent_loops.register()
    assert set(LOOPS) == set(registered) == {name for name, method in METHODS.items() if method.trainable}


def merged(name: str, agent: str, *groups: str) -> dict[str, Any]:
    """A configuration without verl's own part."""
    whole: dict[str, Any] = {}
    for file in ("base/reference", *(groups or ("attention/sdpa",)), f"agent/{agent}", name):
        merge(whole, yaml.safe_load((CONFIGS / f"{file}.yaml").read_text(encoding="utf-8")))
    return whole


def merge(whole: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(whole.get(key), dict):
            merge(whole[key], value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            whole[key] = value


def leaves(section: Mapping[str, Any], within: str = "") -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{within}{key}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield within + key


@pytest.mark.parametrize("group", ["attention/sdpa", "attention/flash_attention_2", "mode/separate_async"])
@pytest.mark.parametrize("agent", ["vrag", "vimrag"])
@pytest.mark.parametrize("name", sorted(shipped()))
def test_configurations_hold_known_keys(name: str, agent: str, group: str) -> None:
    config = merged(name, agent, group)
    assert set(config) <= SECTIONS
    assert set(leaves(config["actor_rollout_ref"])) <= KNOWN
    assert config["trainer"]["v1"]["trainer_mode"] in TRAINERS
    assert config["reward"]["reward_manager"]["name"] == "vrag"
    options = read_options(config["vrag"])
    assert options.credit == ("node" if agent == "vimrag" else "trajectory")
    rollout = config["actor_rollout_ref"]["rollout"]
    lengths = config["data"]["max_prompt_length"] + config["data"]["max_response_length"]
    assert rollout["max_model_len"] == lengths
    assert config["actor_rollout_ref"]["actor"]["ppo_max_token_len_per_gpu"] >= lengths


@pytest.mark.parametrize("name", sorted(shipped()))
def test_rows_are_packed_with_flash_attention_alone(name: str) -> None:
    defaults = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))["defaults"]
    assert {"attention": "sdpa"} in defaults  # starts with what is installed by itself
    for attention, packed in (("sdpa", False), ("flash_attention_2", True)):
        section = merged(name, "vrag", f"attention/{attention}")["actor_rollout_ref"]
        assert section["model"]["override_config"] == {"attn_implementation": attention}
        assert section["model"]["use_remove_padding"] is packed
        assert section["actor"]["use_dynamic_bsz"] is packed
    single = merged(name, "vrag")["actor_rollout_ref"]
    assert single["actor"]["ppo_micro_batch_size_per_gpu"] == 1
    assert {single[part]["log_prob_micro_batch_size_per_gpu"] for part in ("ref", "rollout")} == {1}


def test_the_reference_s_settings_are_the_defaults() -> None:
    assert sorted(shipped()) == ["lora_24gb", "qwen2_5_vl_3b", "qwen2_5_vl_7b", "qwen3_vl_8b"]
    config = merged("qwen2_5_vl_7b", "vrag")
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    assert (config["data"]["train_batch_size"], rollout["n"], rollout["temperature"]) == (32, 5, 1.0)
    assert (config["data"]["max_prompt_length"], config["data"]["max_response_length"]) == (8192, 2048)
    assert actor["optim"] == {"lr": 1e-6, "lr_warmup_steps": 5}
    assert (actor["kl_loss_type"], actor["kl_loss_coef"], actor["clip_ratio"]) == ("low_var_kl", 0.01, 0.2)
    assert config["vrag"]["steps"] == 5  # four turns, and one closing generation
    assert config["vrag"]["weights"] == {"retrieval": 0.2, "answer": 0.7, "pattern": 0.1}
    assert merged("qwen2_5_vl_7b", "vimrag")["actor_rollout_ref"]["actor"]["clip_ratio_high"] == 4e-4


def test_the_defaults_of_the_options_are_those_of_the_reference() -> None:
    written = merged("qwen2_5_vl_7b", "vrag")["vrag"]
    assert read_options({**written, "records": ""}) == VerlOptions()


def test_unknown_keys_are_named() -> None:
    with pytest.raises(SettingsError, match=r"vrag\.judge\.url"):
        read_options({"judge": {"url": "http://x"}})
    with pytest.raises(SettingsError, match="judge needs a server"):
        open_scorer("vrag", read_options({"judge": {"kind": "endpoint"}}))


def test_without_verl_it_says_what_to_install() -> None:
    with pytest.raises(MissingExtra, match=r"vrag-agent\[verl\]"):
        loop_class("vrag")


ENDS, IMAGE, FIRST = 0, 1, 2


def encode(text: str) -> list[int]:
    """Characters, but for the two marks."""
    marked = text.replace("<|im_end|>", "\0").replace("<|image_pad|>", "\1")
    return [ord(one) if one in "\0\1" else ord(one) + FIRST for one in marked]


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(id - FIRST) for id in ids if id >= FIRST)


def render(messages: list[dict[str, Any]]) -> str:
    """The template of the tests."""

    def content(given: str | list[dict[str, str]]) -> str:
        if isinstance(given, str):
            return given
        return "".join("<|image_pad|>" if one["type"] == "image" else one["text"] for one in given)

    turns = "".join(f"[{one['role']}]{content(one['content'])}<|im_end|>\n" for one in messages)
    return turns + "[assistant]"


PROFILE = PROFILES["qwen2.5-vl"]
VOCABULARY = Vocabulary(
    decode=decode,
    ends=frozenset({ENDS}),
    image=IMAGE,
    forbidden=frozenset({IMAGE}),
    features=PROFILE.visual_tokens,
)
TEMPLATE = ChatTemplate(render=render, encode=encode, vocabulary=VOCABULARY, banned=(IMAGE,))
OPTIONS = read_options({"searcher": "vrag.testing:tiny_corpus"})


def case(uid: str, query: str, answer: str, file_name: str, pages: tuple[int, ...]) -> Case:
    return Case(uid=uid, query=query, reference_answer=answer, file_name=file_name, reference_page=pages)


CASE = case("c1", "How many passengers?", "48,200", "ferry.pdf", (2,))
SCRIPT = (
    "<think>Look.</think><search>ferry passengers</search> and more<|im_end|>",
    "<think>Closer.</think><bbox>[10, 10, 300, 200]</bbox>",  # cut off before its end of turn
    "<think>Seen.</think><answer>48,200</answer><|im_end|>",
)


@dataclass
class Scripted:
    """A server that says one thing after the other."""

    replies: Sequence[str | Exception]
    told: list[list[int]] = field(default_factory=list[list[int]])
    given: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def generate(self, request_id: str, *, prompt_ids: list[int], **more: object) -> SimpleNamespace:
        reply = self.replies[len(self.told)]
        self.told.append(prompt_ids)
        self.given.append(more)
        if isinstance(reply, Exception):
            raise reply
        ids = encode(reply)
        return SimpleNamespace(
            token_ids=ids, log_probs=[-0.5] * len(ids), num_preempted=1, stop_reason=None, extra_fields={}
        )


def played(
    replies: Sequence[str | Exception],
    *,
    room: int = 100_000,
    engine: str = "vllm",
    of: Case = CASE,
    options: VerlOptions = OPTIONS,
) -> tuple[ScoredRollout, Scripted, RolloutPolicy]:
    server = Scripted(replies)
    tokens = TokenBudget(prompt=room, reply=500, total=room)
    policy = RolloutPolicy(server, TEMPLATE, {"temperature": 1.0}, tokens, engine=engine)
    attempt = RolloutAttempt(case=of, sample=0)
    return asyncio.run(play(attempt, "vrag", policy, options, PROFILE)), server, policy


def outputs(made: ScoredRollout, policy: RolloutPolicy) -> tuple[list[Output], list[str]]:
    return outputs_of(made, VOCABULARY, OPTIONS.ggpo, policy.counter, step=3)


def test_each_prompt_extends_the_tokens_of_the_one_before() -> None:
    made, server, policy = played(SCRIPT)
    assert made.reward.total is not None
    [output], faults = outputs(made, policy)
    assert faults == []
    whole = [*output.prompt_ids, *output.response_ids]
    assert all(whole[: len(told)] == told for told in server.told)
    assert output.prompt_ids == server.told[0]
    own = decode([id for id, one in zip(output.response_ids, output.response_mask, strict=True) if one])
    assert own == "".join(SCRIPT).replace(" and more", "").replace("<|im_end|>", "")
    images = output.multi_modal_data["images"]
    assert whole.count(IMAGE) == sum(image.width * image.height // 28**2 for image in images)
    assert "[user]" in decode(output.response_ids)


def test_a_turn_is_ended_once_whether_the_model_ends_it_or_not() -> None:
    made, _, policy = played(SCRIPT)
    [output], _ = outputs(made, policy)
    text = "".join("|" if id == ENDS else decode([id]) for id in output.response_ids)
    assert "||" not in text
    assert text.count("|\n[user]") == 2
    assert text.endswith("</answer>|")


def test_an_output_tells_verl_all_that_it_stacks_rows_by() -> None:
    made, _, policy = played(SCRIPT)
    [output], _ = outputs(made, policy)
    extra = output.extra_fields
    assert {"min_global_steps": 3, "max_global_steps": 3, "turn_scores": [], "tool_rewards": []}.items() <= (
        extra.items()
    )
    assert extra[CREDIT]["parts"] == dict(made.reward.parts)
    assert list(vars(output)["multi_modal_data"]) == ["images"]
    assert reward_of(extra)["reward_score"] == output.reward_score == made.reward.total
    assert policy.counter.preempted == 3
    with pytest.raises(TrainingError, match="no reward"):
        reward_of({})


@pytest.mark.parametrize(("engine", "key"), [("vllm", IMAGE), ("sglang", str(IMAGE))])
def test_tokens_of_vision_are_never_sampled(engine: str, key: object) -> None:
    _, server, _ = played(SCRIPT, engine=engine)
    assert [given["sampling_params"]["logit_bias"] for given in server.given] == [{key: -100.0}] * 3
    sampled = ("<think>Look.</think><search>ferry <|image_pad|>passengers</search><|im_end|>", *SCRIPT[2:])
    made, _, policy = played(sampled)  # by a server that does not listen
    rows, faults = outputs(made, policy)
    assert rows == []
    assert any("placeholder" in fault for fault in faults)


def test_a_failed_rollout_has_no_outputs_and_is_recorded(tmp_path: Path) -> None:
    made, _, policy = played((SCRIPT[0], RuntimeError("gone")))
    rows, faults = outputs(made, policy)
    assert rows == []
    assert "gone" in faults[0]
    record(made, str(tmp_path), rows=0)
    [file] = tmp_path.iterdir()
    assert '"total": null' in file.read_text(encoding="utf-8")


def test_records_are_a_line_for_each_rollout_with_the_parts_of_its_reward(tmp_path: Path) -> None:
    made, _, _ = played(SCRIPT)
    record(made, "")  # nobody wants them
    for step in (1, 2):
        record(made, str(tmp_path / "new" / "records"), agent="vrag", step=step)
    [file] = (tmp_path / "new" / "records").iterdir()
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[0]["reward"] == made.reward.as_dict()
    assert (lines[0]["failure"], lines[0]["answer"], lines[0]["calls"]) == (None, "48,200", 3)


def test_the_parts_of_the_evidence_count_by_their_weights() -> None:
    """The answer stands in the closer look, whose rectangle is the gold box as well."""
    weights = {"retrieval": 0.2, "answer": 0.5, "pattern": 0.1, "region": 0.1, "support": 0.1}
    options = read_options({"searcher": "vrag.testing:tiny_corpus", "weights": weights})
    replies = (SCRIPT[0].replace(" and more", ""), *SCRIPT[1:])
    first = played(replies, options=options)[0].rollout.trajectory
    box = next(piece.box for piece in first.rests if piece.box is not None)
    boxed = replace(CASE, regions=(Region(first.rests[0].page, Box.unit(*box)),))

    made, _, policy = played(replies, of=boxed, options=options)

    parts = made.reward.parts
    assert parts["region"] == pytest.approx(1)
    assert parts["support"] is not None
    total = (
        0.2 * (parts["retrieval"] or 0) + 0.5 + 0.1 * (parts["pattern"] or 0) + 0.1 + 0.1 * parts["support"]
    )
    assert made.reward.total == pytest.approx(total)
    extra = outputs(made, policy)[0][0].extra_fields["reward_extra_info"]
    assert extra["region"] == pytest.approx(1)
    without, _, policy = played(SCRIPT)
    assert "region" not in outputs(without, policy)[0][0].extra_fields["reward_extra_info"]


def test_weights_must_sum_to_1() -> None:
    with pytest.raises(SettingsError, match=r"must sum to 1, not 1\.1"):
        open_scorer("vrag", read_options({"weights": {"region": 0.1}}))


def test_a_preset_takes_the_place_of_the_weights() -> None:
    assert isinstance(open_scorer("vrag", read_options({"preset": "unidoc"})), UnidocReward)
    with pytest.raises(SettingsError, match=r"vrag\.preset"):
        read_options({"preset": "unidok"})


def test_costs_count_for_both_agents_and_custom_parts_must_be_installed() -> None:
    options = read_options({"weights": {"turn_cost": 0.02}})
    for agent in ("vrag", "vimrag"):
        scorer = open_scorer(agent, options)
        assert isinstance(scorer, CompositeReward)
        assert scorer.weights.turn_cost == 0.02
    with pytest.raises(SettingsError, match="no reward part 'focus'"):
        open_scorer("vrag", read_options({"weights": {"answer": 0.6, "focus": 0.1}}))
    with pytest.raises(SettingsError, match=r"vrag\.weights\.focus"):
        read_options({"weights": {"focus": "much"}})


def test_a_place_that_takes_no_records_ends_no_rollout(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, _, _ = played(SCRIPT)
    (tmp_path / "file").write_text("")
    record(made, str(tmp_path / "file"))
    assert "cannot be recorded" in caplog.text


def test_a_full_context_is_the_model_s_own_doing() -> None:
    first = len(played(SCRIPT)[1].told[0])
    made, _, policy = played(SCRIPT, room=first + 200)
    assert made.rollout.failure is None
    assert made.reward.total == 0
    rows, _ = outputs(made, policy)
    assert len(rows) == 1


def test_rows_of_the_data_become_cases() -> None:
    extra = {"question": "How many?", "answer": "3", "index": 4, "reference_page": [1]}
    row = {"id": "x", "extra_info": extra, "reward_model": {"ground_truth": "4"}, "file_name": "a.pdf"}
    made = case_of({**row, "reference_page": np.array([2, 3])})
    assert made == case("x", "How many?", "4", "a.pdf", (2, 3))
    assert case_of(row).reference_page == (1,)
    region = {"page": 2, "box": np.array([0.1, 0.2, 0.5, 0.25]), "document": "", "annotator": None}
    boxed = case_of({**row, "extra_info": {**extra, "regions": np.array([region])}})
    assert boxed.regions == (Region(2, Box.unit(0.1, 0.2, 0.5, 0.25)),)
    with pytest.raises(SettingsError, match="no question"):
        case_of({"id": "x"})


def test_the_profile_is_that_of_the_checkpoint() -> None:
    assert open_profile(VerlOptions(), "qwen3_vl").name == "qwen3-vl"
    assert open_profile(read_options({"profile": "qwen2-vl"}), None).name == "qwen2-vl"
    with pytest.raises(SettingsError, match="no known family: llama"):
        open_profile(VerlOptions(), "llama")


def test_a_checkpoint_s_own_profile_goes_on_with_it(tmp_path: Path) -> None:
    own = replace(PROFILES["qwen3-vl"], name="mine", max_tokens=300, instruction="Look.")
    write_profile(own, tmp_path)
    assert open_profile(VerlOptions(), "qwen3_vl", str(tmp_path)) == own
    assert open_profile(read_options({"profile": "qwen2-vl"}), "qwen3_vl", str(tmp_path)).name == "qwen2-vl"
    assert open_profile(VerlOptions(), "qwen3_vl", "Qwen/Qwen3-VL-8B-Instruct").name == "qwen3-vl"


def test_no_agent_goes_on_from_the_checkpoints_of_the_other() -> None:
    for name in shipped():
        run = merged(name, "vrag")["trainer"]["experiment_name"]
        assert run == f"{name}-${{actor_rollout_ref.rollout.agent.default_agent_loop}}"


KEYS = ("a_0_0", "a_1_1", "a_0_1", "a_1_0", "b_0_0", "pad_0_0")
PADS = (False,) * 5 + (True,)


def credited(*, nodes: bool, correct: bool = True) -> BatchCredit:
    rows = [
        {"masked": key == "a_0_1", "invalid": key == "a_1_1", "correct": correct == key.startswith("a_0")}
        for key in KEYS[:-1]
    ]
    rewards = np.array([1.0, 0.0, 1.0, 0.0, 0.9, 0.0])
    return batch_credit(sessions_of(KEYS, PADS), rewards, [*rows, None], nodes=nodes)


def test_each_trajectory_counts_once_and_a_group_of_one_says_nothing() -> None:
    credit = credited(nodes=False)
    assert credit.advantages == pytest.approx([0.70711, -0.70711, 0.70711, -0.70711, 0, 0], abs=1e-4)
    assert not credit.masked.any()
    assert credit.metrics["vrag/sessions"] == 3


def test_nodes_are_masked_and_an_invalid_action_costs() -> None:
    credit = credited(nodes=True)
    assert credit.advantages == pytest.approx([0.70711, -1.20711, 0, -0.70711, 0, 0], abs=1e-4)
    assert credit.masked.tolist() == [False, False, True, False, False, False]


def test_a_mask_needs_a_reward_or_blame_to_take_away() -> None:
    """A wrong trajectory above its group is not blamed for the evidence that it found."""
    credit = credited(nodes=True, correct=False)
    assert credit.advantages == pytest.approx([0.70711, -1.20711, 0.70711, -0.70711, 0, 0], abs=1e-4)
    assert not credit.masked.any()


def test_features_are_unpacked_before_verl_takes_their_mean() -> None:
    def embed(model: Any, ids: list[int], *, extra: int) -> float:  # noqa: ANN401
        return sum(model.get_input_embeddings()(ids)) + 0.0 * model.visual([1], grid_thw=2).mean() + extra

    def see(_pixels: list[int], grid_thw: int) -> SimpleNamespace:
        return SimpleNamespace(pooler_output=SimpleNamespace(mean=lambda: float(grid_thw)))

    see.dtype = "float32"  # pyright: ignore[reportFunctionMemberAccess]
    model = SimpleNamespace(get_input_embeddings=lambda: list, config=None, visual=see)
    with pytest.raises(AttributeError, match="mean"):
        embed(model, [1, 2], extra=4)
    corrected = unpack_features(embed, lambda output: (output.pooler_output, None))
    assert corrected(model, [1, 2], extra=4) == 7


def test_the_documentation_states_the_locked_versions() -> None:
    """And why none of them is newer."""
    lock = (ROOT / "requirements-verl.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    page = (ROOT / "docs" / "verl.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| ([a-z0-9-]+) \| \d\S* \| (\d\S*) \| \S", page, re.MULTILINE)
    assert len(stated) > 20
    assert {name: locked.get(name) for name, _ in stated} == dict(stated)
    assert "--index-url" not in lock
    assert "://" not in lock
