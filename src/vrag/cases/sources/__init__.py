"""The sources that ship, by name; a row is tried with each in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.cases.sources.dataset import DatasetSource
from vrag.cases.sources.hotpotqa import HotpotQa
from vrag.cases.sources.mmdocir import MmDocIr
from vrag.cases.sources.mmlongbench import MmLongBench
from vrag.cases.sources.slidevqa import SlideVqa
from vrag.cases.sources.squad import Squad
from vrag.cases.sources.training import Training

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.cases.source import Source

__all__ = ["SOURCES"]

_ALL: tuple[Source, ...] = (
    DatasetSource("dataset", "rag"),
    DatasetSource("vidoseek", "vidoseek"),
    Training(),
    SlideVqa(),
    MmLongBench(),
    MmDocIr(),
    HotpotQa(),
    Squad(),
)
SOURCES: Mapping[str, Source] = {source.name: source for source in _ALL}
