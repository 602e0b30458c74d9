"""What a model is told of boxes, and a user's own wording of the instruction."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_scripts import PROFILE, VRAG, answers, environment, events_of

from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.prompts import box_words, prompt, worded
from vrag.agent.replies.tool_calls import schemas
from vrag.geometry import Space
from vrag.model_profiles import PROFILES, Profile

PIXELS = "[x1, y1, x2, y2], left, top, right and bottom, in pixels of the picture as it is shown"
SAID = {
    "qwen2-vl": "[x1, y1, x2, y2], left, top, right and bottom, in thousandths of the picture's width and "
    "height, from 0 to 1000",
    "qwen2.5-vl": PIXELS,
    "fractions": "[x1, y1, x2, y2], left, top, right and bottom, as fractions of the picture's width and "
    "height, from 0 to 1",
    "y-first": "[y1, x1, y2, x2], top, left, bottom and right, in thousandths of the picture's width and "
    "height, from 0 to 1000",
}
names = pytest.mark.parametrize("name", PROFILES)


@pytest.mark.parametrize("name", SAID)
def test_a_model_is_told_the_order_and_the_unit_of_its_boxes(name: str) -> None:
    where = environment(profile=PROFILES[name])
    _, policy = events_of(VragMethod(), "nonsense", VRAG.answer("1"), where=where)
    first, refusal = policy.told[0][0].text, policy.told[1][-1].text
    assert SAID[name] in first
    assert SAID[name] in refusal


@pytest.mark.parametrize("name", SAID)
def test_a_crop_node_is_told_them_too(name: str) -> None:
    method = Vimrag()
    _, policy = events_of(method, answers("root"), where=environment(profile=PROFILES[name]))
    assert SAID[name] in policy.told[0][0].text
    (crop,) = [
        tool["function"]
        for tool in schemas(crop=True, profile=PROFILES[name])
        if tool["function"]["name"] == "add_crop_node"
    ]
    assert SAID[name] in crop["parameters"]["properties"]["box"]["description"]


@names
def test_no_other_order_is_named_anywhere(name: str) -> None:
    profile = PROFILES[name]
    other = "[x1, y1, x2, y2]" if profile.y_first else "[y1, x1, y2, x2]"
    method = Vimrag()
    for told in (
        events_of(VragMethod(), "x", VRAG.answer("1"), where=environment(profile=profile))[1],
        events_of(method, "x", answers("root"), where=environment(profile=profile))[1],
    ):
        assert other not in told.text(1)
    assert other not in str(schemas(crop=True, profile=profile))


@pytest.mark.parametrize("space", [Space.ITEM, Space.UNIT])
def test_no_model_answers_in_the_coordinates_of_the_stored_item(space: Space) -> None:
    with pytest.raises(ValueError, match="does not answer boxes"):
        replace(PROFILE, boxes=space)


def own(text: str, actions: str = "ACTIONS", profile: Profile = PROFILE) -> str:
    return worded(text, "vrag.md", actions=actions, profile=profile)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Pay $$5.", "Pay $$5.\nACTIONS"),
        ("Pay $$5 or $x: $actions", "Pay $$5 or $x: ACTIONS"),
        ("Pay $$actions", "Pay $ACTIONS"),
        ("A box is $box.", f"A box is {PIXELS}.\nACTIONS"),
        ("$box; $actions; $boxes", f"{PIXELS}; ACTIONS; $boxes"),
        ("$actions \\1 \\g<0>", "ACTIONS \\1 \\g<0>"),
    ],
)
def test_of_the_users_own_words_only_the_two_places_are_filled(text: str, told: str) -> None:
    assert own(text) == told


def test_without_actions_nothing_is_added_to_the_users_own_words() -> None:
    assert own("Be brief.\n", actions="") == "Be brief.\n"
    assert own("$actions.", actions="") == "."


def test_the_lines_of_actions_are_put_in_as_they_are() -> None:
    assert own("$actions", actions="$box") == "$box"


def test_crops_of_frames_are_not_offered() -> None:
    """They are refused."""
    assert "frame" not in prompt("crop_node.md", **box_words(PROFILE))


def test_where_nothing_was_found_no_search_is_blamed_for_it() -> None:
    """A custom tool may have found nothing."""
    for name in ("nothing_found.md", "results_nothing.md"):
        assert "search" not in prompt(name).lower()
