"""The benchmarks that ship, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.errors import SettingsError
from vrag.evaluation.benchmarks.dataset import DatasetJson
from vrag.evaluation.benchmarks.hotpotqa import HotpotQA
from vrag.evaluation.benchmarks.lvbench import LVBench
from vrag.evaluation.benchmarks.m3docvqa import M3DocVQA
from vrag.evaluation.benchmarks.mmdocir import MMDocIR
from vrag.evaluation.benchmarks.mmlongbench import MMLongBench
from vrag.evaluation.benchmarks.slidevqa import SlideVQA
from vrag.evaluation.benchmarks.squad import SQuAD
from vrag.evaluation.benchmarks.vidore_v2 import ViDoReV2
from vrag.evaluation.benchmarks.vidore_v3 import ViDoReV3
from vrag.evaluation.benchmarks.vidoseek import ViDoSeek
from vrag.evaluation.benchmarks.webqa import WebQA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.evaluation.benchmark import Benchmark

__all__ = ["BENCHMARKS", "benchmark_named"]

_ALL: tuple[Benchmark, ...] = (
    SlideVQA(),
    ViDoSeek(),
    MMLongBench(),
    MMDocIR(),
    ViDoReV2(),
    ViDoReV3(),
    LVBench(),
    HotpotQA(),
    SQuAD(),
    WebQA(),
    M3DocVQA(),
    DatasetJson(),
)
BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}


def benchmark_named(name: str) -> Benchmark:
    """A benchmark by its name.

    Raises:
        SettingsError: If there is none.
    """
    if name not in BENCHMARKS:
        raise SettingsError(f"There is no benchmark {name!r}.", f"Known: {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]
