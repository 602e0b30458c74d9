"""The model is chosen over HTTP: for whom, from where, for how long, and what nobody gets to see."""

from __future__ import annotations

import json
import logging
import stat
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chat_server import Asked, ChatServer, Refuse, Reply, Say
from setup_harness import KEY, MODEL, Setup, answering, browser_of, setup_server
from test_collection_registry import collection

from vrag.factory.server import state_folder
from vrag.server.http.users import TokenFile, UserRole
from vrag.server.options import ServerOptions
from vrag.server.state.database import ServerState
from vrag.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = {"Authorization": "Bearer correct-horse"}
GUARDED = ServerOptions(token="correct-horse", drain_seconds=2)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    collection(tmp_path / "all" / "first", "Whales sing at night.")
    return tmp_path / "all" / "first"


@dataclass(frozen=True)
class Users:
    """Tokens of users: `ada` is an administrator, `bob` and `cyd` are not."""

    options: ServerOptions
    tokens: dict[str, str]


@pytest.fixture
def users(tmp_path: Path) -> Users:
    file = TokenFile(tmp_path / "tokens.toml")
    tokens = {
        name: file.add(name, UserRole.ADMINISTER if name == "ada" else UserRole.MANAGE)
        for name in ("ada", "bob", "cyd")
    }
    return Users(ServerOptions(tokens=file, drain_seconds=2), tokens)


def sign_in(setup: Setup, token: str = "correct-horse", browser: httpx.Client | None = None) -> None:
    assert (browser or setup.browser).post("/session", json={"token": token}).status_code == 204


def files_with(folder: Path, text: str) -> list[str]:
    """The files below a folder that hold a text."""
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


class TestForOneBrowser:
    def test_its_questions_are_answered_by_the_model_and_those_of_others_are_not(self, place: Path) -> None:
        with answering("the kraken", KEY) as model, setup_server(place) as setup:
            chosen = setup.choose(model.url, key=KEY)
            assert chosen.status_code == 200, chosen.text
            assert "httponly" in chosen.headers["set-cookie"].lower()
            assert "samesite=strict" in chosen.headers["set-cookie"].lower()
            assert setup.ask()["answer"] == "the kraken"
            assert setup.ask(model=MODEL)["answer"] == "the kraken"
            assert setup.ask(model="")["model"] == "extractive"  # who wants no model gets none
            with setup.other_browser() as other:
                assert setup.ask(other)["model"] == "extractive"
                refused = other.post("/runs", json={"question": "?", "model": MODEL})
                assert (refused.status_code, refused.json()["detail"]) == (
                    422,
                    f"There is no model {MODEL!r}.",
                )
                assert MODEL not in other.get("/options").text
                assert MODEL not in other.get("/setup").text
            assert setup.browser.get("/options").json()["defaults"]["model"] == MODEL

    def test_a_second_choice_replaces_the_first_and_removal_brings_back_the_reader(self, place: Path) -> None:
        with answering("one") as first, answering("two") as second, setup_server(place) as setup:
            setup.choose(first.url)
            assert setup.ask()["answer"] == "one"
            setup.choose(second.url)
            assert setup.ask()["answer"] == "two"  # of the same name, so no agent of the first may be used
            assert setup.browser.delete("/setup").json()["session"] is None
            assert setup.ask()["model"] == "extractive"

    def test_a_run_under_way_goes_on_with_the_model_it_began_with(self, place: Path) -> None:
        go = threading.Event()

        def say(_: Asked) -> Say:
            assert go.wait(30)
            return Say("<think>So.</think><answer>the first</answer>")

        with (
            ChatServer(say, models=(MODEL,)) as slow,
            answering("two") as second,
            setup_server(place) as setup,
        ):
            setup.choose(slow.url)
            run = setup.browser.post("/runs", json={"question": "What sings?"}).json()["id"]
            setup.choose(second.url)
            assert setup.ask()["answer"] == "two"
            go.set()
            assert "the first" in setup.browser.get(f"/runs/{run}/events").text

    def test_who_signs_out_leaves_no_key_behind(self, place: Path) -> None:
        with answering("x", KEY) as model, setup_server(place, GUARDED) as setup:
            sign_in(setup)
            setup.choose(model.url, key=KEY)
            cookies = dict(setup.browser.cookies)
            setup.browser.delete("/session")
            sign_in(setup)
            assert setup.state()["session"] is None
            with browser_of(setup.address) as former:
                former.cookies.update(cookies)
                assert former.get("/setup").status_code == 401

    def test_a_program_with_a_token_has_no_browser_to_choose_for(self, place: Path) -> None:
        with answering("x") as model, setup_server(place, GUARDED) as setup:
            body = {"model": MODEL, "server": model.url}
            refused = httpx.put(f"{setup.address}/setup", json=body, headers=TOKEN)
            assert refused.status_code == 409
            assert "Sign in at the page" in refused.json()["hint"]

    def test_a_cookie_without_a_token_opens_nothing_and_changes_nothing_from_elsewhere(
        self, place: Path
    ) -> None:
        with answering("x") as model, setup_server(place) as setup:
            setup.choose(model.url)
            body = {"model": MODEL, "server": model.url}
            with httpx.Client(base_url=setup.address, cookies=dict(setup.browser.cookies)) as program:
                assert program.put("/setup", json=body).status_code == 403  # which page is it from?
            for origin in ("https://elsewhere.example", "null"):
                headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
                assert setup.browser.put("/setup", json=body, headers=headers).status_code == 403

    def test_sessions_of_a_server_without_tokens_give_nobody_more_runs(self, place: Path) -> None:
        go = threading.Event()

        def say(_: Asked) -> Say:
            assert go.wait(30)
            return Say("<answer>x</answer>")

        options = ServerOptions(client_runs=1, drain_seconds=2)
        with ChatServer(say, models=(MODEL,)) as model, setup_server(place, options) as setup:
            with setup.other_browser() as other:
                setup.choose(model.url)
                other.put("/setup", json={"model": MODEL, "server": model.url})
                assert setup.browser.post("/runs", json={"question": "?"}).status_code == 201
                assert other.post("/runs", json={"question": "?"}).json()["state"] == "waiting"
            go.set()


class TestForAll:
    def test_every_door_uses_it_and_it_survives_a_restart(self, place: Path) -> None:
        with answering("the kraken", KEY) as model:
            with setup_server(place) as setup:
                assert setup.choose(model.url, key=KEY, scope="all").status_code == 200
                with setup.other_browser() as other:
                    assert setup.ask(other)["answer"] == "the kraken"
            with setup_server(place) as setup:
                assert setup.ask()["answer"] == "the kraken"
                body = {"model": "vrag", "messages": [{"role": "user", "content": "What sings?"}]}
                answer = setup.browser.post("/v1/chat/completions", json=body).json()
                assert answer["choices"][0]["message"]["content"].startswith("the kraken")
                names = [card["id"] for card in setup.browser.get("/v1/models").json()["data"]]
                assert f"vrag/{MODEL}" in names
                call = {"name": "ask", "arguments": {"question": "What sings?"}}
                frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                headers = {"Accept": "application/json, text/event-stream"}
                pytest.importorskip("mcp", reason="needs the extra mcp")
                assert "the kraken" in setup.browser.post("/mcp", json=frame, headers=headers).text

    def test_a_browsers_own_choice_comes_before_it(self, place: Path) -> None:
        with answering("mine") as mine, answering("ours") as ours, setup_server(place) as setup:
            setup.choose(ours.url, scope="all")
            setup.choose(mine.url)
            assert setup.ask()["answer"] == "mine"
            with setup.other_browser() as other:
                assert setup.ask(other)["answer"] == "ours"
            setup.browser.delete("/setup")
            assert setup.ask()["answer"] == "ours"

    def test_its_key_is_the_owners_alone_and_no_byte_is_left_when_the_choice_goes(self, place: Path) -> None:
        with answering("x", KEY) as model, setup_server(place) as setup:
            setup.choose(model.url, key=KEY, scope="all")
            folder = state_folder(setup.settings)
            assert files_with(folder, KEY) == ["server.db"]
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            for name in ("server.db", "server.db-wal", "server.db-shm"):
                assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
            other = KEY.replace("secret", "second")
            setup.choose(model.url, key=other, scope="all")
            assert files_with(folder, KEY) == []
            assert files_with(folder, other) == ["server.db"]
            assert setup.browser.delete("/setup", params={"scope": "all"}).json()["for_all"] is None
            assert files_with(folder, other) == []
        with setup_server(place) as setup:
            assert setup.state()["for_all"] is None

    def test_a_damaged_database_is_kept_aside_and_said_to_the_administrator(
        self, place: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = state_folder(Settings(collection=str(place)))
        folder.mkdir(parents=True)
        (folder / "server.db").write_bytes(b"{")
        with caplog.at_level(logging.WARNING), setup_server(place) as setup:
            assert "damaged" in setup.state()["problem"]
            assert setup.ask()["model"] == "extractive"
            with answering("x") as model:
                assert setup.choose(model.url, scope="all").json()["problem"] == ""
        assert (folder / "server.db.damaged").read_bytes() == b"{"
        assert "choose a model again" in caplog.text

    @pytest.mark.parametrize(
        "row",
        [("x", "file:///etc/passwd", "", "auto", "top"), ("local:/etc", "http://x/v1", "", "auto", "top")],
    )
    def test_one_that_cannot_be_used_is_said_to_the_administrator(
        self, place: Path, row: tuple[str, ...], caplog: pytest.LogCaptureFixture
    ) -> None:
        state = ServerState.open(state_folder(Settings(collection=str(place))))
        state.write(lambda database: database.execute("INSERT INTO chosen_model VALUES (?, ?, ?, ?, ?)", row))
        state.close()
        with caplog.at_level(logging.WARNING), setup_server(place) as setup:
            assert "damaged" in setup.state()["problem"]
            assert setup.ask()["model"] == "extractive"
        assert "Choose a model again" in caplog.text

    def test_a_disk_that_refuses_changes_nothing(self, place: Path) -> None:
        with answering("one") as one, answering("two") as two, setup_server(place) as setup:
            setup.choose(one.url, scope="all")
            folder = state_folder(setup.settings)
            folder.rename(folder.with_name("elsewhere"))
            folder.write_text("a file stands in the way")
            refused = setup.choose(two.url, scope="all")
            assert (refused.status_code, str(folder) in refused.text) == (507, False)
            assert setup.ask()["answer"] == "one"


class TestKey:
    def test_it_is_in_no_answer_no_log_no_export_and_no_file_but_one(
        self,
        place: Path,
        own_settings: Path,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        said: list[str] = []

        def note(answer: httpx.Response) -> httpx.Response:
            said.append(f"{answer.headers} {answer.text}")
            return answer

        def echo(asked: Asked) -> Reply:
            if asked.index % 2:
                return Refuse(400, f"what is this: {asked.headers['authorization']}?")
            return Say("<think>So.</think><answer>a whale</answer>")

        with (
            ChatServer(echo, models=(MODEL,), key=KEY) as model,
            caplog.at_level(logging.DEBUG),
            setup_server(place) as setup,
        ):
            browser = setup.browser
            for scope in ("session", "all"):
                note(setup.choose(model.url, key=KEY, scope=scope))
                for _ in range(2):
                    run = setup.ask()
                    said.append(json.dumps(run))
                    note(browser.get(f"/runs/{run['id']}/events"))
                    for kind in ("html", "markdown", "json"):
                        note(browser.get(f"/runs/{run['id']}/export", params={"format": kind}))
                    note(browser.post("/reports", json={"runs": [run["id"]], "format": "markdown"}))
                note(browser.post("/setup/test", json={"model": MODEL, "server": model.url}))
            for path in (
                "/setup",
                "/options",
                "/v1/models",
                "/runs",
                "/metrics",
                "/session",
                "/openapi.json",
            ):
                note(browser.get(path))
            note(browser.post("/setup/models", json={"server": model.url, "key": KEY}))
            note(setup.choose("nowhere", key=KEY))
            note(browser.put("/setup", json={"model": MODEL, "server": model.url, "key": [KEY]}))
            for headers in ({"Content-Type": "application/json"}, {"Content-Type": "text/plain"}):
                note(browser.put("/setup", content=f'{{"model": "x", "key": "{KEY}"', headers=headers))
            note(browser.put("/setup", json={"model": MODEL, "server": model.url, "key": KEY + " ü"}))
            note(browser.put("/setup", json={"model": "x", "key": KEY, "more": KEY}))
            assert any(KEY[-4:] in text for text in said)  # the owner knows it by its end
            assert not [text for text in said if KEY in text or KEY[:-4] in text]
            assert all(asked.headers["authorization"] == f"Bearer {KEY}" for asked in model.requests)
            assert any("Bearer …" in text for text in said)  # what the server repeated
        assert KEY[:12] not in caplog.text
        assert KEY[:12] not in "".join(capfd.readouterr())
        assert files_with(place.parent.parent, KEY[:12]) == []
        assert files_with(own_settings, KEY[:12]) == ["server.db"]

    def test_a_short_one_is_not_shown_even_in_part(self, place: Path) -> None:
        with answering("x", "abcdwxyz") as model, setup_server(place) as setup:
            chosen = setup.choose(model.url, key="abcdwxyz")
            assert chosen.json()["session"]["has_key"] is True
            assert "wxyz" not in chosen.text

    def test_it_is_kept_for_its_own_address_and_never_sent_to_another(self, place: Path) -> None:
        with (
            answering("x", KEY) as model,
            answering("y", model="other") as elsewhere,
            setup_server(place) as setup,
        ):
            setup.choose(model.url, key=KEY)
            assert setup.choose(model.url).json()["session"]["has_key"] is True
            assert setup.ask()["answer"] == "x"
            assert setup.choose(elsewhere.url, "other").json()["session"]["has_key"] is False
            setup.browser.post("/setup/test", json={"model": "other", "server": elsewhere.url})
            setup.browser.post("/setup/models", json={"server": elsewhere.url})
            setup.ask()
            assert elsewhere.requests
            assert not [one for one in elsewhere.requests if "authorization" in one.headers]
            assert setup.choose(model.url, key="").json()["session"]["has_key"] is False

    @pytest.mark.parametrize("key", ["a b", "a\nb", "ключ", "x" * 501])
    def test_one_that_cannot_be_sent_is_refused_without_being_repeated(self, place: Path, key: str) -> None:
        with setup_server(place) as setup:
            refused = setup.choose("http://127.0.0.1:9/v1", key=key)
            assert (refused.status_code, key in refused.text) == (422, False)
            assert refused.json()["detail"].startswith("key: It ")


class TestWhoMayChoose:
    @pytest.mark.parametrize(
        "options",
        [
            ServerOptions(fixed_models=True),
            ServerOptions(local=False),
            ServerOptions(hosts=frozenset({"vrag.example"})),
            ServerOptions(proxies=frozenset({"127.0.0.1"})),
            ServerOptions(origins=frozenset({"https://app.example"})),
        ],
        ids=["fixed", "others", "named", "proxy", "origin"],
    )
    def test_nobody_where_the_model_is_fixed_or_others_come_without_a_token(
        self, place: Path, options: ServerOptions
    ) -> None:
        with answering("x") as model, setup_server(place, options) as setup:
            state = setup.state()
            assert (state["changeable"], state["servers"]) == (False, [])
            assert state["reason"]
            body = {"model": MODEL, "server": model.url}
            answers = (
                setup.browser.put("/setup", json=body),
                setup.browser.delete("/setup"),
                setup.browser.get("/setup/servers"),
                setup.browser.post("/setup/models", json={"server": model.url}),
                setup.browser.post("/setup/test", json=body),
            )
            assert [answer.status_code for answer in answers] == [403] * 5
            assert model.connections == 0

    def test_fixed_models_leave_what_was_chosen_for_all_alone(self, place: Path) -> None:
        with answering("x") as model:
            with setup_server(place) as setup:
                setup.choose(model.url, scope="all")
            with setup_server(place, ServerOptions(fixed_models=True)) as setup:
                assert setup.ask()["model"] == "extractive"
            with setup_server(place) as setup:
                assert setup.ask()["answer"] == "x"

    def test_without_rights_no_address_can_be_reached_and_none_is_told(
        self, place: Path, users: Users
    ) -> None:
        with answering("x") as inside, answering("own", KEY) as own:
            given: dict[str, Any] = {"model": MODEL, "base_url": own.url, "model_key": KEY}
            with setup_server(place, users.options, **given) as setup:
                sign_in(setup, users.tokens["bob"])
                addresses = (
                    inside.url,
                    own.url,
                    "http://169.254.169.254/latest",
                    "ollama",
                    "vllm",
                    "lmstudio",
                )
                for server in addresses:
                    refused = (
                        setup.choose(server),
                        setup.browser.post("/setup/test", json={"model": MODEL, "server": server}),
                        setup.browser.post("/setup/models", json={"server": server}),
                    )
                    assert [answer.status_code for answer in refused] == [403] * 3, server
                assert setup.choose("own", scope="all").status_code == 403
                assert setup.browser.delete("/setup", params={"scope": "all"}).status_code == 403
                assert setup.browser.get("/setup/servers").status_code == 403
                assert (inside.connections, own.connections) == (0, 0)
                state = setup.state()
                assert own.url.removesuffix("/v1") not in json.dumps(state)
                offered = [server["name"] for server in state["servers"]]
                assert offered == ["own", "openai", "openrouter", "gemini", "anthropic", "dashscope"]

    def test_without_rights_the_owners_server_serves_the_models_that_it_offers(
        self, place: Path, users: Users
    ) -> None:
        with answering("own", KEY) as own:
            given: dict[str, Any] = {"model": MODEL, "base_url": own.url, "model_key": KEY}
            with setup_server(place, users.options, **given) as setup:
                sign_in(setup, users.tokens["bob"])
                assert setup.choose("own", "the-dear-one").status_code == 403
                assert setup.choose("own", key="mine").status_code == 200
                assert setup.ask()["answer"] == "own"  # with the key of the owner, which he does not see
                state = setup.state()
                said = json.dumps(state)
                assert KEY[-4:] not in said
                assert own.url.split("/")[2] not in said
                assert (state["session"]["server"], state["session"]["server_name"]) == (
                    "Server of the settings",
                    "own",
                )
                listed = setup.browser.post("/setup/models", json={"server": "own"}).json()["models"]
                assert [model["name"] for model in listed] == [MODEL]

    def test_without_rights_a_test_names_the_owners_server_by_its_title(
        self, place: Path, users: Users
    ) -> None:
        given: dict[str, Any] = {"model": MODEL, "base_url": "http://127.0.0.1:9/v1", "model_key": KEY}
        with setup_server(place, users.options, **given) as setup:
            sign_in(setup, users.tokens["bob"])
            results = json.dumps(setup.test("own")[1])
            assert "Nothing answers at Server of the settings" in results
            assert "127.0.0.1" not in results

    def test_without_rights_the_keys_of_the_environment_are_not_used(
        self, place: Path, users: Users, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with setup_server(place, users.options) as setup:
            sign_in(setup, users.tokens["bob"])
            openai = next(one for one in setup.state()["servers"] if one["name"] == "openai")
            assert (openai["needs_key"], openai["has_key"]) == (True, False)
            assert setup.choose("openai", "gpt-5").json()["session"]["has_key"] is False

    def test_an_administrator_uses_the_keys_of_the_environment(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with setup_server(place) as setup:
            openai = next(one for one in setup.state()["servers"] if one["name"] == "openai")
            assert (openai["needs_key"], openai["has_key"]) == (False, True)
            assert setup.choose("", "openai:gpt-5").json()["session"]["has_key"] is True
            assert setup.choose("http://127.0.0.1:9/v1").json()["session"]["has_key"] is False

    @pytest.mark.parametrize("model", ["local:/etc", "local:Qwen/Qwen3-VL-2B-Instruct", " local:x"])
    def test_no_checkpoint_on_the_disk_is_ever_opened(self, place: Path, model: str) -> None:
        with setup_server(place) as setup:
            for server in ("openai", "http://127.0.0.1:9/v1"):
                assert setup.choose(server, model).status_code == 422

    @pytest.mark.parametrize(
        "server",
        ["", "nowhere", "file:///etc/passwd", "ftp://x/v1", "http://user:pw@x/v1", "http://", "x" * 501],
    )
    def test_what_is_no_address_is_refused_with_an_example(self, place: Path, server: str) -> None:
        with setup_server(place) as setup:
            refused = setup.choose(server)
            assert refused.status_code == 422
            assert refused.json()["hint"]


def test_users_see_neither_the_models_nor_the_questions_of_each_other(place: Path, users: Users) -> None:
    go = threading.Event()

    def say(_: Asked) -> Say:
        assert go.wait(30)
        return Say("<answer>x</answer>")

    with (
        ChatServer(say, models=(MODEL,), key=KEY) as model,
        setup_server(place, users.options) as setup,
        setup.other_browser() as bob,
        setup.other_browser() as cyd,
    ):
        for name, browser in (("ada", setup.browser), ("bob", bob), ("cyd", cyd)):
            sign_in(setup, users.tokens[name], browser)
        assert setup.choose(model.url, key=KEY, scope="all").status_code == 200
        own = {"model": "bobs-own", "server": "openai", "key": "bobs-secret-key-1234"}
        assert bob.put("/setup", json=own).status_code == 200
        assert cyd.post("/runs", json={"question": "A question of cyd?"}).status_code == 201
        for browser in (setup.browser, cyd):
            assert "bobs-own" not in browser.get("/setup").text + browser.get("/options").text
        seen = bob.get("/setup").json()
        assert (seen["for_all"]["model"], seen["for_all"]["address"], seen["for_all"]["key_end"]) == (
            MODEL,
            None,
            "",
        )
        assert (seen["activity"]["model"], seen["activity"]["runs"]) == ("bobs-own", [])
        assert [run["owner"] for run in cyd.get("/setup").json()["activity"]["runs"]] == ["cyd"]
        assert [run["owner"] for run in setup.state()["activity"]["runs"]] == ["cyd"]
        go.set()


def test_the_state_tells_what_runs_now(place: Path) -> None:
    go = threading.Event()

    def say(_: Asked) -> Say:
        assert go.wait(30)
        return Say("<answer>x</answer>")

    with ChatServer(say, models=(MODEL,)) as model, setup_server(place) as setup:
        idle = setup.state()["activity"]
        assert (idle["source"], idle["runs"], idle["uploads"]) == ("none", [], [])
        setup.choose(model.url)
        run = setup.browser.post("/runs", json={"question": "What sings?"}).json()["id"]
        busy = setup.state()["activity"]
        assert (busy["model"], busy["source"]) == (MODEL, "session")
        assert [(one["id"], one["question"], one["steps"]) for one in busy["runs"]] == [
            (run, "What sings?", 0)
        ]
        assert [(one["name"], one["documents"]) for one in busy["collections"]] == [("first", 1)]
        go.set()
        setup.browser.get(f"/runs/{run}/events")
        assert setup.state()["activity"]["runs"] == []
