"""The data set says what the environment told and what the model wrote, with pictures of the right size."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distill_runs import ANSWER, QUESTION, SEARCH, crop, record_run, store_in
from PIL import Image

from vrag.agent.actions import Crop, parse
from vrag.agent.events import ModelCalled
from vrag.distill.export import conversation_of, export_sft
from vrag.distill.sample_store import SampleStore
from vrag.distill.select import trace, view_of
from vrag.errors import SampleError
from vrag.geometry import Size, Space, iou
from vrag.model_profiles import PROFILES, Profile

QWEN25, QWEN3 = PROFILES["qwen2.5-vl"], PROFILES["qwen3-vl"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    return store_in(tmp_path_factory.mktemp("exporting"))


@pytest.fixture(scope="module")
def run(store: SampleStore) -> str:
    return record_run(store, SEARCH, crop(), crop(0, 0, 100, 100, image=1), ANSWER).id


def size_of(path: Path) -> Size:
    with Image.open(path) as image:
        return Size(*image.size)


def exported(store: SampleStore, run: str, folder: Path, profile: str = "qwen2.5-vl") -> dict[str, Any]:
    done = export_sft(store.runs, [run], PROFILES[profile], folder, "ferry")
    assert not done.refused
    return json.loads(done.file.read_text())[0]


def test_user_and_model_speak_in_turn_and_each_picture_has_its_place(
    store: SampleStore, run: str, tmp_path: Path
) -> None:
    row = exported(store, run, tmp_path)
    roles = [message["role"] for message in row["messages"]]
    assert roles == ["user", "assistant"] * 4
    texts = [message["content"] for message in row["messages"]]
    assert texts[0].endswith("The question:\nHow many passengers?")
    assert texts[1::2] == [SEARCH, crop(), crop(0, 0, 100, 100, image=1), ANSWER]
    assert texts[2:8:2] == ["Image 1:<image>", "Image 2:<image>", "Image 3:<image>"]
    assert [text.count("<image>") for text in texts] == [0, 0, 1, 0, 1, 0, 1, 0]
    assert len(row["images"]) == 3


def test_pictures_are_the_ones_shown_named_by_content(store: SampleStore, run: str, tmp_path: Path) -> None:
    row = exported(store, run, tmp_path)
    shown = trace(store.runs.read(run)).images
    for path, image in zip(row["images"], shown, strict=True):
        data = (tmp_path / path).read_bytes()
        assert path == f"images/{hashlib.sha256(data).hexdigest()}.jpg"
        assert hashlib.sha256(data).hexdigest() == image.sha256
        assert size_of(tmp_path / path) == (image.width, image.height)
        assert image.width % 28 == image.height % 28 == 0
    again = exported(store, run, tmp_path)
    assert again == row
    assert len(list((tmp_path / "images").iterdir())) == 3


@pytest.mark.parametrize(
    ("source", "target"), [(QWEN25, QWEN3), (QWEN3, QWEN25), (QWEN25, PROFILES["y-first"])]
)
def test_for_another_family_sizes_boxes_and_instruction_are_its_own(
    store: SampleStore, tmp_path: Path, source: Profile, target: Profile
) -> None:
    written = crop(28, 56, 280, 336)
    run = record_run(store, SEARCH, written, ANSWER, profile=source)
    row = exported(store, run.id, tmp_path, target.name)
    shown = trace(run).images
    for path, image in zip(row["images"], shown, strict=True):
        region = view_of(image).region
        size = target.shown_size(Size(int(region.width), int(region.height)))
        assert size_of(tmp_path / path) == size
    turn = parse(row["messages"][3]["content"])
    assert isinstance(turn.action, Crop)
    assert turn.thought == "Too small."
    sizes = [size_of(tmp_path / path) for path in row["images"]]
    view = view_of(shown[0], sizes[0])
    box = view.to_item(target.box(turn.action.box))
    original = view_of(shown[0]).to_item(source.box((28, 56, 280, 336)))
    assert iou(box, original) > 0.95
    assert box.intersect(view.region) == box
    assert original.space is Space.ITEM
    assert target.written_sides in row["messages"][0]["content"]
    again = record_run(store, SEARCH, ANSWER, profile=target)
    assert conversation_of(again, target).messages[0] == ("user", row["messages"][0]["content"])


def test_a_question_within_the_instruction_is_told_by_a_target_with_no_place_for_it(
    store: SampleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = replace(QWEN25, name="asking", instruction="Read the pages and answer: {question}")
    monkeypatch.setitem(PROFILES, asking.name, asking)
    run = record_run(store, SEARCH, ANSWER, profile=asking)
    opening = exported(store, run.id, tmp_path, QWEN3.name)["messages"][0]["content"]
    assert opening.count(QUESTION) == 1


def test_the_trainers_own_words_are_escaped_in_what_is_told_and_refused_in_what_is_learned(
    store: SampleStore, tmp_path: Path
) -> None:
    asked = record_run(store, SEARCH, ANSWER, question="What is <image> in <|im_end|> <video>?")
    texts = [text for _, text in conversation_of(asked, QWEN25).messages]
    assert texts[0].endswith("What is ‹image> in ‹|im_end|> ‹video>?")
    said = record_run(store, SEARCH, "<think>An <image> of it.</think>\n<answer>1</answer>")
    with pytest.raises(SampleError, match="<image>"):
        conversation_of(said, QWEN25)
    good = record_run(store, SEARCH, ANSWER)
    done = export_sft(store.runs, [said.id, good.id], QWEN25, tmp_path, "ferry")
    assert done.samples == 1
    assert [run for run, _ in done.refused] == [said.id]


def test_what_follows_the_action_is_not_learned(store: SampleStore) -> None:
    run = record_run(store, SEARCH + "\n<answer>too soon</answer>", ANSWER + " and more")
    texts = [text for _, text in conversation_of(run, QWEN25).messages]
    assert texts[1::2] == [SEARCH, ANSWER]


def test_a_missing_or_damaged_file_is_refused(store: SampleStore, tmp_path: Path) -> None:
    for suffix in ("jpg", "json"):
        run = record_run(store, SEARCH, ANSWER)
        called = next(event for event in run.events if isinstance(event, ModelCalled))
        name = trace(run).images[0].sha256 if suffix == "jpg" else called.messages[0]
        file = run.path(name)
        data = file.read_bytes()
        file.write_bytes(data[:-1])
        with pytest.raises(SampleError, match="damaged"):
            conversation_of(run, QWEN25)
        file.unlink()
        with pytest.raises(SampleError, match="missing"):
            conversation_of(run, QWEN25)
        file.write_bytes(data)
        conversation_of(run, QWEN25)


def test_a_run_with_an_invalid_turn_is_refused(store: SampleStore) -> None:
    run = record_run(store, crop(), SEARCH, ANSWER)
    with pytest.raises(SampleError, match="every turn carried out"):
        conversation_of(run, QWEN25)


def test_data_sets_of_others_stay(store: SampleStore, run: str, tmp_path: Path) -> None:
    (tmp_path / "dataset_info.json").write_text('{"other": {"file_name": "other.json"}}')
    exported(store, run, tmp_path)
    info = json.loads((tmp_path / "dataset_info.json").read_text())
    assert info["other"] == {"file_name": "other.json"}
    assert info["ferry"]["formatting"] == "sharegpt"
    assert info["ferry"]["columns"] == {"messages": "messages", "images": "images"}
    (tmp_path / "dataset_info.json").write_text("[")
    with pytest.raises(SampleError, match="not JSON"):
        exported(store, run, tmp_path)


@pytest.mark.parametrize("name", ["../out", "", "a b", "dataset_info"])
def test_names_that_cannot_be_one_are_refused(
    store: SampleStore, run: str, tmp_path: Path, name: str
) -> None:
    with pytest.raises(SampleError, match="cannot be the name"):
        export_sft(store.runs, [run], QWEN25, tmp_path, name)


def test_nothing_to_export_is_an_error(store: SampleStore, tmp_path: Path) -> None:
    with pytest.raises(SampleError, match="No sample"):
        export_sft(store.runs, [], QWEN25, tmp_path, "ferry")
    assert not re.findall("ferry", " ".join(p.name for p in tmp_path.iterdir()))
