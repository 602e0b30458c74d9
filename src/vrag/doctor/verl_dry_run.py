"""A dry run of training with verl: `vrag train verl --dry-run`.

It takes the steps of a run in verl's own code, in one process and without Ray, up to the first call of
CUDA: the configuration, the checks of verl, tokenizer and processor, the network without its weights, the
data sets, the agent loop, the first prompt, the reward, the module of the inference engine, and the training
engine, which takes a GPU. No weights are read, and no server is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from vrag.doctor.check import Check, CheckStep, examine_steps, failed, ok, skipped, warning
from vrag.errors import TrainingError, VragError
from vrag.rl.trainers.verl.agent_loops import (
    PreparedRollout,
    open_scorer,
    open_searcher,
    play,
    prepare_rollout,
)
from vrag.rl.trainers.verl.launch import FLASH, Launch
from vrag.rl.trainers.verl.options import library, options_of
from vrag.types import Query

_ENGINES = {
    "vllm": "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "sglang": "verl.workers.rollout.sglang_rollout.async_sglang_server",
}
"""Modules of verl that generate rollouts."""
MODEL_HINT = "Name the folder of a checkpoint: --model PATH"


def dry_run(launch: Launch, seconds: float = 120.0) -> Iterator[Check]:
    """Take the steps of a run, up to the first call of CUDA.

    `seconds` is the time limit of a step; those that import or read a lot have ten times as long.
    """
    run = DryRun(launch)
    steps = [
        CheckStep("configuration", run.check_configuration, slow=True),
        CheckStep("model", run.check_model, after="configuration", slow=True, hint=MODEL_HINT),
        CheckStep("network", run.check_network, after="model", slow=True),
        CheckStep("data", run.check_data, after="model", slow=True, hint="Make it: vrag data convert"),
        CheckStep("agent loop", run.check_loop, after="data"),
        CheckStep("collection", run.check_search, after="agent loop"),
        CheckStep("prompt", run.check_prompt, after="collection"),
        CheckStep("reward", run.check_reward, after="configuration"),
        CheckStep("engine", run.check_engine, after="configuration", slow=True),
        CheckStep("gpus", run.check_gpus, after="network", slow=True),
    ]
    yield from examine_steps(
        [replace(step, probe=partial(probe_verl, step.probe)) for step in steps], seconds
    )


def probe_verl(check: Callable[[], Check]) -> Check:
    """Run a check in verl, which prints to standard error; its exceptions become failed checks."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return check()
        except VragError:
            raise
        except Exception as error:  # noqa: BLE001 - verl raises whatever it likes
            return failed(_first_line(error))


class FirstRequest:
    """A stand-in for verl's client of its servers that stores the first request.

    Not a dataclass: Hydra would make a configuration of it.
    """

    def __init__(self) -> None:
        self.prompt_ids: list[int] = []
        self.sampling_params: dict[str, Any] = {}

    async def generate(
        self,
        request_id: str,  # noqa: ARG002
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ANN401, ARG002
    ) -> Any:  # noqa: ANN401
        """Store the request."""
        self.prompt_ids, self.sampling_params = prompt_ids, sampling_params
        raise TrainingError("The dry run ends here.")


@dataclass(slots=True)
class DryRun:
    """The steps, and what they prepare for the next ones."""

    launch: Launch
    config: Any = None
    """The composed configuration, resolved."""
    model: Any = None
    """verl's `HFModelConfig`, with tokenizer and processor."""
    trainer: Any = None
    rollout: PreparedRollout | None = None
    request: FirstRequest = field(default_factory=FirstRequest)

    def check_configuration(self) -> Check:
        """Compose the configuration and validate it, with verl and with the options of vrag."""
        config = self.launch.compose()
        utils, checks = library("verl.trainer.ppo.utils"), library("verl.utils.config")
        checks.validate_config(config, utils.need_reference_policy(config), utils.need_critic(config))
        config.transfer_queue.enable = True
        library("omegaconf").OmegaConf.resolve(config)
        options_of(config)
        self.config = config
        rollout, trainer = config.actor_rollout_ref.rollout, config.trainer
        implementation = config.actor_rollout_ref.model.override_config.get("attn_implementation")
        if config.actor_rollout_ref.model.use_remove_padding and implementation != FLASH:
            raise TrainingError(
                f"Rows are packed (use_remove_padding), but attention is {implementation}.",
                f"verl packs rows only with flash-attn: attention=sdpa or attention={FLASH}",
            )
        message = (
            f"{self.launch.configuration}, agent {rollout.agent.default_agent_loop}: "
            f"{trainer.nnodes * trainer.n_gpus_per_node} GPUs, groups of {rollout.n}, "
            f"{config.data.train_batch_size} questions per step, attention {implementation}."
        )
        return ok(message, details={"settings": list(self.launch.settings)})

    def check_model(self) -> Check:
        """Open tokenizer, processor and configuration of the model as verl does."""
        convert = library("verl.utils.config").omega_conf_to_dataclass
        self.model = convert(self.config.actor_rollout_ref.model)
        processor = self.model.processor
        if processor is None:
            raise TrainingError(f"{self.model.path} has no image processor.", MODEL_HINT)
        return ok(f"{self.model.path}: {self.model.hf_config.model_type}, {type(processor).__name__}.")

    def check_network(self) -> Check:
        """Build the network without weights and let verl patch it, to see whether its attention can run."""
        torch = library("torch")
        kind = library("verl.utils.model").get_hf_auto_model_class(hf_config=self.model.hf_config)
        with torch.device("meta"):
            network = kind.from_config(self.model.hf_config)
        adapt = library("verl.models.transformers.monkey_patch").apply_monkey_patch
        adapt(model=network, use_remove_padding=self.model.use_remove_padding, ulysses_sp_size=1)
        count = sum(weights.numel() for weights in network.parameters())
        used = network.config._attn_implementation  # noqa: SLF001 - transformers has no other name for it
        return ok(f"{type(network).__name__}, {count:,} weights, attention {used}.")

    def check_data(self) -> Check:
        """Make the registered trainer and let it open tokenizer and data sets."""
        trainers = library("verl.trainer.ppo.v1")
        trainer = trainers.get_trainer_cls(self.config.trainer.v1.trainer_mode)(self.config)
        trainer._init_tokenizer()  # noqa: SLF001 - the first steps of its `init`
        trainer._init_dataloader()  # noqa: SLF001
        self.trainer = trainer
        asked, known = self.config.data.train_batch_size, len(trainer.train_dataset)
        if known < asked:
            message = f"A step needs {asked} questions, but the data has {known}."
            raise TrainingError(message, _smaller_step(self.config, known))
        steps = f"{trainer.total_training_steps:,} steps of {type(trainer).__name__}"
        return ok(f"{known:,} questions to train, {len(trainer.val_dataset):,} to validate; {steps}.")

    def check_loop(self) -> Check:
        """Have verl make the registered agent loop, and prepare a rollout of the first question."""
        place = library("verl.experimental.agent_loop.agent_loop")
        name = self.config.actor_rollout_ref.rollout.agent.default_agent_loop
        loop = library("hydra").utils.instantiate(
            place._agent_loop_registry[name],  # noqa: SLF001
            trainer_config=place.DictConfigWrap(config=self.config),
            server_manager=self.request,
            tokenizer=self.model.tokenizer,
            processor=self.model.processor,
            hf_model_type=self.model.hf_config.model_type,
            dataset_cls=type(self.trainer.train_dataset),
            data_config=place.DictConfigWrap(self.config.data),
        )
        options = self.config.actor_rollout_ref.rollout  # read as verl's worker of agent loops reads them
        sampling = {"temperature": options.temperature, "top_p": options.top_p, "top_k": options.top_k}
        self.rollout = prepare_rollout(loop, sampling, self.trainer.train_dataset[0])
        banned, profile = len(self.rollout.template.banned), self.rollout.profile.name
        return ok(f"{name}, profile {profile}; {banned} tokens of vision and turns are never sampled.")

    def check_search(self) -> Check:
        """Search for the first question."""
        assert self.rollout is not None
        options, question = self.rollout.options, self.rollout.attempt.case.query
        [hits] = open_searcher(options).search([Query(text=question)], 3)
        return ok(f"{options.searcher or options.search_url}: {len(hits)} hits of at most 3.")

    def check_prompt(self) -> Check:
        """Run the agent until it asks the inference server."""
        assert self.rollout is not None
        made = self.rollout
        name = self.config.actor_rollout_ref.rollout.agent.default_agent_loop
        rollout_result = asyncio.run(play(made.attempt, name, made.policy, made.options, made.profile))
        if not self.request.prompt_ids:
            raise TrainingError(f"The agent asked for no reply: {rollout_result.rollout.failure}.")
        length, most = len(self.request.prompt_ids), self.config.actor_rollout_ref.rollout.prompt_length
        message = f"The first has {length:,} tokens of at most {most:,}: {made.attempt.case.query}"
        return ok(message, details={"sampling": self.request.sampling_params})

    def check_reward(self) -> Check:
        """Make the scorer of rollouts and find the registered reward manager."""
        options = options_of(self.config)
        scorer = open_scorer(self.config.actor_rollout_ref.rollout.agent.default_agent_loop, options)
        managers = library("verl.experimental.reward_loop.reward_manager")
        manager = managers.get_reward_manager_cls(self.config.reward.reward_manager.name)
        judge = options.judge.model if options.judge.kind == "endpoint" else "rules"
        return ok(f"{type(scorer).__name__}, judged by {judge}; {manager.__name__}.")

    def check_engine(self) -> Check:
        """Import the module of verl that serves rollouts, and the inference engine with it."""
        name = str(self.config.actor_rollout_ref.rollout.name)
        if name not in _ENGINES:
            return skipped(f"The rollout engine {name} is not known.")
        importlib.import_module(_ENGINES[name])
        version = getattr(importlib.import_module(name), "__version__", "")
        return ok(f"{name} {version} can be imported by verl.")

    def check_gpus(self) -> Check:
        """Take a GPU as each worker does, the first call of CUDA, and make the training engine."""
        torch = library("torch")
        try:
            kind = _build_engine(self.config, self.model)
        except Exception as error:  # noqa: BLE001 - of torch, verl or the driver
            message = f"The first call of CUDA failed; the rest needs a GPU: {_first_line(error)}"
            return warning(message, "Run it on a machine with GPUs.")
        count = torch.cuda.device_count()
        wanted = int(self.config.trainer.n_gpus_per_node)
        if count < wanted:
            hint = f"Use fewer: trainer.n_gpus_per_node={count}; also adapt actor_rollout_ref.rollout."
            return failed(f"{count} GPUs are visible, but {wanted} are configured.", hint)
        return ok(f"{kind} on {count} GPUs: everything is ready to start.")


def _build_engine(config: Any, model: Any) -> str:  # noqa: ANN401
    """Make verl's training engine in a process group of one, without reading weights; its class."""
    torch = library("torch")
    library("verl.utils.device").get_torch_device().set_device(0)
    convert = library("verl.utils.config").omega_conf_to_dataclass
    actor = convert(config.actor_rollout_ref.actor)
    registry = library("verl.workers.engine").EngineRegistry
    own = not torch.distributed.is_initialized()
    if own:
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        )
    try:
        engine = registry.new(
            model_type="language_model",
            backend=actor.strategy,
            model_config=model,
            engine_config=actor.engine,
            optimizer_config=actor.optim,
            checkpoint_config=actor.checkpoint,
        )
        return type(engine).__name__
    finally:
        if own:
            torch.distributed.destroy_process_group()


def _smaller_step(config: Any, questions: int) -> str:  # noqa: ANN401
    """Return the settings of a step with at most so many questions, divisible among all GPUs."""
    gpus = int(config.trainer.nnodes) * int(config.trainer.n_gpus_per_node)
    unit = gpus // math.gcd(gpus, int(config.actor_rollout_ref.rollout.n))
    size = questions // unit * unit
    if not size:
        return f"At least {unit} are required: vrag data convert"
    return f"Use fewer: data.train_batch_size={size} actor_rollout_ref.actor.ppo_mini_batch_size={size}"


def _first_line(error: BaseException) -> str:
    """Return an error in one line: Hydra wraps errors, and their cause says more."""
    error = error.__cause__ or error
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
