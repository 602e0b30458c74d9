"""The family of a model whose name does not decide it: by its server, by measuring, or with a notice."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import Asked, ChatServer, Hang, Refuse, Reply, Say
from grounding.seeing_server import Seeing
from model_servers import (
    JsonServer,
    llama_cpp,
    lm_studio,
    lm_studio_loaded,
    ollama,
    open_router,
    sglang,
    vllm,
    vllm_adapter,
)
from pydantic import SecretStr
from rich.console import Console

from vrag.agent.events import ImageShown, RunStarted
from vrag.cli import session
from vrag.doctor.runner import DoctorOptions, examine_model
from vrag.errors import SettingsError
from vrag.factory import families
from vrag.factory.agents import open_agent
from vrag.factory.families import FamilySource, ModelFamily, forget_families, open_family
from vrag.geometry import Space
from vrag.grounding import probe
from vrag.grounding.conventions import CONVENTIONS, Convention
from vrag.grounding.probe import MAX_AGE_SECONDS, MAX_QUESTIONS, MIN_QUESTIONS, ProbeCache
from vrag.model_profiles import PROFILES
from vrag.providers import DASHSCOPE
from vrag.settings import load_settings
from vrag.testing import ScriptedPolicy, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from model_servers import Routes

    from vrag.agent.policy import Delta, Message
    from vrag.agent.policy import Reply as ModelReply
    from vrag.settings import Settings

UNKNOWN = "somebody/their-eyes"


@pytest.fixture(autouse=True)
def measuring(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measuring is on, and nothing is known from the tests before."""
    monkeypatch.setenv("VRAG_PROBE", "true")
    forget_families()
    yield
    forget_families()


def family_at(url: str, model: str = UNKNOWN) -> ModelFamily:
    """The family, as a process finds it that has just begun."""
    forget_families()
    return open_family(load_settings(model=model, base_url=url).settings)


def kept() -> int:
    return len(list(ProbeCache.of_user().folder.glob("*.json")))


class TestMeasuring:
    """A model of no known family is asked for rectangles, once."""

    @pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
    def test_each_convention_is_found_and_kept(self, convention: Convention) -> None:
        with ChatServer(Seeing(convention, noise=0.01), models=None) as server:
            family = family_at(server.url)
            asked = len(server.requests)
            again = family_at(server.url)
            assert len(server.requests) == asked
        assert family == again
        assert family.source is FamilySource.MEASUREMENT
        assert (family.profile.boxes, family.profile.y_first) == (convention.space, convention.y_first)
        assert str(convention) in family.notice
        assert MIN_QUESTIONS <= asked <= MAX_QUESTIONS

    def test_it_is_announced_with_a_way_to_leave_it_out(self, caplog: pytest.LogCaptureFixture) -> None:
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            family_at(server.url)
        assert f"{UNKNOWN} is unknown: sending it {MIN_QUESTIONS} to" in caplog.text
        assert "VRAG_PROBE=false" in caplog.text

    @pytest.mark.parametrize(("factor", "profile"), [(28, "qwen2-vl"), (32, "qwen3-vl")])
    def test_what_pictures_cost_tells_families_of_one_convention_apart(
        self, factor: int, profile: str
    ) -> None:
        with ChatServer(Seeing(Convention(Space.MILLE), factor=factor), models=None) as server:
            assert family_at(server.url).profile.name == profile

    def test_the_family_that_a_name_suggests_is_kept_where_it_fits(self) -> None:
        with ChatServer(Seeing(Convention(Space.MILLE), factor=28), models=None) as server:
            assert family_at(server.url, "me/GLM-4.5V-mine").profile.name == "glm-v"
            wrong = family_at(server.url, "Saivamsim26/qwen2.5-vl-7b-ui-grounding")
        assert wrong.profile.boxes is Space.MILLE
        assert "suggests qwen2.5-vl and does not decide it (ui, grounding)" in wrong.notice

    def test_the_replies_are_kept_with_what_was_found(self) -> None:
        with ChatServer(Seeing(CONVENTIONS[0]), models=None) as server:
            family_at(server.url)
            (path,) = ProbeCache.of_user().folder.glob("*.json")
            stored = json.loads(path.read_text())
            assert stored["subject"]["base_url"] == server.url
        assert len(stored["probe"]["replies"]) == MIN_QUESTIONS
        assert all(reply["text"].startswith("[") for reply in stored["probe"]["replies"])

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"subject": {}, "probe": {"space": "feet"}}'])
    def test_a_damaged_file_is_measured_anew(self, damage: bytes) -> None:
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            before = family_at(server.url)
            (path,) = ProbeCache.of_user().folder.glob("*.json")
            path.write_bytes(damage)
            assert family_at(server.url) == before
            assert len(server.requests) == 2 * MIN_QUESTIONS

    def test_what_is_too_old_is_measured_anew(self) -> None:
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            before = family_at(server.url)
            (path,) = ProbeCache.of_user().folder.glob("*.json")
            stored = json.loads(path.read_text())
            path.write_text(json.dumps(stored | {"made": stored["made"] - MAX_AGE_SECONDS}))
            assert family_at(server.url) == before
            assert len(server.requests) == 2 * MIN_QUESTIONS

    def test_one_process_asks_once_even_without_a_cache(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def write(*_: object) -> None:
            """Keep nothing, as where the disk is full."""

        monkeypatch.setattr(ProbeCache, "write", write)
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            settings = load_settings(model=UNKNOWN, base_url=server.url).settings
            assert open_family(settings) == open_family(settings)
            assert len(server.requests) == MIN_QUESTIONS


class TestConsent:
    """A model is measured where its user agrees, and who was asked once is not asked again."""

    @pytest.fixture(autouse=True)
    def unset(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("VRAG_PROBE")

    def family(self, url: str, *answers: bool) -> tuple[ModelFamily, list[str]]:
        """The family in a new process that gives these answers, and what it was asked."""
        asked: list[str] = []
        remaining = iter(answers)

        def confirm(cost: str) -> bool:
            asked.append(cost)
            return next(remaining)

        forget_families()
        return open_family(load_settings(model=UNKNOWN, base_url=url).settings, confirm=confirm), asked

    def test_without_anybody_to_ask_nothing_is_sent_and_one_line_says_so(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with ChatServer(Seeing(CONVENTIONS[0]), models=None) as server:
            family = family_at(server.url)
            assert not server.requests
        assert family.source is FamilySource.NOTHING
        (line,) = caplog.messages
        assert "it has not been measured. Boxes are read in the convention of qwen2.5-vl" in line
        assert line == family.notice
        assert "\n" not in line

    def test_the_cost_is_told_first_and_the_result_is_kept(self) -> None:
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            family, asked = self.family(server.url, True)
            assert len(server.requests) == MIN_QUESTIONS
            (cost,) = asked
            assert f"{MIN_QUESTIONS} to {MAX_QUESTIONS} requests to {server.url}" in cost
            assert "tokens in all" in cost
            assert self.family(server.url) == (family, [])
            assert family_at(server.url) == family
            assert len(server.requests) == MIN_QUESTIONS
        assert family.source is FamilySource.MEASUREMENT

    def test_a_refusal_is_kept_by_server_and_model_until_measuring_is_switched_on(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with (
            ChatServer(Seeing(CONVENTIONS[1]), models=None) as server,
            ChatServer(Seeing(CONVENTIONS[1]), models=None) as other,
        ):
            family, asked = self.family(server.url, False)
            assert len(asked) == 1
            assert self.family(server.url) == (family, [])
            assert "you chose not to measure it" in family_at(server.url).notice
            assert len(self.family(other.url, False)[1]) == 1
            assert not server.requests
            monkeypatch.setenv("VRAG_PROBE", "true")
            assert family_at(server.url).source is FamilySource.MEASUREMENT
            assert len(server.requests) == MIN_QUESTIONS

    def test_what_the_doctor_measured_is_used(self) -> None:
        convention = Convention(Space.RELATIVE)
        with ChatServer(Seeing(convention), models=(UNKNOWN,)) as server:
            report = load_settings(model=UNKNOWN, base_url=server.url)
            assert open_family(report.settings).source is FamilySource.NOTHING
            steps = {"endpoint", "model", "reply", "pictures", "coordinates"}
            found = {check.name: check for check in examine_model(report, DoctorOptions(coords=True), steps)}
            assert "Later runs use this." in found["coordinates"].message
            family = open_family(report.settings)
        assert (family.profile.boxes, family.source) == (Space.RELATIVE, FamilySource.MEASUREMENT)

    def test_where_measuring_is_switched_off_nobody_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VRAG_PROBE", "false")
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            family, asked = self.family(server.url)
        assert not asked
        assert family.source is FamilySource.NOTHING

    @pytest.mark.parametrize("terminal", [True, False])
    def test_the_command_line_asks_on_a_terminal_only(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        monkeypatch.setattr("sys.stdin.isatty", lambda: terminal)
        monkeypatch.setattr(session, "err", Console(stderr=True, force_terminal=terminal))
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            settings = load_settings(model=UNKNOWN, base_url=server.url).settings
            session.ask_about_family(settings)
            assert len(server.requests) == (MIN_QUESTIONS if terminal else 0)
            source = open_family(settings, quiet=True).source
        assert source is (FamilySource.MEASUREMENT if terminal else FamilySource.NOTHING)
        assert ("Send them now?" in capsys.readouterr().err) is terminal


class ClockedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    skipped = 0.0
    """Seconds."""

    def time(self) -> float:
        return super().time() + self.skipped


@dataclass(frozen=True)
class StallingPolicy(ScriptedPolicy):
    """Answers some calls; at the next one an hour passes, and no reply comes any more."""

    answered: int = 0
    calls: Iterator[int] = field(default_factory=itertools.count)

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | ModelReply, None]:
        if next(self.calls) >= self.answered:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, ClockedLoop)
            loop.skipped = 3600
            await asyncio.Event().wait()
        async for part in super().reply(history, turn):
            yield part


class TestDoubt:
    """Nothing is guessed in silence."""

    @pytest.mark.parametrize("seed", range(3))
    def test_a_model_that_guesses_gets_a_notice_and_is_not_asked_again(self, seed: int) -> None:
        with ChatServer(Seeing(None, seed=seed), models=None) as server:
            family = family_at(server.url)
            asked = len(server.requests)
            assert family_at(server.url) == family
            assert len(server.requests) == asked == MAX_QUESTIONS
        assert family.source is FamilySource.NOTHING
        assert "may show the wrong place" in family.notice
        assert "VRAG_PROFILE" in family.notice

    def test_a_server_that_fails_is_asked_again_next_time(self) -> None:
        def spoil(_: Asked) -> Reply:
            return Refuse(500, "the engine died")

        with ChatServer(Seeing(CONVENTIONS[0], spoil=spoil), models=None) as server:
            family = family_at(server.url)
            assert "the engine died" in family.notice
            assert kept() == 0
            asked = len(server.requests)
            family_at(server.url)
            assert len(server.requests) == 2 * asked == 2 * MIN_QUESTIONS

    def test_without_measuring_nothing_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VRAG_PROBE", "false")
        with ChatServer(Seeing(CONVENTIONS[1]), models=None) as server:
            family = family_at(server.url)
            assert not server.requests
        assert family.source is FamilySource.NOTHING
        assert "measuring is switched off (VRAG_PROBE)" in family.notice

    def test_a_server_that_is_not_there_is_a_notice_and_no_error(self) -> None:
        family = family_at("http://127.0.0.1:9/v1")
        assert family.source is FamilySource.NOTHING
        assert kept() == 0

    @pytest.mark.parametrize("model", ["qwen3:8b", "Qwen/Qwen2.5-7B-Instruct"])
    def test_a_model_of_text_is_told_to_be_one(self, model: str) -> None:
        with ChatServer(Seeing(CONVENTIONS[0]), models=None) as server:
            family = family_at(server.url, model)
            assert not server.requests
        assert family.notice.startswith(f"By its name, {model} reads text only: it cannot see pages.")

    def test_one_that_writes_no_replies_is_told_to_be_that(self) -> None:
        family = family_at("http://127.0.0.1:9/v1", "Qwen/Qwen3-VL-Embedding-8B")
        assert "computes vectors or scores" in family.notice

    def test_a_key_that_is_missing_is_an_error_before_anything_is_asked(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
            open_family(load_settings(model="openai:gpt-5.1").settings)
        assert not caplog.text

    def test_an_undecided_model_is_not_asked_about_anew_at_once(self) -> None:
        def spoil(_: Asked) -> Reply:
            return Refuse(500, "the engine died")

        with ChatServer(Seeing(CONVENTIONS[0], spoil=spoil), models=None) as server:
            settings = load_settings(model=UNKNOWN, base_url=server.url).settings
            assert open_family(settings) == open_family(settings)
            assert len(server.requests) == MIN_QUESTIONS

    def test_a_server_that_hangs_is_a_notice_and_is_not_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probe, "QUESTION_SECONDS", 0.2)
        with ChatServer([Hang()], models=None) as server:
            family = family_at(server.url)
        assert family.source is FamilySource.NOTHING
        assert "No reply within 0.2 s" in family.notice
        assert kept() == 0

    def test_a_server_that_answers_some_questions_only_decides_nothing(self) -> None:
        def spoil(asked: Asked) -> Reply | None:
            return Refuse(429, "slow down") if asked.index >= 2 else None

        with ChatServer(Seeing(CONVENTIONS[0], spoil=spoil), models=None) as server:
            family = family_at(server.url)
        assert family.source is FamilySource.NOTHING
        assert "Only 2 of" in family.notice
        assert kept() == 0

    def test_replies_before_the_time_limit_are_used(self) -> None:
        """Six questions are answered; at the seventh the time is over."""
        policy = StallingPolicy(("[1, 2, 3, 4]",), answered=6)
        with asyncio.Runner(loop_factory=ClockedLoop) as runner:
            found = runner.run(probe.probe_model(policy, PROFILES["qwen3-vl"], seconds=3600))
        assert [reply.text for reply in found.replies].count("[1, 2, 3, 4]") == 6
        assert len(found.replies) == MIN_QUESTIONS
        assert not found.lasting

    def test_a_server_that_hangs_holds_up_no_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entered, release = threading.Event(), threading.Event()

        def hang(_: object) -> None:
            entered.set()
            assert release.wait(30)

        monkeypatch.setattr(families, "IDENTITY_SECONDS", 60.0)
        slow = ollama({"eyes": ("qwen3vl", True)})
        with (
            JsonServer({**slow, "GET /v1/models": hang}) as hanging,
            JsonServer(ollama({"eyes": ("qwen25vl", True)})) as server,
            ThreadPoolExecutor(2) as pool,
        ):
            held = pool.submit(open_family, load_settings(model="eyes", base_url=hanging.url).settings)
            try:
                assert entered.wait(30)
                other = pool.submit(open_family, load_settings(model="eyes", base_url=server.url).settings)
                assert other.result(30).profile.name == "qwen2.5-vl"
                assert not held.done()
            finally:
                release.set()
            assert held.result(30).profile.name == "qwen3-vl"


class TestServers:
    """What a server says about itself decides without a question."""

    @pytest.mark.parametrize(
        ("routes", "model", "profile"),
        [
            (ollama({"eyes": ("qwen25vl", True)}), "eyes", "qwen2.5-vl"),
            (ollama({"qwen3-vl-abliterated": ("qwen3vl", True)}), "qwen3-vl-abliterated", "qwen3-vl"),
            (lm_studio({"eyes": ("qwen2_5_vl", "vlm")}), "eyes", "qwen2.5-vl"),
            (vllm("eyes", "/models/Qwen3-VL-8B-Instruct-FP8"), "eyes", "qwen3-vl"),
            (sglang("eyes", "Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl"), "eyes", "qwen3-vl"),
            (llama_cpp("/m/Qwen2.5-VL-7B-Instruct-Q4_K_M.gguf", vision=True), "/m/x.gguf", "qwen2.5-vl"),
            (open_router("a/eyes", "Qwen/Qwen3-VL-8B-Instruct", "image", "text"), "a/eyes", "qwen3-vl"),
        ],
    )  # fmt: skip
    def test_it_decides(self, routes: Routes, model: str, profile: str) -> None:
        with JsonServer(routes) as server:
            family = family_at(server.url, model)
            assert not [asked for asked in server.asked if "chat" in asked]
        assert (family.profile.name, family.source, family.notice) == (profile, FamilySource.SERVER, "")

    def test_a_server_that_contradicts_the_name_does_not_decide(self) -> None:
        with JsonServer(ollama({"my-qwen3-vl-tuned": ("qwen25vl", True)})) as server:
            family = family_at(server.url, "my-qwen3-vl-tuned")
        assert family.source is FamilySource.NOTHING
        assert family.notice

    @pytest.mark.parametrize(
        "routes", [ollama({"eyes": ("llama", False)}), lm_studio({"eyes": ("llama", "llm")})]
    )
    def test_a_model_that_sees_nothing_by_its_server_is_told_to_be_blind(self, routes: Routes) -> None:
        with JsonServer(routes) as server:
            family = family_at(server.url, "eyes")
        assert "says that eyes reads text only" in family.notice

    def test_other_weights_under_a_name_are_measured_anew(self) -> None:
        reply = {"role": "assistant", "content": "I see nothing."}
        chat = {"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}]}
        with JsonServer({**vllm("eyes", "me/first"), "POST /v1/chat/completions": chat}) as server:

            def chats() -> int:
                family_at(server.url, "eyes")
                return server.asked.count("POST /v1/chat/completions")

            assert [chats(), chats()] == [MIN_QUESTIONS] * 2
            server.routes.update(vllm("eyes", "me/second"))
            assert chats() == 2 * MIN_QUESTIONS
        assert kept() == 2


BASE = "Qwen/Qwen2.5-VL-7B-Instruct"
"""The name under which the reference serves its checkpoint."""
VRAG = "autumncc/Qwen2.5-VL-7B-VRAG"


class TestReports:
    """What a server says of its weights outranks the name that was asked for."""

    @pytest.mark.parametrize(
        ("weights", "profile"),
        [
            (VRAG, "vrag-rl"),
            ("Qiuchen-Wang/Qwen2.5-VL-7B-VRAG", "vrag-rl"),
            ("/models/Qwen2.5-VL-7B-VRAG/", "vrag-rl"),
            ("./VRAG-RL", "vrag-rl"),
            ("D:\\models\\Qwen2.5-VL-7B-VRAG-Q4_K_M.gguf", "vrag-rl"),
            (f"/hub/models--autumncc--Qwen2.5-VL-7B-VRAG/snapshots/{'0c351dd01ed8' * 3}", "vrag-rl"),
            ("DeepGlint-AI/UniDoc-RL-7B", "unidoc-rl"),
            ("/data/UniDoc-RL-3B", "unidoc-rl"),
            ("/models/Qwen3-VL-8B-VimRAG", "qwen3-vl"),
            ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl"),
        ],
    )
    def test_the_weights_behind_a_served_name_decide(self, weights: str, profile: str) -> None:
        with JsonServer(vllm(BASE, weights)) as server:
            family = family_at(server.url, BASE)
        assert (family.profile.name, family.source) == (profile, FamilySource.SERVER)

    @pytest.mark.parametrize(
        "routes",
        [
            sglang(BASE, VRAG, "qwen2_5_vl"),
            sglang(BASE, "/models/Qwen2.5-VL-7B-VRAG", "qwen2_5_vl", endpoint="get_model_info"),
            llama_cpp("/m/Qwen2.5-VL-7B-VRAG-Q4_K_M.gguf", vision=True),
            lm_studio_loaded(BASE, "mradermacher/qwen2.5-vl-7b-vrag", "qwen2vl"),
            ollama({BASE: ("qwen25vl", True)}, parent="hf.co/mradermacher/Qwen2.5-VL-7B-VRAG-GGUF:Q4_K_M"),
            ollama({BASE: ("qwen25vl", True)}, label="Qwen2.5 VL 7B VRAG"),
            open_router(BASE, VRAG, "image", "text"),
        ],
    )
    def test_each_program_names_them_in_its_own_way(self, routes: Routes) -> None:
        with JsonServer(routes) as server:
            family = family_at(server.url, BASE)
        assert (family.profile.name, family.source) == ("vrag-rl", FamilySource.SERVER)

    def test_weights_of_a_fine_tune_leave_a_plain_name_undecided(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VRAG_PROBE", "false")
        with JsonServer(vllm(BASE, "/models/qwen2.5-vl-7b-ui-grounding")) as server:
            family = family_at(server.url, BASE)
        assert (family.profile.name, family.source) == ("qwen2.5-vl", FamilySource.NOTHING)
        assert "/models/qwen2.5-vl-7b-ui-grounding, suggests qwen2.5-vl" in family.notice

    @pytest.mark.parametrize("weights", [VRAG, "/data/checkpoint-1200", "/model", ""])
    def test_the_served_name_decides_where_that_of_the_weights_says_nothing(self, weights: str) -> None:
        with JsonServer(vllm(VRAG, weights)) as server:
            assert family_at(server.url, VRAG) == ModelFamily(PROFILES["vrag-rl"], FamilySource.NAME)

    def test_the_architecture_contradicts_a_plain_name(self) -> None:
        with JsonServer(ollama({"qwen3-vl:8b": ("qwen25vl", True)})) as server:
            family = family_at(server.url, "qwen3-vl:8b")
        assert (family.profile.name, family.source) == ("qwen2.5-vl", FamilySource.SERVER)

    @pytest.mark.parametrize(
        ("root", "profile", "source"),
        [
            ("/adapters/Qwen2.5-VL-7B-VRAG", "vrag-rl", FamilySource.SERVER),
            ("/adapters/mine", "qwen3-vl", FamilySource.NOTHING),
        ],
    )
    def test_an_adapter_is_a_fine_tune_of_the_model_below_it(
        self, monkeypatch: pytest.MonkeyPatch, root: str, profile: str, source: FamilySource
    ) -> None:
        monkeypatch.setenv("VRAG_PROBE", "false")
        with JsonServer(vllm_adapter(BASE, root, "below", "/models/Qwen3-VL-8B-Instruct")) as server:
            family = family_at(server.url, BASE)
        assert (family.profile.name, family.source) == (profile, source)

    def test_a_server_that_does_not_answer_leaves_the_name_and_is_asked_again(self) -> None:
        with JsonServer({}) as server:
            settings = load_settings(model=BASE, base_url=server.url).settings
        assert open_family(settings).source is FamilySource.NAME
        with JsonServer(vllm(BASE, VRAG)) as server:
            settings = settings.model_copy(update={"base_url": server.url})
            assert open_family(settings).profile.name == "vrag-rl"
            assert open_family(settings).profile.name == "vrag-rl"
            assert server.asked == ["GET /v1/models"]

    def test_a_report_is_renewed_after_some_minutes_and_stands_while_the_server_is_silent(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(families, "KEPT_SECONDS", 0.0)
        with JsonServer(vllm(BASE, "Qwen/Qwen3-VL-8B-Instruct")) as server:
            settings = load_settings(model=BASE, base_url=server.url).settings
            assert open_family(settings).profile.name == "qwen3-vl"
            server.routes.update(vllm(BASE, VRAG))
            assert open_family(settings).profile.name == "vrag-rl"
        assert open_family(settings).profile.name == "vrag-rl"

    REPORTS = (
        (vllm(BASE, VRAG), "GET /v1/"),
        (sglang(BASE, VRAG, "qwen2_5_vl"), "GET /model_info"),
        (ollama({BASE: ("qwen25vl", True)}, label="Qwen2.5 VL 7B VRAG"), "POST /api/show"),
        (lm_studio_loaded(BASE, "mradermacher/qwen2.5-vl-7b-vrag", "qwen2vl"), "GET /api/v1"),
    )
    """Servers whose weights are others than the name says, and the request that they answer it to."""

    @pytest.mark.parametrize(("routes", "place"), REPORTS)
    @pytest.mark.parametrize("status", [401, 403, 429, 503])
    def test_a_request_that_is_refused_takes_nothing_back(
        self, monkeypatch: pytest.MonkeyPatch, routes: Routes, place: str, status: int
    ) -> None:
        self.without_waiting(monkeypatch)
        with JsonServer(routes) as server:
            settings = load_settings(model=BASE, base_url=server.url).settings
            first = open_family(settings)
            server.refused[place] = status
            assert open_family(settings) == open_family(settings) == first
            server.refused.clear()
            server.routes.update(vllm(BASE, "Qwen/Qwen3-VL-8B-Instruct"))
            assert open_family(settings).profile.name == "qwen3-vl"
        assert (first.profile.name, first.source) == ("vrag-rl", FamilySource.SERVER)

    def test_a_list_that_is_gone_takes_nothing_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.without_waiting(monkeypatch)
        with JsonServer(vllm(BASE, VRAG)) as server:
            settings = load_settings(model=BASE, base_url=server.url).settings
            first = open_family(settings)
            server.routes.clear()
            assert open_family(settings) == open_family(settings) == first
        assert first.source is FamilySource.SERVER

    @staticmethod
    def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is kept for a time: each time the server is asked again."""
        monkeypatch.setattr(families, "KEPT_SECONDS", 0.0)
        monkeypatch.setattr(families, "RETRY_SECONDS", 0.0)

    @pytest.mark.parametrize("status", [401, 429, 503])
    def test_a_report_that_left_the_name_in_doubt_stands_too(
        self, monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        """Else the name would decide, without a notice, over weights that were reported."""
        monkeypatch.setenv("VRAG_PROBE", "false")
        self.without_waiting(monkeypatch)
        with JsonServer(vllm(BASE, "/models/qwen2.5-vl-7b-ui-grounding")) as server:
            settings = load_settings(model=BASE, base_url=server.url).settings
            server.refused["GET /v1/models"] = status
            assert open_family(settings).source is FamilySource.NAME
            server.refused.clear()
            assert open_family(settings).source is FamilySource.NOTHING
            server.refused["GET /v1/models"] = status
            for _ in range(2):
                family = open_family(settings)
                assert family.source is FamilySource.NOTHING
                assert "/models/qwen2.5-vl-7b-ui-grounding, suggests qwen2.5-vl" in family.notice

    def test_a_measurement_stands_while_requests_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.without_waiting(monkeypatch)
        with ChatServer(Seeing(CONVENTIONS[1]), models=(UNKNOWN,), key="k") as server:
            settings = load_settings(model=UNKNOWN, base_url=server.url, model_key="k").settings
            first = open_family(settings)
            refused = settings.model_copy(update={"model_key": SecretStr("wrong")})
            assert open_family(refused) == first
        assert first.source is FamilySource.MEASUREMENT

    def test_another_key_is_tried_at_once_where_the_name_decided(self) -> None:
        with JsonServer(vllm(BASE, VRAG), key="right") as server:
            settings = load_settings(model=BASE, base_url=server.url, model_key="wrong").settings
            assert open_family(settings).source is FamilySource.NAME
            settings = settings.model_copy(update={"model_key": SecretStr("right")})
            assert open_family(settings).profile.name == "vrag-rl"

    def test_a_refusal_is_kept_for_a_shorter_time_than_a_report(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(families, "RETRY_SECONDS", 0.0)
        with JsonServer(vllm(BASE, VRAG)) as server:
            server.refused["GET /v1/models"] = 429
            settings = load_settings(model=BASE, base_url=server.url).settings
            assert open_family(settings).source is FamilySource.NAME
            server.refused.clear()
            assert open_family(settings).profile.name == "vrag-rl"
            assert open_family(settings).profile.name == "vrag-rl"
            assert server.asked == ["GET /v1/models", "POST /api/show", "GET /v1/models"]

    @pytest.mark.parametrize("model", [BASE, UNKNOWN])
    def test_a_server_that_is_silent_is_asked_once_for_many_threads(
        self, monkeypatch: pytest.MonkeyPatch, model: str
    ) -> None:
        threads = 6
        start, asked = threading.Barrier(threads), list[str]()

        async def ask(base_url: str, *_: object) -> None:
            asked.append(base_url)

        def open_at_once(settings: Settings) -> ModelFamily:
            start.wait(30)
            return open_family(settings)

        monkeypatch.setattr("vrag.chat.identity.ask_identity", ask)
        settings = load_settings(model=model, base_url="http://127.0.0.1:9/v1").settings
        with ThreadPoolExecutor(threads) as pool:
            found = [pool.submit(open_at_once, settings) for _ in range(threads)]
            sources = {future.result(60).source for future in found}
        assert asked == [settings.base_url]
        assert sources == {FamilySource.NAME if model == BASE else FamilySource.NOTHING}

    def test_a_server_that_falls_silent_is_not_asked_at_each_question(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(families, "KEPT_SECONDS", 0.0)
        with JsonServer(vllm(BASE, VRAG)) as server:
            settings = load_settings(model=BASE, base_url=server.url).settings
            first = open_family(settings)
            server.refused["GET /v1/models"] = 503
            assert [open_family(settings) for _ in range(4)] == [first] * 4
            assert len(server.asked) == 2

    @pytest.mark.parametrize("weights", ["/models/my-ft", "/runs/my-ft/checkpoint-1200", "s3://bucket/eyes"])
    def test_weights_of_which_nothing_is_known_get_a_notice(
        self, weights: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with JsonServer(vllm(BASE, weights)) as server:
            family = family_at(server.url, BASE)
        assert (family.profile.name, family.source) == ("qwen2.5-vl", FamilySource.NAME)
        assert f"{BASE} has the weights {weights}" in family.notice
        assert "VRAG_PROFILE" in family.notice
        assert caplog.messages == [family.notice]

    @pytest.mark.parametrize(
        "weights",
        [
            BASE,
            "/models/Qwen2.5-VL-7B-Instruct",
            "/models/Qwen2.5-VL-7B-Instruct-AWQ",
            "/opt/ml/model",
            "/mnt/models/",
            "/models/ggml-model-Q4_K_M.gguf",
            f"/root/.ollama/models/blobs/sha256-{'0c351dd01ed8' * 5}",
        ],
    )
    def test_the_usual_names_of_weights_get_none(
        self, weights: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with JsonServer(vllm(BASE, weights)) as server:
            family = family_at(server.url, BASE)
        assert (family.profile.name, family.notice) == ("qwen2.5-vl", "")
        assert not caplog.messages

    @pytest.mark.parametrize("weights", ["/models/Qwen3-8B", "/models/llama3.1-8b"])
    def test_weights_that_read_text_only_are_blind_under_any_name(self, weights: str) -> None:
        with JsonServer(vllm(BASE, weights)) as server:
            family = family_at(server.url, BASE)
        assert family.source is FamilySource.NOTHING
        assert family.notice.startswith(f"By its name, {weights} reads text only: it cannot see pages.")

    def test_a_known_service_is_not_asked_about_a_name_that_decides(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("vrag.chat.identity.ask_identity", None)
        settings = load_settings(model="qwen3.5-plus", base_url=DASHSCOPE, model_key="k").settings
        assert open_family(settings) == ModelFamily(PROFILES["qwen3-vl"], FamilySource.NAME)

    def test_a_released_checkpoint_under_another_name_gets_its_own_pictures_and_a_notice(self) -> None:
        """As in training: a picture without a label, and a word about the instruction that is missing."""
        replies = itertools.chain(["<search>ferry</search>"], itertools.repeat("<answer>42</answer>"))
        sent: list[dict[str, Any]] = []

        def reply(body: dict[str, Any]) -> dict[str, Any]:
            sent.append(body)
            message = {"role": "assistant", "content": f"<think>Look.</think>{next(replies)}"}
            return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

        with JsonServer({**vllm(BASE, VRAG), "POST /v1/chat/completions": reply}) as server:
            settings = load_settings(model=BASE, base_url=server.url).settings
            started, *_ = open_agent(settings, tiny_corpus()).stream("ferry")
        assert isinstance(started, RunStarted)
        assert started.settings.profile == "vrag-rl"
        assert "vrag config fetch-instruction vrag-rl" in started.notices[0]
        assert [body["model"] for body in sent] == [BASE, BASE]
        assert [part["type"] for part in sent[1]["messages"][-1]["content"]] == ["image_url"]


@pytest.mark.parametrize(
    ("model", "convention"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct-FP8", Convention(Space.MILLE)),
        ("hf.co/unsloth/Qwen3-VL-8B-Instruct-GGUF:Q4_K_M", Convention(Space.MILLE)),
        ("qwen2.5vl:7b-q4_K_M", Convention(Space.SHOWN)),
        ("models/gemini-2.5-flash", Convention(Space.MILLE, y_first=True)),
        (UNKNOWN, Convention(Space.RELATIVE)),
    ],
)
def test_a_crop_shows_the_place_that_the_model_meant(model: str, convention: Convention) -> None:
    """A model that means the lower right quarter, in its own coordinates."""
    seeing = Seeing(convention)

    def answer(asked: Asked) -> Reply:
        if "Give the box of the" in asked.question:
            return seeing(asked)
        if asked.turn == 0:
            return Say("<think>Look.</think><search>ferry</search>")
        if asked.turn == 1:
            return Say(f"<think>Closer.</think><bbox>{_lower_right(asked, convention)}</bbox>")
        return Say("<think>Seen.</think><answer>42</answer>")

    with ChatServer(answer, models=None) as server:
        settings = load_settings(model=model, base_url=server.url).settings
        events = list(open_agent(settings, tiny_corpus()).stream("ferry"))
    started, shown = events[0], [event for event in events if isinstance(event, ImageShown)]
    assert isinstance(started, RunStarted), events
    assert bool(started.notices) == (model == UNKNOWN)
    assert shown[-1].crop
    assert shown[-1].box == pytest.approx((0.5, 0.5, 1, 1), abs=0.04)


def _lower_right(asked: Asked, convention: Convention) -> str:
    from grounding.seeing_server import picture_in

    from vrag.geometry import Box, Size

    picture = picture_in(asked.images[-1])
    numbers = convention.write(Box.unit(0.5, 0.5, 1, 1), Size(*picture.size))
    return f"[{', '.join(f'{number:.4g}' for number in numbers)}]"
