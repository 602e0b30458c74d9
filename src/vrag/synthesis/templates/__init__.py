"""The templates that ship, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.synthesis.templates.chart import Chart
from vrag.synthesis.templates.emblem import Emblem
from vrag.synthesis.templates.emblem_pair import EmblemPair
from vrag.synthesis.templates.key_figure import KeyFigure
from vrag.synthesis.templates.multi_hop import MultiHop
from vrag.synthesis.templates.table import TableTemplate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.synthesis.template import DocumentTemplate

__all__ = ["TEMPLATES"]

_ALL: tuple[DocumentTemplate, ...] = (
    Emblem(),
    EmblemPair(),
    KeyFigure(),
    TableTemplate(),
    Chart(),
    MultiHop(),
)
TEMPLATES: Mapping[str, DocumentTemplate] = {template.name: template for template in _ALL}
