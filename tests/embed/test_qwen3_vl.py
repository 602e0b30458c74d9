from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import reference
from extras import require
from PIL import Image as Images

from vrag.embed.embedder import EmbedContent, Modality, VectorKind
from vrag.embed.model_kind import QWEN3_INSTRUCTION, is_qwen3_vl_embedding
from vrag.embed.models.qwen3_vl import Qwen3VLEmbedder
from vrag.embed.models.sentence import SentenceEmbedder
from vrag.embed.options import EmbedOptions, kept_settings
from vrag.embed.registry import open_embedder
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL.Image import Image

require("models", "transformers")

TEXTS = ["a red square", "revenue grew by 12 % in 2023, and a blue circle on a white page"]
ASKED = "Find the page that answers the question."
REPEATING = (
    "<|im_start|>system\n" + QWEN3_INSTRUCTION + "<|im_end|>\n"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A template that says the sentence whatever the messages say."""
DROPPING = (
    "{% for message in messages if message.role != 'system' %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Frame:
    image: Image
    seconds: float


@pytest.fixture(scope="module")
def folder(models: Path) -> Path:
    return models / "qwen3-vl-embedding"


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Qwen3VLEmbedder:
    return Qwen3VLEmbedder(str(folder))


@pytest.fixture(scope="module")
def film() -> list[tuple[float, Image]]:
    """Six frames of 128 to 768 tokens, whose sides are multiples of 32, so that nothing resizes them."""
    drawn = np.random.default_rng(3).integers(0, 256, (6, 352, 384, 3), dtype=np.uint8)
    return [(1.3 * number, Images.fromarray(frame)) for number, frame in enumerate(drawn)]


@pytest.fixture
def clip(film: list[tuple[float, Image]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which the frames of `film` are found."""
    path = tmp_path / "clip.mp4"

    def sample(asked: Path, fps: float, most: int, least: int) -> tuple[list[Frame], float]:
        assert (asked, fps, most, least) == (path, 1.0, 8, 4)
        return [Frame(image, seconds) for seconds, image in film], 0.9

    monkeypatch.setattr("vrag.corpus.formats.video.sample_evenly", sample)
    return path


def worst(made: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    return float(np.abs(np.stack(made) - np.stack(right)).max())


class TestSameVectorsAsAnIndependentImplementation:
    def test_texts_pictures_and_both(
        self, embedder: Qwen3VLEmbedder, folder: Path, pages: list[Image]
    ) -> None:
        contents = [EmbedContent(text=TEXTS[1]), *(EmbedContent(image=page) for page in pages)]
        contents.append(EmbedContent(text=TEXTS[0], image=pages[1]))
        right = [reference.qwen3_vl(folder, QWEN3_INSTRUCTION, one.text, one.image) for one in contents]
        assert worst(embedder.embed_items(contents), right) < 1e-5

    def test_videos(
        self, embedder: Qwen3VLEmbedder, folder: Path, film: list[tuple[float, Image]], clip: Path
    ) -> None:
        made = embedder.embed_items([EmbedContent(video=clip), EmbedContent(video=clip, text=TEXTS[0])])
        right = [reference.qwen3_vl(folder, QWEN3_INSTRUCTION, text, frames=film) for text in ("", TEXTS[0])]
        assert worst(made, right) < 1e-5

    def test_the_instruction_of_queries(self, embedder: Qwen3VLEmbedder, folder: Path) -> None:
        asking = Qwen3VLEmbedder(str(folder), EmbedOptions(query_instruction=ASKED[:-1]))
        right = [reference.qwen3_vl(folder, ASKED, text) for text in TEXTS]
        assert worst(asking.embed_queries(TEXTS), right) < 1e-5
        contents = [EmbedContent(text=text) for text in TEXTS]
        assert np.array_equal(asking.embed_items(contents), embedder.embed_items(contents))
        assert asking.fingerprint == embedder.fingerprint

    def test_the_instruction_of_documents(self, embedder: Qwen3VLEmbedder, folder: Path) -> None:
        told = Qwen3VLEmbedder(str(folder), EmbedOptions(document_instruction=ASKED))
        right = [reference.qwen3_vl(folder, ASKED, text) for text in TEXTS]
        assert worst(told.embed_items([EmbedContent(text=text) for text in TEXTS]), right) < 1e-5
        assert np.array_equal(told.embed_queries(TEXTS), embedder.embed_queries(TEXTS))
        assert told.fingerprint != embedder.fingerprint
        again = open_embedder(told.name, **kept_settings(told.settings))
        assert again.fingerprint == told.fingerprint

    def test_sentence_transformers_agrees_on_texts(self, embedder: Qwen3VLEmbedder, folder: Path) -> None:
        made = SentenceEmbedder(str(folder)).embed_queries(TEXTS)
        assert worst(embedder.embed_queries(TEXTS), made) < 1e-5


class TestTheDefaultSentenceIsSaidOnce:
    @pytest.mark.parametrize("template", [REPEATING, DROPPING])
    def test_whatever_the_template_does(
        self, embedder: Qwen3VLEmbedder, folder: Path, tmp_path: Path, template: str
    ) -> None:
        other = shutil.copytree(folder, tmp_path / "model")
        (other / "chat_template.jinja").write_text(template)
        asking = Qwen3VLEmbedder(str(other), EmbedOptions(query_instruction=ASKED))
        assert np.array_equal(
            asking.embed_queries(TEXTS),
            Qwen3VLEmbedder(str(folder), EmbedOptions(query_instruction=ASKED)).embed_queries(TEXTS),
        )
        contents = [EmbedContent(text=text) for text in TEXTS]
        assert np.array_equal(asking.embed_items(contents), embedder.embed_items(contents))

    def test_whatever_the_prompts_file_says(self, embedder: Qwen3VLEmbedder, models: Path) -> None:
        tuned = Qwen3VLEmbedder(str(models / "qwen3-vl-tuned"))
        assert np.array_equal(tuned.embed_queries(TEXTS), embedder.embed_queries(TEXTS))


class TestWhatItIs:
    def test_found_behind_the_name_of_sentence_transformers(self, folder: Path, models: Path) -> None:
        found = open_embedder(f"sentence:{folder}")
        assert isinstance(found, Qwen3VLEmbedder)
        assert found.name == f"sentence:{folder}"
        assert found.fingerprint == open_embedder(f"qwen3-vl:{folder}").fingerprint
        assert isinstance(open_embedder(f"sentence:{models / 'qwen3-vl-tuned'}"), SentenceEmbedder)

    def test_other_models_are_not_taken_for_it(self, models: Path) -> None:
        names = ["gve", "text", "qwen3-vl-tuned", "qwen3-vl-reranker", "colqwen2", "colqwen2-modules"]
        assert not any(is_qwen3_vl_embedding(models / name) for name in names)

    def test_kind_and_modalities(self, embedder: Qwen3VLEmbedder) -> None:
        assert (embedder.kind, embedder.dimension) == (VectorKind.SINGLE, 32)
        assert embedder.modalities == set(Modality)

    def test_limits_of_pictures_are_the_authors(self, embedder: Qwen3VLEmbedder) -> None:
        large, small = (Images.new("RGB", size) for size in ((3000, 2000), (8, 9)))
        processor: Any = embedder._images  # pyright: ignore[reportPrivateUsage] - shows in no vector
        tokens = [len(processor(images=[one])["pixel_values"]) // 4 for one in (large, small)]
        assert 1700 < tokens[0] <= 1800
        assert 4 <= tokens[1] <= 9

    @pytest.mark.parametrize("most", [None, 30 * 1024])
    def test_opened_with_the_settings_it_reports_it_is_the_same(self, folder: Path, most: int | None) -> None:
        embedder = Qwen3VLEmbedder(str(folder), EmbedOptions(max_pixels=most, frames=6))
        again = open_embedder(embedder.name, **kept_settings(embedder.settings))
        assert (again.fingerprint, again.settings) == (embedder.fingerprint, embedder.settings)

    def test_frames_count(self, embedder: Qwen3VLEmbedder, folder: Path) -> None:
        assert Qwen3VLEmbedder(str(folder), EmbedOptions(frames=64)).fingerprint != embedder.fingerprint

    def test_not_on_batch_padding_or_order(
        self, embedder: Qwen3VLEmbedder, pages: list[Image], clip: Path
    ) -> None:
        contents = [
            EmbedContent(text=TEXTS[0]),
            EmbedContent(video=clip),
            EmbedContent(image=pages[0], text="a"),
        ]
        contents += [EmbedContent(text=TEXTS[1]), EmbedContent(image=pages[2])]
        together = embedder.embed_items(contents)
        assert worst(together, [embedder.embed_items([content])[0] for content in contents]) < 1e-5
        assert worst(together, embedder.embed_items(contents[::-1])[::-1]) < 1e-5


class TestWhatIsRefused:
    def test_other_networks(self, models: Path) -> None:
        with pytest.raises(EmbedError, match=r"is not Qwen3-VL-Embedding: it holds qwen2_5_vl"):
            Qwen3VLEmbedder(str(models / "gve"))

    @pytest.mark.parametrize("frames", [0, 1, 100_000])
    def test_impossible_numbers_of_frames(self, frames: int) -> None:
        with pytest.raises(EmbedError, match="frames of a video"):
            EmbedOptions(frames=frames)
