from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import reference
from extras import require
from PIL import Image as Images

from vrag.embed.embedder import EmbedContent, Modality, VectorKind
from vrag.embed.models.gve import GveEmbedder
from vrag.embed.options import EmbedOptions, kept_settings
from vrag.embed.registry import open_embedder
from vrag.errors import CorpusError, EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from PIL.Image import Image

require("models", "transformers")

TEXTS = ["a red square", "revenue grew by 12 % in 2023, and a blue circle on a white page"]


@dataclass(frozen=True)
class Frame:
    image: Image
    seconds: float


@pytest.fixture(scope="module")
def embedder(models: Path) -> GveEmbedder:
    return GveEmbedder(str(models / "gve"))


@pytest.mark.parametrize("most", [None, 30 * 784])
def test_opened_with_the_settings_it_reports_it_is_the_same(models: Path, most: int | None) -> None:
    embedder = GveEmbedder(str(models / "gve"), EmbedOptions(max_pixels=most))
    assert embedder.settings == {"dtype": "float32"} | ({"max_pixels": most} if most else {})
    again = open_embedder(embedder.name, **kept_settings(embedder.settings))
    assert (again.fingerprint, again.settings) == (embedder.fingerprint, embedder.settings)


@pytest.fixture(scope="module")
def film() -> list[Image]:
    """Five frames whose sides are multiples of 28, so that nothing resizes them."""
    drawn = np.random.default_rng(3).integers(0, 256, (5, 84, 112, 3), dtype=np.uint8)
    return [Images.fromarray(frame) for frame in drawn]


@pytest.fixture
def clip(film: list[Image], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which the frames of `film` are found, one a second."""
    path = tmp_path / "clip.mp4"

    def sample(asked: Path, fps: float, most: int, least: int) -> list[Frame]:
        assert (asked, fps, most, least) == (path, 1.0, 32, 4)
        return [Frame(image, float(number)) for number, image in enumerate(film)]

    monkeypatch.setattr("vrag.corpus.formats.video.sample_frames", sample)
    return path


def rename_weights(source: Path, target: Path, renamed: Callable[[str], str]) -> Path:
    """A copy of a model whose weights have other names."""
    import tiny_models as tiny

    folder, store = shutil.copytree(source, target), tiny.load("safetensors.torch")
    weights = store.load_file(folder / "model.safetensors")
    named = {renamed(name): weight for name, weight in weights.items()}
    store.save_file(named, folder / "model.safetensors", {"format": "pt"})
    return folder


def worst(made: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    return float(np.abs(np.stack(made) - np.stack(right)).max())


class TestSameVectorsAsAnIndependentImplementation:
    def test_texts_pictures_and_both(self, embedder: GveEmbedder, models: Path, pages: list[Image]) -> None:
        contents = [EmbedContent(text=TEXTS[1]), *(EmbedContent(image=page) for page in pages)]
        contents.append(EmbedContent(text=TEXTS[0], image=pages[1]))
        right = [reference.gve(models / "gve", one.text, one.image) for one in contents]
        assert worst(embedder.embed_items(contents), right) < 1e-5

    def test_videos(self, embedder: GveEmbedder, models: Path, film: list[Image], clip: Path) -> None:
        made = embedder.embed_items([EmbedContent(video=clip), EmbedContent(video=clip, text=TEXTS[0])])
        right = [reference.gve(models / "gve", text, frames=film) for text in ("", TEXTS[0])]
        assert worst(made, right) < 1e-5

    def test_queries_are_worded_as_items(self, embedder: GveEmbedder, models: Path) -> None:
        right = [reference.gve(models / "gve", text) for text in TEXTS]
        assert worst(embedder.embed_queries(TEXTS), right) < 1e-5

    def test_the_closing_token_decides_the_vector(self, embedder: GveEmbedder, models: Path) -> None:
        """What earlier versions made as `gve-reference:` is something else."""
        bare = [reference.gve(models / "gve", text, closing="") for text in TEXTS]
        assert worst(embedder.embed_queries(TEXTS), bare) > 0.01

    def test_long_texts_are_cut_before_the_closing_token(self, models: Path) -> None:
        class Short(GveEmbedder):
            max_tokens = 40

        folder, long = models / "gve", "a red square " * 40
        tokenizer = reference.tokens(folder)
        head = reference.SYSTEM.format("You are a helpful assistant.") + "<|im_start|>user\n" + long
        cut = tokenizer.decode(tokenizer(head)["input_ids"][:40])
        right = reference.states_of(folder, "Qwen2_5_VLForConditionalGeneration", cut + reference.PAD)
        assert worst(Short(str(folder)).embed_queries([long]), [right]) < 1e-5

    @pytest.mark.parametrize(
        ("vision", "text"),
        [
            ("visual.", "model."),
            ("model.visual.", "model.language_model."),
            ("visual.", "language_model."),
            ("model.visual.", "model."),
        ],
    )
    def test_whatever_names_transformers_gave_the_weights(
        self, embedder: GveEmbedder, models: Path, tmp_path: Path, vision: str, text: str
    ) -> None:
        def renamed(name: str) -> str:
            head, _, rest = name.partition(".")
            return {"visual": vision, "model": text}[head] + rest

        folder = rename_weights(models / "gve", tmp_path / "gve", renamed)
        assert np.array_equal(GveEmbedder(str(folder)).embed_queries(TEXTS), embedder.embed_queries(TEXTS))

    def test_an_old_spelling_of_the_scheme_stands_for_it(self, embedder: GveEmbedder, models: Path) -> None:
        named = open_embedder(f"gve-reference:{models / 'gve'}")
        assert (named.name, named.fingerprint) == (embedder.name, embedder.fingerprint)

    def test_a_perturbed_weight_shows(self, models: Path, tmp_path: Path, pages: list[Image]) -> None:
        """The comparisons above can fail."""
        import tiny_models as tiny

        folder = shutil.copytree(models / "gve", tmp_path / "gve")
        store = tiny.load("safetensors.torch")
        weights = store.load_file(folder / "model.safetensors")
        name = next(name for name in weights if "visual.blocks.0.attn.qkv.weight" in name)
        weights[name][2, 3] += 5.0
        store.save_file(weights, folder / "model.safetensors", {"format": "pt"})
        other = GveEmbedder(str(folder)).embed_items([EmbedContent(image=pages[0])])
        assert worst(other, [reference.gve(models / "gve", image=pages[0])]) > 1e-4


class TestAVectorDependsOnItsOwnContentAlone:
    def test_not_on_batch_padding_or_order(
        self, embedder: GveEmbedder, pages: list[Image], clip: Path
    ) -> None:
        contents = [
            EmbedContent(text=TEXTS[0]),
            EmbedContent(video=clip),
            EmbedContent(image=pages[0], text="a"),
        ]
        contents += [
            EmbedContent(text=TEXTS[1]),
            EmbedContent(image=pages[2]),
            EmbedContent(video=clip, image=pages[1]),
        ]
        together = embedder.embed_items(contents)
        assert worst(together, [embedder.embed_items([content])[0] for content in contents]) < 1e-5
        assert worst(together, embedder.embed_items(contents[::-1])[::-1]) < 1e-5

    def test_and_does_depend_on_it(self, embedder: GveEmbedder, pages: list[Image], clip: Path) -> None:
        contents = [EmbedContent(image=page) for page in pages] + [
            EmbedContent(video=clip),
            EmbedContent(text=TEXTS[0]),
        ]
        vectors = np.stack(embedder.embed_items(contents))
        cosines = vectors @ vectors.T
        assert (cosines[~np.eye(len(cosines), dtype=bool)] < 0.99).all()

    def test_on_the_order_of_frames(
        self, embedder: GveEmbedder, film: list[Image], clip: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (forth,) = embedder.embed_items([EmbedContent(video=clip)])

        def backwards(*_: object, **__: object) -> list[Frame]:
            return [Frame(image, float(number)) for number, image in enumerate(film[::-1])]

        monkeypatch.setattr("vrag.corpus.formats.video.sample_frames", backwards)
        (back,) = embedder.embed_items([EmbedContent(video=clip)])
        assert np.abs(forth - back).max() > 1e-3


class TestWhatItIs:
    def test_kind_dimension_and_length(self, embedder: GveEmbedder) -> None:
        assert (embedder.kind, embedder.dimension) == (VectorKind.SINGLE, 32)
        assert embedder.modalities == set(Modality)
        assert np.linalg.norm(embedder.embed_queries(["a"])[0]) == pytest.approx(1, abs=1e-5)

    def test_pictures_are_kept_within_its_bounds(self, embedder: GveEmbedder) -> None:
        processor: Any = embedder._images  # pyright: ignore[reportPrivateUsage] - shows in no vector
        large, small = (processor(images=[Images.new("RGB", size)]) for size in ((2000, 3000), (8, 9)))
        tokens = [len(made["pixel_values"]) // 4 for made in (large, small)]
        assert 200 < tokens[0] <= 256
        assert 4 <= tokens[1] <= 9

    def test_marks_in_texts_stand_for_no_picture(self, embedder: GveEmbedder, pages: list[Image]) -> None:
        contents = [
            EmbedContent(text="<|image_pad|><|video_pad|>"),
            EmbedContent(text="<|image_pad|>", image=pages[0]),
        ]
        assert len(embedder.embed_items(contents)) == 2

    def test_pixel_limits_count(self, embedder: GveEmbedder, models: Path) -> None:
        small = GveEmbedder(str(models / "gve"), EmbedOptions(max_pixels=20 * 784))
        assert small.fingerprint != embedder.fingerprint

    def test_a_template_in_a_file_of_its_own_is_found(self, models: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(models / "gve", tmp_path / "gve")
        template = (folder / "chat_template.jinja").read_text()
        (folder / "chat_template.jinja").unlink()
        with pytest.raises(EmbedError, match="no chat template"):
            GveEmbedder(str(folder))
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
        assert GveEmbedder(str(folder)).embed_queries(["a"])[0].shape == (32,)


class TestWhatIsRefused:
    def test_other_networks(self, models: Path) -> None:
        with pytest.raises(EmbedError, match="is not GVE: it holds qwen3_vl"):
            GveEmbedder(str(models / "qwen3-vl-embedding"))

    def test_nothing(self, embedder: GveEmbedder) -> None:
        with pytest.raises(EmbedError, match="empty content"):
            embedder.embed_items([EmbedContent()])

    def test_videos_that_cannot_be_read(
        self, embedder: GveEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def damaged(*_: object, **__: object) -> list[Frame]:
            raise CorpusError("It is damaged.")

        monkeypatch.setattr("vrag.corpus.formats.video.sample_frames", damaged)
        with pytest.raises(EmbedError, match=r"clip\.mp4 cannot be read: It is damaged"):
            embedder.embed_items([EmbedContent(video=tmp_path / "clip.mp4")])

    def test_weights_that_are_missing(self, models: Path, tmp_path: Path) -> None:
        import tiny_models as tiny

        folder = shutil.copytree(models / "gve", tmp_path / "gve")
        store = tiny.load("safetensors.torch")
        weights = store.load_file(folder / "model.safetensors")
        weights.pop(next(name for name in weights if "layers.1.mlp.up_proj" in name))
        store.save_file(weights, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(EmbedError, match=r"lacks weights.*up_proj"):
            GveEmbedder(str(folder))

    def test_weights_by_names_that_nobody_wrote(self, models: Path, tmp_path: Path) -> None:
        folder = rename_weights(models / "gve", tmp_path / "gve", lambda name: f"module.{name}")
        with pytest.raises(EmbedError, match="lacks weights"):
            GveEmbedder(str(folder))

    def test_weights_without_a_place_in_the_network(self, models: Path, tmp_path: Path) -> None:
        import tiny_models as tiny

        folder = shutil.copytree(models / "gve", tmp_path / "gve")
        store = tiny.load("safetensors.torch")
        weights = store.load_file(folder / "model.safetensors")
        name = next(name for name in weights if "q_proj.weight" in name)
        more = {name.replace("weight", "lora_A.weight"): weights[name].clone()}
        store.save_file(weights | more, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(EmbedError, match=r"1 weights .* no place in the network, among them .*lora_A"):
            GveEmbedder(str(folder))

    def test_instructions(self, models: Path) -> None:
        with pytest.raises(EmbedError, match="takes no instruction"):
            GveEmbedder(str(models / "gve"), EmbedOptions(query_instruction="Find it."))
