"""A server's agents: what may be asked for, and what a request makes of the settings."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

import pytest
from pydantic import SecretStr
from test_collection_registry import collection

from vrag.agent.answers.verification import VerifyMode
from vrag.agent.events import StopReason
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.policies.chat import ChatPolicy
from vrag.agent.policies.extractive import ExtractiveGraphPolicy, ExtractivePolicy
from vrag.agent.policy import MAX_PLACES
from vrag.corpus.converter import CorpusOptions
from vrag.errors import RunError, SettingsError
from vrag.factory.collection_registry import CollectionRegistry
from vrag.factory.server import Agents
from vrag.index.build import add
from vrag.index.store import CollectionStore
from vrag.render.run_view import METHODS
from vrag.server.runs.schema import AgentSelection
from vrag.server.setup.choices import ChosenModel
from vrag.settings import AgentName, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.index.schema import KnownFile


@pytest.fixture
def place(tmp_path: Path) -> Path:
    collection(tmp_path / "shelves" / "first", "whales sing")
    return tmp_path / "shelves" / "first"


def agents(*places: Path, **settings: Any) -> Agents:  # noqa: ANN401
    read = Settings(collections=tuple(map(str, places)), workers=1, **settings)
    return Agents(read, CollectionRegistry.open(read))


def corpora(agents: Agents, choice: AgentSelection) -> str | None:
    return agents.agent(choice).environment.options.collection


def test_a_choice_without_wishes_is_what_the_settings_say(place: Path) -> None:
    served = agents(place, agent="vimrag", max_steps=7, hits=2)
    agent = served.agent(AgentSelection())
    assert isinstance(agent.policy, ExtractiveGraphPolicy)
    assert (agent.bounds.steps, agent.environment.options.hits) == (7, 2)
    assert (served.offer.defaults.max_steps, served.offer.defaults.top_k) == (7, 2)


def test_a_choice_changes_what_it_names_alone(place: Path) -> None:
    agent = agents(place, max_steps=7).agent(AgentSelection(agent="vimrag", top_k=4))
    assert isinstance(agent.method, Vimrag)
    assert (agent.bounds.steps, agent.environment.options.hits) == (7, 4)


def test_crop_nodes_and_verification_are_chosen_with_the_question(place: Path) -> None:
    served = agents(place)
    assert (served.offer.defaults.crop_nodes, served.offer.defaults.verify) == (True, "tell")
    usual = served.agent(AgentSelection(agent="vimrag")).method
    other = served.agent(AgentSelection(agent="vimrag", crop_nodes=False, verify="repair")).method
    assert isinstance(usual, Vimrag)
    assert isinstance(other, Vimrag)
    assert (usual.memory.crop_nodes, usual.verify) == (True, VerifyMode.TELL)
    assert (other.memory.crop_nodes, other.verify) == (False, VerifyMode.REPAIR)


def test_a_model_that_was_chosen_brings_its_own_server_key_and_family(place: Path) -> None:
    served = agents(place, model="qwen2.5-vl", base_url="http://127.0.0.1:9/v1", price_prompt=3.0)
    one = ChosenModel("qwen3-vl", "http://127.0.0.1:8/v1", SecretStr("first"))
    agent = served.agent(AgentSelection(chosen=one))
    assert (agent.policy.name, agent.environment.profile.name) == ("chat:qwen3-vl", "qwen3-vl")
    assert agent.prices.prompt is None  # that of another model
    assert served.agent(AgentSelection(chosen=one)) is agent
    family = served.agent(AgentSelection(chosen=replace(one, profile="y-first")))
    assert family.environment.profile.name == "y-first"
    others = (
        replace(one, key=SecretStr("second")),
        replace(one, base_url="http://127.0.0.1:7/v1"),
        replace(one, profile="glm-v"),
        replace(one, thinking_switch="effort"),
        replace(one, model="qwen3-vl-plus"),
    )
    assert all(served.agent(AgentSelection(chosen=other)) is not agent for other in others)


def test_every_agent_is_offered_with_the_steps_and_hits_that_it_then_has(place: Path) -> None:
    served = agents(place)
    assert [one.name for one in served.offer.agents] == list(get_args(AgentName))
    for offered in served.offer.agents:
        model = ChosenModel("qwen3-vl", "http://127.0.0.1:8/v1", SecretStr("first"))
        agent = served.agent(AgentSelection(agent=offered.name, chosen=model))
        assert agent.method.name == offered.name
        assert (agent.bounds.steps, agent.environment.options.hits) == (offered.steps, offered.hits)
        without = served.agent(AgentSelection(agent=offered.name))
        assert without.environment.options.hits == MAX_PLACES


@pytest.mark.parametrize("name", get_args(AgentName))
def test_every_agent_answers_without_a_model_and_never_breaks_its_grammar(
    place: Path, name: AgentName
) -> None:
    agent = agents(place).agent(AgentSelection(agent=name))
    run = agent.run("What sings?")
    assert run.stop_reason in {StopReason.ANSWERED, StopReason.ABSTAINED}
    assert not [step.invalid for step in run.steps if step.invalid]


def test_people_are_told_every_agent_by_its_name() -> None:
    page = (files("vrag.server") / "static/js/run/wording.js").read_text(encoding="utf-8")
    assert list(METHODS) == list(get_args(AgentName))
    told = ", ".join(f'{name}: "{kind.title}"' for name, kind in METHODS.items())
    assert f"METHODS = {{ {told} }};" in page


def test_the_policy_without_a_model_can_be_asked_beside_a_model_and_a_model_beside_it(place: Path) -> None:
    served = agents(place, model="qwen3-vl", base_url="http://127.0.0.1:9/v1", models=("other",))
    assert [model.name for model in served.offer.models] == ["", "qwen3-vl", "other"]
    assert isinstance(served.agent(AgentSelection(model="")).policy, ExtractivePolicy)
    for name in (None, "qwen3-vl", "other"):
        assert isinstance(served.agent(AgentSelection(model=name)).policy, ChatPolicy)
    assert served.agent(AgentSelection(model="other")).policy.name == "chat:other"


def test_a_checkpoint_is_offered_by_its_name_and_not_by_its_path(place: Path, tmp_path: Path) -> None:
    offer = agents(place, model=f"local:{tmp_path}/secret/qwen").offer
    assert [model.name for model in offer.models] == ["", "qwen"]
    assert str(tmp_path) not in offer.model_dump_json()


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (AgentSelection(model="local:/etc"), "There is no model 'local:/etc'."),
        (AgentSelection(collection="third"), "There is no collection 'third'."),
        (AgentSelection(collection=""), "There is no collection ''."),
    ],
)
def test_what_is_not_offered_is_refused_with_what_there_is(
    place: Path, choice: AgentSelection, words: str
) -> None:
    with pytest.raises(SettingsError, match="There is no") as refused:
        agents(place).agent(choice)
    assert refused.value.message == words
    assert refused.value.hint.startswith("Available: ")


def test_who_asks_alike_shares_an_agent(place: Path) -> None:
    served = agents(place)
    assert served.agent(AgentSelection(top_k=3)) is served.agent(AgentSelection(top_k=3))
    assert served.agent(AgentSelection(top_k=3)) is not served.agent(AgentSelection(top_k=4))


def test_one_of_several_collections_is_searched_alone_also_when_it_was_the_only_one_before(
    place: Path,
) -> None:
    served = agents(place)
    chosen = AgentSelection(collection="first")
    assert corpora(served, chosen) is None, "so that its runs can be replayed wherever it is moved to"
    served.registry.create("second")
    assert corpora(served, chosen) == "first"
    assert corpora(served, AgentSelection()) is None
    served.registry.drop("second")
    with pytest.raises(SettingsError, match="second"):
        served.agent(AgentSelection(collection="second"))


def test_evidence_is_looked_for_in_the_open_collections_or_on_the_server_that_searches(place: Path) -> None:
    sources = agents(place).evidence_sources([])
    assert [collection.directory for collection in sources.collections] == [place]
    assert sources.server is None
    forwarding = Settings(search_url="http://localhost:9")
    elsewhere = Agents(forwarding, CollectionRegistry.open(forwarding)).evidence_sources([])
    assert elsewhere.collections == ()
    assert elsewhere.server is not None


def test_documents_have_to_be_there(place: Path) -> None:
    served = agents(place)
    [known] = served.registry.collection.documents()
    assert served.agent(AgentSelection(documents=frozenset({known.id}))).environment.options.documents == {
        known.id
    }
    with pytest.raises(SettingsError, match="1 of the 2 chosen documents do not exist"):
        served.agent(AgentSelection(documents=frozenset({known.id, "'); DROP TABLE files; --"})))


@pytest.mark.parametrize("asked", ["second", None])
def test_documents_of_a_collection_that_is_deleted_meanwhile_are_said_to_be_gone(
    place: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    served = agents(place)
    second = served.registry.create("second").collection
    source = place.parent.parent / "n.md"
    source.write_text("whales dive", encoding="utf-8")
    add(second, [source], CorpusOptions(dpi=100.0, workers=1))
    [gone] = second.documents()
    [kept] = served.registry.collection.documents()
    read = CollectionStore.files

    def drop_first(store: CollectionStore, *arguments: Any) -> list[KnownFile]:  # noqa: ANN401
        if "second" in served.registry.names:
            served.registry.drop("second")
        return read(store, *arguments)

    monkeypatch.setattr(CollectionStore, "files", drop_first)
    with pytest.raises(SettingsError, match=r"documents? do(es)? not exist"):
        served.agent(AgentSelection(documents=frozenset({gone.id, kept.id}), collection=asked))


def test_what_is_offered_counts_what_can_be_found_once(place: Path) -> None:
    served = agents(place)
    source = place.parent.parent / "again"
    source.mkdir()
    (source / "copy.md").write_text("whales sing", encoding="utf-8")
    (source / "torn.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    add(served.registry.collection, [source], CorpusOptions(dpi=100.0, workers=1))
    [offered] = served.offer.collections
    assert (offered.documents, offered.items, offered.writable) == (1, 1, True)


def test_a_collection_that_is_gone_is_offered_as_one_that_holds_nothing(place: Path) -> None:
    served = agents(place)
    store = served.store
    place.rename(place.with_name("elsewhere"))
    [offered] = served.offer.collections
    assert (offered.name, offered.documents, offered.writable) == ("first", 0, False)
    with pytest.raises(RunError, match="is gone"), store.record():
        pytest.fail("it was recorded")
    with pytest.raises(RunError, match="is gone"):
        store.ids()
    assert not place.exists(), "nothing is put in its place"
