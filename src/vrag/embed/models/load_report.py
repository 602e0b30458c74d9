"""Reports of transformers on loaded weights: harmless ones are dropped, all others become errors."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.embed.device import library
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

__all__ = ["PROJECTION", "LoadReport", "check_reports", "collect_reports"]

PROJECTION = "custom_text_proj"
"""The projection of colpali-engine's models, which sentence-transformers keeps in a module `Dense`: not part
of the network that transformers loads, so that base and adapter both hold weights for it without a place."""

_NETWORKS, _ADAPTERS = "transformers.modeling_utils", "transformers.integrations.peft"
_REPORT = "log_state_dict_report"
_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The tensors of one checkpoint that do not match the network they were loaded into."""

    source: str
    """Folder of the checkpoint."""
    adapter: bool
    """Whether the checkpoint is an adapter over another model."""
    missing: tuple[str, ...]
    """Names of the network that the checkpoint has no tensor for."""
    unexpected: tuple[str, ...]
    """Names of the checkpoint that the network has no place for."""
    mismatched: tuple[str, ...]
    """Names whose shapes differ, with both shapes."""

    @classmethod
    def of(cls, source: object, info: Any, *, adapter: bool) -> LoadReport:  # noqa: ANN401
        """The report for a `LoadStateDictInfo` of transformers."""
        shapes = (f"{name} {tuple(theirs)}, not {tuple(ours)}" for name, theirs, ours in info.mismatched_keys)
        names = (tuple(sorted(keys)) for keys in (info.missing_keys, info.unexpected_keys))
        missing, unexpected = names
        return cls(str(source), adapter, missing, unexpected, tuple(sorted(shapes)))

    def check(self) -> None:
        """Refuse weights that would be left random or unused.

        Names without a place are harmless in a whole model (a head that is not asked for). In an adapter
        they are updates that would silently not be applied; only those of `PROJECTION` are harmless.

        Raises:
            EmbedError: With some of the names.
        """
        if self.adapter:
            self._check_adapter()
        elif self.missing or self.mismatched:
            found = _count("random", self.missing) + _count("of another shape", self.mismatched)
            raise EmbedError(
                f"The checkpoint {self.source} lacks weights, which would be random: {'; '.join(found)}",
                "Download it again.",
            )

    def _check_adapter(self) -> None:
        unused = [name for name in self.unexpected if PROJECTION not in name]
        found = [
            *_count("without a place in it", unused),
            *_count("missing in the adapter", self.missing),
            *_count("of another shape", self.mismatched),
        ]
        if found:
            raise EmbedError(
                f"The adapter {self.source} does not fit the network of its base model: {'; '.join(found)}. "
                "Vectors would be those of the base model.",
                "Check base_model_name_or_path in its adapter_config.json, upgrade transformers and peft "
                "(names of tensors change between versions), or use the merged model.",
            )


@contextlib.contextmanager
def collect_reports() -> Generator[list[LoadReport]]:
    """Collect the reports of all models loaded inside the block, none of which reaches the log.

    transformers logs a table of missing and unexpected tensors at every load, and goes on with random
    numbers for the missing ones; the function that does so is replaced inside the block. Not thread-safe.

    Raises:
        EmbedError: If transformers has no such function: weights could then be missing unnoticed.
    """
    reports: list[LoadReport] = []
    with contextlib.ExitStack() as undo:
        for name in (_NETWORKS, _ADAPTERS):
            module = library(name)
            original = getattr(module, _REPORT, None)
            if original is None:
                raise EmbedError(
                    "This version of transformers does not tell which weights a model lacks.",
                    "Install a tested one: pip install 'transformers>=5.20,<5.24'",
                )
            setattr(module, _REPORT, _collector(original, reports, adapter=name == _ADAPTERS))
            undo.callback(setattr, module, _REPORT, original)
            log = logging.getLogger(name)
            log.addFilter(_is_error)
            undo.callback(log.removeFilter, _is_error)
        yield reports


def check_reports(reports: Iterable[LoadReport]) -> None:
    """Check all reports.

    Raises:
        EmbedError: See `LoadReport.check`.
    """
    for report in reports:
        report.check()


def _collector(
    original: Callable[..., None], reports: list[LoadReport], *, adapter: bool
) -> Callable[..., None]:
    muted = logging.getLogger(f"{__name__}.muted")
    muted.disabled = True

    def collect(*, loading_info: Any, pretrained_model_name_or_path: object, **rest: Any) -> None:  # noqa: ANN401
        reports.append(LoadReport.of(pretrained_model_name_or_path, loading_info, adapter=adapter))
        source = {"pretrained_model_name_or_path": pretrained_model_name_or_path}
        original(loading_info=loading_info, **source, **rest | {"logger": muted})  # raises what it must

    return collect


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _count(what: str, names: Sequence[str]) -> list[str]:
    """How many tensors have a fault, with some of their names; nothing when there are none."""
    if not names:
        return []
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return [f"{len(names)} {what} ({', '.join(names[:_MAX_NAMES])}{more})"]
