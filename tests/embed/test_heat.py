from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.embed.embedder import MatchMap
from vrag.embed.similarity_map import draw_heat, heat, regions


def found(*layers: list[list[float]]) -> MatchMap:
    return MatchMap(tuple("abc"[: len(layers)]), np.array(layers, dtype=np.float32))


TWO_SPOTS = found([[0.9, 0.8, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.7]])


def test_heat_goes_from_nothing_to_one() -> None:
    values = heat(TWO_SPOTS)
    assert values.shape == (3, 4)
    assert (values.min(), values.max()) == (0, 1)
    assert values[0, 0] == 1


def test_a_token_that_is_alike_everywhere_says_nothing() -> None:
    flat = [[0.95] * 4] * 3
    np.testing.assert_allclose(
        heat(found(TWO_SPOTS.similarity[0].tolist(), flat)), heat(TWO_SPOTS), atol=1e-6
    )


def test_one_token_can_be_looked_at_alone() -> None:
    both = found([[1.0, 0.0]], [[0.0, 1.0]])
    assert heat(both, 0).tolist() == [[1, 0]]
    assert heat(both, 1).tolist() == [[0, 1]]
    with pytest.raises(IndexError):
        heat(both, 2)


def test_regions_are_the_boxes_of_patches_that_touch_hottest_first() -> None:
    first, second = regions(TWO_SPOTS)
    assert first.box.as_tuple() == (0, 0, 0.5, pytest.approx(1 / 3))
    assert first.score == 1
    assert second.box.as_tuple() == (0.75, pytest.approx(2 / 3), 1, 1)
    assert second.score < 1
    assert regions(TWO_SPOTS, most=1) == [first]


def test_nothing_matched_is_no_region_and_an_unmarked_picture() -> None:
    nothing = found([[0.3, 0.3]])
    image = Image.new("RGB", (20, 10), "white")
    assert regions(nothing) == []
    assert draw_heat(image, nothing).tobytes() == image.tobytes()
    assert regions(MatchMap((), np.zeros((0, 2, 2), np.float32))) == []


def test_the_picture_is_marked_where_it_matched_and_nowhere_else() -> None:
    image = Image.new("RGB", (400, 300), "white")
    marked = np.asarray(draw_heat(image, TWO_SPOTS), dtype=int)
    assert marked.shape == (300, 400, 3)
    strength = 255 - marked[..., 1]
    assert strength[40, 40] > 100
    assert strength[250, 370] > 50
    assert strength[150:, :250].max() == 0


@given(st.lists(st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_regions_lie_on_the_picture_and_hold_what_is_hot(rows: list[list[float]]) -> None:
    made = found(rows)
    values = heat(made)
    boxes = [region.box for region in regions(made, most=99)]
    for row, column in np.argwhere((values >= 0.5) & (values > 0)):
        x, y = (column + 0.5) / 3, (row + 0.5) / len(rows)
        assert any(box.x1 < x < box.x2 and box.y1 < y < box.y2 for box in boxes)
    assert all(0 <= edge <= 1 for box in boxes for edge in box.as_tuple())
