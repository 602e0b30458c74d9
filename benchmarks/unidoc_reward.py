"""UniDoc-RL's reward beside ours, on the same random runs.

    git clone https://github.com/deepglint/UniDoc-RL
    python -m benchmarks.unidoc_reward UniDoc-RL/RLTrain/verl [--record tests/reward/unidoc_rewards.json]

The published `workers/reward_manager/rm.py` and `utils/reward_score/vrag.py` run as they are, with stand-ins
for what they import: verl's data, its tokenizer, torch's zeros, and the judge, which says what was drawn. The
largest difference of each part is printed.

One line of `rm.py` cannot be meant: its nDCG sorts the letters of the names of pages, which then equal no
name. The second table has names left as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reward.unidoc_runs import RUNS, UnidocRun, draw_run
from vrag.reward import unidoc
from vrag.reward.combine import UNIDOC_WEIGHTS

PARTS = ("total", "unidoc_ndcg", "selection", "unidoc_region", "answer", "unidoc_format")


class _Data(list[Any]):
    """A batch of verl: rows, and the columns that all share."""

    batch: dict[str, Any]


def _row(drawn: UnidocRun, number: int) -> SimpleNamespace:
    crops = {name: bool(boxes) for name, boxes in drawn.gold_boxes.items()}
    return SimpleNamespace(
        batch={
            "prompts": np.zeros(1, int),
            "responses": np.array([number, 0]),
            "attention_mask": np.ones(3, int),
        },
        non_tensor_batch={
            "reward_model": {"ground_truth": drawn.case.reference_answer},
            "data_source": "runs",
            "extra_info": {"question": drawn.case.query, "reference_page": np.array(drawn.gold, object)},
            "rerank_image_lists": [[f"/pages/{name}.jpg" for name in names] for names in drawn.shown],
            "selected_images": [f"/pages/{name}.jpg" for name in drawn.selected],
            "evidence_bbox_lists": drawn.boxes,
            "bboxes": json.dumps(drawn.gold_boxes),
            "crop_required": json.dumps(crops),
        },
    )


def _load(path: Path, **stand_ins: ModuleType) -> Any:  # noqa: ANN401 - a module that is not typed
    sys.modules |= {name.replace("_of_", "."): module for name, module in stand_ins.items()}
    spec = importlib.util.spec_from_file_location(path.stem + "_of_unidoc", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(name: str, **values: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(values)
    return module


def theirs(folder: Path, drawn: list[UnidocRun], *, mended: bool) -> list[list[float]]:
    """The numbers of `rm.py` for each run, in the order of `PARTS`."""
    score = _load(folder / "utils/reward_score/vrag.py").compute_format_reward_only
    bits: list[float] = []

    def judge(_url: str, **_: object) -> SimpleNamespace:
        return SimpleNamespace(json=lambda: list(bits))

    def zeros(shape: tuple[int, ...], **_: object) -> NDArray[np.float64]:
        return np.zeros(shape)

    torch = _module("torch", zeros=zeros, float32=np.float32)
    rm = _load(
        folder / "workers/reward_manager/rm.py",
        verl=_module("verl", DataProto=_Data),
        verl_of_utils=_module("verl.utils"),
        verl_of_utils_of_reward_score=_module("verl.utils.reward_score", _default_compute_score=None),
        torch=torch,
        requests=_module("requests", post=judge),
    )
    if mended:
        rm.sorted = _sorted
    texts = {number: run.transcript for number, run in enumerate(drawn, 1)}

    def decode(ids: NDArray[np.int64]) -> str:
        return texts.get(int(ids[0]), "")

    tokenizer = SimpleNamespace(decode=decode)

    def compute(solution_str: str, ground_truth: str, extra_info: object, data_source: str) -> float:  # noqa: ARG001
        return score(solution_str, ground_truth, extra_info)

    formats = [score(run.transcript, "", None) for run in drawn]
    bits += [float(run.right) for run, form in zip(drawn, formats, strict=True) if form > 0.5]
    data = _Data(_row(run, number) for number, run in enumerate(drawn, 1))
    data.batch = {"responses": np.zeros((len(drawn), 2))}
    with contextlib.redirect_stdout(io.StringIO()):
        rewards = rm.RMManager(tokenizer, 0, compute)(data)
    return [[*map(float, rewards[at, :, 1]), form] for at, form in enumerate(formats)]


def _sorted(values: Any) -> Any:  # noqa: ANN401 - of anything
    return values if isinstance(values, str) else sorted(values)


def ours(drawn: UnidocRun) -> list[float]:
    """Our numbers for a run, in the order of `PARTS`."""
    form = unidoc.format_reward(drawn.run)
    parts = {
        "answer": float(drawn.right and drawn.run.answer is not None),
        "unidoc_ndcg": unidoc.ranking_reward(drawn.case, drawn.run),
        "selection": unidoc.selection_reward(drawn.case, drawn.run),
        "unidoc_region": unidoc.region_reward(drawn.case, drawn.run),
        "unidoc_format": form,
    }
    total = sum(weight * parts[name] for name, weight in UNIDOC_WEIGHTS.items()) if form else 0.0
    shown = {name: value if form else 0.0 for name, value in parts.items()}
    return [total, *(shown[name] for name in PARTS[1:])]


def main(folder: Path, record: Path | None) -> None:
    """Compare, and print the largest differences."""
    drawn = [draw_run(seed) for seed in range(RUNS)]
    mine = np.array([ours(run) for run in drawn])
    for mended in (False, True):
        published = np.array(theirs(folder, drawn, mended=mended))
        print(f"{RUNS} runs, names {'left as they are' if mended else 'sorted by letters, as published'}")
        print(f"{'part':14} {'theirs, mean':>13} {'ours, mean':>11} {'largest difference':>19}")
        for at, name in enumerate(PARTS):
            largest = np.abs(mine[:, at] - published[:, at]).max()
            print(f"{name:14} {published[:, at].mean():13.4f} {mine[:, at].mean():11.4f} {largest:19.1e}")
        if record is not None and mended:
            rows = ",\n".join(json.dumps([round(value, 6) for value in row]) for row in published.tolist())
            record.write_text(f'{{"parts": {json.dumps(PARTS)}, "runs": [\n{rows}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="RLTrain/verl of the repository")
    parser.add_argument("--record", type=Path, help="file of numbers for the tests")
    given = parser.parse_args()
    main(given.folder, given.record)
