"""The class `SearchEngine` of the reference implementation, a thin layer over the real API.

It has the signatures of both of the reference's retrievers. It ranks by vectors alone, as they do;
`vrag.factory` opens the same collections with words and vectors fused.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from vrag.corpus.converter import CorpusOptions
from vrag.corpus.discover import Skipped
from vrag.embed.embedder import Embedder
from vrag.errors import CollectionError, CorpusError, SearchError
from vrag.factory.indexing import corpus_options, load_embedder
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.location import INDEX_PATTERNS, is_collection
from vrag.index.reference.entry_list import FileFinder, ListEntry, list_entries, read_list
from vrag.index.reference.index_import import add_listing, import_indexes
from vrag.index.vectors.embed_items import embed_all
from vrag.search.engine import Engine, Ranking
from vrag.search.multi import MultiSearcher, unique_names
from vrag.search.searcher import MAX_TOP_K
from vrag.server.item_files import CollectionFiles, DetailedSearcher, linked, plain_name, search_response_json
from vrag.settings import load_settings
from vrag.types import Query

if TYPE_CHECKING:
    from vrag.index.build import AddReport

_NODES, _NODE_MODEL = "colqwen_ingestion", "vidore/colqwen2-v1.0"
"""The older signature's defaults."""
_OLDER_TOP_K = 10
_IMPORTED = CorpusOptions(ocr="never")
"""For indexes of the reference: they are searched by their vectors, so that no text is wanted."""


class SearchEngine:
    """The retriever of the reference.

    Newer: `SearchEngine(model)`, then `build_index`, `load_index`, `load_multi_index_corpus_together`,
    `search`. Older: `SearchEngine(dataset_dir=…, node_dir_prefix=…, embed_model_name=…)`, which loads its
    nodes at once, then `batch_search`.

    An index is a collection of vrag, or an index of the reference: that is imported into a cache, again
    whenever it has changed. An index that cannot be loaded does not affect those that are.

    Args:
        model_or_path: Hub name, folder or name of an embedder; with `embed_model_name`, the folder of the
            corpus, as the older signature has it.
        node_dir_prefix: Folder of the nodes in that of the corpus.
        embed_model_name: The model, in either signature.
        dataset_dir: Folder of the corpus.
        files: Folder of the pictures and videos in lists and indexes of the reference, at any depth;
            without it only those below their own folder are found. By default `dataset_dir`.
        embedder: An embedder to use instead of opening the model.

    Raises:
        SearchError: If neither a model nor a corpus is named.
        EmbedError: If the model cannot be opened.
        CollectionError: If the nodes cannot be loaded.
    """

    def __init__(
        self,
        model_or_path: str | None = None,
        node_dir_prefix: str | None = None,
        embed_model_name: str | None = None,
        *,
        dataset_dir: str | None = None,
        files: str | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        if model_or_path is not None and embed_model_name is not None:
            dataset_dir, model_or_path = model_or_path, None
        older = dataset_dir is not None or node_dir_prefix is not None
        self.embed_model_name = model_or_path or embed_model_name or (_NODE_MODEL if older else "")
        if not self.embed_model_name and embedder is None:
            raise SearchError("No model is named.", 'Name one: SearchEngine("Qwen/Qwen3-VL-Embedding-2B")')
        self._embedder = embedder or load_embedder(load_settings().settings, self.embed_model_name)
        self._collections: dict[str, Collection] = {}
        self._results: DetailedSearcher | None = None
        corpus = Path(dataset_dir or "search_engine/corpus")
        self._files = Path(files) if files else corpus if older else None
        if older:
            self._load([corpus / (node_dir_prefix or _NODES)])

    def build_index(
        self,
        input_dir: str,
        index_output_path: str,
        corpus_output_path: str = "",  # noqa: ARG002 - index and corpus are one collection
        bs: int = 2,  # noqa: ARG002 - batches adapt to memory
        save_interval: int = 512,  # noqa: ARG002 - everything is saved as it is made
    ) -> AddReport:
        """Create or extend a collection, and load it.

        Args:
            input_dir: A folder, searched at any depth, or a `.jsonl` of entries as the reference has them.
            index_output_path: Directory of the collection.
            corpus_output_path: Not used: a collection holds items and vectors.
            bs: Not used: batches adapt to memory; the setting `batch` bounds them.
            save_interval: Not used: every result is saved at once.

        Raises:
            CorpusError: If there is nothing at `input_dir`.
            CollectionError: If the directory is not a collection and not empty, or cannot be written.
            FingerprintMismatch: If another model made it.
        """
        if not os.path.exists(input_dir):  # noqa: PTH110 - a text, as the reference has it
            raise CorpusError(f"{input_dir} does not exist.", "Name a folder or a .jsonl of entries.")
        options = corpus_options(load_settings().settings)
        collection = Collection.open_or_create(index_output_path, embedder=self._embedder, options=options)
        if os.path.isfile(input_dir) and input_dir.endswith(".jsonl"):  # noqa: PTH113 - the reference's test
            collection.header.check_embedder(self._embedder)
            done = self._add_list(collection, Path(input_dir))
        else:
            done = add(collection, [input_dir], embedder=self._embedder)
        self.load_index(index_output_path)
        return done

    def load_index(self, input_dir: str) -> None:
        """Load this index in place of others.

        Raises `CollectionError` if there is none and `FingerprintMismatch` if another model made it.
        """
        self._load([Path(input_dir)])

    def load_multi_index_corpus_together(self, input_dir_list: Sequence[str]) -> None:
        """Load these indexes in addition, each under the name of its directory.

        Raises `CollectionError` if there is no index in one of them and `FingerprintMismatch` if another
        model made one of them.
        """
        self._load([Path(directory) for directory in input_dir_list], self._collections)

    def search(
        self, queries: str | Sequence[str], top_k: int = 3, search_corpus: str | None = None
    ) -> list[dict[str, Any]]:
        """Return for each query `{"score": […], "indice": […], "data": [entry, …]}`, best first.

        Args:
            queries: One text or several.
            top_k: Maximum of entries; at most 1,000.
            search_corpus: Name of the one index to search; None for all that are loaded.

        Raises:
            SearchError: If nothing is loaded, a query is empty or no index has that name.
        """
        if self._results is None:
            raise SearchError("No index is loaded.", "Call load_index or build_index first.")
        texts = [queries] if isinstance(queries, str) else queries
        corpora = None if search_corpus is None else frozenset({search_corpus})
        asked = [Query(text, corpora=corpora) for text in texts]
        return search_response_json(self._results.search(asked, min(top_k, MAX_TOP_K)))["results"]

    def batch_search(self, queries: Sequence[str]) -> list[list[str]]:
        """Return for each query the names of the ten best pictures.

        Raises `SearchError` if nothing is loaded or a query is empty.
        """
        if self._results is None:
            raise SearchError("No index is loaded.", "Call load_index or build_index first.")
        found = self._results.search([Query(text) for text in queries], _OLDER_TOP_K)
        return [[plain_name(shown.hit, shown.details) for shown in hits] for hits in found]

    def _load(self, directories: Sequence[Path], kept: Mapping[str, Collection] | None = None) -> None:
        """Load the indexes in `directories` beside those that are kept."""
        opened = {os.path.abspath(path): self._open_collection(path) for path in directories}  # noqa: PTH100
        collections = {**(kept or {}), **opened}
        engines = {
            name: Engine(collections[address], self._embedder, rankings=[Ranking.VECTOR])
            for name, address in unique_names(collections).items()
        }
        files_of = CollectionFiles(list(collections.values()))
        self._results = DetailedSearcher(MultiSearcher(engines), files_of, linked(_cache() / "links"))
        self._collections = collections

    def _open_collection(self, directory: Path) -> Collection:
        """Open the collection in a directory, or import the reference's index there."""
        if is_collection(directory):
            return Collection.open(directory)
        found = itertools.chain.from_iterable(directory.glob(pattern) for pattern in INDEX_PATTERNS)
        files = sorted((path, path.stat()) for path in found)
        state = "\n".join(f"{path.name} {file.st_size} {file.st_mtime_ns}" for path, file in files)
        if not state:
            raise CollectionError(
                f"There is no index in {directory}.", "Make one: SearchEngine(model).build_index(…)"
            )
        place = hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()[:16]
        version = hashlib.sha256(f"{state} {self._embedder.fingerprint}".encode()).hexdigest()[:16]
        target = _cache() / "imported" / place / version
        import_indexes(target, [directory], _IMPORTED, files=self._files, embedder=self._embedder)
        for other in target.parent.iterdir():
            if other != target:
                shutil.rmtree(other, ignore_errors=True)
        return Collection.open(target)

    def _add_list(self, collection: Collection, path: Path) -> AddReport:
        listed = list(read_list(path.absolute()))
        entries = [entry for entry in listed if isinstance(entry, ListEntry)]

        def finish(items: Any, _sources: object, items_dir: Path, *_: object) -> Generator[Any, None, None]:  # noqa: ANN401
            return embed_all(items, self._embedder, items_dir)

        done = add_listing(collection, list_entries(entries, FileFinder(self._files)), finish)
        return replace(done, skipped=tuple(entry for entry in listed if isinstance(entry, Skipped)))


def _cache() -> Path:
    return user_cache_path("vrag", appauthor=False)
