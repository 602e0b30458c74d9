"""The same vectors as the reference implementation's own embedder, unchanged, on the same random weights.

Set `VRAG_REFERENCE` to a clone of https://github.com/Alibaba-NLP/VRAG and `VRAG_REFERENCE_LATE_PYTHON` to a
Python that has what its `requirements.txt` names for `search_engine/vl_embedding.py`: colpali-engine at
commit 481eb20, transformers 4.51, peft 0.15, llama-index-core 0.12.1, torch and torchvision.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from vrag.embed.embedder import EmbedContent
from vrag.embed.options import EmbedOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.embed.models.sentence import SentenceEmbedder

CLONE, PYTHON = (os.environ.get(name, "") for name in ("VRAG_REFERENCE", "VRAG_REFERENCE_LATE_PYTHON"))
HERE = Path(__file__).parent
TEXTS = ["a red square", "revenue grew by 12 % in 2023, and a blue circle on a white page", "收入 多少"]

pytestmark = [
    pytest.mark.skipif(
        not (CLONE and PYTHON),
        reason="VRAG_REFERENCE or VRAG_REFERENCE_LATE_PYTHON names no clone or no Python",
    ),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, pages and queries, and beside them what the reference made of them."""
    folder = tmp_path_factory.mktemp("reference")
    sys.path.append(str(HERE.parent / "embed"))
    published: Any = importlib.import_module("published_models")
    sys.path.pop()
    for name in ("colqwen2", "colpali"):  # the reference chooses the model's class by the name
        getattr(published, name)(folder / f"vidore-{name}", folder / f"base-{name}")
    for number, size in enumerate([(260, 200), (120, 90), (1000, 1400)]):
        Image.effect_noise(size, 90).convert("RGB").save(folder / f"page{number}.png")
    (folder / "asked.json").write_text(json.dumps(TEXTS))
    (folder / "site").mkdir()
    shutil.copy(HERE / "torchvision_stub.py", folder / "site" / "sitecustomize.py")
    environment = os.environ | {"PYTHONPATH": str(folder / "site")}
    command = [PYTHON, HERE / "reference_late_vectors.py", Path(CLONE).resolve(), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", ["colqwen2", "colpali"])
def test_queries_pages_tokens_and_scores_are_the_same(folder: Path, name: str) -> None:
    from vrag.embed.models.sentence import SentenceEmbedder

    theirs: dict[str, Any] = dict(np.load(folder / "vectors.npz"))
    embedder = SentenceEmbedder(str(folder / f"vidore-{name}"), EmbedOptions(visual_tokens=0))
    pages = [Image.open(path).convert("RGB") for path in sorted(folder.glob("page*.png"))]
    made = {
        "query": embedder.embed_queries(TEXTS),
        "page": embedder.embed_items([EmbedContent(image=page) for page in pages]),
    }
    for kind, ours in made.items():
        right = [theirs[f"{name}-{kind}-{number}"] for number in range(len(ours))]
        assert [vectors.shape for vectors in ours] == [vectors.shape for vectors in right]
        worst = max(float(np.abs(one - other).max()) for one, other in zip(ours, right, strict=True))
        cosine = min(float((one * other).sum(axis=1).min()) for one, other in zip(ours, right, strict=True))
        counts = [len(vectors) for vectors in ours]
        print(f"{name} {kind}: {counts} vectors, greatest difference {worst:.1e}, least cosine {cosine:.7f}")  # noqa: T201
        assert worst < 1e-4
        assert cosine > 0.99999
    assert tokens(embedder) == [theirs[f"{name}-tokens-{number}"].tolist() for number in range(len(TEXTS))]
    scores = [[float((query @ page.T).max(axis=1).sum()) for query in made["query"]] for page in made["page"]]
    print(f"{name} MaxSim: greatest difference {np.abs(theirs[f'{name}-scores'].T - scores).max():.1e}")  # noqa: T201
    np.testing.assert_allclose(theirs[f"{name}-scores"].T, scores, atol=1e-3)


def tokens(embedder: SentenceEmbedder) -> Sequence[Sequence[int]]:
    return [embedder._token_ids(text) for text in TEXTS]  # pyright: ignore[reportPrivateUsage]
