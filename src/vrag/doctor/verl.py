"""Checks of the requirements of training with verl, before GPU hours are spent: `vrag train doctor`."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vrag.doctor.check import Check, CheckStatus, CheckStep, examine_steps, failed, ok, skipped, warning
from vrag.doctor.verl_dry_run import MODEL_HINT, DryRun, probe_verl
from vrag.providers import reachable
from vrag.rl.trainers.verl import LOOPS
from vrag.rl.trainers.verl.agent_loops import case_of
from vrag.rl.trainers.verl.launch import (
    ENGINES,
    FLASH,
    INSTALL,
    PINS,
    Launch,
    choose_attention,
    count_parameters,
    engine,
    installed,
    least_memory,
    missing_columns,
    unknown_names,
)
from vrag.rl.trainers.verl.options import VerlOptions

MARGIN = 1.5
"""Recommended GPU memory, relative to the minimum, which does not include activations."""
IMPORT_SECONDS = 300


def examine_verl(
    launch: Launch, options: VerlOptions, data: Sequence[Path], model: str, seconds: float
) -> Iterator[Check]:
    """Run all checks, one after the other; skip those that require a failed one.

    `data` are parquet files for training and validation, `model` is the checkpoint to start from, empty for
    the configuration's own, and `seconds` is the time limit of each check.
    """
    run = DryRun(launch)
    steps = [
        *(CheckStep(package, partial(_package, package)) for package in PINS),
        CheckStep("names", _names, after="verl"),
        CheckStep("engine", _engine, after="torch", slow=True),
        CheckStep("attention", partial(_attention, launch)),
        CheckStep("configuration", partial(probe_verl, run.check_configuration), after="verl", slow=True),
        CheckStep("gpus", _gpus, after="torch"),
        CheckStep("model", partial(check_model, run, model), after="configuration"),
        CheckStep("memory", partial(check_memory, run), after="configuration"),
        CheckStep("shared memory", _shared_memory),
        *([CheckStep("ray", _ray)] if os.environ.get("RAY_ADDRESS") else []),
        *(CheckStep(f"data {path.name}", partial(_data, path)) for path in data),
        CheckStep("collection", partial(_collection, options)),
        CheckStep("judge", partial(_judge, options)),
    ]
    if not data:
        yield Check("data", CheckStatus.WARNING, "No data was given.", "Add it: --data train.parquet")
    yield from examine_steps(steps, seconds)


def _package(name: str) -> Check:
    """Compare a package with the version in the lock file."""
    found, pinned = installed(name), PINS[name]
    if found is None:
        others = [engine for engine in ENGINES if engine != name and installed(engine)]
        if name in ENGINES and others:
            return skipped(f"Not installed: {others[0]} is used for rollouts.")
        return failed(f"{name} is not installed.", f"In a new environment: {INSTALL}")
    if found != pinned:
        message = f"{name} {found}; the lock file has {pinned}."
        return warning(message, f"Run: pip install {name}=={pinned}", {"version": found})
    return ok(f"{name} {found}.", details={"version": found})


def _names() -> Check:
    """Check that the agent loops, the trainer and the reward manager are registered in verl."""
    if absent := unknown_names():
        hint = "Install this package in verl's environment: pip install --no-deps -e ."
        if off := os.environ.get("VERL_USE_EXTERNAL_PLUGINS"):
            hint = f"VERL_USE_EXTERNAL_PLUGINS is {off!r}: unset it."
        return failed(f"verl does not know: {', '.join(absent)}.", hint)
    return ok(f"Registered: {', '.join(LOOPS)}, the trainer, the reward manager.")


def _engine() -> Check:
    """Import the inference engine, in its own process, since the import may end the process."""
    found = engine()
    if found is None:
        return failed("Neither vLLM nor SGLang is installed.", f"Run: {INSTALL}")
    command = [sys.executable, "-c", f"import {found}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=IMPORT_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        message = f"{found} was not imported after {IMPORT_SECONDS} s."
        return failed(message, f"Try it alone: python -c 'import {found}'")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        message = f"{found} {installed(found)} cannot be imported: {lines[-1]}"
        return failed(message, f"In a new environment: {INSTALL}")
    return ok(f"{found} {installed(found)} can be imported.")


def _attention(launch: Launch) -> Check:
    """Report the attention implementation of the trained model, and the reason for it."""
    chosen = launch.attention
    details = {"implementation": chosen.name}
    if chosen.name == FLASH and (found := choose_attention()).name != FLASH:
        hint = "Use whatever is installed: --attention auto"
        return failed(f"{FLASH} is set, but {found.reason}.", hint, details)
    return ok(f"{chosen.name}: {chosen.reason}.", details=details)


def _gpus() -> Check:
    torch: Any = importlib.import_module("torch")
    sizes = gpu_bytes()
    if not sizes:
        hint = "Training with verl requires GPUs. Small models can be trained on a CPU: vrag train local"
        return failed(f"torch {torch.__version__} sees no GPU.", hint)
    message = f"{len(sizes)} with {min(sizes) / 2**30:.0f} GiB or more; CUDA {torch.version.cuda}."
    return ok(message, details={"bytes": sizes})


def gpu_bytes() -> list[int]:
    """Return the memory of each visible GPU, in bytes."""
    torch: Any = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [int(torch.cuda.get_device_properties(number).total_memory) for number in range(count)]


def check_model(run: DryRun, given: str) -> Check:
    """Check that the model's folder is complete; a model on the hub is downloaded when training starts."""
    name = given or str(run.config.actor_rollout_ref.model.path)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if name.startswith((".", "/", "~")):
            return failed(f"The folder {name} does not exist.", MODEL_HINT)
        offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}
        message = f"{name} is not a folder: it is downloaded from the hub, or read from its cache."
        return warning(message, MODEL_HINT if offline else "")
    missing = [file for file in ("config.json", "tokenizer_config.json") if not (folder / file).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if not any((folder / file).is_file() for file in ("preprocessor_config.json", "processor_config.json")):
        missing.append("preprocessor_config.json")
    if missing:
        return failed(f"{name} has no {', '.join(missing)}.", "Download the model again.")
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return ok(f"{name}: {size / 2**30:.1f} GiB of weights.")


def check_memory(run: DryRun) -> Check:
    """Compare the memory of the GPUs with the minimum for the model."""
    name = str(run.config.actor_rollout_ref.model.path)
    counted = count_parameters(name)
    if counted is None:
        return skipped(f"The size of {name} is not known before it is downloaded.")
    least = least_memory(run.config, *counted)
    needed = f"{least.bytes / 2**30:.1f} GiB per GPU are required, plus activations"
    details = {"training": least.training, "rollouts": least.rollouts, "parameters": counted[0]}
    sizes = gpu_bytes() if installed("torch") else []
    if not sizes:
        return skipped(f"{needed}; there is no GPU.", details=details)
    message = f"{needed}; the smallest GPU has {min(sizes) / 2**30:.1f} GiB."
    if min(sizes) < least.bytes:
        hint = "Use more GPUs (trainer.n_gpus_per_node), a smaller model, or LoRA: vrag train verl lora_24gb"
        return failed(message, hint, details)
    if min(sizes) < MARGIN * least.bytes:
        hint = "If memory runs out: a smaller data.max_response_length, offloading, or more GPUs."
        return warning(message, hint, details)
    return ok(message, details=details)


def _shared_memory() -> Check:
    """Check the free space in /dev/shm, for Ray's objects and NCCL's buffers; containers have 64 MiB."""
    place = Path("/dev/shm")  # noqa: S108 - where Ray and NCCL put theirs
    if not place.is_dir():
        return skipped(f"{place} does not exist on this system.")
    free = shutil.disk_usage(place).free
    message = f"{free / 2**30:.1f} GiB are free in {place}."
    if free < 8 * 2**30:
        return warning(message, "In a container, increase it: docker run --shm-size=32g")
    return ok(message)


def _ray() -> Check:
    address = os.environ["RAY_ADDRESS"]
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return skipped(f"RAY_ADDRESS is {address}: the cluster is looked up when training starts.")
    try:
        with socket.create_connection((host, int(port)), timeout=10):
            return ok(f"{address} listens.")
    except OSError as error:
        message = f"The Ray cluster {address} (RAY_ADDRESS) cannot be reached: {error}."
        return failed(message, "Start the cluster, or unset RAY_ADDRESS.")


def _data(path: Path) -> Check:
    if not path.is_file():
        return failed(f"{path} does not exist.", "Make it: vrag data convert")
    if absent := missing_columns(path):
        return failed(f"{path} has no columns: {', '.join(absent)}.", "Make it again: vrag data convert")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    with parquet.ParquetFile(path) as table:
        count = int(table.metadata.num_rows)
        if not count:
            return failed(f"{path} has no rows.", "Make it again: vrag data convert")
        first = next(table.iter_batches(batch_size=1)).to_pylist()[0]
    if not case_of(first).reference_page:
        hint = "Without pages the retrieval reward is 0, and GGPO cannot credit steps that found evidence."
        return warning(f"{count:,} questions; the first has no gold pages.", hint)
    return ok(f"{count:,} questions.")


def _collection(options: VerlOptions) -> Check:
    from vrag.search.client import SearchClient

    if options.searcher:
        return ok(f"{options.searcher} searches.")
    root = Path(options.image_root) if options.image_root else None
    with SearchClient(
        options.search_url, token=options.search_key, image_root=root, timeout=10, retries=0
    ) as searcher:
        found = searcher.version
    return ok(f"{options.search_url} answers, version {found[:12]}.")


def _judge(options: VerlOptions) -> Check:
    judge = options.judge
    if judge.kind == "rules":
        hint = "The reference implementation uses a model: --judge-url URL --judge-model NAME"
        return warning("Answers are compared by rules.", hint)
    if not judge.base_url or not judge.model:
        return failed("The judge has no URL or no model.", "Set both: --judge-url URL --judge-model NAME")
    import httpx

    headers = {"Authorization": f"Bearer {judge.key}"} if judge.key else {}
    try:
        reply = httpx.get(f"{reachable(judge.base_url).rstrip('/')}/models", headers=headers, timeout=10)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"{judge.base_url} cannot be reached: {error or type(error).__name__}."
        return failed(message, "Check that the server is running, and --judge-url.")
    if reply.is_success:
        return ok(f"{judge.model} at {judge.base_url} answers.")
    message = f"{judge.base_url} answered with status {reply.status_code}."
    return failed(message, f"Check the key in {judge.key_variable}.")
