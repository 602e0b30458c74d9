from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import bm25s  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.index.lexical.bm25 import STOP_WORDS, is_word, terms
from vrag.index.lexical.lexical_index import DOCUMENT, PHRASE, LexicalEntry, LexicalIndex

WORDS = [
    "report",
    "reports",
    "the",
    "of",
    "revenue",
    "profit",
    "2023",
    "10.5",
    "年",
    "营业收入",
    "매출",
    "café",
]
TEXT = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ENTRIES = st.lists(st.tuples(st.sampled_from("ABC"), TEXT), max_size=10).map(
    lambda rows: [
        LexicalEntry(f"{document}-{at}", document, f"{document} profit.pdf", text)
        for at, (document, text) in enumerate(rows)
    ]
)


def bm25(query: list[str], texts: list[list[str]]) -> list[float]:
    """Lucene's BM25, term by term from the formula."""
    average = sum(map(len, texts)) / len(texts) if texts else 0
    scores = [0.0] * len(texts)
    for term in query:
        df = sum(term in text for text in texts)
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for at, text in enumerate(texts):
            tf = Counter(text)[term]
            if tf:
                scores[at] += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(text) / average))
    return scores


def pairs(found: list[str]) -> list[str]:
    kept = [term for term in found if term not in STOP_WORDS]
    return [f"{a} {b}" for a, b in pairwise(kept) if is_word(a) and is_word(b)]


def reference(entries: list[LexicalEntry], query: str) -> list[float]:
    """What the module's docstring promises, in plain Python."""
    asked = [term for term in terms(query) if term not in STOP_WORDS] or terms(query)
    texts = [terms(entry.text) for entry in entries]
    whole: defaultdict[str, list[str]] = defaultdict(list)
    for entry, text in zip(entries, texts, strict=True):
        whole[entry.document] = whole[entry.document] or terms(Path(entry.title).stem)
        whole[entry.document] += text
    of_document = dict(zip(whole, bm25(asked, list(whole.values())), strict=True))
    own = bm25(asked, texts)
    phrases = bm25(pairs(asked), [pairs(text) for text in texts])
    return [
        own[at] + PHRASE * phrases[at] + DOCUMENT * of_document[entry.document]
        for at, entry in enumerate(entries)
    ]


def entries_of(*texts: str) -> list[LexicalEntry]:
    """Each text a document of its own, with a name without words."""
    return [LexicalEntry(f"i{at}", f"d{at}", "-.pdf", text) for at, text in enumerate(texts)]


@given(ENTRIES, TEXT)
def test_scores_are_those_of_the_formula(entries: list[LexicalEntry], query: str) -> None:
    scores = LexicalIndex.build(entries).scores(query)
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx(reference(entries, query), rel=1e-5, abs=1e-6)


@given(st.lists(TEXT.filter(bool), min_size=1, max_size=8), TEXT)
def test_a_text_alone_scores_as_in_bm25s(texts: list[str], query: str) -> None:
    told = [term for term in terms(query) if term not in STOP_WORDS] or terms(query)
    other: Any = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    other.index([terms(text) for text in texts], show_progress=False)
    known = [term for term in told if term in other.vocab_dict]
    expected = other.get_scores(known) * 2.2 if known else np.zeros(len(texts))  # it leaves out k1 + 1
    ours = LexicalIndex.build(entries_of(*texts)).scores(query, phrase=0, document=0)
    assert ours.tolist() == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-6)


@given(ENTRIES, TEXT, st.integers(0, 12), st.lists(st.booleans(), min_size=10, max_size=10))
def test_search_is_the_sorted_scores_within_the_mask(
    entries: list[LexicalEntry], query: str, top_k: int, may: list[bool]
) -> None:
    lexical = LexicalIndex.build(entries)
    mask = np.array(may[: len(entries)], dtype=np.bool_)
    for allowed in (None, mask):
        scored = zip(lexical.ids, lexical.scores(query).tolist(), strict=True)
        hits = [pair for at, pair in enumerate(scored) if pair[1] > 0 and (allowed is None or allowed[at])]
        hits.sort(key=lambda hit: (-hit[1], hit[0]))
        assert lexical.search(query, top_k, allowed) == hits[:top_k]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("2023年营业收入是多少？", "公司二〇二三年度报告\n2023年度实现营业\n收入12.3亿元"),
        ("营业收入", "本期营业收入增长"),
        ("２０２３年の売上高", "2023年 売上高は増加しました"),
        ("ﾃﾞｰﾀﾍﾞｰｽ", "データベースの構成"),
        ("매출액은 얼마입니까", "당기 매출액 증가"),
        ("ＲＥＶＥＮＵＥ １０．５", "revenue grew 10.5%"),
        ("Lợi nhuận", "LOI NHUAN sau thuế"),
        ("выручка", "Выручка за год"),
        ("employees", "one employee"),
        ("FY2023", "fiscal 2023"),
    ],
)
def test_texts_of_any_script_are_found(query: str, text: str) -> None:
    others = ["董事会主席致辞", "目次と概要", "회사 소개", "letter to shareholders", "Điều khoản", "Письмо"]
    found = LexicalIndex.build(entries_of(*others[:3], text, *others[3:])).search(query, 10)
    assert found[0][0] == "i3"


def test_a_phrase_is_better_than_its_words_apart() -> None:
    entries = entries_of(
        "profit or loss that is gross", "loss or profit of the gross", "the gross of profit, loss"
    )
    assert LexicalIndex.build(entries).search("gross profit", 3)[0][0] == "i2"


def test_of_equal_pages_that_of_the_document_in_question_is_first() -> None:
    entries = [
        LexicalEntry("a-1", "a", "a.pdf", "Annual report of Acme"),
        LexicalEntry("a-2", "a", "a.pdf", "Total assets 10"),
        LexicalEntry("b-1", "b", "b.pdf", "Annual report of Bolt"),
        LexicalEntry("b-2", "b", "b.pdf", "Total assets 20"),
    ]
    lexical = LexicalIndex.build(entries)
    assert lexical.search("total assets of Bolt", 1)[0][0] == "b-2"
    assert lexical.search("total assets of Acme", 1)[0][0] == "a-2"


def test_an_item_without_text_is_found_by_the_name_of_its_file() -> None:
    entries = [LexicalEntry("x-1", "x", "team_photo.JPG", ""), LexicalEntry("y-1", "y", "logo.png", "")]
    assert [item for item, _ in LexicalIndex.build(entries).search("photo of the team", 5)] == ["x-1"]


def test_a_query_of_stop_words_alone_finds_them() -> None:
    assert [
        item for item, _ in LexicalIndex.build(entries_of("who is it", "nothing")).search("who is it", 5)
    ] == ["i0"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "unheard", "\x00"])
def test_a_query_without_known_terms_finds_nothing(query: str) -> None:
    lexical = LexicalIndex.build(entries_of("some text", ""))
    assert lexical.search(query, 5) == []
    assert lexical.scores(query).tolist() == [0, 0]


def test_an_empty_index_finds_nothing() -> None:
    lexical = LexicalIndex.build([])
    assert lexical.search("text", 5) == []
    assert lexical.scores("text").shape == (0,)


def test_rows_with_a_phrase_have_its_words_side_by_side() -> None:
    texts = ["see Figure 3 here", "Figure 4, and 3 boats", "figures 3-1", "3 figure", "a figure"]
    lexical = LexicalIndex.build(LexicalEntry(str(at), "d", "d.pdf", text) for at, text in enumerate(texts))
    assert lexical.rows_with("figure 3").tolist() == [0, 2]
    assert lexical.rows_with("Figure 3-1").tolist() == [2]
    assert lexical.rows_with("boats").tolist() == [1]
    assert lexical.rows_with("figure 9").tolist() == []
    assert lexical.rows_with("unknown").tolist() == []
