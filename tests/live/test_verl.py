"""Both agents in real verl 0.9.1 on a CPU, with a scripted server in place of GPUs.

Set `VRAG_VERL_PYTHON` to a Python that has verl and this package (its entry point is what registers); `make
test-verl` does. Real are verl's registries, configurations, agent loop worker, replay buffer, trainer and
advantage code, and Qwen's own processor; Ray and TransferQueue's processes are left out, and so is every GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import vllm_server

PYTHON = os.environ.get("VRAG_VERL_PYTHON", "")
HERE = Path(__file__).parent
SECONDS = 300
MARKS = [1, 3, 4, 5, 6]
"""Ids of the tiny tokenizer that must not be sampled: the start of a turn, and four marks of vision."""
IMAGE, END = 3, 2
RIGHT, WRONG = 0.5773492, -1.1546985
"""Advantages of two right trajectories and a wrong one: (r − mean) / std, unbiased."""

pytestmark = pytest.mark.skipif(not PYTHON, reason="VRAG_VERL_PYTHON names no Python that has verl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("verl")
    vllm_server.make_checkpoint(PYTHON, home)
    return home


def job(folder: Path, part: str) -> dict[str, Any]:
    """What `verl_job.py` found out."""
    environment = vllm_server.environment(PYTHON, folder)
    environment["PYTHONPATH"] += os.pathsep + str(HERE)
    done = subprocess.run(
        [PYTHON, HERE / "verl_job.py", folder / "model", part],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def step(folder: Path) -> dict[str, Any]:
    return job(folder, "step")


def test_the_entry_point_registers_both_agents_the_trainer_and_the_reward(folder: Path) -> None:
    found = job(folder, "names")
    assert found["version"] == "0.9.1"
    assert found["entries"] == ["vrag.rl.trainers.verl.plugin"]
    assert found["loops"] == {
        name: f"vrag.rl.trainers.verl.agent_loops.{name}" for name in ("vrag", "vimrag")
    }
    assert found["trainers"] == [True, True]
    assert found["manager"] == "VragRewardManager"
    assert len(found["imported"]) < 10  # `import verl` happens in every process, and stays as light as it was


def test_every_configuration_is_accepted_by_verl(folder: Path) -> None:
    found = job(folder, "configurations")
    assert len(found) == 3 * 2 * 2 * 2 + 2 * 2  # names, agents, attentions and trainers; LoRA has one trainer
    for one in found.values():
        agent, attention, mode = one["asked"]
        assert one["status"] == "ok"
        assert (one["loop"], one["attention"]) == (agent, attention)
        assert one["packed"] is (attention == "flash_attention_2")
        assert (one["loss"], one["credit"], one["clip"]) == (
            ("gspo", "node", 4e-4) if agent == "vimrag" else ("vanilla", "trajectory", 0.2)
        )
        if mode == "separate_async":
            assert (one["mode"], one["gpus"], one["rollout_gpus"]) == ("separate_async", 4, 4)
            assert one["correction"] == "token"
        else:
            assert (one["mode"], one["rollout_gpus"], one["correction"]) == ("sync", 0, None)
    for one in (one for name, one in found.items() if not name.startswith("lora")):
        assert (one["group"], one["questions"], one["lr"], one["warmup"]) == (5, 32, 1e-6, 5)
        assert one["kl"] == ["low_var_kl", 0.01, True]
        assert (one["lengths"], one["temperature"]) == ([8192, 2048], 1.0)
    assert found["lora_24gb agent=vrag attention=sdpa"]["lora"] > 0
    assert found["lora_24gb agent=vrag attention=sdpa"]["gpus"] == 1


def test_verl_finds_a_configuration_by_the_module_that_holds_it(folder: Path) -> None:
    environment = vllm_server.environment(PYTHON, folder)
    command = [PYTHON, "-m", "verl.trainer.main_ppo", "--config-path", "pkg://vrag.rl.configs"]
    command += ["--config-name", "qwen3_vl_8b", "--cfg", "job", "agent=vimrag", "mode=separate_async"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=SECONDS, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "trainer_mode: vrag_separate_async" in done.stdout
    assert "default_agent_loop: vimrag" in done.stdout


def test_the_doctor_reads_a_configuration_with_its_settings(folder: Path) -> None:
    found = job(folder, "doctor")
    good = found["good"]
    assert {name for name, (status, _) in good.items() if status == "failed"} == set()
    assert "agent loop vrag, vimrag; trainer vrag, vrag_separate_async" in good["names"][1]
    assert "trainer vrag_separate_async, 4 GPUs and 4 for rollouts, groups of 5" in good["qwen2_5_vl_7b"][1]
    assert good["gpus"] == ["warning", "8 are configured, and torch sees 0."]
    assert good["data"][1].count("train.parquet: 1 questions") == 3
    assert good["collection"][1] == "verl_job:searcher searches."
    messages = {name: message for name, (status, message) in found["wrong"].items() if status == "failed"}
    assert "trainer.epochs" in messages["no section has it"]
    assert messages["no key of ours"].startswith("vrag.seconds_left: ")
    assert "train_batch_size" in messages["verl's own check"]
    assert "train_batch_size must equal parameter_sync_step" in messages["its trainer's"]
    assert messages["packed without flash-attn"].startswith("Rows are packed")


def test_verl_trains_on_rows_with_and_without_pictures_by_the_attention_of_torch(folder: Path) -> None:
    found = job(folder, "engine")
    assert (found["attention"], found["packed"], found["micro_batch"]) == ("sdpa", False, 1)
    for micro_batch in ("1", "4"):  # each row alone, and all of them padded together
        for own, reference in zip(found["found"][micro_batch], found["reference"], strict=True):
            assert own == pytest.approx(reference, abs=1e-5)
    praised, blamed, without_picture, _padding = found["update"]["gains"]
    assert praised > 0 > blamed
    assert without_picture > 0
    assert found["update"]["grad_norm"] > 0


def test_our_grpo_is_verl_s(folder: Path) -> None:
    found = job(folder, "advantages")
    assert found["compared"] > 1000
    assert found["worst"] < 1e-5
    assert found["worst_unscaled"] < 1e-6
    assert found["alone"]["verl"] == pytest.approx(0.9, abs=1e-3)  # its trap: a group of one keeps its reward
    assert found["alone"]["ours"] == 0


def test_a_mask_of_verl_is_1_where_a_token_is_trained_on(folder: Path) -> None:
    """The opposite of mu; and why the advantages of a row with mu = 1 are 0, and its mask is not."""
    found = job(folder, "masks")
    assert found["rejected"] == [[1, 0, 0]]
    assert found["sessions"]["kept"] == pytest.approx([0.7071, 0.7071, -0.7071], abs=1e-3)
    assert found["sessions"]["masked"] == pytest.approx(
        [0, 0, -0.7071], abs=1e-3
    )  # the right run is not praised
    assert [found["gradients"][agent]["loss"] for agent in ("vrag", "vimrag")] == ["vanilla", "gspo"]
    for one in found["gradients"].values():
        assert one["zeroed"][1] == [0, 0, 0]
        assert one["zeroed"][0] == pytest.approx(one["masked"][0])
        assert all(one["zeroed"][0])


@pytest.mark.parametrize("agent", ["vrag", "vimrag"])
def test_servers_are_given_pictures_with_as_many_placeholders_as_features(
    step: dict[str, Any], agent: str
) -> None:
    calls = step[agent]["calls"]
    assert any(call["images"] for call in calls)
    for call in calls:
        assert call["bias"] == MARKS
        assert call["places"] == [width * height // 28**2 for width, height in call["images"]]
        assert call["max_tokens"] <= 2048


@pytest.mark.parametrize("agent", ["vrag", "vimrag"])
def test_rows_in_verl_s_queue_are_whole(step: dict[str, Any], agent: str) -> None:
    for row in step[agent]["rows"]:
        tokens = [*row["prompt"], *row["response"]]
        assert len(row["mask"]) == len(row["response"]) == len(row["logprobs"])
        assert row["mask"][0] == 1  # all before the first sampled token is prompt
        assert tokens.count(IMAGE) == row["features"]  # what Qwen's processor makes of the pictures
        assert row["positions"] == [4, len(tokens)]  # text, and time, height and width
        assert row["versions"] == [7, 7]
        own = [token for token, mask in zip(row["response"], row["mask"], strict=True) if mask]
        assert own[-1] == END
        assert not set(own) & set(MARKS)
        assert [bool(value) for value in row["logprobs"]] == [bool(mask) for mask in row["mask"]]


def test_a_trajectory_of_vrag_is_one_row_of_all_its_turns(step: dict[str, Any]) -> None:
    found = step["vrag"]
    assert [row["key"][-3:] for row in found["rows"]] == ["0_0", "1_0", "2_0"]  # the fourth has no reward
    right, wrong, clumsy = found["rows"]
    assert [round(row["reward"], 3) for row in found["rows"]] == [0.9, 0.1, 0.9]
    assert turns(right) == 3
    assert turns(wrong) == 2
    assert right["said"]["parts"] == {"retrieval": 1.0, "answer": 1.0, "pattern": 0.0}
    assert right["info"]["acc"] == 1.0
    assert clumsy["said"]["invalid"]
    own = {key[-3:]: one["own"] for key, one in found["after"].items() if not one["padding"]}
    assert own["0_0"] == pytest.approx([RIGHT], abs=1e-5)
    assert own["1_0"] == pytest.approx([WRONG], abs=1e-5)
    assert own["2_0"] == pytest.approx([RIGHT], abs=1e-5)  # GRPO knows no penalty


def test_a_trajectory_of_vimrag_is_a_row_for_each_segment_with_its_own_credit(step: dict[str, Any]) -> None:
    found = step["vimrag"]
    said = {row["key"][-3:]: row["said"] for row in found["rows"]}
    assert sorted(said) == ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2", "2_0"]
    assert [key for key, one in said.items() if one["masked"]] == ["0_1", "1_0"]  # a dead end; found evidence
    assert [key for key, one in said.items() if one["invalid"]] == ["1_1"]
    own = {key[-3:]: one["own"] for key, one in found["after"].items() if not one["padding"]}
    wanted = {"0_0": RIGHT, "0_1": 0, "0_2": RIGHT, "2_0": RIGHT}
    wanted |= {"1_0": 0, "1_1": WRONG - 0.5, "1_2": WRONG}  # each trajectory counted once; c = 0.5
    assert {key: values[0] for key, values in own.items()} == pytest.approx(wanted, abs=1e-5)


def test_masked_rows_keep_their_masks_and_have_no_gradient_of_the_kl_either(step: dict[str, Any]) -> None:
    for key, one in step["vimrag"]["after"].items():
        masked = key[-3:] in {"0_1", "1_0"} and not one["padding"]
        assert one["ref"] == ([-1.0] if masked else [-2.0])  # that of the policy before the step
        assert one["masked_in"] > 0 or one["padding"]


@pytest.mark.parametrize("agent", ["vrag", "vimrag"])
def test_what_the_model_was_told_has_no_advantage_and_padding_counts_nowhere(
    step: dict[str, Any], agent: str
) -> None:
    found = step[agent]
    assert any(one["padding"] for one in found["after"].values())
    for one in found["after"].values():
        assert all(value == 0 for value in one["told"])
    assert found["metrics"]["vrag/sessions"] == 3
    assert found["metrics"]["vrag/missing"] == 1
    assert (found["mode"], found["buffer"]) == ("sync", "ReplayBuffer")


def test_nothing_is_masked_where_the_reward_contradicts_the_judge(step: dict[str, Any]) -> None:
    """Wrong answers are worth more here: a dead end has no reward to remove, nor found evidence blame."""
    found = step["shaped"]
    said = {row["key"][-3:]: row["said"] for row in found["rows"]}
    assert [key for key, one in said.items() if one["masked"]] == ["0_1", "1_0"]  # what GGPO would mask
    own = {key[-3:]: one["own"][0] for key, one in found["after"].items() if not one["padding"]}
    wanted = {"0_0": -RIGHT, "0_1": -RIGHT, "0_2": -RIGHT, "2_0": -RIGHT}
    wanted |= {"1_0": -WRONG, "1_1": -WRONG - 0.5, "1_2": -WRONG}
    assert own == pytest.approx(wanted, abs=1e-5)
    assert found["metrics"]["vrag/masked"] == 0
    assert all(one["ref"] == [-2.0] for one in found["after"].values())


def test_the_asynchronous_trainer_gives_the_same_credit_to_interrupted_rollouts(step: dict[str, Any]) -> None:
    found, sync = step["separate_async"], step["vimrag"]
    assert (found["mode"], found["buffer"]) == ("separate_async", "ReplayBufferAsync")
    for name in ("prompt", "response", "mask", "logprobs"):
        assert [row[name] for row in found["rows"]] == [row[name] for row in sync["rows"]]
    assert {tuple(row["versions"]) for row in found["rows"]} == {(7, 8)}
    for mine, other in ((found["after"], sync["after"]),):
        assert {key[-3:]: one["own"] for key, one in mine.items() if not one["padding"]} == {
            key[-3:]: one["own"] for key, one in other.items() if not one["padding"]
        }
    assert (found["metrics"]["vrag/sessions"], found["metrics"]["vrag/missing"]) == (3, 1)


def test_rollouts_of_older_weights_are_weighted_and_rejected_tokens_have_no_advantage(
    step: dict[str, Any],
) -> None:
    found = step["separate_async"]
    for one in found["after"].values():
        if not one["padding"]:
            assert one["weights"] == pytest.approx([0.47237], abs=1e-4)  # e^(-1 + 0.25)
    assert all(one["weights"] == [] for one in step["vimrag"]["after"].values())
    for key, one in found["rejected"].items():
        assert one["masked_in"] == 0
        assert one["told"] == [0]
        assert (
            one["counted"] == found["after"][key]["counted"]
        )  # the edit does not reach the mask that verl counts by


@pytest.mark.parametrize("agent", ["vrag", "vimrag"])
def test_a_failed_rollout_is_recorded_and_leaves_its_group(step: dict[str, Any], agent: str) -> None:
    records = step[agent]["records"]
    assert len(records) == 4
    [failed] = [one for one in records if one["failure"]]
    assert "the server is gone" in failed["failure"]
    assert failed["reward"]["total"] is None
    assert failed["rows"] == 0
    assert all(one["reward"]["parts"] for one in records if not one["failure"])


def turns(row: dict[str, Any]) -> int:
    """Stretches of tokens that the model sampled."""
    mask = row["mask"]
    return sum(mask[at] and not (at and mask[at - 1]) for at in range(len(mask)))
