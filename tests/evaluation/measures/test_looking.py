"""Gold among what the model was shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shown_runs import FERRY, HARBOUR, case, document, hit, image, passage, run

from vrag.agent.runs.run_result import RunStep
from vrag.evaluation.measures.run_measures import LOOKING, looking
from vrag.evaluation.relevance import DocumentNames
from vrag.reward.parts import retrieval_reward
from vrag.types import Case, GoldPage, ItemKind

NAMES = DocumentNames.of([*document(FERRY, "ferry.pdf", "copy.pdf"), *document(HARBOUR, "harbour.mp4")])


def test_by_hand() -> None:
    # one of two gold pages, at the second place: (1 / log2 3) / (1 + 1 / log2 3)
    found = looking(case(3, 7), run(image(1), image(3)), NAMES)
    assert found == {"seen_recall": 0.5, "seen_ndcg": pytest.approx(0.63093 / 1.63093, abs=1e-5)}
    assert found.keys() == LOOKING.keys()


@given(st.lists(st.integers(1, 9), max_size=8), st.frozensets(st.integers(1, 9), min_size=1, max_size=4))
def test_ndcg_is_the_reward_of_training_where_each_page_has_one_name(
    shown: list[int], gold: frozenset[int]
) -> None:
    looked = run(*map(image, shown))
    asked = case(*sorted(gold))
    assert looking(asked, looked, NAMES)["seen_ndcg"] == pytest.approx(retrieval_reward(asked, looked))


def test_gold_is_known_by_any_name_of_its_bytes() -> None:
    assert looking(case(3, file="copy.pdf"), run(image(3)), NAMES)["seen_recall"] == 1
    assert looking(case(3, file="copy.pdf"), run(image(3)), DocumentNames())["seen_recall"] == 0


def test_a_page_under_two_names_takes_up_one_place() -> None:
    asked = case(3, file="copy.pdf")
    found = looking(asked, run(image(1), image(1, name="copy.pdf"), image(3)), NAMES)
    assert found["seen_ndcg"] == pytest.approx(0.63093, abs=1e-5)


def test_crops_are_no_look_at_a_page() -> None:
    assert looking(case(3), run(image(3, crop=True)), NAMES)["seen_recall"] == 0


def test_a_case_without_gold_is_not_measured() -> None:
    assert looking(case(), run(image(3)), NAMES) == {}


def test_nothing_shown_is_none_of_it() -> None:
    assert looking(case(3), run(), NAMES) == {"seen_recall": 0.0, "seen_ndcg": 0.0}


def test_a_document_that_is_gold_as_a_whole_is_seen_by_any_item_and_takes_up_one_place() -> None:
    gold = (GoldPage("harbour.txt"), GoldPage("copy.pdf"))
    asked = Case(uid="c", query="?", reference_answer="9", file_name="harbour.txt", gold=gold)
    names = DocumentNames.of([*document(FERRY, "ferry.pdf", "copy.pdf"), *document(HARBOUR, "harbour.txt")])
    shown = [passage(4, id=HARBOUR, name="harbour.txt", step=at) for at in (2, 2)]
    looked = run(image(1), image(2))
    assert looking(asked, looked, names)["seen_recall"] == 0.5
    assert looking(asked, looked, names, shown) == {"seen_recall": 1.0, "seen_ndcg": 1.0}


def test_a_page_of_a_document_of_text_is_seen_by_any_passage_of_it() -> None:
    asked = case(1, file="harbour.txt")
    shown = [passage(4, id=HARBOUR, name="harbour.txt")]
    assert looking(asked, run(), DocumentNames(), shown) == {"seen_recall": 1.0, "seen_ndcg": 1.0}
    assert (
        looking(asked, run(), DocumentNames(), [passage(1, id=FERRY, name="ferry.txt")])["seen_recall"] == 0
    )


def test_passages_stand_where_they_were_shown() -> None:
    gold = (GoldPage("harbour.txt"),)
    asked = Case(uid="c", query="?", reference_answer="9", file_name="harbour.txt", gold=gold)
    looked = replace(
        run(),
        steps=(
            RunStep(number=1, shown=(image(1),)),
            RunStep(number=3, shown=(image(2, step=3),)),
        ),
    )
    found = looking(asked, looked, DocumentNames(), [passage(1, id=HARBOUR, name="harbour.txt", step=2)])
    assert found["seen_ndcg"] == pytest.approx(0.63093, abs=1e-5)


class TestOfAVideo:
    CASE = Case(
        uid="c",
        query="?",
        reference_answer="A",
        file_name="harbour.mp4",
        spans=((10.0, 20.0), (60.0, 70.0)),
    )

    @pytest.mark.parametrize(("seconds", "seen"), [(9.0, 0.0), (10.0, 0.5), (15.0, 0.5), (61.0, 0.5)])
    def test_a_frame_is_gold_in_a_gold_stretch(self, seconds: float, seen: float) -> None:
        frame = image(2, id=HARBOUR, name="harbour.mp4", seconds=seconds)
        assert looking(self.CASE, run(frame), NAMES)["seen_recall"] == seen

    def test_a_frame_at_that_time_of_another_video_is_not(self) -> None:
        frame = image(2, name="ferry.mp4", seconds=15.0)
        assert looking(self.CASE, run(frame), NAMES)["seen_recall"] == 0

    def test_pictures_of_clips_without_their_time_are_not_measured(self) -> None:
        found = hit(2, id=HARBOUR, name="harbour.mp4", kind=ItemKind.CLIP)
        shown = image(2, id=HARBOUR, name="harbour.mp4")
        assert looking(self.CASE, run(shown, hits=(found,)), NAMES) == {}
