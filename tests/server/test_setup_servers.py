"""Which server a request may reach, and with which key: properties over all requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from vrag.server.http.errors import Refusal
from vrag.server.http.users import User, UserRole
from vrag.server.options import ServerOptions
from vrag.server.setup.choices import ChosenModel, ModelChoices
from vrag.server.setup.schema import ModelRequest
from vrag.server.setup.servers import OWN_SERVER, ModelServer, ModelServers
from vrag.server.state.sessions import BrowserSessions

OWN = ModelServer(
    name=OWN_SERVER,
    title="Own",
    base_url="http://10.0.0.7:8000/v1",
    for_everybody=True,
    models=("offered",),
    key=SecretStr("owner-key"),
)
LOCAL = ModelServer(
    name="ollama", title="Ollama", base_url="http://localhost:11434/v1", thinking_switch="effort"
)
SERVICE = ModelServer(
    name="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    for_everybody=True,
    key=SecretStr("environment-key"),
)
SERVERS = ModelServers((OWN, LOCAL, SERVICE))
ADMIN, READER = User("admin", UserRole.ADMINISTER), User("reader", UserRole.MANAGE)
FORMER = [
    ChosenModel("a", SERVICE.base_url, SecretStr("former-key")),
    ChosenModel("b", "http://10.0.0.9/v1", SecretStr("inner-key")),
]
ADDRESSES = (
    OWN.base_url,
    SERVICE.base_url,
    LOCAL.base_url,
    "http://10.0.0.9/v1/",
    "http://169.254.169.254/",
    "http://0.0.0.0:11434/v1",
    "file:///x",
)
NAMES = st.sampled_from(["own", "openai", "ollama", "", "OPENAI", "nowhere", *ADDRESSES]) | st.text(
    max_size=30
)
MODELS = st.sampled_from(["offered", "gpt-5", "openai:gpt-5", "ollama:x", "local:/etc", "own:x"]) | st.text(
    max_size=12
)
KEYS = st.none() | st.sampled_from(["", "typed-key"])


def resolved(user: User, model: str, server: str, key: str | None) -> ChosenModel | None:
    try:
        request = ModelRequest(model=model, server=server, key=None if key is None else SecretStr(key))
        return SERVERS.resolve(request, user, FORMER)
    except (Refusal, ValidationError):
        return None


@settings(max_examples=500)
@given(model=MODELS, server=NAMES, key=KEYS)
def test_without_rights_requests_go_to_offered_servers_alone(
    model: str, server: str, key: str | None
) -> None:
    chosen = resolved(READER, model, server, key)
    if chosen is None:
        return
    assert chosen.base_url in {OWN.base_url, SERVICE.base_url}
    if chosen.base_url == OWN.base_url:
        assert (chosen.model, chosen.key) == ("offered", OWN.key)
    else:
        assert chosen.key.get_secret_value() in {"", "typed-key", "former-key"}


@settings(max_examples=500)
@given(model=MODELS, server=NAMES, key=KEYS, user=st.sampled_from([ADMIN, READER]))
def test_no_key_goes_to_another_address_than_its_own(
    model: str, server: str, key: str | None, user: User
) -> None:
    chosen = resolved(user, model, server, key)
    if chosen is None:
        return
    places = {"owner-key": OWN, "environment-key": SERVICE, "former-key": SERVICE}
    secret = chosen.key.get_secret_value()
    if secret in places:
        assert chosen.base_url == places[secret].base_url
    if secret == "inner-key":
        assert chosen.base_url == "http://10.0.0.9/v1"
    assert not chosen.model.startswith("local:")
    assert chosen.base_url.startswith(("http://", "https://"))


def test_without_rights_the_owners_key_serves_no_other_server_of_the_same_address() -> None:
    twin = replace(SERVICE, base_url=OWN.base_url)
    servers = ModelServers((OWN, twin))
    offered = servers.resolve(ModelRequest(model="offered", server=OWN_SERVER), READER, [])
    assert (offered.key, offered.owners_key) == (OWN.key, True)
    other = ModelRequest(model="the-dear-one", server=twin.name)
    chosen = servers.resolve(other, READER, [offered])
    assert (chosen.has_key, chosen.owners_key) == (False, False)
    entered = replace(chosen, key=SecretStr("typed-key"))
    assert servers.resolve(other, READER, [offered, entered]).key == entered.key
    assert servers.resolve(other, ADMIN, [offered]).owners_key


@pytest.mark.parametrize(
    ("model", "server", "expected"),
    [
        ("ollama:qwen3-vl:8b", "", ("qwen3-vl:8b", LOCAL.base_url, "effort")),
        ("qwen3-vl:8b", "http://0.0.0.0:11434/v1/", ("qwen3-vl:8b", "http://127.0.0.1:11434/v1", "template")),
        ("qwen3-vl:8b", "http://localhost:11434/v1", ("qwen3-vl:8b", LOCAL.base_url, "effort")),
        ("openai:gpt-5", "openai", ("gpt-5", SERVICE.base_url, "top")),
        ("openai:gpt-5", "http://proxy:1/v1", ("openai:gpt-5", "http://proxy:1/v1", "top")),
    ],
)
def test_prefixes_and_addresses_lead_to_the_server(
    model: str, server: str, expected: tuple[str, ...]
) -> None:
    chosen = resolved(ADMIN, model, server, None)
    assert chosen is not None
    assert (chosen.model, chosen.base_url, chosen.thinking_switch) == expected


def test_a_choice_shows_its_key_nowhere() -> None:
    chosen = ChosenModel("m", "http://x/v1", SecretStr("a-long-secret-key-7f3a"))
    assert "secret-key" not in repr(chosen)
    assert (chosen.key_end, ChosenModel("m", "x", SecretStr("short-key")).key_end) == ("7f3a", "")


def test_a_choice_ends_with_its_session() -> None:
    options = ServerOptions()
    sessions = BrowserSessions(options)
    choices = ModelChoices(sessions, options)
    ended, other = b"ended", b"other"
    for session in (ended, other):
        choices.choose(session, ChosenModel("m", "http://x/v1", SecretStr("key")))
    sessions.close(ended)
    assert choices.of_session(ended) is None
    assert choices.of_session(other) is not None


def test_a_choice_that_is_not_used_ends_in_time() -> None:
    options = ServerOptions(session_seconds=0.0)
    choices = ModelChoices(BrowserSessions(options), options)
    choices.choose(b"session", ChosenModel("m", "http://x/v1"))
    assert choices.of_session(b"session") is None
