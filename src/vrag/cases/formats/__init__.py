"""The sources that ship, by name; a row is tried with each in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.cases.formats.dataset import DatasetSource
from vrag.cases.formats.hotpotqa import HotpotQa
from vrag.cases.formats.mmdocir import MmDocIr
from vrag.cases.formats.mmlongbench import MmLongBench
from vrag.cases.formats.slidevqa import SlideVqa
from vrag.cases.formats.squad import Squad
from vrag.cases.formats.training import TrainingParquet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.cases.case_format import CaseFormat

__all__ = ["SOURCES"]

_ALL: tuple[CaseFormat, ...] = (
    DatasetSource("dataset", "rag"),
    DatasetSource("vidoseek", "vidoseek"),
    TrainingParquet(),
    SlideVqa(),
    MmLongBench(),
    MmDocIr(),
    HotpotQa(),
    Squad(),
)
SOURCES: Mapping[str, CaseFormat] = {source.name: source for source in _ALL}
