"""A report: all that came of its questions, one number for each place, and text of others that stays text."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hostile import hostile, payload
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from sample_runs import REPORT, SLIDES, VIDEO, Telling, drawn_page, evidence, vimrag_run
from sample_runs import vrag_run as shown_run
from test_page import FETCHING, Read

from vrag.agent.events import AnswerGiven, RunFailed, RunStarted, StopReason
from vrag.agent.question import PreviousTurn
from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.errors import RunError
from vrag.render.exports import Format, export_of, report_document
from vrag.render.markdown_text import inline, paragraph, quoted, table
from vrag.render.markup import POLICY
from vrag.render.place_links import PlaceLinks
from vrag.render.report import Report, report_of
from vrag.render.run_view import RunTable, RunView
from vrag.render.text_format import extent
from vrag.types import ItemKind

if TYPE_CHECKING:
    from pathlib import Path

    from markdown_it.token import Token

MADE = 1_772_400_000.0
PARSERS = {
    "commonmark": MarkdownIt("commonmark"),
    "with tables and strikethrough": MarkdownIt("commonmark").enable(["table", "strikethrough"]),
    "all there is": MarkdownIt("default", {"html": True, "typographer": False}),
}
"""Parsers that people's editors resemble, HTML allowed."""


def vrag_run() -> Telling:
    """A run that was asked which of its evidence counts."""
    told, started = shown_run(), shown_run().events[0]
    assert isinstance(started, RunStarted)
    settings = started.settings.model_copy(update={"reselect": True})
    told.events[0] = started.model_copy(update={"settings": settings})
    return told


def ended(told: Telling, kind: type[AnswerGiven | RunFailed] = AnswerGiven, **values: Any) -> Telling:  # noqa: ANN401
    """The run with another end."""
    last = told.events.pop()
    given = last.model_dump(include={"text", "evidence", "unsupported"}) if kind is AnswerGiven else {}
    told.say(kind, **(given | values))
    return told


def abstained() -> Telling:
    return ended(vrag_run(), text=None, stop_reason=StopReason.ABSTAINED)


def failed() -> Telling:
    return ended(
        vrag_run(),
        RunFailed,
        boundary="ModelError",
        message="The server is gone.",
        stop_reason=StopReason.MODEL_ERROR,
    )


def cut_off() -> Telling:
    told = vrag_run()
    del told.events[-3:]
    return told


def made(*runs: Telling, **more: Any) -> Report:  # noqa: ANN401
    files = {sha256: data for run in runs for sha256, data in run.files.items()}
    return Report.of([RunView.of(run.events) for run in runs], files.get, created=MADE, **more)


@pytest.fixture(scope="module")
def whole() -> Report:
    return made(
        vrag_run(),
        vimrag_run(),
        abstained(),
        failed(),
        cut_off(),
        title="Spring review",
        unfinished=["Who pays?"],
    )


def plain(tokens: list[Token]) -> str:
    """The text of Markdown, as a reader sees it."""
    told = ""
    for token in tokens:
        if token.type in {"text", "code_inline", "html_inline", "html_block", "fence"}:
            told += token.content
        elif token.type in {"softbreak", "hardbreak"}:
            told += "\n"
        told += plain(token.children or [])
        told += "\n" if token.block and token.nesting <= 0 else ""
    return told


def kinds(tokens: list[Token]) -> set[str]:
    found = {token.type for token in tokens}
    return found.union(*(kinds(token.children) for token in tokens if token.children))


class TestWhatIsTold:
    def test_both_forms_tell_every_question_its_end_and_its_places(self, whole: Report) -> None:
        html = " ".join(Read(whole.html).text.split())
        markdown = " ".join(plain(PARSERS["commonmark"].parse(whole.markdown("x").text)).split())
        for text in (html, markdown):
            assert "Spring review" in text
            assert "1 March 2026" in text
            for part in whole.parts:
                assert (
                    text.count(part.run_view.started.question) >= 2
                )  # in the contents, and where it is told
            assert "48,200 passengers, most of them in July (7,900) [1.1][1.2][1.3]." in text
            assert "The agent found no answer in the documents" in text
            assert "Where the agent looked" in text
            assert "The server is gone." in text
            assert "This run was interrupted" in text
            assert "Who pays?" in text
            assert (
                "5 questions, 2 answered, 2 without an answer, 1 interrupted, 1 not asked to the end" in text
            )
            assert "7–95 % across, 59–96 % down" in text
            assert "1:04–1:10 in the video" in text
            assert "Passengers by month: July 7,900" in text
            assert "Image 4 (old-report.pdf, 2): it is no longer in the collection" in text

    def test_both_forms_say_how_it_was_made(self, whole: Report) -> None:
        html = " ".join(Read(whole.html).text.split())
        markdown = plain(PARSERS["commonmark"].parse(whole.markdown("x").text))
        for text in (html, markdown):
            for told in ("chat:qwen3-vl-plus", "VimRAG", "v12", "20260301-111500-000000-cafe", "17,350"):
                assert told in text
            assert (
                f"{sum(part.run_view.all(RunStarted)[0].seq == 0 for part in whole.parts)} questions" in text
            )

    def test_each_place_is_listed_once_with_all_evidence_that_stands_there(self, whole: Report) -> None:
        places = [(one.document, one.where) for one in whole.sources.listed]
        assert len(places) == len(set(places)) == 6
        assert whole.sources.listed[0].evidence == ((1, 1), (3, 1))
        assert whole.sources.summary == "6 places in 4 documents"

    def test_an_answer_cites_the_numbers_of_its_run_after_that_of_its_question(self, whole: Report) -> None:
        parts = whole.html.split('class="question"')[1:]
        cited = [re.findall(r'href="#evidence-(\d-\d)"', part.split('class="cards')[0]) for part in parts]
        assert cited[:3] == [["1-1", "1-2", "1-3"], ["2-1", "2-2", "2-3"], []]
        for number in ("1-1", "1-2", "1-3", "2-1", "2-2", "2-3"):
            assert whole.html.count(f'id="evidence-{number}"') == 1
        answer = whole.markdown("x").text.split("(7,900)")[1].split("\n")[0]
        assert re.findall(r"\[\\\[([\d.]+)\\\]\]\(#evidence-of-question-1\)", answer) == ["1.1", "1.2", "1.3"]

    def test_a_report_of_one_question_has_the_numbers_of_its_run(self) -> None:
        done = made(vrag_run())
        assert "(7,900)\u202f[1][2][3]." in Read(done.html).text
        assert "(7,900) [1][2][3]." in plain(PARSERS["commonmark"].parse(done.markdown("x").text))

    def test_evidence_on_one_page_is_one_source_and_stretches_of_a_video_are_several(self) -> None:
        places = (
            evidence(REPORT, 3, box=(0.1, 0.1, 0.2, 0.2)),
            evidence(REPORT, 3, box=(0.5, 0.5, 0.9, 0.9)),
            evidence(VIDEO, 1, kind=ItemKind.CLIP, seconds=(1.0, 2.0)),
            evidence(VIDEO, 1, kind=ItemKind.CLIP, seconds=(3.0, 4.0)),
        )
        found = made(ended(vrag_run(), evidence=places, stop_reason=StopReason.ANSWERED)).sources
        assert [source.evidence for source in found.listed] == [((1, 1), (1, 2)), ((1, 3),), ((1, 4),)]

    def test_what_was_only_looked_at_is_named_and_not_cited(self) -> None:
        part, page = evidence(SLIDES, 2, box=(0.1, 0.1, 0.5, 0.5)), evidence(REPORT, 3)
        done = made(ended(shown_run(), evidence=(part, page), stop_reason=StopReason.ANSWERED))
        assert (done.parts[0].evidence, done.parts[0].besides) == ((part,), (page,))
        assert done.sources.summary == "1 place in 1 document"
        for text in (Read(done.html).text, plain(PARSERS["commonmark"].parse(done.markdown("x").text))):
            assert f"Also looked at: {REPORT}, page 3." in text
        abstained = made(
            ended(shown_run(), text=None, evidence=(part, page), stop_reason=StopReason.ABSTAINED)
        )
        assert abstained.parts[0].evidence == (part, page)
        assert "Also looked at" not in abstained.html

    def test_every_piece_of_evidence_is_shown_with_its_number(self) -> None:
        places = (evidence(REPORT, 3, box=(0.1, 0.1, 0.5, 0.5)), evidence(REPORT, 3), evidence(SLIDES, 2))
        part = made(ended(vrag_run(), evidence=places, stop_reason=StopReason.ANSWERED)).parts[0]
        assert part.closeups == [(1, places[0])]
        assert part.pages == [(2, places[1]), (3, places[2])]

    def test_a_place_that_two_nodes_remember_is_shown_once(self) -> None:
        page, box = evidence(SLIDES, 2), (0.1, 0.1, 0.5, 0.5)
        places = (
            page,
            page.model_copy(update={"node": "another", "crop_sha256": "0" * 64}),
            evidence(REPORT, 3, box=box, quote="Seen."),
            evidence(REPORT, 3, box=box, quote="Seen.").model_copy(update={"node": "another"}),
            evidence(REPORT, 3, box=(0.5, 0.5, 0.9, 0.9)),
        )
        part = made(ended(vrag_run(), evidence=places, stop_reason=StopReason.ANSWERED)).parts[0]
        assert part.closeups == [(2, places[2]), (3, places[4])]
        assert part.pages == [(1, places[0])]

    def test_parts_of_pages_come_first_and_whole_pages_beside_each_other(self) -> None:
        places = (
            *(evidence(REPORT, number) for number in (5, 6, 7, 8)),
            evidence(REPORT, 3, box=(0.1, 0.1, 0.5, 0.5), quote="Seen."),
        )
        done = made(ended(vrag_run(), evidence=places, stop_reason=StopReason.ANSWERED))
        html = done.html
        wide, small = (html.index(f'class="cards {kind}"') for kind in ("close", "pages"))
        assert wide < html.index("Seen.") < small
        heads = [line for line in done.markdown("x").text.split("\n") if line.startswith("| **")]
        assert [re.findall(r"page (\d)", head) for head in heads] == [["5", "6", "7"], ["8"]]
        assert done.markdown("x").text.count("page 5") == 2, "as a figure, and among the sources"
        assert done.markdown("x").text.index("> Seen") < done.markdown("x").text.index("page 5")

    def test_what_all_answers_have_in_common_is_told_once(self, whole: Report) -> None:
        told = RunTable.of(whole.runs)
        assert set(told.shared).isdisjoint(told.columns)
        assert {"steps", "searches", "tokens", "run"} <= set(told.columns)
        assert all(len(row) == len(told.columns) == len(told.together) for row in told.rows)
        steps = told.columns.index("steps")
        assert sum(int(row[steps]) for row in told.rows) == int(told.together[steps])
        alone = RunTable.of(whole.runs[:1])
        assert alone.together == ()
        assert {"agent", "model", "run"} <= set(alone.shared)

    def test_a_follow_up_says_what_it_follows_and_shows_its_pictures(self) -> None:
        told = vrag_run()
        sha256 = told.keep(drawn_page("attached"))
        more = {"history": (PreviousTurn("And before?", None),), "attached": (sha256,)}
        told.events[0] = told.events[0].model_copy(update=more)
        done = made(told)
        assert "And before?" in Read(done.html).text
        assert "attached-1-1" in done.html
        assert "And before?" in done.markdown("x").text
        assert f"{sha256[:16]}.jpg" in done.markdown("x").files

    def test_an_answer_without_a_model_says_so(self) -> None:
        told = vrag_run()
        settings = told.events[0].settings.model_copy(update={"policy": "extractive"})  # type: ignore[union-attr]
        told.events[0] = told.events[0].model_copy(update={"settings": settings})
        for text in (made(told).html, made(told).markdown().text):
            assert "without a model" in text

    @pytest.mark.parametrize(("box", "told"), [
        ((0.0, 0.0, 1.0, 1.0), "Page 3"),
        ((0.1, 0.25, 0.5, 0.5), "Page 3, 10–50 % across, 25–50 % down"),
        ((float("nan"), 0.0, 1.0, 1.0), "Page 3"),
        ((float("inf"), 0.0, 1.0, 1.0), "Page 3"),
        (None, "Page 3"),
    ])  # fmt: skip
    def test_a_box_is_told_in_percent_of_its_page(self, box: Any, told: str) -> None:  # noqa: ANN401
        assert extent(evidence(REPORT, 3, box=box)) == told


class TestTheForms:
    def test_the_page_stands_alone(self, whole: Report) -> None:
        read = Read(whole.html)
        assert not FETCHING & {tag for tag, _ in read.tags}
        assert POLICY in read.values("content")
        assert all(href.startswith(("#", "data:image/")) for href in read.values("href"))

    def test_every_link_leads_somewhere_and_every_name_is_given_once(self, whole: Report) -> None:
        read = Read(whole.html)
        ids = read.values("id")
        assert len(ids) == len(set(ids))
        links = [href[1:] for href in read.values("href") if href.startswith("#")]
        assert set(links + read.values("popovertarget")) <= set(ids)

    def test_each_picture_is_in_the_page_once_and_none_that_it_does_not_show(self, whole: Report) -> None:
        data = [href for href in Read(whole.html).values("href") if href.startswith("data:image/jpeg")]
        assert len(data) == len(set(data)) == len(whole.image_store.stored_images)
        assert len(data) < len(vrag_run().files) + len(vimrag_run().files)

    def test_markdown_names_the_files_of_its_pictures(self, whole: Report) -> None:
        text, files, pictures = whole.markdown("the folder/ü")
        named = [
            token.attrGet("src")
            for line in PARSERS["commonmark"].parse(text)
            for token in line.children or []
            if token.type == "image"
        ]
        assert {f"the%20folder/%C3%BC/{name}" for name in files} == set(named)
        assert pictures == len(files)
        assert set(files.values()) <= {leaf.data for leaf in whole.image_store.stored_images.values()}

    def test_markdown_may_hold_its_pictures_at_its_end(self, whole: Report) -> None:
        text, files, pictures = whole.markdown()
        shown = [
            str(token.attrGet("src"))
            for line in PARSERS["commonmark"].parse(text)
            for token in line.children or []
            if token.type == "image"
        ]
        assert files == {}
        assert len(set(shown)) == pictures == len(whole.markdown("x").files)
        held = {base64.b64decode(one.removeprefix("data:image/jpeg;base64,")) for one in shown}
        assert held == set(whole.markdown("x").files.values())
        assert "base64" not in text.split("How this was made")[0]

    def test_links_of_markdown_lead_to_its_headings(self, whole: Report) -> None:
        tokens = PARSERS["commonmark"].parse(whole.markdown("x").text)
        heads = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
        names = {head.lower().replace(" ", "-") for head in heads}
        links = [
            str(token.attrGet("href"))
            for line in tokens
            for token in line.children or []
            if token.type == "link_open"
        ]
        assert links
        assert {link.removeprefix("#") for link in links} <= names

    def test_places_open_at_the_server_and_in_files_that_are_known(self) -> None:
        links = PlaceLinks("http://[::1]:8000/a (b)", {"1.1": "./a%20b.pdf#page=3"})
        told, shown = made(vrag_run(), vimrag_run(), links=links), made(vrag_run(), vimrag_run())
        run = told.runs[0].started.run_id
        server = f"http://[::1]:8000/a%20%28b%29/#/runs/{run}?cite="
        outer = [href for href in Read(told.html).values("href") if not href.startswith(("#", "data:"))]
        assert outer[:3] == [f"{server}1", "./a%20b.pdf#page=3", f"{server}3"]
        assert len(outer) == 1 + sum(len(part.evidence) for part in told.parts)
        tokens = [
            inner
            for token in PARSERS["commonmark"].parse(told.markdown("x").text)
            for inner in token.children or []
        ]
        targets = [str(token.attrGet("href")) for token in tokens if token.type == "link_open"]
        assert [target for target in targets if not target.startswith("#")][:2] == outer[:2]
        for text in (shown.html, shown.markdown("x").text):
            assert "Open the" not in text, "no dead links"

    def test_a_picture_that_is_gone_is_told(self) -> None:
        done = Report.of([RunView.of(vrag_run().events)], lambda _: None, created=MADE)
        assert "not among the files of the run" in done.html
        text, files, _ = done.markdown("x")
        assert "not among the files of the run" in text
        assert files == {}

    def test_the_same_runs_give_the_same_report(self) -> None:
        assert made(vrag_run()).html == made(vrag_run()).html
        assert made(vrag_run()).markdown("x") == made(vrag_run()).markdown("x")

    def test_of_one_run_the_question_is_the_title_and_there_are_no_contents(self) -> None:
        done = made(vrag_run())
        assert done.title == vrag_run().events[0].question  # type: ignore[union-attr]
        assert "Contents" not in done.markdown("x").text

    def test_there_is_no_report_of_nothing(self) -> None:
        with pytest.raises(ValueError, match="needs a run"):
            report_of([])
        beheaded = vrag_run()
        del beheaded.events[0]
        with pytest.raises(RunError):
            report_of([stored(beheaded)])


@pytest.fixture(scope="module")
def attacked() -> Report:
    runs = (vrag_run(), vimrag_run(), abstained(), failed())
    for run in runs:
        run.events = [hostile(event, MARKDOWN_ATTACK + payload()) for event in run.events]
    return made(*runs, title=MARKDOWN_ATTACK + payload(), unfinished=[MARKDOWN_ATTACK + payload()])


PROSE = {
    "br",
    "hr",
    "em",
    "strong",
    "s",
    "code",
    "pre",
    "ul",
    "blockquote",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}
"""Elements of answers."""


class TestHostileText:
    def test_the_page_has_no_element_that_a_harmless_one_has_not(
        self, attacked: Report, whole: Report
    ) -> None:
        tags = {tag for tag, _ in Read(attacked.html).tags}
        assert tags <= {tag for tag, _ in Read(whole.html).tags} | PROSE
        assert all(href.startswith(("#", "data:image/")) for href in Read(attacked.html).values("href"))

    @pytest.mark.parametrize("parser", PARSERS)
    def test_markdown_has_no_html_code_link_or_picture_of_others(
        self, attacked: Report, parser: str, whole: Report
    ) -> None:
        tokens = PARSERS[parser].parse(attacked.markdown("x").text)
        prose = {
            f"{kind}_{end}" for kind in ("blockquote", "s", "em", "ordered_list") for end in ("open", "close")
        }
        allowed = kinds(PARSERS[parser].parse(whole.markdown("x").text)) | prose
        allowed |= {"hardbreak", "hr", "fence", "code_inline"}
        assert kinds(tokens) <= allowed
        inner = [token for line in tokens for token in line.children or []]
        targets = [str(token.attrGet("href")) for token in inner if token.type == "link_open"]
        assert all(re.fullmatch(r"#(evidence-of-)?question-\d", target) for target in targets)
        shown = [str(token.attrGet("src")) for token in inner if token.type == "image"]
        assert all(re.fullmatch(r"x/[0-9a-f]{16}\.jpg", one) for one in shown)
        heads = [tokens[at + 1].content for at, one in enumerate(tokens) if one.type == "heading_open"]
        ours = r"Contents|Question \d|Evidence of question \d|Sources|How this was made|Not asked to the end"
        assert [head for head in heads[1:] if not re.fullmatch(ours, head)] == []

    def test_names_of_files_to_save_are_harmless(self) -> None:
        store = stored(vrag_run(), "../../x")
        assert report_document([store], title='../"\r\nX: y/\u202e').name == "x-y.html"
        assert report_document([store], title="…").name == "report.html"


MARKDOWN_ATTACK = (
    "\n\n# head\n\nhead\n===\n\n    code\n\n```\nfence\n```\n\n<b>html</b>\n\n![x](http://127.0.0.1:9/x.png)"
    "[x](javascript:alert(1)) [x][y] \n\n[y]: http://127.0.0.1:9/\n\n| a | b |\n|---|---|\n| c | d |\n\n"
    "> q\n\n- item\n1. item\n***\n<http://127.0.0.1:9/> &lt;b&gt; **bold** _em_ `code` ~~s~~ $x$ ![]( [^1]\n"
)


WRITTEN = st.one_of(
    st.characters(exclude_categories=("Cs", "Cc", "Cn")), st.sampled_from("\\`*_{}[]()<>#+-.!|~&:=\n\t 1")
)
"""Characters that a page can hold, those that mean something in Markdown often among them."""


class TestMarkdown:
    @given(st.text(WRITTEN, max_size=60))
    @pytest.mark.parametrize("parser", PARSERS)
    def test_whatever_is_written_is_read_as_it_was(self, parser: str, text: str) -> None:
        line = inline(text)
        assert "\n" not in line
        if not line:
            return
        (before, inner, after) = PARSERS[parser].parse(line)
        assert (before.type, after.type) == ("paragraph_open", "paragraph_close")
        assert kinds(inner.children or []) <= {"text"}
        assert plain([inner]).split() == text.split()

    @given(st.lists(st.tuples(st.text(WRITTEN, max_size=20), st.text(WRITTEN, max_size=20)), max_size=4))
    @pytest.mark.parametrize("parser", ["with tables and strikethrough", "all there is"])
    def test_cells_of_a_table_hold_what_was_written_whatever_it_is(
        self, parser: str, rows: list[tuple[str, str]]
    ) -> None:
        tokens = PARSERS[parser].parse(table(("a", "b"), [[inline(cell) for cell in row] for row in rows]))
        cells = [tokens[at + 1].children or [] for at, one in enumerate(tokens) if one.type == "td_open"]
        assert [plain(cell).split() for cell in cells] == [cell.split() for row in rows for cell in row]
        assert {one.type for cell in cells for one in cell} <= {"text"}

    def test_what_no_page_can_hold_is_marked(self) -> None:
        assert inline("a\x00b\x1b\ud800") == "a\ufffdb\ufffd\ufffd"

    @given(st.text(st.sampled_from("ab1\\`*_[]()<>#+-.!|~&:=\n\r \t"), max_size=60))
    def test_lines_stay_lines_in_paragraphs_and_quotations(self, text: str) -> None:
        lines = [" ".join(line.split()) for line in re.split(r"[\n\r]", text) if line.strip()]
        tokens = PARSERS["all there is"].parse(paragraph(text))
        assert plain(tokens).split("\n")[: len(lines)] == lines
        assert kinds(tokens) <= {"paragraph_open", "inline", "text", "hardbreak", "paragraph_close"}
        outer = kinds(PARSERS["all there is"].parse(quoted(text)))
        assert outer <= kinds(tokens) | {"blockquote_open", "blockquote_close"}

    @pytest.mark.parametrize(
        "text",
        ["48,200 passengers, most in July (7,900).", "29.7 s", "10:15 UTC", "a-b.pdf", "50 % – “yes”!"],
    )
    def test_harmless_text_is_written_as_it_is(self, text: str) -> None:
        assert inline(text) == text


def stored(
    told: Telling, id: str = "20260301-101500-000000-beef", directory: Path | None = None
) -> StoredRun:
    from pathlib import Path

    return StoredRun(id, RunStore(directory or Path("nowhere")), tuple(told.events))


class TestDocuments:
    @pytest.fixture
    def run(self, tmp_path: Path) -> StoredRun:
        told, store = vrag_run(), RunStore(tmp_path)
        with store.record() as recording:
            for event in told.events:
                recording.write(event.model_copy(update={"run_id": recording.id}))
            for sha256, data in told.files.items():
                recording.save(f"{sha256}.jpg", data)
        return store.read("last")

    @pytest.mark.parametrize("form", Format)
    def test_a_run_is_exported_whole_under_its_id(self, run: StoredRun, form: Format) -> None:
        done = export_of(run, form.value)
        assert done.name == f"{run.id}{form.suffix}"
        assert "48,200 passengers" in done.data.decode()
        assert done.media_type.split(";")[0] in {"text/html", "text/markdown", "application/json"}

    def test_json_holds_every_event(self, run: StoredRun) -> None:
        value = json.loads(export_of(run, "json").data)
        assert len(value["events"]) == len(run.events)
        assert value["answer"] == run.result.answer
        assert value["evidence"][0]["document"] == REPORT
        assert value["usage"]["visual_tokens"] == run.result.usage.visual_tokens

    def test_markdown_in_one_file_has_its_pictures_inside(self, run: StoredRun) -> None:
        assert export_of(run, "markdown").data.count(b"data:image/jpeg;base64,") == 2

    @pytest.mark.parametrize("form", ["html", "markdown"])
    def test_several_runs_become_one_document(self, run: StoredRun, form: str) -> None:
        done = report_document([run, run], "Two of them", form)
        assert done.name.startswith("two-of-them.")
        assert "2 questions, 2 answered" in done.data.decode()

    def test_what_a_report_cannot_be_is_refused(self, run: StoredRun) -> None:
        for form in ("json", "pdf"):
            with pytest.raises(ValueError, match=form if form == "pdf" else "html or markdown"):
                report_document([run], format=form)
        with pytest.raises(ValueError, match="needs a run"):
            report_document([])
