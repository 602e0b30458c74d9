"""Samples in a process of its own, for tests that kill it: DIRECTORY URL COUNT [CONCURRENCY]."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from expert_server import cases, experts

from vrag.distill.sample_store import SampleStore
from vrag.distill.sampler import ExpertSampling, sample_cases
from vrag.model_profiles import PROFILES
from vrag.testing import tiny_corpus


def main(directory: str, url: str, count: str, concurrency: str = "4") -> None:
    sampling = ExpertSampling(
        searcher=tiny_corpus(),
        experts=experts(url),
        learner=PROFILES["qwen2.5-vl"],
        concurrency=int(concurrency),
        attempts=2,
    )
    with SampleStore(Path(directory)).writer(sampling.made_with) as writer:
        asyncio.run(sample_cases(cases(int(count)), sampling, writer))


if __name__ == "__main__":
    main(*sys.argv[1:])
