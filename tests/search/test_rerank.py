from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import require
from PIL import Image

from vrag.embed.embedder import EmbedContent, Modality
from vrag.errors import CollectionError, EmbedError, SearchError, ServerError, VragError
from vrag.search.rerank import CrossEncoderReranker, Reranked, open_reranker
from vrag.testing import MemorySearcher, page
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.types import Hit, Item

WORDS = ("ferry", "ferry port", "ferry port quay", "ferry port quay mole", "ferry ferry")


@dataclass
class Table:
    """A reranker that looks scores up; what is not in the table it cannot score."""

    scores: dict[str, float]
    name: str = "table"
    modalities: frozenset[Modality] = frozenset({Modality.TEXT})
    asked: list[list[str]] = field(default_factory=list[list[str]])

    def score(self, query: str, contents: Sequence[EmbedContent]) -> list[float]:
        self.asked.append([content.text for content in contents])
        if missing := [content.text for content in contents if content.text not in self.scores]:
            raise EmbedError(f"no score for {missing[0]}")
        return [self.scores[content.text] for content in contents]


@dataclass
class Sees:
    """A reranker that sees, and finds all alike."""

    name: str = "sees"
    modalities: frozenset[Modality] = frozenset({Modality.TEXT, Modality.IMAGE})
    seen: list[EmbedContent] = field(default_factory=list[EmbedContent])

    def score(self, query: str, contents: Sequence[EmbedContent]) -> list[float]:
        self.seen.extend(contents)
        return [1.0] * len(contents)


@dataclass
class Failing:
    """A searcher that cannot show some of what it finds."""

    inner: MemorySearcher
    items: Mapping[str, VragError] = field(default_factory=dict[str, VragError])
    images: Mapping[str, VragError] = field(default_factory=dict[str, VragError])
    version: str = "failing"
    read: list[str] = field(default_factory=list[str])

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return self.inner.search(queries, top_k)

    def item(self, id: str) -> Item:
        self.read.append(id)
        if id in self.items:
            raise self.items[id]
        return self.inner.item(id)

    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        if id in self.images:
            raise self.images[id]
        return self.inner.image(id, least=least)

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        return self.inner.frames(id, fps=fps, most=most)

    def part(self, id: str, view: View) -> Image.Image | None:
        return self.inner.part(id, view)


@pytest.fixture
def searcher() -> MemorySearcher:
    return MemorySearcher(tuple(page("a.pdf", number, text) for number, text in enumerate(WORDS, 1)))


QUERY = [Query("ferry port quay mole")]


class TestReranked:
    def test_orders_by_the_reranker_and_bears_its_scores(self, searcher: MemorySearcher) -> None:
        made = Reranked(searcher, Table({text: len(text) % 7 for text in WORDS}))
        (hits,) = made.search(QUERY, 5)
        assert [hit.score for hit in hits] == sorted((float(len(text) % 7) for text in WORDS), reverse=True)
        assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]

    def test_keeps_the_order_of_the_search_where_scores_tie(self, searcher: MemorySearcher) -> None:
        made = Reranked(searcher, Table(dict.fromkeys(WORDS, 0.5)))
        found = searcher.search(QUERY, 5)[0]
        assert [hit.item for hit in made.search(QUERY, 5)[0]] == [hit.item for hit in found]

    def test_looks_deeper_than_it_gives(self, searcher: MemorySearcher) -> None:
        table = Table({text: float(-len(text)) for text in WORDS})
        (hits,) = Reranked(searcher, table, depth=4).search(QUERY, 1)
        assert len(table.asked[0]) == 4
        assert searcher.item(hits[0].item).text == "ferry"

    def test_looks_as_deep_as_it_gives(self, searcher: MemorySearcher) -> None:
        table = Table(dict.fromkeys(WORDS, 1.0))
        assert len(Reranked(searcher, table, depth=1).search(QUERY, 3)[0]) == 3

    def test_names_the_item_that_cannot_be_scored(self, searcher: MemorySearcher) -> None:
        made = Reranked(searcher, Table(dict.fromkeys(WORDS[1:], 1.0)))
        with pytest.raises(SearchError, match=r"a.pdf, page 1, cannot be compared .* no score for ferry"):
            made.search(QUERY, 5)

    def test_scores_the_rest_alone_when_only_the_batch_failed(self, searcher: MemorySearcher) -> None:
        class OneByOne(Table):
            def score(self, query: str, contents: Sequence[EmbedContent]) -> list[float]:
                if len(contents) > 1:
                    raise EmbedError("too much at once")
                return super().score(query, contents)

        assert len(Reranked(searcher, OneByOne(dict.fromkeys(WORDS, 1.0))).search(QUERY, 5)[0]) == 5

    @pytest.mark.parametrize("scores", [[1.0], [1.0] * 9, [float("nan")] * 5])
    def test_refuses_scores_that_are_none(self, searcher: MemorySearcher, scores: list[float]) -> None:
        class Bad(Table):
            def score(self, query: str, contents: Sequence[EmbedContent]) -> list[float]:
                return scores

        with pytest.raises(SearchError, match="returned no score"):
            Reranked(searcher, Bad({})).search(QUERY, 5)

    def test_is_a_searcher_in_every_other_respect(self, searcher: MemorySearcher) -> None:
        made = Reranked(searcher, Table({}))
        found = searcher.search(QUERY, 1)[0][0]
        assert made.item(found.item) == searcher.item(found.item)
        assert made.image(found.item).size == searcher.image(found.item).size
        assert made.search([], 3) == []
        assert made.search([Query("nothing like it")], 3) == [[]]
        assert made.version != searcher.version
        with pytest.raises(SearchError, match="reranked"):
            Reranked(searcher, Table({}), depth=0)

    def test_shows_pictures_to_those_who_see(self, searcher: MemorySearcher) -> None:
        sees = Sees()
        Reranked(searcher, sees).search(QUERY, 2)
        assert [(content.image is not None, content.text) for content in sees.seen] == [(True, "")] * 5

    @pytest.mark.parametrize("error", [CollectionError("damaged"), SearchError("no picture")])
    def test_judges_by_its_text_what_has_lost_its_picture(
        self, searcher: MemorySearcher, error: VragError
    ) -> None:
        lost = searcher.items[1].id
        sees = Sees()
        (hits,) = Reranked(Failing(searcher, images={lost: error}), sees).search(QUERY, 5)
        assert len(hits) == 5
        assert [content.text for content in sees.seen if content.image is None] == ["ferry port"]

    def test_puts_last_what_was_deleted_since_it_was_found(self, searcher: MemorySearcher) -> None:
        table = Table({text: float(len(text)) for text in WORDS})
        found = [hit.item for hit in searcher.search(QUERY, 5)[0]]
        gone = {found[0]: SearchError("There is no item"), found[2]: SearchError("There is no item")}
        (hits,) = Reranked(Failing(searcher, items=gone), table).search(QUERY, 5)
        assert [hit.item for hit in hits[3:]] == [found[0], found[2]]
        scores = [hit.score for hit in hits]
        assert scores[3:] == [scores[2]] * 2
        assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
        everything = dict.fromkeys(found, SearchError("There is no item"))
        (hits,) = Reranked(Failing(searcher, items=everything), table).search(QUERY, 5)
        assert [(hit.item, hit.score) for hit in hits] == [(item, 0.0) for item in found]

    def test_does_not_hide_that_a_server_is_away(self, searcher: MemorySearcher) -> None:
        found = searcher.search(QUERY, 1)[0][0].item
        away = Failing(searcher, items={found: ServerError("away")})
        with pytest.raises(ServerError):
            Reranked(away, Table(dict.fromkeys(WORDS, 1.0))).search(QUERY, 5)

    def test_reads_an_item_once_for_all_queries(self, searcher: MemorySearcher) -> None:
        counting = Failing(searcher)
        Reranked(counting, Table(dict.fromkeys(WORDS, 1.0))).search([*QUERY, *QUERY, *QUERY], 5)
        assert sorted(counting.read) == sorted(item.id for item in searcher.items)


@pytest.fixture(scope="module")
def tiny() -> Any:  # noqa: ANN401
    """What makes the tiny checkpoints."""
    require("models", "sentence_transformers")
    sys.path.append(str(Path(__file__).parents[1] / "embed"))
    try:
        return importlib.import_module("tiny_models")
    finally:
        sys.path.pop()


@pytest.fixture(scope="module")
def of_text(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ANN401
    return tiny.cross_encoder(tmp_path_factory.mktemp("cross-encoder"))


@pytest.fixture(scope="module")
def of_pictures(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ANN401
    return tiny.qwen3_vl_reranker(tmp_path_factory.mktemp("reranker"))


TEXTS = ["a red square", "revenue grew by 12 % in 2023", "收入"]


class TestACrossEncoderOfText:
    def test_scores_as_bare_transformers_do(self, of_text: Path, tiny: Any) -> None:  # noqa: ANN401
        made = CrossEncoderReranker(str(of_text)).score("red", [EmbedContent(text=text) for text in TEXTS])
        transformers, torch = tiny.load("transformers"), tiny.load("torch")
        network = transformers.BertForSequenceClassification.from_pretrained(of_text).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(of_text)
        with torch.no_grad():
            right = [
                network(**tokenizer("red", text, return_tensors="pt")).logits.sigmoid().item()
                for text in TEXTS
            ]
        np.testing.assert_allclose(made, right, atol=1e-6)
        assert len({round(score, 4) for score in made}) == len(TEXTS)

    def test_scores_a_pair_alike_in_any_company(self, of_text: Path) -> None:
        reranker = open_reranker(f"cross-encoder:{of_text}", batch=2)
        contents = [EmbedContent(text=text) for text in TEXTS]
        together = reranker.score("red", contents)
        np.testing.assert_allclose(
            together, [reranker.score("red", [content])[0] for content in contents], atol=1e-6
        )
        np.testing.assert_allclose(together, reranker.score("red", contents[::-1])[::-1], atol=1e-6)

    def test_looks_at_text_alone(self, of_text: Path) -> None:
        reranker = open_reranker(str(of_text))
        assert reranker.modalities == {Modality.TEXT}
        with pytest.raises(EmbedError, match="cannot compare image"):
            reranker.score("red", [EmbedContent(image=Image.new("RGB", (64, 64)))])
        with pytest.raises(EmbedError, match="cannot compare empty content"):
            reranker.score("red", [EmbedContent()])

    def test_reranks_a_search(self, of_text: Path, searcher: MemorySearcher) -> None:
        (hits,) = Reranked(searcher, open_reranker(str(of_text))).search(QUERY, 5)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


class TestACrossEncoderOfPictures:
    def test_scores_as_bare_transformers_do(self, of_pictures: Path, tiny: Any) -> None:  # noqa: ANN401
        reranker = CrossEncoderReranker(str(of_pictures))
        noise = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
        image = Image.fromarray(noise)
        made = reranker.score("red", [EmbedContent(text="a blue circle"), EmbedContent(image=image)])
        right = [plain(tiny, of_pictures, "a blue circle", None), plain(tiny, of_pictures, "", image)]
        np.testing.assert_allclose(made, right, atol=1e-4)

    def test_the_picture_shows_in_the_score(self, of_pictures: Path) -> None:
        reranker = CrossEncoderReranker(str(of_pictures))
        noise = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
        contents = [EmbedContent(image=Image.fromarray(picture)) for picture in (noise, 255 - noise)]
        one, other = reranker.score("red", contents)
        assert abs(one - other) > 1e-3

    def test_addresses_are_texts_and_never_opened(
        self, of_pictures: Path, of_text: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def opened(*_: object, **__: object) -> None:
            raise AssertionError("something was opened")

        monkeypatch.setattr("socket.socket.connect", opened)
        url = "http://127.0.0.1:9/x.png"
        for folder in (of_pictures, of_text):
            assert len(CrossEncoderReranker(str(folder)).score(url, [EmbedContent(text=url)])) == 1


def plain(tiny: Any, folder: Path, text: str, image: Image.Image | None) -> float:  # noqa: ANN401
    """The log-odds of the two tokens after the prompt, spelt out."""
    transformers, torch = tiny.load("transformers"), tiny.load("torch")
    network = transformers.Qwen3VLForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    shown, pixels = text, dict[str, Any]()
    if image is not None:
        module = tiny.load("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
        pixels = dict(
            module.Qwen2VLImageProcessorPil.from_pretrained(folder)(images=[image], return_tensors="pt")
        )
        shown = f"<|vision_start|>{tiny.IMAGE * (len(pixels['pixel_values']) // 4)}<|vision_end|>"
    prompt = (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>query\nred<|im_end|>\n"
        f"<|im_start|>document\n{shown}<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    kinds = (ids == tokenizer.convert_tokens_to_ids(tiny.IMAGE)).int()
    with torch.no_grad():
        logits = network(input_ids=ids, mm_token_type_ids=kinds, **pixels).logits[0, -1]
    yes, no = tokenizer.convert_tokens_to_ids(["a", "b"])
    return torch.sigmoid(logits[yes] - logits[no]).item()
