from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
import reference
from extras import require

from vrag.embed.embedder import EmbedContent, Modality, VectorKind
from vrag.embed.models.sentence import SentenceEmbedder
from vrag.embed.options import EmbedOptions, kept_settings
from vrag.embed.registry import open_embedder
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from PIL.Image import Image

require("models", "sentence_transformers")

TEXTS = ["a red square", "revenue grew by 12 % in 2023, and a blue circle on a white page", "收入 多少"]
NATIVE = "Query: {}" + "<|endoftext|>" * 10 + "\n"
MODULES = "{}" + "<|endoftext|>" * 10


@pytest.fixture(scope="module")
def native(models: Path) -> SentenceEmbedder:
    return SentenceEmbedder(str(models / "colqwen2"))


@pytest.fixture(scope="module")
def listed(models: Path) -> SentenceEmbedder:
    return SentenceEmbedder(str(models / "colqwen2-modules"))


@pytest.fixture(scope="module")
def dense(models: Path) -> SentenceEmbedder:
    return SentenceEmbedder(str(models / "qwen3-vl-tuned"))


def worst(made: Sequence[NDArray[np.float32]], right: Sequence[NDArray[np.float32]]) -> float:
    assert [one.shape for one in made] == [one.shape for one in right]
    return max(float(np.abs(one - other).max()) for one, other in zip(made, right, strict=True))


def show(pages: Sequence[Image]) -> list[EmbedContent]:
    return [EmbedContent(image=page) for page in pages]


class TestSameVectorsAsAnIndependentImplementation:
    def test_native_colqwen2_pages(self, native: SentenceEmbedder, models: Path, pages: list[Image]) -> None:
        parts = reference.colqwen2(models / "colqwen2")
        right = [reference.colqwen2_page(parts, page) for page in pages]
        assert worst(native.embed_items(show(pages)), right) < 1e-5

    def test_native_colqwen2_queries(self, native: SentenceEmbedder, models: Path) -> None:
        parts = reference.colqwen2(models / "colqwen2")
        right = [reference.colqwen2_query(parts, NATIVE.format(text)) for text in TEXTS]
        assert worst(native.embed_queries(TEXTS), right) < 1e-5

    def test_a_colqwen2_adapter(self, listed: SentenceEmbedder, models: Path, pages: list[Image]) -> None:
        parts = reference.colqwen2_modules(models / "colqwen2-modules", models / "colqwen2-base")
        assert (
            worst(listed.embed_items(show(pages)), [reference.colqwen2_page(parts, p) for p in pages]) < 1e-5
        )
        right = [reference.colqwen2_query(parts, MODULES.format(text)) for text in TEXTS]
        assert worst(listed.embed_queries(TEXTS), right) < 1e-5

    def test_native_colpali(self, models: Path, pages: list[Image]) -> None:
        embedder = SentenceEmbedder(str(models / "colpali"))
        right = [reference.colpali(models / "colpali", page) for page in pages]
        assert worst(embedder.embed_items(show(pages)), right) < 1e-5
        asked = [reference.colpali(models / "colpali", text=text) for text in TEXTS]
        assert worst(embedder.embed_queries(TEXTS), asked) < 1e-5
        assert embedder.match_map(pages[0], "red").similarity.shape[1:] == (4, 4)

    def test_qwen3_vl_embedding(self, dense: SentenceEmbedder, models: Path, pages: list[Image]) -> None:
        contents = [EmbedContent(text=TEXTS[1]), *show(pages), EmbedContent(text=TEXTS[0], image=pages[1])]
        folder, said = models / "qwen3-vl-tuned", "Represent the input."
        right = [reference.qwen3_vl(folder, said, one.text, one.image) for one in contents]
        assert worst(dense.embed_items(contents), right) < 1e-5
        asked = [reference.qwen3_vl(folder, "Retrieve what answers the question.", text) for text in TEXTS]
        assert worst(dense.embed_queries(TEXTS), asked) < 1e-5

    def test_a_perturbed_weight_shows(self, models: Path, pages: list[Image]) -> None:
        """The comparisons above can fail."""
        parts = reference.colqwen2(models / "colqwen2")
        network = parts[0]
        network.language_model.layers[0].mlp.up_proj.weight.data[3, 5] += 1.0
        other = SentenceEmbedder(str(models / "colqwen2"))
        assert (
            worst(other.embed_items(show(pages)), [reference.colqwen2_page(parts, p) for p in pages]) > 1e-4
        )

    def test_without_positions_in_three_dimensions_native_colqwen2_is_wrong(
        self, models: Path, pages: list[Image], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """When this fails, transformers has mended it, and `rotary.py` can go."""

        def leave(_: object) -> bool:
            return False

        monkeypatch.setattr("vrag.embed.models.loader.restore_positions", leave)
        flat = SentenceEmbedder(str(models / "colqwen2")).embed_items(show(pages))
        parts = reference.colqwen2(models / "colqwen2")
        right = [reference.colqwen2_page(parts, page) for page in pages]
        cosine = min(float((one * other).sum(axis=1).min()) for one, other in zip(flat, right, strict=True))
        assert cosine < 0.999


class TestAVectorDependsOnItsOwnContentAlone:
    @pytest.mark.parametrize("name", ["native", "listed", "dense"])
    def test_not_on_batch_padding_or_order(
        self, name: str, pages: list[Image], request: pytest.FixtureRequest
    ) -> None:
        embedder: SentenceEmbedder = request.getfixturevalue(name)
        contents = [EmbedContent(text=TEXTS[1]), *show(pages), EmbedContent(text=TEXTS[0])]
        together = embedder.embed_items(contents)
        alone = [embedder.embed_items([content])[0] for content in contents]
        backwards = embedder.embed_items(contents[::-1])[::-1]
        assert worst(together, alone) < 1e-5
        assert worst(together, backwards) < 1e-5

    @pytest.mark.parametrize("name", ["native", "listed", "dense"])
    def test_and_does_depend_on_it(
        self, name: str, pages: list[Image], request: pytest.FixtureRequest
    ) -> None:
        embedder: SentenceEmbedder = request.getfixturevalue(name)
        turned = [page.rotate(180) for page in pages]
        for one, other in zip(
            embedder.embed_items(show(pages)), embedder.embed_items(show(turned)), strict=True
        ):
            cosine = (np.atleast_2d(one) * np.atleast_2d(other)).sum(axis=1)
            assert cosine.min() < 0.99

    def test_several_threads_get_their_own(self, native: SentenceEmbedder) -> None:
        right = native.embed_queries(TEXTS)
        made: dict[int, Sequence[NDArray[np.float32]]] = {}

        def embed(start: int) -> None:
            made[start] = native.embed_queries(TEXTS[start:])

        threads = [threading.Thread(target=embed, args=(start,)) for start in range(len(TEXTS))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(worst(made[n], right[n:]) < 1e-5 for n in range(len(TEXTS)))


class TestWhatItSaysOfItself:
    def test_kind_and_dimension(self, native: SentenceEmbedder, dense: SentenceEmbedder) -> None:
        assert (native.kind, native.dimension) == (VectorKind.MULTI, 16)
        assert (dense.kind, dense.dimension) == (VectorKind.SINGLE, 32)
        assert native.modalities == dense.modalities == {Modality.TEXT, Modality.IMAGE}

    def test_a_model_of_text_looks_at_text_alone(self, models: Path, pages: list[Image]) -> None:
        embedder = SentenceEmbedder(str(models / "text"))
        assert embedder.modalities == {Modality.TEXT}
        (vector,) = embedder.embed_items([EmbedContent(text="a")])
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)  # cosine without a Normalize module
        with pytest.raises(EmbedError, match="cannot embed image, only text"):
            embedder.embed_items(show(pages))

    def test_vectors_have_length_one(self, native: SentenceEmbedder, pages: list[Image]) -> None:
        vectors = np.concatenate(native.embed_items(show(pages)))
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        assert vectors.dtype == np.float32

    def test_half_precision_gives_float32_near_the_full(self, models: Path, pages: list[Image]) -> None:
        full = SentenceEmbedder(str(models / "qwen3-vl-tuned"))
        half = SentenceEmbedder(str(models / "qwen3-vl-tuned"), EmbedOptions(dtype="bfloat16"))
        one, other = full.embed_items(show(pages))[0], half.embed_items(show(pages))[0]
        assert other.dtype == np.float32
        assert 0.97 < float(one @ other) < 0.9999999
        assert full.fingerprint != half.fingerprint


class TestPictures:
    def test_pixel_limits_change_the_patches_and_the_fingerprint(
        self, native: SentenceEmbedder, models: Path, pages: list[Image]
    ) -> None:
        small = SentenceEmbedder(str(models / "colqwen2"), EmbedOptions(max_pixels=20 * 784))
        assert len(small.embed_items(show(pages[:1]))[0]) < len(native.embed_items(show(pages[:1]))[0])
        assert small.fingerprint != native.fingerprint

    @pytest.mark.parametrize("route", ["colqwen2", "colqwen2-modules"])
    def test_opened_with_the_settings_it_reports_it_is_the_same(self, models: Path, route: str) -> None:
        asked = EmbedOptions(max_pixels=20 * 784, dtype="bfloat16")
        embedder = SentenceEmbedder(str(models / route), asked)
        assert embedder.settings == {"dtype": "bfloat16", "max_pixels": 20 * 784}
        again = open_embedder(embedder.name, **kept_settings(embedder.settings))
        assert (again.fingerprint, again.settings) == (embedder.fingerprint, embedder.settings)
        assert SentenceEmbedder(str(models / route)).settings == {"dtype": "float32"}

    def test_limits_are_refused_where_the_model_sets_the_size(self, models: Path) -> None:
        with pytest.raises(EmbedError, match="sets the size"):
            SentenceEmbedder(str(models / "text"), EmbedOptions(max_pixels=10_000))

    def test_impossible_proportions_are_an_error_of_that_picture(self, native: SentenceEmbedder) -> None:
        from PIL import Image as Images

        with pytest.raises(EmbedError, match="aspect ratio"):
            native.embed_items([EmbedContent(image=Images.new("RGB", (3000, 2)))])

    def test_grey_and_transparent_pictures_are_taken(
        self, native: SentenceEmbedder, pages: list[Image]
    ) -> None:
        for mode in ("L", "RGBA", "P", "1"):
            assert len(native.embed_items(show([pages[1].convert(mode)]))[0]) > 10


class TestTexts:
    @pytest.mark.parametrize(
        "text", ["http://127.0.0.1:9/x.png", "/etc/passwd.png", "data:image/png;base64,AAAA"]
    )
    def test_addresses_are_texts_and_never_opened(
        self, native: SentenceEmbedder, dense: SentenceEmbedder, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def opened(*_: object, **__: object) -> None:
            raise AssertionError("something was opened")

        monkeypatch.setattr("socket.socket.connect", opened)
        for embedder in (native, dense):
            assert embedder.embed_queries([text])[0].shape[-1] == embedder.dimension
            assert embedder.embed_items([EmbedContent(text=text)])[0].shape[-1] == embedder.dimension

    def test_marks_of_pictures_in_texts_stand_for_no_picture(
        self, dense: SentenceEmbedder, pages: list[Image]
    ) -> None:
        said = "see <|image_pad|> and <|video_pad|>"
        assert dense.embed_items([EmbedContent(text=said, image=pages[0])])[0].shape == (32,)
        assert dense.embed_queries([said])[0].shape == (32,)

    def test_the_query_prompt_is_the_models(self, dense: SentenceEmbedder) -> None:
        query, item = dense.embed_queries(["red"])[0], dense.embed_items([EmbedContent(text="red")])[0]
        assert float(query @ item) < 0.9999

    def test_no_queries_are_no_vectors(self, native: SentenceEmbedder) -> None:
        assert list(native.embed_queries([])) == []
        assert list(native.embed_items([])) == []


class TestWhatIsRefused:
    def test_a_video(self, dense: SentenceEmbedder, tmp_path: Path) -> None:
        with pytest.raises(EmbedError, match="cannot embed video"):
            dense.embed_items([EmbedContent(video=tmp_path / "a.mp4")])

    def test_nothing(self, dense: SentenceEmbedder) -> None:
        with pytest.raises(EmbedError, match="empty content"):
            dense.embed_items([EmbedContent()])

    def test_text_and_picture_together_where_the_model_has_no_such_prompt(
        self, native: SentenceEmbedder, pages: list[Image]
    ) -> None:
        with pytest.raises(EmbedError, match="cannot combine"):
            native.embed_items([EmbedContent(text="a", image=pages[0])])

    def test_a_reranker(self, models: Path) -> None:
        with pytest.raises(EmbedError, match="scores pairs"):
            SentenceEmbedder(str(models / "cross-encoder"))


class TestMatchMap:
    def test_is_the_similarity_of_words_and_patches(
        self, native: SentenceEmbedder, models: Path, pages: list[Image]
    ) -> None:
        found = native.match_map(pages[0], "a red square")
        assert "".join(found.tokens).strip() == "a red square"
        page, query = native.embed_items(show(pages[:1]))[0], native.embed_queries(["a red square"])[0]
        _, rows, columns = reference.show(reference.pictures(models / "colqwen2"), pages[0])[1][
            "image_grid_thw"
        ][0]
        assert found.similarity.shape == (len(found.tokens), rows // 2, columns // 2)
        before = len(reference.tokens(models / "colqwen2")("<|im_start|>user\n<|vision_start|>")["input_ids"])
        patches = page[before : before + rows * columns // 4]
        skipped = len(reference.tokens(models / "colqwen2")("Query:")["input_ids"])
        right = (query[skipped : skipped + len(found.tokens)] @ patches.T).reshape(found.similarity.shape)
        np.testing.assert_allclose(found.similarity, right, atol=1e-6)

    def test_follows_the_picture(self, listed: SentenceEmbedder, pages: list[Image]) -> None:
        shapes = {listed.match_map(page, "red").similarity.shape[1:] for page in pages}
        assert len(shapes) == 3

    def test_is_refused_by_a_model_of_one_vector(self, dense: SentenceEmbedder, pages: list[Image]) -> None:
        with pytest.raises(EmbedError, match="cannot show where"):
            dense.match_map(pages[0], "red")
