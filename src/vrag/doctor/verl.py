"""What training with verl needs, looked at before hours of GPUs are spent: `vrag train doctor`."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.addresses import reachable
from vrag.doctor.examine import Check, Status, examine
from vrag.rl.trainers.verl import LOOPS, VERSION
from vrag.rl.trainers.verl.needs import INSTALL, engine, installed, missing_columns, unknown_names
from vrag.rl.trainers.verl.playing import case_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vrag.rl.trainers.verl.options import VerlOptions

__all__ = ["examine_verl"]

_SMALL = 60 * 2**30
"""Bytes of a GPU under which the usual configurations do not fit."""


def examine_verl(options: VerlOptions, data: Sequence[Path], seconds: float) -> Iterator[Check]:
    """Looks at everything, one thing after the other; what raises is a failed check.

    Args:
        options: What is searched and who judges.
        data: Parquet files of training and validation.
        seconds: Time limit of each check.
    """
    looks: list[tuple[str, Callable[[], Check]]] = [
        ("verl", _verl),
        ("names", _names),
        ("engine", _engine),
        ("gpus", _gpus),
        *((f"data {path.name}", lambda path=path: _data(path)) for path in data),
        ("collection", lambda: _collection(options)),
        ("judge", lambda: _judge(options)),
    ]
    if not data:
        yield Check("data", Status.WARNING, "No data was named.", "Name it: --data train.parquet")
    for name, look in looks:
        yield examine(name, look, seconds)


def _verl() -> Check:
    found = installed("verl")
    if found is None:
        return Check("", Status.FAILED, "verl is not installed.", f"In a new environment: {INSTALL}")
    if found != VERSION:
        said = f"verl {found}; tested with {VERSION}."
        return Check("", Status.WARNING, said, f"Run: pip install verl=={VERSION}")
    return Check("", Status.OK, f"verl {found}.")


def _names() -> Check:
    """Whether verl knows our names: both loops, the trainer, the reward manager."""
    if installed("verl") is None:
        return Check("", Status.SKIPPED, "Without verl nothing is registered.")
    if absent := unknown_names():
        off = os.environ.get("VERL_USE_EXTERNAL_PLUGINS")
        hint = (
            f"VERL_USE_EXTERNAL_PLUGINS is {off!r}: unset it." if off else "Run: pip install -e . --no-deps"
        )
        return Check("", Status.FAILED, f"verl does not know: {', '.join(absent)}.", hint)
    return Check("", Status.OK, f"Registered: {', '.join(LOOPS)}, the trainer, the reward manager.")


def _engine() -> Check:
    found = engine()
    if found is None:
        return Check("", Status.FAILED, "Neither vLLM nor SGLang is installed.", "Run: pip install vllm")
    return Check("", Status.OK, f"{found} {installed(found)}.")


def _gpus() -> Check:
    if installed("torch") is None:
        return Check("", Status.FAILED, "torch is not installed.", f"Run: {INSTALL}")
    torch: Any = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        hint = "Training with verl needs some; a small model trains on a CPU: vrag train local"
        return Check("", Status.FAILED, f"torch {torch.__version__} sees no GPU.", hint)
    memory = min(torch.cuda.get_device_properties(number).total_memory for number in range(count))
    message = f"{count} with {memory / 2**30:.0f} GiB or more."
    if memory < _SMALL:
        return Check("", Status.WARNING, message, "For cards of 24 GB: vrag train verl lora_24gb")
    return Check("", Status.OK, message)


def _data(path: Path) -> Check:
    if not path.is_file():
        return Check("", Status.FAILED, f"There is no {path}.", "Make it: vrag data convert")
    if absent := missing_columns(path):
        return Check(
            "", Status.FAILED, f"{path} lacks: {', '.join(absent)}.", "Make it anew: vrag data convert"
        )
    parquet: Any = importlib.import_module("pyarrow.parquet")
    with parquet.ParquetFile(path) as table:
        count = int(table.metadata.num_rows)
        if not count:
            return Check("", Status.FAILED, f"{path} has no rows.", "Make it anew: vrag data convert")
        first = next(table.iter_batches(batch_size=1)).to_pylist()[0]
    if not case_of(first).reference_page:
        hint = "Without pages the retrieval part is 0, and GGPO cannot spare what found the evidence."
        return Check("", Status.WARNING, f"{count:,} questions; the first has no gold pages.", hint)
    return Check("", Status.OK, f"{count:,} questions.")


def _collection(options: VerlOptions) -> Check:
    from vrag.search.client import SearchClient

    if options.searcher:
        return Check("", Status.OK, f"{options.searcher} searches.")
    root = Path(options.image_root) if options.image_root else None
    with SearchClient(
        options.search_url, token=options.search_key, image_root=root, timeout=10, retries=0
    ) as searcher:
        found = searcher.version
    return Check("", Status.OK, f"{options.search_url} answers, version {found[:12]}.")


def _judge(options: VerlOptions) -> Check:
    asked = options.judge
    if asked.kind == "rules":
        hint = "The reference asks a model: --judge-url URL --judge-model NAME"
        return Check("", Status.WARNING, "Answers are compared by rules.", hint)
    if not asked.base_url or not asked.model:
        return Check("", Status.FAILED, "The judge has no address or no name.", "Name both.")
    import httpx

    headers = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    try:
        reply = httpx.get(f"{reachable(asked.base_url).rstrip('/')}/models", headers=headers, timeout=10)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = f"{asked.base_url} cannot be reached: {error or type(error).__name__}."
        return Check("", Status.FAILED, said, "Does the server run, and is the address right? --judge-url")
    if reply.is_success:
        return Check("", Status.OK, f"{asked.model} at {asked.base_url} answers.")
    said = f"{asked.base_url} answers {reply.status_code}."
    return Check("", Status.FAILED, said, f"Is the key in {asked.key_variable}?")
