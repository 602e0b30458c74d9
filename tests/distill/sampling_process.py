"""Samples in a process of its own, for tests that kill it: DIRECTORY URL COUNT [CONCURRENCY]."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from expert_server import cases, experts

from vrag.distill.sample import Sampling, sample_cases
from vrag.distill.samples import SampleStore
from vrag.profiles import PROFILES
from vrag.testing import tiny_corpus


def main(directory: str, url: str, count: str, concurrency: str = "4") -> None:
    sampling = Sampling(
        searcher=tiny_corpus(),
        experts=experts(url),
        learner=PROFILES["qwen2.5-vl"],
        concurrency=int(concurrency),
        attempts=2,
    )
    with SampleStore(Path(directory)).desk(sampling.made_with) as desk:
        asyncio.run(sample_cases(cases(int(count)), sampling, desk))


if __name__ == "__main__":
    main(*sys.argv[1:])
