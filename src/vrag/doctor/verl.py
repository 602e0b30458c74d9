"""Checks of a training run with verl, before GPU hours are spent: `vrag train doctor`."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from vrag.cases.rows import import_pyarrow
from vrag.doctor.check import Check, CheckStep, examine_steps, failed, ok, warning
from vrag.errors import SettingsError, TrainingError, VragError
from vrag.providers import reachable
from vrag.rl.episodes.options import JudgeOptions
from vrag.rl.trainers.verl import LOOPS, MANAGER, TRAINERS, VERSION
from vrag.rl.trainers.verl.agent_loops import case_of
from vrag.rl.trainers.verl.options import compose, library, options_of, shipped

INSTALL = "In an environment of its own: pip install 'vrag-agent[verl]'"
FLASH = "flash_attention_2"
COLUMNS = ("id", "prompt", "data_source", "reward_model", "extra_info", "file_name", "reference_page")
"""Of the parquet that verl reads and the reward needs."""


def examine_verl(name: str, overrides: Sequence[str], seconds: float) -> Iterator[Check]:
    """Check a configuration with its overrides, and what it names; every shipped one if `name` is empty.

    `seconds` is the time limit of each check. Raises `SettingsError` if there is no such configuration.
    """
    if name and name not in shipped():
        raise SettingsError(f"There is no configuration {name!r}.", f"Known: {', '.join(shipped())}.")
    steps = [
        CheckStep("verl", _verl),
        CheckStep("packages", _packages, after="verl"),
        CheckStep("names", partial(probe_verl, _names), after="verl", slow=True),
    ]
    for each in [name] if name else shipped():
        run = VerlRun(each, tuple(overrides))
        check = partial(probe_verl, run.check_configuration)
        steps.append(CheckStep(each, check, after="verl", slow=True))
        if name:
            steps += [
                CheckStep("gpus", run.check_gpus, after=name),
                CheckStep("data", run.check_data, after=name),
                CheckStep("collection", run.check_collection, after=name),
                CheckStep("judge", run.check_judge, after=name),
            ]
    return examine_steps(steps, seconds)


def probe_verl(check: Callable[[], Check]) -> Check:
    """Run a check in verl, which prints to standard error; its exceptions become failed checks."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return check()
        except VragError:
            raise
        except Exception as error:  # noqa: BLE001 - verl raises whatever it likes
            cause = error.__cause__ or error  # Hydra wraps errors, and their cause says more
            return failed(f"{type(cause).__name__}: {' '.join(str(cause).split())}")


def _verl() -> Check:
    found = installed("verl")
    if found is None:
        return failed("verl is not installed.", INSTALL)
    if found != VERSION:
        return warning(f"verl {found}; the plugin was tested with {VERSION}.", INSTALL)
    return ok(f"verl {found}.")


def installed(package: str) -> str | None:
    """Return the version of a distribution; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _packages() -> Check:
    """Compare the packages that verl was released with, which its extra `vllm` names."""
    requirements = importlib.import_module("packaging.requirements")
    needed = [requirements.Requirement(line) for line in requires("verl") or []]
    needed = [each for each in needed if each.marker and each.marker.evaluate({"extra": "vllm"})]
    found = {each: installed(each.name) for each in needed if each.specifier}
    other = [
        f"{each} (installed: {at or 'none'})".replace('; extra == "vllm"', "")
        for each, at in found.items()
        if at is None or not each.specifier.contains(at, prereleases=True)
    ]
    if other:
        return warning(f"verl was released with {', '.join(other)}.", INSTALL)
    return ok(", ".join(f"{each.name} {at}" for each, at in found.items()) + ".")


def _names() -> Check:
    """Check that our names are registered: verl reports the failure of a plugin in its debug log alone."""
    managers, trainers = "verl.experimental.reward_loop.reward_manager", "verl.trainer.ppo.v1"
    library(managers)
    library(trainers)
    known = {
        "agent loop": library("verl.experimental.agent_loop.agent_loop")._agent_loop_registry,  # noqa: SLF001
        "trainer": library(f"{trainers}.trainer_base").TRAINER_REGISTRY,
        "reward manager": library(f"{managers}.registry").REWARD_MANAGER,
    }
    ours = {"agent loop": LOOPS, "trainer": tuple(TRAINERS), "reward manager": (MANAGER,)}
    absent = [f"{kind} {name}" for kind, names in ours.items() for name in names if name not in known[kind]]
    if absent:
        hint = "Install this package in verl's environment: pip install --no-deps -e ."
        if off := os.environ.get("VERL_USE_EXTERNAL_PLUGINS"):
            hint = f"VERL_USE_EXTERNAL_PLUGINS is {off!r}: unset it."
        return failed(f"verl does not know: {', '.join(absent)}.", hint)
    return ok("; ".join(f"{kind} {', '.join(names)}" for kind, names in ours.items()) + ".")


@dataclass(slots=True)
class VerlRun:
    """A configuration with its overrides, and what it names."""

    name: str
    overrides: tuple[str, ...] = ()
    config: Any = None
    """The composed configuration; None before `check_configuration`."""

    def check_configuration(self) -> Check:
        """Compose the configuration as verl does, and let verl, its trainer and our options check it."""
        config = compose(self.name, self.overrides)
        utils, checks = library("verl.trainer.ppo.utils"), library("verl.utils.config")
        checks.validate_config(config, utils.need_reference_policy(config), utils.need_critic(config))
        library("omegaconf").OmegaConf.resolve(config)
        mode = config.trainer.v1.trainer_mode  # the constructor puts that of verl in its place
        library("verl.trainer.ppo.v1").get_trainer_cls(mode)(config)
        options_of(config)
        model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
        attention = model.override_config.get("attn_implementation")
        if model.use_remove_padding and attention != FLASH:
            raise TrainingError(
                f"Rows are packed (use_remove_padding), but attention is {attention}.",
                f"verl packs rows only with flash-attn: attention=sdpa or attention={FLASH}",
            )
        self.config = config
        gpus = f"{config.trainer.nnodes * config.trainer.n_gpus_per_node} GPUs"
        if rollout.nnodes:
            gpus += f" and {rollout.nnodes * rollout.n_gpus_per_node} for rollouts"
        return ok(
            f"agent {rollout.agent.default_agent_loop}, trainer {mode}, {gpus}, groups of {rollout.n}, "
            f"{config.data.train_batch_size} questions per step, attention {attention}."
        )

    def check_gpus(self) -> Check:
        """Count the GPUs of this machine: verl waits for missing ones without a message."""
        wanted, rollout = int(self.config.trainer.n_gpus_per_node), self.config.actor_rollout_ref.rollout
        if rollout.nnodes and self.config.trainer.nnodes == 1:
            wanted += int(rollout.n_gpus_per_node)
        if os.environ.get("RAY_ADDRESS"):
            return ok(f"{wanted} per node, of the cluster {os.environ['RAY_ADDRESS']}.")
        found = library("torch").cuda.device_count()
        if found < wanted:
            hint = "verl waits for the others without a message. The GPUs of a cluster: RAY_ADDRESS"
            return warning(f"{wanted} are configured, and torch sees {found}.", hint)
        return ok(f"{wanted} of {found} are used.")

    def check_data(self) -> Check:
        """Read the columns and the first question of the files to train on and to validate with."""
        counts: list[str] = []
        for name in ("train_files", "val_files"):
            given = self.config.data[name]
            paths = [given] if isinstance(given, str) else given
            counts += [f"{path}: {count_questions(Path(path)):,} questions" for path in paths]
        return ok("; ".join(counts) + ".")

    def check_collection(self) -> Check:
        """Ask the search server of the rollouts for its version."""
        from vrag.search.client import SearchClient

        options = options_of(self.config)
        if options.searcher:
            return ok(f"{options.searcher} searches.")
        root = Path(options.image_root) if options.image_root else None
        with SearchClient(
            options.search_url, token=options.search_key, image_root=root, timeout=10, retries=0
        ) as searcher:
            return ok(f"{options.search_url} answers, version {searcher.version[:12]}.")

    def check_judge(self) -> Check:
        """Ask the server of the judge for its models."""
        judge = options_of(self.config).judge
        if judge.kind == "rules":
            hint = "The reference implementation uses a model: vrag.judge.kind=endpoint"
            return warning("Answers are compared by rules.", hint)
        return ask_judge(judge)


def count_questions(path: Path) -> int:
    """Count the questions of a parquet file; raise `TrainingError` if verl or the reward cannot use it."""
    if not path.is_file():
        raise TrainingError(f"{path} does not exist.", "Make it: vrag data convert")
    parquet = import_pyarrow("pyarrow.parquet")
    with parquet.ParquetFile(path) as table:
        if absent := [column for column in COLUMNS if column not in table.schema_arrow.names]:
            raise TrainingError(
                f"{path} has no columns: {', '.join(absent)}.", "Make it again: vrag data convert"
            )
        count = int(table.metadata.num_rows)
        if not count:
            raise TrainingError(f"{path} has no rows.", "Make it again: vrag data convert")
        case_of(next(table.iter_batches(batch_size=1)).to_pylist()[0])
    return count


def ask_judge(judge: JudgeOptions) -> Check:
    """Check that the server of a judge answers."""
    import httpx

    if not judge.base_url or not judge.model:
        return failed("The judge has no server or no model.", "Set vrag.judge.base_url and vrag.judge.model.")
    headers = {"Authorization": f"Bearer {judge.key}"} if judge.key else {}
    try:
        reply = httpx.get(f"{reachable(judge.base_url).rstrip('/')}/models", headers=headers, timeout=10)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"{judge.base_url} cannot be reached: {error or type(error).__name__}."
        return failed(message, "Check that the server is running, and vrag.judge.base_url.")
    if reply.is_success:
        return ok(f"{judge.model} at {judge.base_url} answers.")
    message = f"{judge.base_url} answered with status {reply.status_code}."
    return failed(message, f"Check the key in {judge.key_variable}.")
