"""Weights of the reader: names of their files, and those of a training or of the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, is_zipfile

from vrag.errors import ModelError

if TYPE_CHECKING:
    from vrag.reading.scorer import CandidateScorer
    from vrag.reading.spans.reader import SpanModel

TABLE_FILE, SPAN_FILE, ANSWER_FILE = "table.npz", "span.npz", "answer.npz"


def load_table_weights(folder: Path | None) -> CandidateScorer:
    """Load the weights for tables of a folder, or of the package.

    Raises `ModelError` if they cannot be used.
    """
    from vrag.reading.scorer import CandidateScorer
    from vrag.reading.table_answers.candidates import load_table_scorer
    from vrag.reading.table_answers.features import TABLE_FEATURES

    if folder is None:
        return load_table_scorer()
    scorer = _load(CandidateScorer.load, folder / TABLE_FILE)
    return _with_features(scorer, scorer, TABLE_FEATURES, folder)


def load_span_weights(folder: Path | None) -> SpanModel:
    """Load the weights for running text of a folder, or of the package.

    Raises `ModelError` if they cannot be used.
    """
    from vrag.reading.spans.features import SPAN_FEATURES
    from vrag.reading.spans.reader import SpanModel, load_span_model

    if folder is None:
        return load_span_model()
    model = _load(SpanModel.load, folder / SPAN_FILE)
    return _with_features(model, model.scorer, SPAN_FEATURES, folder)


def load_answer_weights(folder: Path | None) -> CandidateScorer:
    """Load the weights that compare answers of all sources, from a folder or those of the package.

    Raises `ModelError` if they cannot be used.
    """
    from vrag.reading.answer_features import ANSWER_FEATURES
    from vrag.reading.reader import load_answer_scorer
    from vrag.reading.scorer import CandidateScorer

    if folder is None:
        return load_answer_scorer()
    scorer = _load(CandidateScorer.load, folder / ANSWER_FILE)
    return _with_features(scorer, scorer, ANSWER_FEATURES, folder)


def folder_with(folder: Path | None, file: str) -> Path | None:
    """Return a folder if it holds weights of a part; else None, for those of the package."""
    return folder if folder is not None and (folder / file).is_file() else None


def _load(load: Callable[[Path], Any], path: Path) -> Any:  # noqa: ANN401 - weights of either part
    fault = "it is not there" if not path.is_file() else "it is not a NumPy archive"
    if is_zipfile(path):
        try:
            return load(path)
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            fault = str(error)
    raise ModelError(
        f"{path} holds no weights of the reader: {fault}.", "Name the output folder of `vrag reader train`."
    )


def _with_features(model: Any, scorer: CandidateScorer, names: tuple[str, ...], folder: Path) -> Any:  # noqa: ANN401
    """Return a model. Raises `ModelError` if it was trained for other features."""
    if scorer.names != tuple(names):
        raise ModelError(
            f"The weights in {folder} were trained by another version of vrag.", "Train them again."
        )
    return model
