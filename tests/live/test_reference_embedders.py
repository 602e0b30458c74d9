"""The same vectors as the reference implementation's own modules, in environments of their own.

Set `VRAG_REFERENCE` to a clone of its repository, and

- `VRAG_GVE_PYTHON` to a Python with torch, torchvision, transformers 4.51.3, peft 0.15, accelerate,
  qwen-vl-utils 0.0.14, decord, faiss-cpu and tqdm;
- `VRAG_QWEN3_VL_PYTHON` to one with transformers 4.57 in its place.

The models are random, of the published architectures and laid out as published. Run with `-s` for
the figures.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from vrag.embed.embedder import EmbedContent
from vrag.embed.options import EmbedOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.embed.embedder import Embedder

CLONE = os.environ.get("VRAG_REFERENCE", "")
PYTHONS = {
    "gve": os.environ.get("VRAG_GVE_PYTHON", ""),
    "qwen3-vl": os.environ.get("VRAG_QWEN3_VL_PYTHON", ""),
}
HERE = Path(__file__).parent
TEXTS = ["a red square", "revenue grew by 12 % in 2023, and a blue circle", "多少 收入 " * 40]

pytestmark = pytest.mark.skipif(not CLONE, reason="VRAG_REFERENCE names no clone of the reference")


@dataclass(frozen=True)
class Bounds:
    """Greatest difference of any number, smallest cosine."""

    difference: float
    cosine: float


EXACT = Bounds(1e-5, 0.99999)
RESIZED = Bounds(0.05, 0.999)
"""Pictures that both sides resize. In a random network a difference of one shade shows more than in a real
one; the two ways of resizing are compared here, not the models."""


def publish_gve(folder: Path, tiny: Any) -> Path:  # noqa: ANN401
    """A GVE whose `config.json` is flat, as transformers 4.51 wrote it and the hub has it."""
    tiny.gve(folder)
    config = json.loads((folder / "config.json").read_text())
    text, vision = config.pop("text_config"), config["vision_config"]
    rope = text.pop("rope_parameters")
    text["rope_scaling"] = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    text["rope_theta"] = rope["rope_theta"]
    for name in ("layer_types", "model_type"):
        del text[name]
    vision |= {"in_chans": 3, "spatial_patch_size": 14}
    del vision["rope_parameters"], vision["model_type"]
    tiny.write(folder, "config.json", {**text, **config, "torch_dtype": config.pop("dtype")})
    return publish_processor(folder, tiny, "Qwen2VLImageProcessor", "Qwen2_5_VLProcessor")


def publish_qwen3_vl(folder: Path, tiny: Any) -> Path:  # noqa: ANN401
    """A Qwen3-VL-Embedding whose `config.json` is that of transformers 4.57."""
    tiny.qwen3_vl_embedding(folder)
    config = json.loads((folder / "config.json").read_text())
    text = config["text_config"]
    rope = text.pop("rope_parameters")
    text["rope_theta"] = rope.pop("rope_theta")
    text["rope_scaling"] = rope
    del config["vision_config"]["rope_parameters"]
    tiny.write(folder, "config.json", config)
    publish_processor(folder, tiny, "Qwen2VLImageProcessorFast", "Qwen3VLProcessor")
    video = json.loads((folder / "preprocessor_config.json").read_text())
    del video["image_processor_type"]
    video["video_processor_type"] = "Qwen3VLVideoProcessor"
    tiny.write(folder, "video_preprocessor_config.json", video)
    return folder


def publish_quietly(publish: Callable[[Path, Any], Path], folder: Path) -> Path:
    sys.path.append(str(HERE.parent / "embed"))
    tiny: Any = importlib.import_module("tiny_models")
    sys.path.pop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return publish(folder, tiny)


def publish_processor(folder: Path, tiny: Any, images: str, processor: str) -> Path:  # noqa: ANN401
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings |= {"image_processor_type": images, "processor_class": processor}
    tiny.write(folder, "preprocessor_config.json", settings)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokens = {"tokenizer_class": "PreTrainedTokenizerFast", "additional_special_tokens": tiny.SPECIAL[3:]}
    kept = {name: tokenizer[name] for name in ("eos_token", "pad_token", "model_max_length")}
    template = (folder / "chat_template.jinja").read_text()
    tiny.write(folder, "tokenizer_config.json", kept | tokens | {"chat_template": template})
    tiny.write(folder, "chat_template.json", {"chat_template": template})
    return folder


def write_media(folder: Path, side: int) -> None:
    """Pictures and a film; those called `fitting` have sides that nobody resizes."""
    random = np.random.default_rng(0)
    sizes = {"fitting": (8 * side, 10 * side), "odd": (211, 163), "page": (1240, 1754), "small": (20, 30)}
    for name, (width, height) in sizes.items():
        cells = random.integers(0, 256, (height // 10 + 1, width // 10 + 1, 3), dtype=np.uint8)
        picture = Image.fromarray(cells).resize((width, height), Image.Resampling.BICUBIC)
        picture.save(folder / f"{name}.png")
    for name, width, height in (("fitting", 16 * side, 12 * side), ("wide", 640, 360)):
        write_film(folder / f"{name}.mp4", width, height)


def write_film(path: Path, width: int, height: int) -> None:
    """Eleven seconds, ten frames each."""
    av: Any = importlib.import_module("av")
    random = np.random.default_rng(1)
    colours = random.integers(0, 256, (110, 6, 6, 3), dtype=np.uint8)
    with av.open(path, "w") as film:
        stream = film.add_stream("libx264", rate=10, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for cells in colours:
            picture = Image.fromarray(cells).resize((width, height), Image.Resampling.NEAREST)
            for packet in stream.encode(av.VideoFrame.from_image(picture)):
                film.mux(packet)
        for packet in stream.encode():
            film.mux(packet)


def asked(folder: Path) -> dict[str, tuple[list[dict[str, str]], Bounds]]:
    """What is embedded, by modality."""
    picture = {name: str(folder / f"{name}.png") for name in ("fitting", "odd", "page", "small")}
    return {
        "text queries": ([{"text": text} for text in TEXTS], EXACT),
        "texts": ([{"text": text} for text in TEXTS], EXACT),
        "images": ([{"image": picture["fitting"]}], EXACT),
        "images, resized": ([{"image": picture[name]} for name in ("odd", "small")], RESIZED),
        "pages, resized": ([{"image": picture["page"]}], RESIZED),
        "image + text": ([{"image": picture["fitting"], "text": TEXTS[1]}], EXACT),
        "video": ([{"video": str(folder / "fitting.mp4")}], EXACT),
        "video, resized": ([{"video": str(folder / "wide.mp4")}], RESIZED),
    }


def vectors_of(embedder: Embedder, modality: str, things: list[dict[str, str]]) -> list[Any]:
    if modality == "text queries":
        return list(embedder.embed_queries([thing["text"] for thing in things]))
    contents = [
        EmbedContent(
            text=thing.get("text", ""),
            image=Image.open(thing["image"]).convert("RGB") if "image" in thing else None,
            video=Path(thing["video"]) if "video" in thing else None,
        )
        for thing in things
    ]
    return list(embedder.embed_items(contents))


def run_reference(task: str, python: str, folder: Path) -> None:
    """Have the reference's own modules work on a folder, in their own environment."""
    script = shutil.copy(HERE / "reference_vectors.py", folder)
    (folder / "site").mkdir()
    shutil.copy(HERE / "torchvision_stub.py", folder / "site" / "sitecustomize.py")
    command = [python, script, task, CLONE, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(folder / "site"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


def compare(made: np.ndarray, right: np.ndarray) -> Bounds:
    return Bounds(float(np.abs(made - right).max()), float((made * right).sum(axis=1).min()))


def open_gve(folder: Path) -> Embedder:
    from vrag.embed.models.gve import GveEmbedder

    return GveEmbedder(str(folder), EmbedOptions(frames=8))


def open_qwen3_vl(folder: Path) -> Embedder:
    from vrag.embed.models.qwen3_vl import Qwen3VLEmbedder

    return Qwen3VLEmbedder(str(folder))


@pytest.mark.parametrize(
    ("family", "name", "side", "publish", "open_model"),
    [
        ("gve", "qwen2_5_vl-gve", 28, publish_gve, open_gve),
        ("qwen3-vl", "qwen3-vl-embedding", 32, publish_qwen3_vl, open_qwen3_vl),
    ],
)
def test_vectors_are_the_references(
    tmp_path: Path,
    family: str,
    name: str,
    side: int,
    publish: Callable[[Path, Any], Path],
    open_model: Callable[[Path], Embedder],
) -> None:
    if not PYTHONS[family]:
        pytest.skip("no Python for the reference is named")
    model = publish_quietly(publish, tmp_path / name)
    write_media(tmp_path, side)
    modalities = asked(tmp_path)
    (tmp_path / "asked.json").write_text(
        json.dumps([one for things, _ in modalities.values() for one in things])
    )
    run_reference(family, PYTHONS[family], tmp_path)
    theirs: dict[str, np.ndarray] = dict(np.load(tmp_path / "vectors.npz"))
    embedder = open_model(model)
    wrong, start = list[str](), 0
    for modality, (things, bounds) in modalities.items():
        made = np.stack(vectors_of(embedder, modality, things))
        found = {batch: compare(made, right[start : start + len(things)]) for batch, right in theirs.items()}
        start += len(things)
        figures = (f"{batch} batch {one.difference:.1e} {one.cosine:.6f}" for batch, one in found.items())
        print(f"{family:9} {modality:17} {'; '.join(figures)}")  # noqa: T201 - the figures are the point
        if found["first"].difference > bounds.difference or found["first"].cosine < bounds.cosine:
            wrong.append(modality)
    assert not wrong


def test_an_exported_index_is_searched_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GVE, with the reference's own `load_index` and `search`, which run FAISS."""
    if not PYTHONS["gve"]:
        pytest.skip("no Python for the reference is named")
    from vrag.compat import SearchEngine
    from vrag.embed.embedder import VectorKind
    from vrag.index.collection import Collection
    from vrag.index.reference.index_export import export_index

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = publish_quietly(publish_gve, tmp_path / "qwen2_5_vl-gve")
    files = tmp_path / "files"
    files.mkdir()
    write_media(files, 28)
    for number, text in enumerate(TEXTS):
        (files / f"note{number}.txt").write_text(text)
    engine = SearchEngine(str(model))
    engine.build_index(str(files), str(tmp_path / "own"))
    export_index(
        Collection.open(tmp_path / "own"), tmp_path / "index", VectorKind.SINGLE, model="Alibaba-NLP/GVE-3B"
    )
    (tmp_path / "queries.json").write_text(json.dumps(TEXTS))
    run_reference("search", PYTHONS["gve"], tmp_path)
    theirs = json.loads((tmp_path / "found.json").read_text())
    imported = SearchEngine(str(model))
    imported.load_index(str(tmp_path / "index"))
    for searched in (engine, imported):
        ours = searched.search(TEXTS, top_k=5)
        for own, other in zip(ours, theirs, strict=True):
            assert own["score"] == pytest.approx(other["score"], abs=1e-5)
            assert [one["type"] for one in own["data"]] == [one["type"] for one in other["data"]]
    assert all(Path(one["file_path"]).is_file() for found in theirs for one in found["data"])
    print(f"search: {sum(len(found['data']) for found in theirs)} hits, the same scores")  # noqa: T201
