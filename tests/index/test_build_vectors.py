"""Vectors are stored with their items, whatever their embedder does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from built_files import texts, write
from stored_items import location_of, vectors_by_text

from vrag.embed.embedder import EmbedContent, Modality, VectorKind
from vrag.errors import CollectionError, EmbedError, FingerprintMismatch
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.index.maintenance import status
from vrag.search.engine import Engine
from vrag.testing import HashEmbedder
from vrag.types import DocumentStatus, Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


pytestmark = pytest.mark.usefixtures("conversion")


class NumberEmbedder(HashEmbedder):
    """The vector of a text is its length and its last number: a row out of step shows."""

    def __init__(self) -> None:
        super().__init__(dimension=2)

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        return [np.array([len(one.text), int(one.text.split()[-1])], np.float32) for one in contents]


class BrokenEmbedder(NumberEmbedder):
    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        return super().embed_items(contents)[:1]


class WrongShape(NumberEmbedder):
    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        return [np.zeros(3, np.float32) for _ in contents]


class Picky(NumberEmbedder):
    """Refuses a batch with a 7 in it, and gives something that is no number for an 8."""

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        if any(one.text.endswith("7") for one in contents):
            raise EmbedError("Sevens are too much.")
        made = super().embed_items(contents)
        return [vector * np.nan if vector[1] == 8 else vector for vector in made]


class TestVectors:
    def test_vectors_are_stored_with_their_items(self, tmp_path: Path, folder: Path) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder())
        write(folder / "a.txt", *(f"line {n}" for n in range(150)))

        add(collection, [folder], embedder=NumberEmbedder())

        found = vectors_by_text(collection)
        assert len(found) == 150
        expected = {text: [[len(text), int(text.split()[-1])]] for text in found}
        assert {text: vectors.tolist() for text, vectors in found.items()} == expected
        assert verify(location_of(collection)).ok

    def test_many_vectors_of_an_item_are_kept_whole_in_half_precision(
        self, tmp_path: Path, folder: Path
    ) -> None:
        embedder = HashEmbedder(VectorKind.MULTI, 8)
        collection = Collection.create(tmp_path / "vectors", embedder=embedder)
        write(folder / "a.txt", *("word " * n for n in range(1, 40)))

        add(collection, [folder], embedder=embedder)

        for text, vectors in vectors_by_text(collection).items():
            (expected,) = embedder.embed_items([EmbedContent(text=text)])
            assert np.array_equal(vectors, expected.astype(np.float16))
        assert verify(location_of(collection)).ok

    @pytest.mark.parametrize("made", [True, False])
    def test_another_embedder_is_refused(self, tmp_path: Path, folder: Path, *, made: bool) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder() if made else None)
        with pytest.raises(FingerprintMismatch, match="embedder hash"):
            add(collection, [folder], embedder=None if made else NumberEmbedder())

    @pytest.mark.parametrize("broken", [BrokenEmbedder, WrongShape])
    def test_vectors_that_do_not_fit_store_nothing(
        self, tmp_path: Path, folder: Path, broken: type[NumberEmbedder]
    ) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder())
        write(folder / "a.txt", "line 1", "line 2")
        with pytest.raises(CollectionError, match="embedder"):
            add(collection, [folder], embedder=broken())
        assert texts(collection) == []
        add(collection, [folder], embedder=NumberEmbedder())
        assert verify(location_of(collection)).ok

    def test_what_cannot_be_embedded_costs_itself_alone_and_says_why(
        self, tmp_path: Path, folder: Path
    ) -> None:
        collection = Collection.create(tmp_path / "vectors", embedder=NumberEmbedder())
        write(folder / "a.txt", *(f"line {n}" for n in range(1, 10)))

        report = add(collection, [folder], embedder=Picky())

        assert report.items == 7
        (problem,) = report.problems
        assert problem.status is DocumentStatus.PARTIAL
        assert "Sevens are too much." in problem.reason
        assert "not finite" in problem.reason
        assert verify(location_of(collection)).ok
        assert add(collection, [folder], embedder=NumberEmbedder(), retry_failed=True).items == 2
        assert len(texts(collection)) == 9

    @pytest.mark.parametrize("kind", list(VectorKind))
    def test_items_without_content_for_the_embedder_stay_and_words_find_them(
        self, tmp_path: Path, folder: Path, kind: VectorKind
    ) -> None:
        plain = Collection.create(tmp_path / "plain")
        images = HashEmbedder(kind, 8, modalities=frozenset({Modality.IMAGE}))
        collection = Collection.create(tmp_path / "vectors", embedder=images)
        write(folder / "a.txt", *(f"line {n}" for n in range(1, 10)))

        add(plain, [folder])
        report = add(collection, [folder], embedder=images)

        assert not report.problems
        assert texts(collection) == texts(plain)
        engines = (Engine(collection, images), Engine(plain))
        found, wanted = (engine.search([Query("line 7")], 20)[0] for engine in engines)
        assert [hit.item for hit in found] == [hit.item for hit in wanted] != []
        assert (status(collection).without_vector, status(plain).without_vector) == (9, 0)
        assert verify(location_of(collection)).ok
        assert add(collection, [folder], embedder=images).items == 0
