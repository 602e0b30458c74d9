"""An exported data set, loaded by LLaMA-Factory's own loader in its own environment.

Set `VRAG_LLAMAFACTORY_PYTHON` to a Python that has llamafactory 0.9.5; `make test-sft` does. No weights are
needed: the tokenizer knows bytes, and the pictures are cut into patches as Qwen2.5-VL's are.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from distill_runs import ANSWER, SEARCH, crop, record_run, store_in
from PIL import Image

from vrag.distill.export import export_sft
from vrag.model_profiles import PROFILES

PYTHON = os.environ.get("VRAG_LLAMAFACTORY_PYTHON", "")
SCRIPT = Path(__file__).parent / "llamafactory_load.py"
LEARNER = PROFILES["qwen2.5-vl"]
REPLIES = (SEARCH, crop(), crop(28, 28, 200, 200, image=1), ANSWER)

pytestmark = pytest.mark.skipif(
    not PYTHON, reason="VRAG_LLAMAFACTORY_PYTHON names no Python that has LLaMA-Factory"
)


def _write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """A data set like the exported one, with other rows."""
    info = json.loads((folder / "dataset_info.json").read_text())
    info[name] = {**info["good"], "file_name": f"{name}.json"}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    (folder / f"{name}.json").write_text(json.dumps(rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good data set of two samples, and two that are broken."""
    folder = tmp_path_factory.mktemp("sft")
    store = store_in(folder)
    runs = [record_run(store, *REPLIES).id, record_run(store, SEARCH, ANSWER, question="What is <image>?").id]
    rows = json.loads(export_sft(store.runs, runs, LEARNER, folder, "good").file.read_text())
    _write(folder, "one_less", [{**rows[0], "images": rows[0]["images"][:-1]}])
    _write(folder, "no_file", [{**rows[1], "images": ["images/gone.jpg"]}])
    return folder


@pytest.fixture(scope="module")
def loaded(folder: Path) -> dict[str, Any]:
    command = [PYTHON, "-P", str(SCRIPT), "result.json", str(folder), "good", "one_less", "no_file"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=600, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "result.json").read_text())


def test_the_model_learns_its_own_turns_and_nothing_else(loaded: dict[str, Any]) -> None:
    first, second = loaded["good"]["rows"]
    assert [text.removesuffix("\n") for text in first["learned"]] == [f"{text}<|im_end|>" for text in REPLIES]
    assert [text.removesuffix("\n") for text in second["learned"]] == [
        f"{SEARCH}<|im_end|>",
        f"{ANSWER}<|im_end|>",
    ]
    assert "You answer a question" in first["text"]
    assert not any("You answer a question" in text for text in first["learned"])


def test_pictures_keep_their_size(loaded: dict[str, Any], folder: Path) -> None:
    rows = json.loads((folder / "good.json").read_text())
    for row, seen in zip(rows, loaded["good"]["rows"], strict=True):
        tokens = 0
        for path in row["images"]:
            with Image.open(folder / path) as image:
                tokens += (image.width // LEARNER.factor) * (image.height // LEARNER.factor)
        assert seen["images"] == len(row["images"])
        assert seen["visual_tokens"] == tokens


def test_the_trainer_sees_what_a_served_model_sees(loaded: dict[str, Any]) -> None:
    text = loaded["good"]["rows"][0]["text"]
    assert "<|im_start|>user\nImage 1:<|vision_start|><|image_pad|>" in text
    assert "What is ‹image>?" in loaded["good"]["rows"][1]["text"]


def test_a_missing_image_is_refused(loaded: dict[str, Any]) -> None:
    assert "number of images does not match" in loaded["one_less"]["refused"]
    assert "gone.jpg" in loaded["no_file"]["refused"]
