"""The dataset JSON of the seeds, which is ours; ViDoSeek comes in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["DatasetSource"]


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """Rows that are cases already; see `vrag.cases.dataset`."""

    name: str
    called: str
    """What the parquet calls it."""

    def data_source(self, split: str) -> str:  # noqa: ARG002 - the same for every split
        """What the parquet calls it."""
        return self.called

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `query` and `meta_info`."""
        return {"uid", "query", "meta_info"} <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """The row itself."""
        return [row]
