"""Names of models as they occur: the family that a name decides, and none where it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.model_profiles import PROFILES, ModelKind, profile_of, read_model_name, same_model

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
ROW = re.compile(r"^\| `([^`]+)` \| [^|`]+ \| ([^|`]+) \|$", re.MULTILINE)
ROWS = [row.groups() for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
FAMILIES = {
    "Qwen2-VL": "qwen2-vl",
    "qwen2.5vl": "qwen2.5-vl",
    "Qwen2_5_VL": "qwen2.5-vl",
    "Qwen3-VL": "qwen3-vl",
    "qwen3.5": "qwen3-vl",
    "GLM-4.6V": "glm-v",
    "InternVL3": "internvl",
}
PLACES = (
    "",
    "models/",
    "openrouter/",
    "hf.co/unsloth/",
    "accounts/fireworks/models/",
    "/data/weights/",
    "./",
    "C:\\m\\",
)
ENDINGS = tuple(
    "-7B -72b -30B-A3B -2509 -20250923 -2025-09-23 -latest -Instruct -Thinking -Chat -FP8 -AWQ -GPTQ-Int4 "
    "-GGUF :Q4_K_M -unsloth-bnb-4bit -MLX-8bit -plus :free -NVFP4 -UD-Q4_K_XL -w4a16 -Q8_0.gguf".split()
)


def said(model: str) -> str:
    """What a name says, in the words of the page."""
    name, known = read_model_name(model), profile_of(model)
    if known:
        return known.name
    words = {ModelKind.TEXT: "text only", ModelKind.OTHER: "no replies"}.get(name.kind, "measured")
    return f"{words} ({name.family})" if name.family else words


def test_the_page_has_more_than_forty_names() -> None:
    assert len(ROWS) == len({name for name, _ in ROWS}) > 40


@pytest.mark.parametrize(("model", "expected"), ROWS, ids=[name for name, _ in ROWS])
def test_a_name_as_it_occurs(model: str, expected: str) -> None:
    assert said(model) == expected


@given(
    st.sampled_from(PLACES), st.sampled_from(list(FAMILIES)), st.lists(st.sampled_from(ENDINGS), max_size=4)
)
def test_place_size_date_and_quantization_do_not_matter(place: str, family: str, endings: list[str]) -> None:
    known = profile_of(place + family + "".join(endings))
    assert known is not None
    assert known.name == FAMILIES[family]


@given(
    st.sampled_from(list(FAMILIES)),
    st.sampled_from(["rlhf", "grounding", "captioner", "ocr", "sft", "mine", "distilled"]),
    st.sampled_from(["{0}-{1}", "{1}-{0}", "me/{0}-7B-{1}-AWQ"]),
)
def test_another_word_suggests_and_does_not_decide(family: str, word: str, form: str) -> None:
    model = form.format(family, word)
    name = read_model_name(model)
    assert profile_of(model) is None
    assert (name.family, name.certain, name.unknown_words) == (FAMILIES[family], False, (word,))


@given(st.sampled_from(list(FAMILIES)), st.text("abcxyz", min_size=1, max_size=4))
def test_words_are_compared_whole(family: str, letters: str) -> None:
    assert profile_of(letters + family) is None
    assert read_model_name(letters + family).family is None


@given(st.text(max_size=60))
def test_any_text_is_read_in_time_and_decides_only_known_profiles(text: str) -> None:
    known = profile_of(text)
    assert known is None or PROFILES[known.name] is known


@pytest.mark.parametrize(
    "model",
    [
        "",
        ":",
        "/",
        "...",
        "Qwen2.5-VL-7B-distilled-from-Qwen3-VL-32B",
        "qwen3-vl-experiments/model-a",
        "qwen3.8-flash",
    ],
)
def test_what_names_no_family_or_two_decides_none(model: str) -> None:
    assert profile_of(model) is None
    assert read_model_name(model).family is None


def test_a_known_fine_tune_is_known_whoever_quantized_it() -> None:
    known = ["autumncc/qwen2.5-vl-7b-vrag"]
    assert same_model("hf.co/mradermacher/Qwen2.5-VL-7B-VRAG-GGUF:Q4_K_M", known)
    assert not same_model("mradermacher/Qwen2.5-VL-3B-VRAG-GGUF", known)
    assert not same_model("Qwen/Qwen2.5-VL-7B-Instruct", known)
    assert not same_model("", known)
