"""Late interaction with the files, tensor names and settings of published checkpoints."""

from __future__ import annotations

import json
import logging
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import published_models as published
import pytest
import reference
import tiny_models as tiny
from extras import require
from PIL import Image

from vrag.embed.embedder import EmbedContent
from vrag.embed.models import loader
from vrag.embed.models.sentence import SentenceEmbedder
from vrag.embed.options import EmbedOptions, kept_settings
from vrag.embed.registry import check_same, open_embedder
from vrag.errors import EmbedError, FingerprintMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

require("models", "sentence_transformers", "peft")

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"  # PaliGemmaProcessor hands a tensor to NumPy 2
)

NAMES = ["colqwen2", "colpali"]
TEXTS = ["a red square", "revenue grew by 12 % in 2023, and a blue circle on a white page", "收入 多少"]
LARGE = (1000, 1400)
"""A page that the published preprocessor of ColQwen2 gives 1,800 visual tokens."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    for name in NAMES:
        getattr(published, name)(folder / name, folder / f"{name}-base")
    return folder


@pytest.fixture(scope="module")
def embedders(folder: Path) -> dict[str, SentenceEmbedder]:
    return {name: SentenceEmbedder(str(folder / name)) for name in NAMES}


def show(pages: Sequence[Image.Image]) -> list[EmbedContent]:
    return [EmbedContent(image=page) for page in pages]


def difference(made: Sequence[NDArray[np.float32]], right: Sequence[NDArray[np.float32]]) -> float:
    assert [vectors.shape for vectors in made] == [vectors.shape for vectors in right]
    return max(float(np.abs(one - other).max()) for one, other in zip(made, right, strict=True))


def merged_network(folder: Path, name: str) -> tuple[Any, Any]:
    """The network and the projection with the adapter added by hand, under today's names of tensors."""
    torch, transformers = tiny.load("torch"), tiny.load("transformers")
    weights = published.merged(folder / f"{name}-base", folder / name)
    config = transformers.AutoConfig.from_pretrained(folder / f"{name}-base")
    head = torch.nn.Linear(tiny.HIDDEN, published.DIMENSION)
    head.load_state_dict({key: weights.pop(f"custom_text_proj.{key}") for key in ("weight", "bias")})
    kind = {"colqwen2": "Qwen2VLModel", "colpali": "PaliGemmaModel"}[name]
    network = getattr(transformers, kind)(config)
    renamed = {published.today(key): weight for key, weight in weights.items()}
    network.load_state_dict(renamed)
    return network.eval(), head


@pytest.mark.slow
class TestSameVectorsAsWithTheAdapterAddedByHand:
    def test_colqwen2(
        self, folder: Path, embedders: dict[str, SentenceEmbedder], pages: list[Image.Image]
    ) -> None:
        tokenizer, pictures = reference.tokens(folder / "colqwen2"), reference.pictures(folder / "colqwen2")
        parts = (*merged_network(folder, "colqwen2"), tokenizer, pictures)
        made = embedders["colqwen2"].embed_items(show(pages))
        assert difference(made, [reference.colqwen2_page(parts, page) for page in pages]) < 1e-5
        asked = [reference.colqwen2_query(parts, f"Query: {text}{'<|endoftext|>' * 10}") for text in TEXTS]
        assert difference(embedders["colqwen2"].embed_queries(TEXTS), asked) < 1e-5

    def test_colpali(
        self, folder: Path, embedders: dict[str, SentenceEmbedder], pages: list[Image.Image]
    ) -> None:
        network, head = merged_network(folder, "colpali")
        module = tiny.load("transformers.models.siglip.image_processing_pil_siglip")
        pictures = module.SiglipImageProcessorPil.from_pretrained(folder / "colpali")
        tokenizer = reference.tokens(folder / "colpali")

        def run(prompt: str, **pixels: object) -> NDArray[np.float32]:
            ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
            whole = {"attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
            with tiny.load("torch").no_grad():
                states = network(input_ids=ids, **whole, **pixels).last_hidden_state[0]
                return reference.unit(head(states))

        asked = [run(f"<bos>Query: {text}{'<|endoftext|>' * 10}\n") for text in TEXTS]
        assert difference(embedders["colpali"].embed_queries(TEXTS), asked) < 1e-5
        # The second <bos> is the processor's: colpali-engine's models were trained with both.
        prompt = f"{'<image>' * 16}<bos><bos>Describe the image.\n"
        right = [run(prompt, **pictures(images=[page], return_tensors="pt")) for page in pages]
        assert difference(embedders["colpali"].embed_items(show(pages)), right) < 1e-5

    @pytest.mark.parametrize("name", NAMES)
    def test_without_the_adapter_every_vector_is_another(
        self,
        folder: Path,
        embedders: dict[str, SentenceEmbedder],
        tmp_path: Path,
        pages: list[Image.Image],
        name: str,
    ) -> None:
        def neutral(updates: dict[str, Any]) -> dict[str, Any]:
            kept = "custom_text_proj"
            return {key: w if "lora_A" in key or kept in key else w * 0 for key, w in updates.items()}

        other = SentenceEmbedder(str(changed(folder / name, tmp_path, neutral)))
        pairs = [
            (embedders[name].embed_items(show(pages)), other.embed_items(show(pages))),
            (embedders[name].embed_queries(TEXTS), other.embed_queries(TEXTS)),
        ]
        for ours, bare in pairs:
            assert (np.concatenate(ours) * np.concatenate(bare)).sum(axis=1).max() < 0.999


@pytest.mark.parametrize("name", NAMES)
class TestOpening:
    def test_prints_and_logs_nothing(
        self, folder: Path, name: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        library = logging.getLogger("transformers")
        library.addHandler(caplog.handler)
        SentenceEmbedder(str(folder / name))
        library.removeHandler(caplog.handler)
        assert (caplog.text, *capfd.readouterr()) == ("", "", "")

    def test_a_vector_does_not_depend_on_the_batch(
        self, embedders: dict[str, SentenceEmbedder], pages: list[Image.Image], name: str
    ) -> None:
        """Masks of padded batches are made another way than those of single inputs."""
        embedder = embedders[name]
        alone = [embedder.embed_queries([text])[0] for text in TEXTS]
        assert difference(embedder.embed_queries(TEXTS), alone) < 1e-5
        contents = [*show(pages), *(EmbedContent(text=text) for text in TEXTS)]
        apart = [embedder.embed_items([content])[0] for content in contents]
        assert difference(embedder.embed_items(contents), apart) < 1e-5

    def test_a_match_map_covers_the_page(
        self, embedders: dict[str, SentenceEmbedder], pages: list[Image.Image], name: str
    ) -> None:
        found = embedders[name].match_map(pages[0], "a red square")
        assert "".join(found.tokens).strip() == "a red square"
        assert found.similarity.shape[1:] == {"colqwen2": (7, 9), "colpali": (4, 4)}[name]

    def test_what_resizes_pictures_is_part_of_the_fingerprint(
        self,
        folder: Path,
        embedders: dict[str, SentenceEmbedder],
        monkeypatch: pytest.MonkeyPatch,
        name: str,
    ) -> None:
        processor = embedders[name]._model[0].processor  # pyright: ignore[reportPrivateUsage]
        assert loader.image_backend(processor) == "pil"

        def torchvision(_: object) -> str:
            return "torchvision"

        monkeypatch.setattr("vrag.embed.models.loader.image_backend", torchvision)
        assert SentenceEmbedder(str(folder / name)).fingerprint != embedders[name].fingerprint


class TestVisualTokens:
    def test_are_limited_to_768(self, embedders: dict[str, SentenceEmbedder]) -> None:
        page = Image.effect_noise(LARGE, 90).convert("RGB")
        embedder = embedders["colqwen2"]
        assert embedder.settings == {"dtype": "float32", "visual_tokens": 768}
        rows, columns = embedder.match_map(page, "red").similarity.shape[1:]
        vectors = len(embedder.embed_items(show([page]))[0])
        assert rows * columns <= 768
        assert 731 <= vectors <= 779  # as the reference's own indexes

    @pytest.mark.parametrize(
        ("options", "least", "most"),
        [
            (EmbedOptions(visual_tokens=0), 1801, 1850),
            (EmbedOptions(visual_tokens=100), 80, 120),
            (EmbedOptions(max_pixels=200 * 784), 180, 220),
        ],
    )
    def test_are_as_many_as_asked_for(
        self,
        folder: Path,
        embedders: dict[str, SentenceEmbedder],
        options: EmbedOptions,
        least: int,
        most: int,
    ) -> None:
        page = Image.effect_noise(LARGE, 90).convert("RGB")
        embedder = SentenceEmbedder(str(folder / "colqwen2"), options)
        assert least <= len(embedder.embed_items(show([page]))[0]) <= most
        again = open_embedder(embedder.name, **kept_settings(embedder.settings))
        assert (again.fingerprint, again.settings) == (embedder.fingerprint, embedder.settings)
        with pytest.raises(FingerprintMismatch, match=r"visual_tokens .*, not 768"):
            check_same(embedder, embedders["colqwen2"])

    @pytest.mark.parametrize("kept", [{"dtype": "float32"}, {}])
    def test_of_a_collection_from_before_the_limit_are_the_models_own(
        self, folder: Path, kept: dict[str, object]
    ) -> None:
        before = SentenceEmbedder(str(folder / "colqwen2"), EmbedOptions(visual_tokens=0))
        again = open_embedder(before.name, **kept_settings(kept))
        assert again.fingerprint == before.fingerprint
        assert "visual_tokens" not in again.settings

    def test_leave_models_of_one_size_alone(self, embedders: dict[str, SentenceEmbedder]) -> None:
        assert embedders["colpali"].settings == {"dtype": "float32"}

    def test_cannot_be_fewer_than_none(self) -> None:
        with pytest.raises(EmbedError, match="-1 visual tokens"):
            EmbedOptions(visual_tokens=-1)


def changed(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], **config: object
) -> Path:
    """A copy of an adapter with other tensors and settings."""
    copy = shutil.copytree(folder, tmp_path / folder.name)
    store: Any = tiny.load("safetensors.torch")
    updates = change(store.load_file(copy / "adapter_model.safetensors"))
    store.save_file(updates, copy / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = json.loads((copy / "adapter_config.json").read_text())
    tiny.write(copy, "adapter_config.json", settings | config)
    return copy


def renamed(updates: dict[str, Any]) -> dict[str, Any]:
    return {name.replace(".layers.", ".blocks."): weight for name, weight in updates.items()}


def without_first_layer(updates: dict[str, Any]) -> dict[str, Any]:
    return {name: weight for name, weight in updates.items() if ".layers.0." not in name}


def with_third_layer(updates: dict[str, Any]) -> dict[str, Any]:
    more = {name.replace(".layers.0.", ".layers.2."): w.clone() for name, w in updates.items()}
    return updates | more


def of_rank_two(updates: dict[str, Any]) -> dict[str, Any]:
    return {name: (w[:2] if "lora_A" in name else w[:, :2]).contiguous() for name, w in updates.items()}


def unchanged(updates: dict[str, Any]) -> dict[str, Any]:
    return updates


@pytest.mark.parametrize("name", NAMES)
class TestAnAdapterIsRefused:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (
                renamed,
                r"28 without a place in it \(.*blocks.*and 25 more\); 28 missing in the adapter \(.*layers",
            ),
            (without_first_layer, r"14 missing in the adapter \(.*layers\.0\."),
            (with_third_layer, r"14 without a place in it \(.*layers\.2\."),
            (of_rank_two, r"28 of another shape \(.*\(2, 32\), not \(4, 32\)"),
        ],
    )
    def test_whose_tensors_do_not_all_fit(
        self,
        folder: Path,
        tmp_path: Path,
        name: str,
        change: Callable[[dict[str, Any]], dict[str, Any]],
        said: str,
    ) -> None:
        # The projection is merged in 1_Dense: its own check is that of the next test.
        def keep_projection(updates: dict[str, Any]) -> dict[str, Any]:
            projection = {key: w for key, w in updates.items() if "custom_text_proj" in key}
            return change(updates) | projection

        with pytest.raises(EmbedError, match=f"does not fit the network of its base model: {said}") as raised:
            SentenceEmbedder(str(changed(folder / name, tmp_path, keep_projection)))
        assert "base_model_name_or_path" in raised.value.hint

    def test_that_names_no_module_of_the_base(self, folder: Path, tmp_path: Path, name: str) -> None:
        with pytest.raises(EmbedError, match="not found in the base model"):
            SentenceEmbedder(
                str(changed(folder / name, tmp_path, unchanged, target_modules=["query_key_value"]))
            )

    def test_over_another_base_of_the_same_shapes(self, folder: Path, tmp_path: Path, name: str) -> None:
        getattr(published, name)(tmp_path / "other", tmp_path / "other-base", seed=99)
        base = {"base_model_name_or_path": str(tmp_path / "other-base")}
        with pytest.raises(EmbedError, match="trained over another base model"):
            SentenceEmbedder(str(changed(folder / name, tmp_path, unchanged, **base)))

    def test_over_a_base_of_another_family(self, folder: Path, tmp_path: Path, name: str) -> None:
        other = {"colqwen2": "colpali", "colpali": "colqwen2"}[name]
        base = {"base_model_name_or_path": str(folder / f"{other}-base")}
        with pytest.raises(EmbedError):
            SentenceEmbedder(str(changed(folder / name, tmp_path, unchanged, **base)))

    def test_whose_projection_no_module_holds(self, folder: Path, tmp_path: Path, name: str) -> None:
        copy = shutil.copytree(folder / name, tmp_path / name)
        listed = json.loads((copy / "modules.json").read_text())
        tiny.write(copy, "modules.json", [part for part in listed if not part["type"].endswith("Dense")])
        with pytest.raises(EmbedError, match="no module Dense"):
            SentenceEmbedder(str(copy))
