"""Evidence: only what the collection still shows as the model saw it, with its words, place and time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from agent_scripts import (
    PROFILE,
    WAYS,
    Way,
    answers,
    environment,
    events_of,
    film_corpus,
    memorizes,
    note,
    of,
    searches,
    way_name,
)
from PIL import Image

from vrag.agent.agent import Agent
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerGiven, ImageShown, MemoryUpdated, UsageReported
from vrag.agent.evidence import (
    QUOTE_LENGTH,
    Evidence,
    EvidenceCandidate,
    check_evidence,
    passage_evidence,
    picture_evidence,
    words_inside,
)
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.errors import CollectionError, SearchError
from vrag.geometry import Box, Size, Space, View
from vrag.testing import MemorySearcher, ScriptedPolicy, page, passage, tiny_corpus
from vrag.types import Item, ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.events import Event
    from vrag.corpus.formats.video import VideoFrame

both = pytest.mark.parametrize("way", WAYS, ids=way_name)
CORPUS = tiny_corpus()
PAGE, TEXT = CORPUS.items[1], CORPUS.items[3]
WHERE = environment(CORPUS)


def whole_page() -> EvidenceCandidate:
    return picture_evidence(WHERE.whole(PAGE, number=1), PAGE, "Image 1")


def cropped(region: tuple[float, float, float, float]) -> EvidenceCandidate:
    view = View.whole(Size(1000, 1400), Size(532, 728))
    picture = WHERE.closer(PAGE.id, view, Box(*region, Space.ITEM), number=2)
    return picture_evidence(picture, PAGE, "Image 2")


def text_seen() -> EvidenceCandidate:
    return passage_evidence(TEXT, "Passage 1")


def changed(seen: EvidenceCandidate, **values: object) -> EvidenceCandidate:
    return replace(seen, evidence=seen.evidence.model_copy(update=values))


# What it says


def test_of_a_page_it_is_the_whole_and_of_a_crop_the_part_with_its_words() -> None:
    page_of, part = whole_page().evidence, cropped((0, 60, 500, 110)).evidence
    assert (page_of.box, page_of.quote, page_of.page, page_of.kind) == ((0, 0, 1, 1), "", 2, ItemKind.PAGE)
    assert part.box == (0, 60 / 1400, 0.5, 110 / 1400)
    assert part.quote == "The ferry carried 48,200 passengers in 2024."
    assert (part.document, part.document_id) == ("ferry.pdf", PAGE.document)
    assert part.crop_sha256 != page_of.crop_sha256


def test_of_a_passage_it_is_the_text_without_a_box() -> None:
    told = text_seen().evidence
    assert (told.box, told.crop_sha256, told.quote) == (None, None, TEXT.text)
    long = passage_evidence(passage("a.md", 1, "ferry " * 400), "Passage 1").evidence
    assert len(long.quote) == QUOTE_LENGTH


def test_words_belong_to_a_box_that_covers_their_middle() -> None:
    """By hand: characters are 10 pixels wide, from x = 40; the first line stands at y = 40 to 64 of 1,400."""
    item = page("a.pdf", 1, "one three")  # one: 40 to 70, three: 80 to 130
    unit = [(54, 0), (56, 0), (104, 0), (106, 0)]
    found = [words_inside(item, Box.unit(0, 0, right / 1000, 1)) for right, _ in unit]
    assert found == ["", "one", "one", "one three"]
    assert words_inside(item, Box.unit(0, 0, 1, 51 / 1400)) == ""
    assert words_inside(item, Box.unit(0, 0, 1, 53 / 1400)) == "one three"


def test_a_clip_without_moments_is_evidence_as_long_as_it_lasts() -> None:
    film = film_corpus()
    clip, where = film.items[-1], environment(film)
    assert picture_evidence(where.whole(clip), clip, "Image 1").evidence.seconds == (30.0, 40.0)
    named = picture_evidence(where.whole(clip), clip, "Image 1", seconds=(33.0, 35.0))
    assert named.evidence.seconds == (33.0, 35.0)


@both
def test_a_frame_of_a_clip_shows_where_and_when_it_was_seen(way: Way) -> None:
    events, _ = events_of(
        way.method, way.search("lands"), answers("found") if way.method.memory else way.answer("x"),
        where=environment(film_corpus()),
    )  # fmt: skip
    end = events[-1]
    assert isinstance(end, AnswerGiven)
    (evidence,) = end.evidence
    assert (evidence.kind, evidence.page, evidence.seconds) == (ItemKind.CLIP, 2, (30.0, 40.0))
    assert evidence.crop_sha256 in {shown.sha256 for shown in of(ImageShown, events)}


# What is check_evidence


def test_what_agrees_with_the_collection_is_kept_in_order_and_once() -> None:
    seen = [cropped((0, 60, 500, 110)), whole_page(), text_seen(), whole_page()]
    evidence, faults = check_evidence(seen, WHERE)
    assert evidence == tuple(one.evidence for one in seen[:3])
    assert faults == ()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"item": "0000000000000000-1"}, "no longer in the collection"),
        ({"document_id": "f" * 64}, "something else under its name"),
        ({"page": 3}, "something else under its name"),
        ({"box": (0.0, 0.0, 1.1, 1.0)}, "outside of the page"),
        ({"box": (-0.1, 0.0, 1.0, 1.0)}, "outside of the page"),
        ({"box": (0.5, 0.0, 0.5, 1.0)}, "outside of the page"),
        ({"box": (0.0, 0.9, 1.0, 0.1)}, "outside of the page"),
    ],
)
def test_what_does_not_agree_is_left_out_with_its_reason(values: dict[str, object], reason: str) -> None:
    evidence, (fault,) = check_evidence([changed(whole_page(), **values), text_seen()], WHERE)
    assert evidence == (text_seen().evidence,)
    assert reason in fault
    assert fault.startswith("Image 1 (ferry.pdf, ")


def test_a_box_may_reach_the_edge_but_for_rounding() -> None:
    evidence, faults = check_evidence([changed(whole_page(), box=(-1e-12, 0.0, 1.0 + 1e-12, 1.0))], WHERE)
    assert (len(evidence), faults) == (1, ())


class Repainted(MemorySearcher):
    """The same items, of which one looks otherwise now."""

    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        return Image.new("RGB", (1000, 1400), "red") if id == PAGE.id else super().image(id, least=least)


class Unreadable(MemorySearcher):
    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        raise CollectionError("The disk is gone.")


class Emptied(MemorySearcher):
    def item(self, id: str) -> Item:
        raise SearchError("There is nothing.")


@pytest.mark.parametrize(
    ("searcher", "kept", "reason"),
    [
        (Repainted(CORPUS.items), 1, "no longer looks as it was shown"),
        (Unreadable(CORPUS.items), 1, "no longer looks as it was shown"),
        (Emptied(CORPUS.items), 0, "no longer in the collection"),
        (MemorySearcher((replace(PAGE, id=TEXT.id), TEXT)), 0, "no longer in the collection"),
    ],
)
def test_evidence_is_checked_against_the_collection_of_now(
    searcher: MemorySearcher, kept: int, reason: str
) -> None:
    seen = [whole_page(), text_seen()]
    evidence, faults = check_evidence(seen, Environment(searcher, PROFILE))
    assert len(evidence) == kept
    assert len(faults) == 2 - kept
    assert reason in faults[0]


@both
def test_an_answer_lists_only_what_still_looks_as_it_was_shown(way: Way) -> None:
    """The page is painted over between the search and the answer."""
    painted: list[str] = []

    class Painted(MemorySearcher):
        def image(self, id: str, *, least: Size | None = None) -> Image.Image:
            image = super().image(id, least=least)
            return Image.new("RGB", image.size, "red") if painted else image

    events: list[Event] = []
    script = way.search("annual"), answers("found") if way.method.memory else way.answer("x")
    for event in Agent(ScriptedPolicy(script), environment(Painted(CORPUS.items)), way.method).stream("?"):
        events.append(event)
        painted += [shown.item for shown in of(ImageShown, [event])]
    end = events[-1]
    assert isinstance(end, AnswerGiven)
    assert (end.text is not None, end.evidence) == (True, ())
    assert len(end.unsupported) == 1


@both
def test_every_answer_names_pictures_that_were_shown_and_items_that_exist(way: Way) -> None:
    files: dict[str, bytes] = {}
    script = way.search("ferry passengers"), answers("found") if way.method.memory else way.answer("x")
    events = list(
        Agent(ScriptedPolicy(script), environment(), way.method).stream("?", save=files.__setitem__)
    )
    end = events[-1]
    assert isinstance(end, AnswerGiven)
    assert end.evidence
    for evidence in end.evidence:
        assert CORPUS.item(evidence.item).document_name == evidence.document
        assert evidence.crop_sha256 is None or f"{evidence.crop_sha256}.jpg" in files
        assert (evidence.node is None) == (way.method.memory is None)


# Of the graph


def graph_evidence(*script: str) -> Sequence[Evidence]:
    method = Vimrag(memory=MemoryOptions(items=1))
    events, _ = events_of(method, *script)
    assert of(MemoryUpdated, events)
    assert isinstance(events[-1], AnswerGiven)
    return events[-1].evidence


def test_evidence_of_a_node_comes_by_worth_and_texts_in_the_middle() -> None:
    """Also of what memory had no room to show: it was useful, and it was seen."""
    script = (
        searches("report", "ferry 2024 ice"),
        memorizes(note("Text 1", 1), note("Picture 1", 2), note("Picture 2", 5)),
        answers("report"),
    )
    assert [(one.document, one.page) for one in graph_evidence(*script)] == [
        ("ferry.pdf", 2),
        ("notes.md", 1),
        ("ferry.pdf", 1),
    ]


def test_a_text_that_was_called_useless_is_no_evidence() -> None:
    script = (
        searches("report", "ferry 2024 ice"),
        memorizes(note("Text 1", 0), note("Picture 1", 0), note("Picture 2", 1)),
        answers("report"),
    )
    assert [(one.document, one.page) for one in graph_evidence(*script)] == [("ferry.pdf", 2)]


def test_a_diamond_names_each_node_once() -> None:
    script = (
        searches("top", "ferry 2024"),
        memorizes(note("Text 1", 0), note("Picture 1", 5), note("Picture 2", 0)),
        searches("left", "prices", ["top"]),
        memorizes(note("Picture 1", 5)),
        searches("right", "january", ["top"]),
        memorizes(note("Text 1", 5)),
        answers("left", "right"),
    )
    assert [one.node for one in graph_evidence(*script)] == ["right", "left", "top"]


# Of clips


@dataclass(frozen=True)
class Film(MemorySearcher):
    """Two clips, of which the test says what has become of them; it notes which are opened."""

    now: list[str] = field(default_factory=list[str])
    opened: list[str] = field(default_factory=list[str])

    def frames(self, id: str, *, fps: float, most: int) -> list[VideoFrame]:
        self.opened.append(id)
        found = MemorySearcher.frames(self, id, fps=fps, most=most)
        if "inverted" in self.now:
            return [replace(one, image=one.image.point(lambda value: 255 - value)) for one in found]
        if "shifted" in self.now:
            return [replace(one, seconds=one.seconds + 0.25) for one in found]
        if "smaller" in self.now:
            return [replace(one, image=one.image.resize((300, 200))) for one in found]
        if "missing" in self.now:
            raise CollectionError("The clip is gone.")
        return found


def watched(now: str, *script: str) -> tuple[AnswerGiven, int]:
    """What a run answers whose clips are other ones from its last search on, and how often it then looks."""
    film, last = Film(film_corpus().items), len(script)
    for event in Agent(ScriptedPolicy(script), environment(film, hits=4), Vimrag()).stream("?"):
        if isinstance(event, UsageReported) and event.step == last - 1:
            film.now.append(now)
            film.opened.clear()
        if isinstance(event, AnswerGiven):
            return event, len(film.opened)
    raise AssertionError


FILM = (
    searches("a", "ferry lands"),
    memorizes(note("Text 1", 0), note("Picture 1", 5), note("Picture 2", 0), note("Video 1", 5, 32.0)),
    answers("a"),
)


def test_frames_that_a_clip_still_shows_are_evidence() -> None:
    end, looks = watched("", *FILM)
    assert [one.kind for one in end.evidence] == [ItemKind.PAGE, ItemKind.CLIP]
    assert (end.unsupported, looks) == ((), 1)


@pytest.mark.parametrize("now", ["inverted", "shifted", "smaller", "missing"])
def test_frames_that_a_clip_no_longer_shows_are_none(now: str) -> None:
    end, _ = watched(now, *FILM)
    assert [one.kind for one in end.evidence] == [ItemKind.PAGE]
    (fault,) = end.unsupported
    assert fault == "a, Video 1 (harbour.mp4, 2): it no longer looks as it was shown"


def test_a_clip_is_opened_once_for_all_its_frames() -> None:
    end, looks = watched(
        "",
        *FILM[:2],
        searches("b", "the ferry lands passengers", ["a"]),
        memorizes(note("Text 1", 0), note("Picture 1", 0), note("Picture 2", 0), note("Video 1", 5, 35.0)),
        answers("b"),
    )
    assert [one.node for one in end.evidence if one.kind is ItemKind.CLIP] == ["b", "a"]
    assert looks == 1


def test_a_part_of_a_picture_that_has_another_size_now_is_left_out() -> None:
    class Shrunk(MemorySearcher):
        def image(self, id: str, *, least: Size | None = None) -> Image.Image:
            return super().image(id, least=least).resize((500, 700))

    evidence, (fault,) = check_evidence(
        [cropped((0, 60, 500, 110))], Environment(Shrunk(CORPUS.items), PROFILE)
    )
    assert evidence == ()
    assert "no longer looks" in fault


LOOK = "<think>Closer.</think><bbox>[20, 20, 300, 200]</bbox>"
FIND = "<think>Look.</think><search>ferry passengers 2024</search>"


@dataclass(frozen=True)
class CountingSearcher(MemorySearcher):
    """Counts how often a picture is opened."""

    opened: list[str] = field(default_factory=list[str], compare=False)

    def image(self, id: str, *, least: Size | None = None) -> Image.Image:
        self.opened.append(id)
        return MemorySearcher.image(self, id, least=least)


class TestNotLocated:
    """As in training: the evidence is what the model was shown, as it was shown it."""

    def given(self, answer: str, *, locate: bool = False, searcher: MemorySearcher = CORPUS) -> AnswerGiven:
        replies = FIND, LOOK, f"<think>Seen.</think><answer>{answer}</answer>"
        agent = Agent(ScriptedPolicy(replies), environment(searcher), VragMethod(), locate=locate)
        end = list(agent.stream("How many passengers?"))[-1]
        assert isinstance(end, AnswerGiven)
        return end

    def test_nothing_is_opened_once_the_answer_is_given(self) -> None:
        searcher = CountingSearcher(CORPUS.items)
        self.given("48,200", searcher=searcher)
        assert len(searcher.opened) == 2  # the page, and the look at it
        located = CountingSearcher(CORPUS.items)
        self.given("48,200", locate=True, searcher=located)
        assert len(located.opened) > 2

    def test_the_rectangle_of_a_look_stays_as_it_was(self) -> None:
        end = self.given("48,200")
        assert [(one.page, one.located) for one in end.evidence] == [(2, False), (2, False)]
        assert end.evidence[1].box == (0, 0, 1, 1)
        assert (end.reading, end.citations, end.claims, end.named) == (None, (), (), ())

    @pytest.mark.parametrize("locate", [True, False])
    def test_what_the_markers_name_is_recorded_as_it_was_shown(self, locate: bool) -> None:
        shown = self.given("48,200").evidence
        end = self.given("The ferry carried 48,200 passengers [2].", locate=locate)
        assert end.named == (shown[0].crop_sha256,)
        assert self.given("48,200 passengers [1]", locate=locate).named == (shown[1].crop_sha256,)
        assert self.given("48,200 passengers [9]", locate=locate).named == ()

    def test_what_the_markers_name_is_cited_first(self) -> None:
        end = self.given("It carried 48,200 passengers in 2024 [1]. Cars were 3,100 [2].")
        assert [(citation.numbers, citation.source) for citation in end.citations] == [
            ((1,), "model"),
            ((2,), "model"),
        ]
        assert end.text is not None
        assert end.text[end.citations[1].start : end.citations[1].end].strip() == "Cars were 3,100"
        assert end.evidence[0].box == (0, 0, 1, 1)

    def test_an_abstention_names_nothing(self) -> None:
        end = self.given("Not answerable")
        assert (end.named, end.citations, len(end.evidence)) == ((), (), 2)

    def test_claims_and_conflicts_need_located_evidence(self) -> None:
        agent = Agent(ScriptedPolicy(()), WHERE, VragMethod(), locate=False)
        assert not agent.settings.locate
        assert replace(agent, conflicts=True).settings.locate
        assert replace(agent, method=VragMethod(verify=VerifyMode.TELL)).settings.locate
