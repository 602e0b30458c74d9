"""The region reward once more, written from its docstring alone: over events as JSON, by counting pixels.

It shares no code with `vrag.reward`: pages are grids of pixels, as large as those of the tests, and
rectangles are sets of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

WIDTH, HEIGHT = 1000, 1400
"""Pixels of each page."""


def pixels(sides: Sequence[float]) -> NDArray[np.bool_]:
    """The pixels of a rectangle in fractions of the page."""
    grid = np.zeros((HEIGHT, WIDTH), bool)
    left, top, right, bottom = (
        round(side * size) for side, size in zip(sides, (WIDTH, HEIGHT) * 2, strict=True)
    )
    grid[top:bottom, left:right] = True
    return grid


def crops_of(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The parts of pages that the model was shown because it asked for them, in order."""
    asked = {event["step"] for event in events if event["type"] == "crop_requested"}
    refused = {event["step"] for event in events if event["type"] == "invalid_action"}
    clips = {
        hit["item"]
        for event in events
        if event["type"] == "search_returned"
        for hit in event["hits"]
        if hit["kind"] != "page"
    }
    return [
        event
        for event in events
        if event["type"] == "image_shown"
        and event["crop"]
        and event["step"] in asked - refused
        and event["seconds"] is None
        and event["item"] not in clips
    ]


def region_reward_of(events: Sequence[Mapping[str, Any]], case: Mapping[str, Any]) -> float:
    """The reward of a run by its events; the case has `file_name` and `regions`."""
    end = events[-1]
    stop = end["stop_reason"] if end["type"] == "answer" else "failed"
    if stop not in {"answered", "abstained"}:
        return 0.0
    if not case["regions"]:
        return 1.0
    if stop == "abstained":
        return 0.0
    crops = crops_of(events)
    if chosen := [crop for crop in crops if crop["sha256"] in end["named"]]:
        crops = chosen
    areas = [pixels(crop["box"]) for crop in crops]
    on_the_way = {
        at
        for at, crop in enumerate(crops)
        for later in range(at + 1, len(crops))
        if crops[later]["item"] == crop["item"]
        and (areas[at] & areas[later]).sum() >= 0.99 * areas[later].sum()
    }
    gold: defaultdict[tuple[str, int], defaultdict[str, NDArray[np.bool_]]] = defaultdict(
        lambda: defaultdict(lambda: np.zeros((HEIGHT, WIDTH), bool))
    )
    for region in case["regions"]:
        page = region["document"] or case["file_name"], region["page"]
        gold[page][region["annotator"]] |= pixels(region["box"])
    scores: list[float] = []
    for (document, number), annotators in gold.items():
        found = np.zeros((HEIGHT, WIDTH), bool)
        for at, crop in enumerate(crops):
            if at not in on_the_way and (crop["document"], crop["page"]) == (document, number):
                found |= areas[at]
        scores.append(
            max(2 * int((found & zone).sum()) / int(found.sum() + zone.sum()) for zone in annotators.values())
        )
    return sum(scores) / len(scores)
