"""Checks of a served model, over a real HTTP server."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import Asked, ChatServer, Cut, Hang, Refuse, Reply, Say
from grounding.seeing_server import Seeing

from vrag.doctor import CONVENTIONS, Check, CheckStatus, Convention, DoctorOptions, examine_all
from vrag.geometry import Space
from vrag.model_profiles import PROFILES
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

MODEL_CHECKS = [
    "endpoint",
    "model",
    "reply",
    "token ids",
    "tools",
    "profile",
    "pictures",
    "picture cost",
    "coordinates",
]


def looked_at(order: DoctorOptions | None = None, **flags: Any) -> dict[str, Check]:  # noqa: ANN401
    return {check.name: check for check in examine_all(load_settings(**flags), order or DoctorOptions())}


def examined(model: Seeing, order: DoctorOptions | None = None, **flags: Any) -> dict[str, Check]:  # noqa: ANN401
    """What the doctor says of a served model."""
    with ChatServer(model) as server:
        return looked_at(order, **{"model": "scripted", "base_url": server.url, **flags})


def coordinates(model: Seeing, **flags: Any) -> Check:  # noqa: ANN401
    return examined(model, DoctorOptions(coords=True, seconds=600), **flags)["coordinates"]


def statuses(checks: dict[str, Check], names: Iterable[str] = MODEL_CHECKS) -> dict[str, str]:
    return {name: checks[name].status.value for name in names if name in checks}


NOISY: dict[str, Any] = {"noise": 0.02, "missing": 0.2}


@pytest.mark.slow
@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_each_convention_is_told_over_http_with_noise_and_missing_boxes(convention: Convention) -> None:
    found = coordinates(Seeing(convention, **NOISY))
    assert found.details["convention"] == str(convention)
    fitting = [
        p.name for p in PROFILES.values() if (p.boxes, p.y_first) == (convention.space, convention.y_first)
    ]
    assert sorted(found.details["profiles"]) == sorted(fitting)
    if "qwen2.5-vl" in fitting:
        assert (found.status, found.hint) == (CheckStatus.OK, "")
        assert "VRAG_PROFILE=qwen2.5-vl fits" in found.message
    else:
        assert found.status is CheckStatus.WARNING
        assert (
            f"VRAG_PROFILE={found.details['profiles'][0]}" if fitting else "No profile fits"
        ) in found.hint


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_server_that_answers_at_random_is_undecided(seed: int) -> None:
    found = coordinates(Seeing(None, seed=seed))
    assert (found.status, found.details["convention"]) == (CheckStatus.WARNING, None)
    assert found.message.startswith("Undecided. 24 of 24 answers contain a box.")
    assert "VRAG_PROFILE" not in found.message + found.hint


def test_a_server_that_resizes_is_found_out() -> None:
    found = coordinates(Seeing(Convention(Space.SHOWN), noise=0.02, resized=0.6))
    assert found.details["convention"] is None
    assert "The server resizes" in found.message
    assert "limit of pixels" in found.hint
    assert found.details["extents"]["448x672"] == pytest.approx((269, 403), rel=0.1)


@pytest.mark.parametrize(("factor", "profile"), [(28, "qwen2-vl"), (32, "qwen3-vl")])
def test_what_pictures_cost_chooses_among_profiles_that_fit(factor: int, profile: str) -> None:
    found = coordinates(Seeing(Convention(Space.MILLE), factor=factor))
    assert found.details["profiles"][0] == profile
    assert found.hint.endswith(f"Set VRAG_PROFILE={profile} (or {', '.join(found.details['profiles'][1:])})")


@pytest.mark.parametrize("form", ["<box>({},{}),({},{})</box>", '{{"bbox_2d": [{}, {}, {}, {}]}}'])
def test_other_ways_to_write_a_box_are_read(form: str) -> None:
    found = coordinates(Seeing(Convention(Space.MILLE), form=form), profile="qwen3-vl")
    assert (found.status, found.details["answered"]) == (CheckStatus.OK, 24)


def test_a_model_that_writes_no_boxes_is_undecided_and_quoted() -> None:
    found = coordinates(Seeing(CONVENTIONS[0], missing=1.0))
    assert found.message == "Undecided. 0 of 24 answers contain a box. No answer contains a box."
    assert "For example: I see no" in found.hint


def test_some_questions_that_fail_do_not_spoil_the_measurement() -> None:
    def spoil(asked: Asked) -> Reply | None:
        return (
            [Refuse(500, "the engine died"), Cut(), None, None][asked.index % 4]
            if "box" in asked.question
            else None
        )

    found = coordinates(Seeing(CONVENTIONS[0], spoil=spoil))
    assert found.details["convention"] == str(CONVENTIONS[0])
    assert any("the engine died" in answer["failure"] for answer in found.details["answers"])


def test_all_questions_failing_is_a_failure_that_says_why() -> None:
    def spoil(asked: Asked) -> Reply | None:
        return Refuse(500, "the engine died") if "box" in asked.question else None

    found = coordinates(Seeing(CONVENTIONS[0], spoil=spoil))
    assert found.status is CheckStatus.FAILED
    assert "None of 24 questions was answered" in found.message
    assert "the engine died" in found.message


def test_a_healthy_server_passes() -> None:
    with ChatServer(Seeing(Convention(Space.MILLE), factor=32), models=("qwen3-vl-plus",), key="k") as server:
        checks = looked_at(
            DoctorOptions(coords=True), model="qwen3-vl-plus", base_url=server.url, model_key="k", max_steps=4
        )
    expected = dict.fromkeys(MODEL_CHECKS, "ok")
    expected |= {"model": "warning", "token ids": "skipped"}  # 4,096 tokens of context; no ids are told
    assert statuses(checks) == expected
    assert checks["reply"].details["prompt_tokens"] == 20
    assert checks["reply"].details["tokens_per_second"] > 0
    assert checks["picture cost"].details["factor"] == 32
    assert checks["profile"].message.endswith("by the model's name.")
    assert max(len(asked.images) for asked in server.requests) == 4
    assert "max-model-len" in checks["model"].hint


def test_without_a_model_nothing_is_asked_and_nothing_fails() -> None:
    checks = looked_at()
    assert checks["model"].status is CheckStatus.SKIPPED
    assert "endpoint" not in checks


def test_a_name_that_nobody_knows_fails_and_the_rest_is_skipped() -> None:
    checks = looked_at(model="m", base_url="http://no-such-host.invalid/v1")
    assert checks["endpoint"].status is CheckStatus.FAILED
    assert "not known" in checks["endpoint"].message
    assert set(statuses(checks, ["model", "reply", "pictures"]).values()) == {"skipped"}
    assert checks["reply"].message == "Skipped, because this failed: model."


def test_a_port_where_nobody_listens_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    check = looked_at(model="m", base_url=f"http://127.0.0.1:{port}/v1")["endpoint"]
    assert check.status is CheckStatus.FAILED
    assert f"127.0.0.1:{port}" in check.message
    assert "Start the server" in check.hint


def test_an_address_that_is_none_fails() -> None:
    check = looked_at(model="m", base_url="localhost:port")["model"]
    assert check.status is CheckStatus.FAILED
    assert check.hint


def test_a_wrong_key_fails_and_is_not_repeated() -> None:
    with ChatServer(Seeing(), key="right") as server:
        checks = looked_at(model="scripted", base_url=server.url, model_key="wrong-key")
    assert checks["model"].status is CheckStatus.FAILED
    assert "VRAG_MODEL_KEY" in checks["model"].hint
    assert "wrong-key" not in str(checks)
    assert checks["reply"].status is CheckStatus.SKIPPED


def test_a_key_that_is_not_accepted_is_named_by_the_variable_that_held_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VRAG_MODEL_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-key")
    with ChatServer(Seeing(), key="right") as server:
        check = looked_at(model="scripted", base_url=server.url)["model"]
    assert check.hint == "The server does not accept the key: OPENAI_API_KEY."
    assert check.message.endswith("answered 401 (Unauthorized).")


def test_a_model_that_is_not_served_is_answered_with_those_that_are() -> None:
    with ChatServer(Seeing(), models=("qwen2.5-vl-7b", "other")) as server:
        check = looked_at(model="qwen2.5-vl", base_url=server.url)["model"]
        unnamed = looked_at(base_url=server.url)["model"]
    assert (check.status, check.message) == (CheckStatus.FAILED, "The server does not list 'qwen2.5-vl'.")
    assert check.hint.endswith("--model qwen2.5-vl-7b")
    assert (unnamed.status, unnamed.message) == (CheckStatus.FAILED, "No model is set.")
    assert "other" in unnamed.hint


def answering(reply: Reply, when: str) -> Seeing:
    """A server that sees, and answers questions of one kind otherwise."""

    def spoil(asked: Asked) -> Reply | None:
        kinds = {
            "pictures": len(asked.images) > 1,
            "picture": bool(asked.images),
            "count": "Count" in asked.question,
            "tools": "tools" in asked.body,
            "logprobs": "logprobs" in asked.body,
        }
        return reply if kinds[when] else None

    return Seeing(CONVENTIONS[0], spoil=spoil)


@pytest.mark.parametrize(
    ("reply", "when", "name", "status", "said"),
    [
        (Refuse(500, "the engine died"), "count", "reply", "failed", "the engine died"),
        (Cut(), "count", "reply", "failed", ""),
        (Say(""), "count", "reply", "failed", "empty"),
        (Say("1 2 3 4", usage=None), "count", "reply", "warning", "are not reported"),
        (Say("1 2 3 4", piece=99), "count", "reply", "warning", "in one piece"),
        (Refuse(400, "scripted is not a multimodal model"), "picture", "pictures", "failed", "multimodal"),
        (Refuse(400, "At most 2 image(s) may be provided"), "pictures", "pictures", "warning", "At most 2"),
        (Say("I cannot see it."), "picture", "pictures", "warning", "I cannot see it."),
        (Say("red", usage=None), "picture", "picture cost", "warning", "does not report"),
        (Say("red", usage=(300, 1)), "picture", "picture cost", "warning", "costs 0 tokens more"),
        (Refuse(400, "no tools here"), "tools", "tools", "skipped", "no tools here"),
        (Say('<tool_call>{"name": "weather"}</tool_call>'), "tools", "tools", "skipped", "in its text"),
        (Say("y", prompt_ids=(1,), ids=(2,), logprobs=(-0.1,)), "logprobs", "token ids", "ok", "reported"),
        (Say("y", logprobs=(-0.1,)), "logprobs", "token ids", "skipped", "Not reported: token ids."),
    ],
)
def test_each_fault_of_a_server_is_told(reply: Reply, when: str, name: str, status: str, said: str) -> None:
    check = examined(answering(reply, when), max_steps=3)[name]
    assert check.status == status
    assert said in check.message
    assert check.status is CheckStatus.OK or check.hint


def test_a_server_that_hangs_is_given_up() -> None:
    start = time.monotonic()
    check = examined(answering(Hang(), "count"), DoctorOptions(seconds=1))["reply"]
    assert check.status is CheckStatus.FAILED
    assert "--seconds" in check.hint
    assert "VRAG_" not in check.hint
    assert time.monotonic() - start < 30


def test_a_picture_cost_of_another_family_names_it() -> None:
    check = examined(Seeing(CONVENTIONS[0], factor=32))["picture cost"]
    assert (check.status, check.details["factor"]) == (CheckStatus.WARNING, 32)
    assert "qwen3-vl" in check.hint


def test_whoever_measures_coordinates_is_not_told_to() -> None:
    checks = examined(Seeing(CONVENTIONS[0], factor=32), DoctorOptions(coords=True))
    assert (checks["profile"].status, checks["picture cost"].status) == (
        CheckStatus.WARNING,
        CheckStatus.WARNING,
    )
    assert not any("--coords" in check.message + check.hint for check in checks.values())


def test_a_profile_against_the_name_of_the_model_is_warned_of() -> None:
    with ChatServer(Seeing(), models=("qwen3-vl-plus",)) as server:
        check = looked_at(model="qwen3-vl-plus", base_url=server.url, profile="qwen2.5-vl")["profile"]
    assert check.status is CheckStatus.WARNING
    assert "VRAG_PROFILE=qwen3-vl" in check.hint
