"""A part of a picture over HTTP is what an agent is shown for the same box."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageStat
from server_harness import ask
from stored_collection import Stored, id_of, stored

from vrag.agent.environment import MIN_CROP_SIDE, fault_of
from vrag.geometry import Box, Size, View, draw_view, smart_resize
from vrag.search.engine import Engine
from vrag.server.app import create_app
from vrag.server.item_files import CollectionFiles
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    import httpx

TEXT, SCAN, CHART, CLIP = id_of("note.md"), id_of("scan.pdf"), id_of("chart.png"), id_of("film.mp4")
WHOLE = Size(400, 300)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("desk"))


def crop(
    desk: Stored, id: str, box: str, headers: dict[str, str] | None = None, **query: int
) -> httpx.Response:
    app = create_app(Engine(desk.collection), files=CollectionFiles([desk.collection]))
    return ask(app, "GET", f"/items/{id}/crop", params={"box": box, **query}, headers=headers)


def picture(response: httpx.Response) -> Image.Image:
    assert response.status_code == 200, response.text
    image = Image.open(io.BytesIO(response.content))
    image.load()
    assert image.format == "JPEG"
    return image


def differs(one: Image.Image, other: Image.Image) -> float:
    """Mean difference of two pictures, 0 to 255."""
    return max(ImageStat.Stat(ImageChops.difference(one, other)).mean)


class TestACrop:
    def test_is_cut_from_the_picture_in_full(self, desk: Stored) -> None:
        cut = picture(crop(desk, CHART, "0.25,0.5,0.75,1"))
        whole = desk.collection.image(CHART)
        assert cut.size == (200, 150)
        assert differs(cut, whole.crop((100, 150, 300, 300))) < 8
        assert differs(cut, whole.crop((0, 0, 200, 150))) > 8

    def test_is_rounded_outwards_as_an_agents_is(self, desk: Stored) -> None:
        sides = (0.1001, 0.2001, 0.3001, 0.4001)
        region = View.whole(WHOLE, WHOLE).cut(Box.unit(*sides))
        cut = picture(crop(desk, CHART, ",".join(map(str, sides))))
        assert cut.size == (region.width, region.height) == (81, 61)

    @given(st.lists(st.floats(-0.5, 1.5), min_size=4, max_size=4))
    def test_is_there_for_every_box_that_an_agent_may_have(self, desk: Stored, sides: list[float]) -> None:
        region = View.whole(WHOLE, WHOLE).cut(Box.unit(*sides))
        response = crop(desk, CHART, ",".join(map(repr, sides)))
        if fault := fault_of(region):
            assert (response.status_code, response.json()["detail"]) == (422, fault)
        else:
            assert picture(response).size == (region.width, region.height)

    def test_is_drawn_smaller_by_the_one_rule_and_never_larger(self, desk: Stored) -> None:
        size = smart_resize(Size(200, 300), factor=1, min_pixels=1, max_pixels=5000)
        small = picture(crop(desk, CHART, "0,0,0.5,1", max_pixels=5000))
        region = View.whole(WHOLE, WHOLE).cut(Box.unit(0, 0, 0.5, 1))
        drawn = draw_view(desk.collection.image(CHART), View(WHOLE, region, size))
        assert small.size == size
        assert differs(small, drawn) < 8
        assert picture(crop(desk, CHART, "0,0,0.5,1", max_pixels=10**9)).size == (200, 300)

    def test_that_the_client_has_is_not_sent_again(self, desk: Stored) -> None:
        first = crop(desk, SCAN, "0,0,0.5,0.5")
        tag = {"if-none-match": first.headers["etag"]}
        again = crop(desk, SCAN, "0,0,0.5,0.5", tag)
        assert (again.status_code, again.content) == (304, b"")
        assert "private" in first.headers["cache-control"]
        for box, query in (("0,0,0.5,0.6", {}), ("0,0,0.5,0.5", {"max_pixels": 999})):
            assert crop(desk, SCAN, box, tag, **query).status_code == 200

    def test_of_a_clip_is_of_its_picture(self, desk: Stored) -> None:
        assert picture(crop(desk, CLIP, "0,0,0.5,0.5")).size == (200, 150)

    def test_of_a_searcher_without_files_is_the_same(self) -> None:
        searcher = tiny_corpus()
        item = next(item for item in searcher.items if item.size)
        response = ask(create_app(searcher), "GET", f"/items/{item.id}/crop?box=0,0,0.5,0.5")
        assert item.size is not None
        half = searcher.image(item.id).crop((0, 0, item.size.width // 2, item.size.height // 2))
        assert differs(picture(response), half) < 8


class TestIsRefused:
    @pytest.mark.parametrize(
        "box",
        [
            "",
            "1,2,3",
            "0,0,1,1,1",
            "a,b,c,d",
            "nan,0,1,1",
            "0,0,inf,1",
            "-inf,-inf,inf,inf",
            "0 0 1 1",
            "0;0;1;1",
            "0,0,1e999,1",
            "0,0,0,0",
            "0.9,0,0.1,1",
            "2,2,3,3",
            "-1,-1,0,0",
            "0.5,0.5,0.501,0.501",
            "9" * 300,
            "\0,0,1,1",
        ],
    )
    def test_a_box_that_shows_nothing(self, desk: Stored, box: str) -> None:
        response = crop(desk, CHART, box)
        assert response.status_code == 422
        assert response.json()["detail"]

    def test_a_box_that_is_missing(self, desk: Stored) -> None:
        app = create_app(Engine(desk.collection))
        assert ask(app, "GET", f"/items/{CHART}/crop").status_code == 422

    def test_one_pixel_less_than_an_agent_may_see(self, desk: Stored) -> None:
        side = MIN_CROP_SIDE / WHOLE.width
        assert crop(desk, CHART, f"0,0,{side},1").status_code == 200
        assert crop(desk, CHART, f"0,0,{(MIN_CROP_SIDE - 1) / WHOLE.width},1").status_code == 422

    @pytest.mark.parametrize("pixels", [0, -1, 10**10])
    def test_an_absurd_number_of_pixels(self, desk: Stored, pixels: int) -> None:
        assert crop(desk, CHART, "0,0,1,1", max_pixels=pixels).status_code == 422

    def test_a_picture_that_is_not_there(self, desk: Stored) -> None:
        for name in (TEXT, f"{'0' * 16}-1", id_of("gone.pdf"), id_of("torn.pdf"), id_of("away.pdf")):
            response = crop(desk, name, "0,0,1,1")
            assert response.status_code in {404, 422}
            assert str(desk.secret.parent) not in response.text
