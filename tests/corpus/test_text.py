from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.convert import CONVERTERS
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.sections import json_sections, markdown_sections
from vrag.corpus.formats.text import TextFile, cut
from vrag.corpus.formats.texts.html_tree import html_sections
from vrag.corpus.sniff import decode
from vrag.errors import CorpusError

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

CHINESE = "视觉检索增强生成是一种方法。它让模型看到文档的页面，而不只是文字。我们在许多数据集上测试了它！" * 3
JAPANESE = "これは日本語の文章です。文書の検索と生成について説明します。とても便利な方法だと思います。" * 3
KOREAN = "이것은 한국어 문장입니다. 문서 검색과 생성에 대해 설명합니다. 매우 유용한 방법입니다." * 3
GERMAN = "Größere Übungen für Schüler: Äpfel, Öl und Straßen. Die Prüfung fällt aus, weil es schneit. " * 3


def items_of(path: Path, data: str | bytes, size: int = 1200) -> list[Item]:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    source = read_source(path)
    with CONVERTERS[path.suffix](
        source, ConversionContext(path.parent, CorpusOptions(passage_chars=size))
    ) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


@given(st.text(alphabet=" \n.!。ab語é", max_size=400), st.integers(8, 60))
def test_cutting_loses_no_character_but_spaces_and_keeps_to_the_size(text: str, size: int) -> None:
    passages = list(cut(text, size))
    assert "".join("".join(passages).split()) == "".join(text.split())
    assert all(0 < len(passage) <= size + size // 4 for passage in passages)


@given(st.lists(st.text(alphabet="abcdefg.", min_size=1, max_size=9), max_size=80), st.integers(20, 60))
def test_cutting_keeps_words_that_are_shorter_than_half_a_passage_whole(words: list[str], size: int) -> None:
    assert " ".join(cut(" ".join(words), size)).split() == words


def test_cuts_fall_on_paragraphs_before_lines_before_sentences() -> None:
    assert list(cut("aaaa aaaa.\n\nbbbb\nbbbb. b", 16)) == ["aaaa aaaa.", "bbbb\nbbbb. b"]
    assert list(cut("第一句话在这里。第二句话在那里。第三句。", 10)) == [
        "第一句话在这里。",
        "第二句话在那里。第三句。",
    ]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", CHINESE),
        ("utf-8-sig", JAPANESE),
        ("utf-16", KOREAN),
        ("utf-16-le", GERMAN),
        ("utf-16-be", GERMAN),
        ("utf-32", CHINESE),
        ("gb18030", CHINESE),
        ("big5", "視覺檢索增強生成是一種方法。它讓模型看到文件的頁面，而不只是文字。" * 4),
        ("shift_jis", JAPANESE),
        ("euc-kr", KOREAN),
        ("latin-1", GERMAN),
        ("cp1252", GERMAN),
    ],
)
def test_encodings_are_told_apart(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)).strip() == text.strip()


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Gebühr;45"),
        ("cp1252", "Länge\n9,5"),
        ("cp1252", "Straße;Höhe\nAm Öltor;3"),
        ("cp1252", "Señal,Año\nRío,2024"),
        ("cp1252", "Café,Price\nZoé,12\nThé,8\n"),
        ("cp1252", "Prix : 45 € – été"),
        ("cp1252", "Smørbrød: 45 kr på kajen"),
        ("cp1250", "Klíč od skříně leží v přístavu."),
        ("iso8859-2", "Miejsce przy pomoście kosztuje dziś 45 złotych, a jacht płynie dalej."),
        ("cp1251", "Цена;45"),
        ("koi8-r", "Причал закрыт до мая."),
        ("cp866", "Причал закрыт до мая."),
        ("cp1253", "Η προβλήτα είναι κλειστή."),
        ("cp1254", "İskele kışın kapalıdır, ücret yoktur."),
        ("cp1255", "המזח סגור עד חודש מאי"),
        ("cp1256", "الرصيف مغلق حتى شهر مايو"),
        ("gb18030", "码头,费用\n东,45"),
        ("big5", "碼頭在五月之前關閉。"),
        ("shift_jis", "桟橋は五月まで閉まります。"),
        ("euc-jp", "桟橋は五月まで閉まります。"),
        ("euc-kr", "부두는 오월까지 닫힙니다."),
        ("cp850", "Die Gebühr für das Schließfach: 3 Mark"),
        ("mac_roman", "Die Gebühr für das Schließfach: 3 Mark"),
    ],
)
def test_a_line_in_an_encoding_of_its_region_is_read(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_quotation_marks_of_windows_are_read_in_text_that_looks_like_iso_8859() -> None:
    text = "Přístav „Východ“ je zavřený. " * 20
    assert decode(text.encode("cp1250")).strip() == text.strip()


def test_a_text_in_two_scripts_keeps_its_encoding() -> None:
    text = "تعليمات SSL: ملف README.txt مغلق. " * 5
    assert decode(text.encode("cp1256")).strip() == text.strip()


def test_what_an_html_file_declares_is_believed() -> None:
    html = f'<meta charset="big5"><p>{"中文網頁" * 2}'
    assert "中文網頁" in decode(html.encode("big5"))


def test_a_damaged_spot_in_utf8_does_not_spoil_the_rest() -> None:
    assert decode(("ü" * 40_000).encode() + b"\xff and more").startswith("üüü")


@pytest.mark.parametrize("data", [bytes(range(256)) * 4, b"\x00" * 100, b"PK\x03\x04" + b"\x00\x01" * 50])
def test_binary_files_are_no_text(data: bytes) -> None:
    with pytest.raises(CorpusError, match="not a text file"):
        decode(data)


MARKDOWN = """Preface.

# Guide

Some **bold** and [linked](http://x) words with `code`.

## Setup & use

- first
- second
  1. inner

| Name | Cost |
|------|-----:|
| Tea  | 3    |

### Deep

```python
x = 1
```

# Other

![a chart](x.png)
"""


def test_markdown_keeps_headings_lists_tables_and_words(tmp_path: Path) -> None:
    items = items_of(tmp_path / "a.md", MARKDOWN)
    assert [item.heading for item in items] == [
        "",
        "Guide",
        "Guide › Setup & use",
        "Guide › Setup & use › Deep",
        "Other",
    ]
    assert items[1].text == "Guide\n\nSome bold and linked words with code."
    assert "- first\n- second" in items[2].text
    assert "Name | Cost" in items[2].text
    assert "Tea | 3" in items[2].text
    assert "x = 1" in items[3].text
    assert "a chart" in items[4].text


HTML = """<html><head><title>The page</title><script>var secret = "<p>no</p>";</script>
<style>p {color: red}</style></head><body><h1>Main <em>title</em></h1><p>One<br>two &amp; three</p>
<h3>Skipped level</h3><table><tr><th>Name<th>Cost</tr><tr><td>Tea</td><td>3</td></tr></table>
<pre>a
  b</pre><noscript>no</noscript><img alt="a chart"><p>unclosed <b>bold"""


def test_html_keeps_what_a_reader_sees(tmp_path: Path) -> None:
    items = items_of(tmp_path / "a.html", HTML)
    text = "\n".join(item.text for item in items)
    assert [item.heading for item in items] == ["", "Main title", "Main title › Skipped level"]
    assert "The page" in items[0].text
    assert "One\ntwo & three" in items[1].text
    assert "Tea | 3" in items[2].text
    assert "a\n" in text
    assert "unclosed bold" in text
    assert not {"secret", "red", "no"} & set(text.replace('"', " ").split())


@given(st.text(alphabet="<>/!-hpt1 abrscie=\"'&;#\n", max_size=200))
def test_html_of_any_kind_never_raises(text: str) -> None:
    list(html_sections(text))


@given(st.text(alphabet="#*_`[]()|-! ab\n>1.", max_size=200))
def test_markdown_of_any_kind_never_raises(text: str) -> None:
    list(markdown_sections(text))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="ab ü語", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet="xyz", max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_json_loses_no_value(value: object) -> None:
    (section,) = json_sections(json.dumps(value))
    for leaf in _leaves(value):
        text = leaf if isinstance(leaf, str) else json.dumps(leaf)
        assert text.strip() in section.text


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict | list):
        parts: list[object] = list(value.values() if isinstance(value, dict) else value)  # pyright: ignore
        return [leaf for part in parts for leaf in _leaves(part)]
    return [value]


def test_json_is_readable_with_its_paths(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path / "a.json", '{"title": "Tea", "tags": ["a", 1], "by": [{"name": "Ann"}]}')
    assert item.text == "title: Tea\n\ntags: a, 1\n\nby[0].name: Ann"


def test_json_lines_are_records(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path / "a.json", '{"a": 1}\n{"a": 2}\n')
    assert item.text == "[0].a: 1\n\n[1].a: 2"


def test_json_lines_end_at_line_breaks_alone(tmp_path: Path) -> None:
    """Not at the other separators of lines that Unicode has, which JSON allows within a text."""
    (item,) = items_of(tmp_path / "a.jsonl", '{"a": "one\u2028two\u2029three"}\r\n{"a": 2}\r\n')
    assert item.text == "[0].a: one\u2028two\u2029three\n\n[1].a: 2"


def test_a_bad_line_costs_itself_and_is_named(tmp_path: Path) -> None:
    lines = ['{"a": 1}', "", "{oops", '{"a": 3}', "[" * 100_000, '{"a": 5']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    file = TextFile(read_source(tmp_path / "a.jsonl"), ConversionContext(tmp_path, CorpusOptions()))
    assert file.count == 2
    assert file.item(1).text == "[0].a: 1\n\n[2].a: 3"
    with pytest.raises(CorpusError, match=r"^Line 3 is not valid JSON: .* Nor are 2 more of 5 lines\.$"):
        file.item(2)


def test_lines_of_which_none_is_json_have_a_reason_that_fits(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^Line 1 is not valid JSON: .* at character 2\.$"):
        items_of(tmp_path / "a.jsonl", "{oops\n")


def test_a_nesting_bomb_and_broken_json_have_reasons() -> None:
    with pytest.raises(CorpusError, match="nested too deeply"):
        list(json_sections("[" * 100_000 + "]" * 100_000))
    with pytest.raises(CorpusError, match="not valid JSON"):
        list(json_sections('{"a": '))


def test_a_file_without_words_has_a_reason(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no text"):
        items_of(tmp_path / "a.md", "\n\n  \n")


def test_data_in_front_of_markdown_is_no_heading() -> None:
    title, fees = markdown_sections("---\ntitle: Fees\ntags:\n  - berth\n---\n# Fees\n\nEUR 7")
    assert (title.headings, title.text) == ((), "title: Fees\ntags:\n  - berth")
    assert (fees.headings, fees.text) == (("Fees",), "Fees\n\nEUR 7")


def test_headings_between_rules_are_no_data() -> None:
    sections = list(markdown_sections("---\n\n# Berths\n\n## Fees\n\n---\n\nEUR 7"))
    assert sections[-1].headings == ("Berths", "Fees")
    assert not any("#" in section.text for section in sections)


def test_a_text_between_rules_is_no_data() -> None:
    (section,) = markdown_sections("---\n\nWords of a text.\n\n---\n\nMore.")
    assert section.text.split() == "Words of a text. More.".split()
