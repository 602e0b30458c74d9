"""The same vectors as colpali-engine, which the reference uses, in an environment of its own.

Set `VRAG_COLPALI_PYTHON` to a Python that has colpali-engine 0.3.18, torchvision and transformers 5.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from vrag.embed.embedder import EmbedContent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vrag.embed.models.sentence import SentenceEmbedder

PYTHON = os.environ.get("VRAG_COLPALI_PYTHON", "")
HERE = Path(__file__).parent
QUERIES = ["a red square", "revenue grew by 12 % in 2023", "收入 多少"]

pytestmark = pytest.mark.skipif(
    not PYTHON, reason="VRAG_COLPALI_PYTHON names no Python that has colpali-engine"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, pages, frames, and beside them what colpali-engine made of them."""
    folder = tmp_path_factory.mktemp("colpali")
    sys.path.append(str(HERE.parent / "embed"))
    tiny: Any = importlib.import_module("tiny_models")
    sys.path.pop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiny.colqwen2(folder / "colqwen2")
        tiny.colqwen2_modules(folder / "colqwen2-modules", folder / "colqwen2", folder / "colqwen2-base")
    random = np.random.default_rng(0)
    for number, (height, width) in enumerate([(200, 260), (90, 120), (300, 100)]):
        noise = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"page{number}.png")
    for number in range(5):
        noise = random.integers(0, 256, (84, 112, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"frame{number}.png")
    native = [f"Query: {query}{'<|endoftext|>' * 10}\n" for query in QUERIES]
    (folder / "asked.json").write_text(json.dumps({"native": native, "plain": QUERIES}))
    script = shutil.copy(HERE / "colpali_vectors.py", folder)
    done = subprocess.run([PYTHON, script, folder], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def theirs(folder: Path) -> dict[str, NDArray[np.float32]]:
    return dict(np.load(folder / "vectors.npz"))


def embedder(folder: Path, route: str) -> SentenceEmbedder:
    from vrag.embed.models.sentence import SentenceEmbedder

    return SentenceEmbedder(str(folder / {"native": "colqwen2", "modules": "colqwen2-modules"}[route]))


@pytest.mark.parametrize("route", ["native", "modules"])
def test_pages_have_the_same_vectors(
    folder: Path, theirs: dict[str, NDArray[np.float32]], route: str
) -> None:
    pages = [Image.open(path).convert("RGB") for path in sorted(folder.glob("page*.png"))]
    made = embedder(folder, route).embed_items([EmbedContent(image=page) for page in pages])
    worst = max(float(np.abs(one - theirs[f"{route}-page-{i}"]).max()) for i, one in enumerate(made))
    print(f"{route} pages: greatest difference {worst:.1e}")  # noqa: T201 - the figure is the point
    assert worst < 1e-5


@pytest.mark.parametrize("route", ["native", "modules"])
def test_queries_have_the_same_vectors(
    folder: Path, theirs: dict[str, NDArray[np.float32]], route: str
) -> None:
    made = embedder(folder, route).embed_queries(QUERIES)
    worst = max(float(np.abs(one - theirs[f"{route}-query-{i}"]).max()) for i, one in enumerate(made))
    print(f"{route} queries: greatest difference {worst:.1e}")  # noqa: T201
    assert worst < 1e-5


def test_videos_have_the_patches_of_transformers_with_torchvision(
    folder: Path, theirs: dict[str, NDArray[np.float32]]
) -> None:
    from vrag.embed.models.qwen_vl import video_patches

    module: Any = importlib.import_module("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    processor = module.Qwen2VLImageProcessorPil(size={"shortest_edge": 3136, "longest_edge": 200 * 784})
    frames = [Image.open(path).convert("RGB") for path in sorted(folder.glob("frame*.png"))]
    pixels, grid = video_patches(processor, frames)
    assert grid.tolist() == theirs["grid"].tolist()
    worst = float(np.abs(pixels.numpy() - theirs["video"]).max())
    print(f"video patches: greatest difference {worst:.1e}")  # noqa: T201
    assert worst < 1e-5
