"""The report of an evaluation: what it tells, hides nothing of, and lets nobody else say."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from reported import FOUND, GOLD, QUERY, THOUGHT, page_image, record, records, store_with_run, subject
from stored_events import write_events

from vrag.agent.runs.run_store import RunStore
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report import ReportPage, Thumbnails, report_page
from vrag.evaluation.report.case_list import opened
from vrag.evaluation.report.images import thumbnails_of
from vrag.evaluation.report.rendering import embedded
from vrag.evaluation.summary import summarise
from vrag.geometry import encode_jpeg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vrag.evaluation.record import CaseRecord

HOSTILE = (
    "\"'></title></script></style><script>document.title='PWNED'</script><img src=x onerror=alert(1)>"
    "<!-- \x00\x1b\u202e\ud800 ${1} {{1}} javascript:alert(1) a|b\nc"
)
"""Ends attributes and elements, runs scripts, and breaks cells and rows of Markdown tables, where it can."""


def uneven_tables(markdown: str) -> list[list[str]]:
    """Return the Markdown tables whose rows differ in the number of unescaped `|`."""
    blocks = groupby(markdown.splitlines(), lambda line: line.startswith("|"))
    tables = [list(rows) for is_table, rows in blocks if is_table]
    assert tables
    return [rows for rows in tables if len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) != 1]


def report(told: Sequence[CaseRecord], **given: Any) -> ReportPage:  # noqa: ANN401 - as of `report_page`
    return report_page("Ferries", told, summarise(told, resamples=50), made=0.0, **given)


class Elements(HTMLParser):
    """Tags of a page, and what its scripts hold."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words = ""
        self.inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts.append(data)
        elif self.inside != "style":
            self.words += data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])


def test_counts_of_unjudged_and_failed_are_told_even_when_there_are_none() -> None:
    for told in (records(), records()[:1]):
        page = report(told)
        words = Elements(page.html).words
        for outcome in CaseOutcome:
            count = sum(one.outcome is outcome for one in told)
            assert re.search(rf"{outcome.value.capitalize()}\s*{count}\s*\d+ %", words)
            assert f"**{count}** {outcome.value}" in page.markdown


def test_what_is_missing_from_the_numbers_is_said_in_a_sentence() -> None:
    words = Elements(report(records()).html).words
    assert "1 question has no verdict" in words
    assert "1 run broke off. They count as wrong." in words
    assert "no verdict" not in Elements(report(records()[:1]).html).words


def test_numbers_of_the_summary_stand_on_the_page_and_in_markdown() -> None:
    page = report(records(), facts={"Model": "qwen", "Seeds": "0"}, notes=("One was mended.",))
    for text in (Elements(page.html).words, page.markdown):
        assert "0.250" in text  # accuracy: one of four with a verdict
        for fact in ("qwen", "Seeds", "One was mended.", "Token F1", "Plan"):
            assert fact in text


def test_its_json_has_the_summary_as_it_was_given_and_every_record() -> None:
    told = records()
    summary = summarise(told, resamples=50).as_dict()
    written = json.loads(json.dumps(report(told, facts={"Model": "qwen"}).as_dict()))
    assert written["summary"] == json.loads(json.dumps(summary))
    assert [type(told[0]).model_validate(one) for one in written["records"]] == told
    assert written["settings"] == {"Model": "qwen", "intervals": "95 %, by 50 draws of documents, seed 0"}


def test_a_case_has_its_steps_its_page_and_both_rectangles(tmp_path: Path) -> None:
    store, run = store_with_run(tmp_path)
    page = report([record("c1", run=run)], store=store)
    entry = Elements(page.html).data["entries"][0]
    first, last = entry["sides"][0]["steps"]
    assert first["thought"] == THOUGHT
    assert first["acts"] == [["search", QUERY]]
    assert first["seen"] == ["ferry.pdf, page 1"]
    assert last["acts"] == [["answer", "48,200"]]
    (sight,) = entry["sights"]
    assert sight["boxes"] == [["a", *FOUND], ["gold", *GOLD]]
    assert sight["picture"] == 0  # as the run showed it: nobody was asked for a picture
    assert entry["sides"][0]["run"] == run
    assert entry["sides"][0]["why"] == "It is right."


def test_an_answer_keeps_its_table_and_one_line_is_text() -> None:
    answers = ("| a |\n|---|\n| <b>1</b> |\n\n[x](http://a.b)", "- 12 %")
    page = report([record(f"c{at}", answer=answer) for at, answer in enumerate(answers)])
    sides = [entry["sides"][0] for entry in Elements(page.html).data["entries"]]
    assert tuple(side["answer"] for side in sides) == answers
    table, words = sides[0]["elements"]
    assert (table[0], table[2][0][0]) == ("div", "table")
    assert "<b>1</b>" in str(table)
    assert words == ["p", {"dir": "auto"}, ["x", ["span", {"class": "address"}, [" (http://a.b)"]]]]
    assert sides[1]["elements"] == []


def test_a_case_without_a_run_that_can_be_read_is_listed_all_the_same(tmp_path: Path) -> None:
    store, run = store_with_run(tmp_path)
    write_events(store, run, [b"nothing"])
    told = [record("c1", run=run), record("c2", run="../../etc/passwd"), record("c3", run="0" * 12)]
    entries = Elements(report(told, store=store).html).data["entries"]
    assert [entry["sides"][0]["steps"] for entry in entries] == [[], [], []]
    assert [entry["sides"][0]["run"] for entry in entries] == [run, None, "0" * 12]


def test_a_page_is_in_the_file_once_however_many_cases_show_it() -> None:
    told = [record(f"c{number}") for number in range(20)]
    data = Elements(report(told, page_image=page_image).html).data
    assert len(data["pictures"]) == 1
    assert {entry["sights"][0]["picture"] for entry in data["entries"]} == {0}


def place(page: int) -> dict[str, Any]:
    return {"document": "ferry.pdf", "page": page, "box": GOLD}


def test_pictures_take_no_more_room_than_they_may_and_first_pages_come_first() -> None:
    told = [
        record(f"c{n}", subject=subject(f"c{n}", gold=(place(n), place(n + 100))), evidence=())
        for n in range(1, 9)
    ]
    whole = report(told, page_image=page_image)
    room = whole.thumbnails.bytes * 5 // 8
    read: list[int] = []

    def counted(document: str, page: int) -> Image.Image | None:
        read.append(page)
        return page_image(document, page)

    page = report(told, page_image=counted, thumbnails=Thumbnails(most_bytes=room))
    assert len(read) == len(page.thumbnails.pictures) + 1, "what does not fit any more is not made"
    assert 0 < page.thumbnails.bytes <= room
    assert page.thumbnails.left > 0
    assert "left out, to bound the size" in page.html
    sights = [entry.sights for entry in page.entries]
    assert [one[0].picture is None for one in sights] == [n == 10 for n in range(1, 9)]
    assert any(one[1].picture is None for one in sights)
    assert len(page.html) < len(whole.html)
    assert page.thumbnails.left + len(page.thumbnails.pictures) == 16


def test_pictures_of_evidence_alone(tmp_path: Path) -> None:
    told = [record("c1", subject=subject("c1", gold=(place(2),))), record("c2", evidence=())]
    page = report(told, page_image=page_image, thumbnails=thumbnails_of("evidence"))
    assert [[sight.picture for sight in entry.sights] for entry in page.entries] == [[0, None], [None]]


@pytest.mark.parametrize(
    ("wanted", "room"),
    [("all", 500_000_000), ("none", 0), ("8MB", 8_000_000), (" 1.5 m ", 1_500_000), ("500k", 500_000),
     ("2GB", 500_000_000), ("12", 12)],
)  # fmt: skip
def test_how_much_room_pictures_may_take(wanted: str, room: int) -> None:
    assert thumbnails_of(wanted).most_bytes == room


@pytest.mark.parametrize("wanted", ["", "some", "-1", "MB", "1e9", "nan", "9" * 20])
def test_what_is_no_size_is_refused(wanted: str) -> None:
    with pytest.raises(ValueError, match="neither all, evidence nor none"):
        thumbnails_of(wanted)


def test_without_pictures_none_is_asked_for() -> None:
    def refuse(document: str, page: int) -> None:
        pytest.fail("nobody wants a picture")

    page = report(records(), page_image=refuse, thumbnails=Thumbnails(most_bytes=0))
    assert Elements(page.html).data["pictures"] == []


def test_hostile_text_stays_text_wherever_it_comes_from() -> None:
    text = HOSTILE.encode("utf-8", "replace").decode()
    told = [
        record(
            f"{text}{n}",
            why=text,
            judge=text,
            answer=text,
            stop=text,
            run=text,
            measures={text: 0.5, "f1": 0.1},
            subject=subject(
                text + str(n),
                text,
                references=(text,),
                document=text,
                document_type=text + str(n),
                query_type=text,
                source_type=(text,),
                benchmark=f"{text}{n}",
                gold=({"document": text, "page": 1, "box": None},),
            ),
        )
        for n in range(2)
    ]
    summary = summarise(told, resamples=50)
    summary = replace(
        summary,
        # As the only measure of answers, it is also a column of the tables of groups.
        overall=replace(summary.overall, measures={text: summary.overall.measures[text]}),
        groups={**summary.groups, text: summary.groups["document_type"]},
    )
    page = report_page(
        text,
        told,
        summary,
        facts={text: text},
        notes=(text,),
        reported={f"{text}{n}": (text,) for n in range(2)},
        page_image=page_image,
        unfinished=text,
        made=0.0,
    )
    plain = Elements(report(records(), page_image=page_image, unfinished="Stopped.").html)
    elements = Elements(page.html)
    assert len(elements.scripts) == 2
    assert elements.scripts[1] == plain.scripts[1]
    assert elements.data["entries"][0]["question"] == text
    kinds = {tag for tag, _ in elements.tags}
    assert kinds <= {tag for tag, _ in plain.tags} | {"a", "ul", "dl"}
    assert not [name for _, given in elements.tags for name in given if name.startswith("on")]
    assert not re.search(r"(?<!\\)<", page.markdown)
    assert uneven_tables(page.markdown) == []


def test_only_the_script_of_the_page_may_run_and_nothing_be_fetched() -> None:
    elements = Elements(report(records()).html)
    (policy,) = [given["content"] for _, given in elements.tags if given.get("http-equiv")]
    digest = base64.b64encode(hashlib.sha256(elements.scripts[1].encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy
    links = [given.get("href") or given.get("src") for _, given in elements.tags]
    assert all(link.startswith(("#", "data:image/")) for link in links if link)


def test_the_script_writes_no_markup() -> None:
    script = Elements(report(records()).html).scripts[1]
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert word not in script


def test_numbers_that_json_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embedded({"a": float("nan")})


def test_links_of_groups_name_filters_that_the_list_has() -> None:
    elements = Elements(report(records()).html)
    shown = [given["href"] for tag, given in elements.tags if tag == "a" and "show-" in (given["href"] or "")]
    filters = elements.data["links"]
    assert {int((link or "").removeprefix("#show-")) for link in shown} == set(range(len(filters)))
    assert {"outcome": "wrong"} in filters
    assert {"document_type": "Plan"} in filters


def test_a_property_is_told_only_where_it_tells_questions_apart() -> None:
    page = report(records())
    assert "By document type" in page.markdown
    assert "By benchmark" not in page.markdown
    assert "Benchmark" not in Elements(page.html).words


def test_groups_are_told_by_the_same_measures_on_the_page_and_in_markdown() -> None:
    kinds = ("ndcg@5", "document_recall@10", "region_recall@1", "seen_recall", "centre", "seconds")
    asked = (subject("a", query_type="x"), subject("b", query_type="y"))
    page = report([record(one.uid, subject=one, measures=dict.fromkeys(kinds, 0.5)) for one in asked])
    heads = ["Query type", "n", "Accuracy", "nDCG@5", "Gold pages shown", "Box covers a gold centre"]
    (line,) = (line for line in page.markdown.splitlines() if line.startswith("| Query type"))
    assert [cell.strip().replace("\\", "") for cell in line.strip("|").split("|")][:6] == heads
    told = "".join(["Query type", "n", "0 – 1", *heads[2:]])
    assert told in Elements(page.html).words


def test_a_summary_without_outcomes_hides_none() -> None:
    page = report_page("", [], summarise([]))
    assert "**0** unjudged · **0** failed" in page.markdown
    assert re.search(r"Unjudged\s*0", Elements(page.html).words)


def test_a_page_that_memory_put_into_a_larger_picture_is_shown_without_its_margin(tmp_path: Path) -> None:
    picture = Image.new("RGB", (100, 80), "white")
    picture.paste("red", (0, 0, 60, 40))
    jpeg = encode_jpeg(picture)
    sha256, store = hashlib.sha256(jpeg).hexdigest(), RunStore(tmp_path)
    with store.record() as run:
        run.save(f"{sha256}.jpg", jpeg)
    assert opened(store, run.id, sha256, (60, 40)).size == (60, 40)
    assert opened(store, run.id, sha256, None).size == (100, 80)


def test_no_records_are_a_report_too() -> None:
    page = report([])
    assert Elements(page.html).data["entries"] == []
    assert "**0** failed" in page.markdown
