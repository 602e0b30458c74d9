"""Settings become objects, and the defaults of both agree: nobody gets other values by another door."""

from __future__ import annotations

import gc
import os
import re
import weakref
from typing import TYPE_CHECKING

import pytest
from command_line import run_vrag
from pydantic import SecretStr
from stored_items import change_embedder

from vrag.agent.budget import Limits, Prices
from vrag.agent.environment import EnvironmentOptions
from vrag.agent.memory.energies import MemoryOptions, Propagation
from vrag.agent.policies.chat import ChatPolicy
from vrag.agent.policies.extractive import ExtractiveGraphPolicy, ExtractivePolicy
from vrag.agent.policy import MAX_PLACES
from vrag.chat import ChatOptions
from vrag.corpus.converter import CorpusOptions
from vrag.embed import registry
from vrag.embed.embedder import Modality, VectorKind
from vrag.errors import EmbedError, FingerprintMismatch, SettingsError, VragError
from vrag.factory.agents import open_agent, open_environment, open_profile
from vrag.factory.families import USUAL_PROFILE
from vrag.factory.indexing import (
    corpus_options,
    documents_under,
    load_embedder,
    open_for_adding,
    unreadable_error,
)
from vrag.factory.models import chat_options, open_chat
from vrag.factory.search import open_client, ranking_note, rankings_of, vector_options
from vrag.factory.session import open_session
from vrag.factory.training import made_with, open_extractor, open_judge, open_scorer, settings_to_train
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.location import EmbedderRecord
from vrag.model_profiles import PROFILES, profile_named
from vrag.reward import CompositeReward, OutcomeReward, Weights
from vrag.reward.cached_judge import CachedJudge
from vrag.reward.rules_judge import RulesJudge
from vrag.search.engine import Ranking
from vrag.settings import load_settings
from vrag.testing import HashEmbedder, tiny_corpus
from vrag.types import Query

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.chat import OpenAIChat
    from vrag.providers import Key
    from vrag.settings import Settings, SettingsReport


def test_the_defaults_of_settings_are_those_of_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VRAG_OCR")
    monkeypatch.delenv("VRAG_WORKERS")
    report = load_settings(collection=tmp_path / "collection")
    assert corpus_options(report.settings) == CorpusOptions()
    open_for_adding(report)
    agent = open_session(report.settings).agent()
    without_model = EnvironmentOptions(hits=MAX_PLACES, show=MAX_PLACES)
    assert agent.environment.options == without_model
    assert agent.limits == Limits(steps=agent.method.steps)
    assert agent.prices == Prices()
    assert isinstance(agent.policy, ExtractivePolicy)
    graph = open_session(report.settings.model_copy(update={"agent": "vimrag"})).agent()
    assert graph.method.memory == MemoryOptions()
    assert graph.limits == Limits(steps=20)
    assert graph.environment.options == without_model
    assert isinstance(graph.policy, ExtractiveGraphPolicy)
    for name, steps in (("rag", 1), ("react", 10)):
        baseline = open_session(report.settings.model_copy(update={"agent": name})).agent()
        assert (baseline.method.name, baseline.limits) == (name, Limits(steps=steps))
        assert baseline.environment.options == without_model
    trained = open_environment(report.settings, open_session(report.settings).searcher, PROFILES["qwen3-vl"])
    assert trained.options == EnvironmentOptions()
    switch = chat_options(report.settings, profile_named(USUAL_PROFILE)).thinking_switch
    assert switch is ChatOptions().thinking_switch


class TestAnswering:
    """What the settings say about agents and models."""

    def test_a_served_model_is_asked_as_the_settings_say(self) -> None:
        settings = load_settings(
            model="Qwen/Qwen3-VL-8B-Instruct", base_url="http://localhost:1/v1", thinking="on", seed=7
        ).settings
        agent = open_agent(settings, tiny_corpus())
        assert isinstance(agent.policy, ChatPolicy)
        assert agent.environment.profile.name == "qwen3-vl"
        sampling = agent.policy.sampling
        assert (sampling["temperature"], sampling["top_p"], sampling["seed"]) == (0.6, 0.95, 7)

    def test_what_is_named_outweighs_what_is_known(self) -> None:
        settings = load_settings(
            model="qwen3-vl-plus", base_url="http://localhost:1/v1", profile="y-first", temperature=0.2
        ).settings
        agent = open_agent(settings, tiny_corpus())
        assert agent.environment.profile.name == "y-first"
        assert agent.policy.sampling["temperature"] == 0.2

    def test_a_model_of_no_known_family_gets_the_usual_one_and_a_word_of_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings = load_settings(model="somebody/their-model", base_url="http://localhost:1/v1").settings
        assert open_profile(settings).name == USUAL_PROFILE
        assert "vrag doctor --coords" in caplog.text

    def test_limits_prices_and_memory_are_those_of_the_settings(self) -> None:
        settings = load_settings(
            agent="vimrag", max_steps=7, budget_tokens=9, budget_seconds=2.5, price_prompt=1,
            price_completion=4,
            memory_tokens=640, memory_items=3, memory_rule="blocked", crop_nodes=False, hits=5, reselect=True,
            repair=False,
        ).settings  # fmt: skip
        agent = open_agent(settings, tiny_corpus())
        assert agent.limits == Limits(steps=7, tokens=9, seconds=2.5)
        assert agent.prices == Prices(prompt=1, completion=4)
        assert agent.method.memory == MemoryOptions(
            tokens=640, items=3, propagation=Propagation.BLOCKED, crop_nodes=False
        )
        assert agent.method.reselect
        assert not agent.method.repair
        assert not agent.settings.repair
        assert agent.environment.options.hits == 5

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"model": "some-model"}, "The model some-model has no server"),
            ({"base_url": "http://localhost:1/v1"}, "localhost:1/v1 is set, but no model"),
            ({"profile": "nobody's"}, "Unknown model profile"),
            ({"instruction": "no/such/file.md"}, "cannot be read"),
            ({"actions": "no_such_action"}, "no custom tool 'no_such_action'"),
            ({"model": "m", "base_url": "http://user:secret@localhost/v1"}, "user name"),
            ({"base_url": "http://user:secret@localhost/v1"}, "user name"),
            ({"model": "local:no/such/checkpoint"}, "no/such/checkpoint"),
        ],
    )
    def test_settings_that_do_not_fit_are_refused_with_advice(
        self, settings: dict[str, str], words: str
    ) -> None:
        with pytest.raises(VragError, match=re.escape(words)) as caught:
            open_agent(load_settings(**settings).settings, tiny_corpus())
        assert caught.value.hint or caught.value.message
        assert "secret" not in str(caught.value)

    def test_agents_that_ask_a_model_alike_share_its_places_and_pauses(self) -> None:
        settings = load_settings(model="m", base_url="http://localhost:1/v1", model_key="k").settings
        first, second = open_chat(settings), open_chat(settings.model_copy(update={"agent": "vimrag"}))
        assert first is second
        for other in ({"model": "n"}, {"model_key": SecretStr("l")}, {"base_url": "http://localhost:2/v1"}):
            assert open_chat(settings.model_copy(update=other)) is not first

    def test_a_model_that_nobody_asks_any_more_is_not_kept(self) -> None:
        settings = load_settings(model="m", base_url="http://localhost:1/v1").settings
        seen = weakref.ref(open_chat(settings))
        gc.collect()
        assert seen() is None

    def test_a_key_of_the_user_goes_to_no_server_that_a_folder_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An error where the server is opened, and nowhere else."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".env").write_text(
            "VRAG_BASE_URL=http://evil.example/v1\nVRAG_SEARCH_URL=http://evil.example\n"
            "VRAG_EMBEDDER=remote:m@http://evil.example\n"
        )
        for name in ("MODEL", "SEARCH", "EMBED"):
            monkeypatch.setenv(f"VRAG_{name}_KEY", "secret")
        settings = load_settings(model="m").settings

        def open_its_embedder(settings: Settings) -> object:
            return load_embedder(settings, settings.embedder)

        for opened in (open_chat, open_client, open_its_embedder):
            with pytest.raises(SettingsError, match="not sent to") as caught:
                opened(settings)
            assert "Set the address yourself: VRAG_" in caught.value.hint
        open_agent(settings.model_copy(update={"model": "", "base_url": ""}), tiny_corpus())

    @pytest.mark.parametrize("path", ["/dev/zero", "/dev", "\0"])
    def test_an_instruction_that_is_no_file_is_not_read(self, path: str) -> None:
        with pytest.raises(SettingsError, match="cannot be read"):
            open_agent(load_settings(instruction=path).settings, tiny_corpus())

    def test_an_instruction_of_more_than_a_megabyte_is_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "long.md"
        path.write_text("a" * 1_000_001)
        with pytest.raises(SettingsError, match="1,000,000 bytes"):
            open_agent(load_settings(instruction=str(path)).settings, tiny_corpus())

    def test_an_instruction_of_ones_own_takes_the_place_of_ours(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.md"
        path.write_text("Do as I say. $5 is a price.\n", encoding="utf-8")
        agent = open_agent(load_settings(instruction=str(path)).settings, tiny_corpus())
        context = agent.method.begin(agent.environment, "Why?").context(last=False)
        assert context.messages[0].text == "Do as I say. $5 is a price.\nWhy?"
        path.write_text(" \n")
        with pytest.raises(SettingsError, match="is empty"):
            open_agent(load_settings(instruction=str(path)).settings, tiny_corpus())


def test_a_collection_keeps_its_settings_unless_others_are_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "collection"
    open_for_adding(load_settings(collection=place, dpi=100))
    assert open_for_adding(load_settings(collection=place))[1].dpi == 100
    assert open_for_adding(load_settings(collection=place, dpi=120))[1].dpi == 120


def test_documents_are_those_under_the_path_that_are_there_and_could_be_read(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        (folder / "same-name.txt").write_text(f"The words of {folder.name}.")
    (folders[0] / "broken.pdf").write_text("no pdf")
    collection, options, _ = open_for_adding(load_settings(collection=tmp_path / "collection"))
    add(collection, folders, options)
    assert [d.path for d in documents_under(collection, folders[:1])] == [str(folders[0] / "same-name.txt")]
    both = documents_under(
        collection, [type(tmp_path)("same-name.txt")]
    )  # the name that `vrag search` prints
    assert [d.path for d in both] == [str(folder / "same-name.txt") for folder in folders]
    assert documents_under(collection, [type(tmp_path)("name.txt")]) == []
    (folders[0] / "same-name.txt").unlink()
    assert documents_under(collection, folders[:1]) == []


def test_a_folder_without_permission_is_told_apart_from_one_without_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exists(_: object, mode: int) -> bool:
        return mode == os.F_OK

    assert "Supported: " in unreadable_error([tmp_path]).hint
    monkeypatch.setattr(os, "access", exists)
    error = unreadable_error([tmp_path])
    assert error.message == f"There is no permission to read {tmp_path}."
    assert "--user" in error.hint


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Embedders by the name `KIND-DIMENSION-SEED`; returns how each was opened."""
    calls: list[dict[str, object]] = []

    def open_embedder(spec: str, **how: object) -> HashEmbedder:
        calls.append({"spec": spec, **how})
        if "gone" in spec:
            raise EmbedError(f"There is no embedder {spec!r}.")
        kind, dimension, seed = spec.removeprefix("hash:").split("-")
        return HashEmbedder(VectorKind(kind), int(dimension), int(seed))

    monkeypatch.setattr(registry, "open_embedder", open_embedder)
    return calls


def filled(place: Path, name: str, text: str, **settings: object) -> SettingsReport:
    """A collection of one text, built as `vrag index add` does."""
    report = load_settings(collection=place / name, **settings)
    (place / f"{name}.txt").write_text(text)
    collection, options, embedder = open_for_adding(report)
    add(collection, [place / f"{name}.txt"], options, embedder=embedder)
    return report


class TestEmbedder:
    def test_it_is_opened_when_it_is_needed_and_not_before(
        self, tmp_path: Path, opened: list[dict[str, object]]
    ) -> None:
        filled(tmp_path, "a", "an apple", embedder="multi-8-0")
        opened.clear()
        collection, options, embedder = open_for_adding(load_settings(collection=tmp_path / "a"))
        assert add(collection, [tmp_path / "a.txt"], options, embedder=embedder).unchanged == 1
        bench = open_session(load_settings(collection=tmp_path / "a").settings, embedder)
        assert opened == []
        assert len(bench.searcher.search([Query("apple")], 3)[0]) == 1
        assert [call["spec"] for call in opened] == ["hash:multi-8-0"]

    def test_another_one_is_refused_when_it_is_used(
        self, tmp_path: Path, opened: list[dict[str, object]]
    ) -> None:
        filled(tmp_path, "a", "an apple", embedder="multi-8-0")
        bench = open_session(load_settings(collection=tmp_path / "a", embedder="multi-8-1").settings)
        with pytest.raises(FingerprintMismatch, match="hash:multi-8-0"):
            bench.warm_up()

    def test_words_alone_need_no_model(self, tmp_path: Path, opened: list[dict[str, object]]) -> None:
        filled(tmp_path, "a", "an apple", embedder="multi-8-0")
        report = load_settings(collection=tmp_path / "a", ranking="lexical", embedder="gone")
        opened.clear()
        assert len(open_session(report.settings).searcher.search([Query("apple")], 3)[0]) == 1
        assert opened == []

    def test_a_model_that_is_gone_is_told_with_both_ways_out(
        self, tmp_path: Path, opened: list[dict[str, object]]
    ) -> None:
        filled(tmp_path, "a", "an apple", embedder="multi-8-0")
        bench = open_session(load_settings(collection=tmp_path / "a", embedder="gone").settings)
        with pytest.raises(EmbedError, match=r"VRAG_EMBEDDER.*VRAG_RANKING=lexical"):
            bench.warm_up()

    @pytest.mark.parametrize(
        ("recorded", "shown"),
        [
            ("remote:m@http://stranger", "remote:m@http://stranger"),
            ("remote:m@stranger:80/v1", "remote:m@http://stranger:80/v1"),
            (" Remote-Chat:m@:8000", "Remote-Chat:m@http://127.0.0.1:8000"),
            ("pooling:m@localhost/v1", "pooling:m@http://localhost/v1"),
        ],
    )
    def test_a_server_that_only_the_collection_names_is_not_asked(
        self, tmp_path: Path, opened: list[dict[str, object]], recorded: str, shown: str
    ) -> None:
        filled(tmp_path, "a", "an apple", embedder="multi-8-0")
        change_embedder(tmp_path / "a", name=recorded)
        opened.clear()
        settings = load_settings(collection=tmp_path / "a", embed_key="secret").settings
        with pytest.raises(EmbedError, match=re.escape(f"VRAG_EMBEDDER={shown}")):
            open_session(settings).warm_up()
        assert opened == []

    @pytest.mark.parametrize("scheme", ["", "http://"])
    def test_a_key_is_not_sent_to_a_server_that_only_a_folder_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[dict[str, object]], scheme: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "vrag.toml").write_text(f'embedder = "remote:m@{scheme}stranger:80"\n')
        monkeypatch.setenv("VRAG_EMBED_KEY", "secret")
        settings = load_settings().settings
        with pytest.raises(SettingsError, match=r"not sent to remote:m@http://stranger:80"):
            load_embedder(settings, settings.embedder)
        assert opened == []

    def test_the_key_of_a_server_is_asked_of_the_settings_by_its_scheme(
        self, opened: list[dict[str, object]]
    ) -> None:
        reasons: dict[Key, tuple[str, str]] = {"embed_key": ("It is withheld.", "Set the address yourself.")}
        settings = load_settings().settings.withholding(reasons)
        with pytest.raises(SettingsError, match="withheld"):
            load_embedder(settings, "pooling:m@stranger:80")
        load_embedder(settings, "hash:multi-8-0")
        assert [call["api_key"] for call in opened] == [None]


class TestSeveral:
    def test_collections_are_searched_together_by_name(
        self, tmp_path: Path, opened: list[dict[str, object]]
    ) -> None:
        filled(tmp_path, "a", "an apple", embedder="multi-8-0")
        filled(tmp_path, "b", "another apple", embedder="multi-8-0")
        bench = open_session(load_settings(collections=[tmp_path / "a", tmp_path / "b"]).settings)
        assert bench.names == ("a", "b")
        assert len(bench.searcher.search([Query("apple")], 3)[0]) == 2
        (hit,) = bench.searcher.search([Query("apple", corpora=frozenset({"b"}))], 3)[0]
        assert hit.document_name == "b.txt"

    def test_different_embedders_are_refused_and_words_are_the_way_out(
        self, tmp_path: Path, opened: list[dict[str, object]]
    ) -> None:
        filled(tmp_path, "a", "an apple", embedder="multi-8-0")
        filled(tmp_path, "b", "another apple", embedder="multi-8-1")
        both = [tmp_path / "a", tmp_path / "b"]
        with pytest.raises(FingerprintMismatch, match="lexical"):
            open_session(load_settings(collections=both).settings)
        bench = open_session(load_settings(collections=both, ranking="lexical").settings)
        assert len(bench.searcher.search([Query("apple")], 3)[0]) == 2


TEXT, IMAGE = Modality.TEXT, Modality.IMAGE
WORDS_ALONE, BOTH = (Ranking.LEXICAL,), tuple(Ranking)


def embedder_taking(*modalities: Modality) -> HashEmbedder:
    return HashEmbedder(modalities=frozenset(modalities))


def texts_with_vectors(place: Path, embedder: HashEmbedder) -> str:
    """Make a collection of texts that share words, with vectors; return its directory."""
    place.mkdir()
    for number, words in enumerate(("apple", "apple pear", "pear pear plum", "plum apple fig", "fig")):
        (place / f"{number}.txt").write_text(f"{words} {words}")
    collection = Collection.create(place / "c", corpus_options(load_settings().settings), embedder=embedder)
    add(collection, [place], embedder=embedder)
    return str(place / "c")


class TestRanking:
    @pytest.mark.parametrize(
        ("modalities", "rankings"),
        [
            ((TEXT,), WORDS_ALONE),
            ((IMAGE,), BOTH),
            ((TEXT, IMAGE), BOTH),
            (tuple(Modality), BOTH),
            ((), BOTH),
        ],
    )
    def test_only_vectors_of_text_are_left_out_and_only_where_nothing_was_chosen(
        self, modalities: tuple[Modality, ...], rankings: tuple[Ranking, ...]
    ) -> None:
        record = EmbedderRecord.of(embedder_taking(*modalities))
        assert rankings_of(load_settings().settings, record) == rankings
        for chosen, expected in (("fused", BOTH), ("lexical", WORDS_ALONE), ("vector", (Ranking.VECTOR,))):
            settings = load_settings(ranking=chosen).settings
            assert rankings_of(settings, record) == expected
            assert ranking_note(settings, record) == ""
        assert bool(ranking_note(load_settings().settings, record)) == (rankings == WORDS_ALONE)

    def test_a_collection_with_vectors_of_text_is_ranked_as_without_them_and_its_model_is_not_opened(
        self, tmp_path: Path, opened: list[dict[str, object]]
    ) -> None:
        place = texts_with_vectors(tmp_path / "texts", embedder_taking(TEXT))
        queries = [Query(words) for words in ("apple", "pear plum", "fig apple", "quince")]
        found = {
            ranking: open_session(
                load_settings(collection=place, ranking=ranking).settings, embedder_taking(TEXT)
            ).searcher.search(queries, 5)
            for ranking in ("lexical", "fused")
        }
        unchosen = open_session(load_settings(collection=place).settings).searcher.search(queries, 5)
        assert opened == []
        assert unchosen == found["lexical"]
        assert unchosen != found["fused"]
        assert len(found["fused"][3]) == 5, "no word is known, and each vector has a place"

    def test_a_collection_with_vectors_of_pictures_is_fused_as_if_that_were_chosen(
        self, tmp_path: Path
    ) -> None:
        embedder = embedder_taking(TEXT, IMAGE)
        place = texts_with_vectors(tmp_path / "texts", embedder)
        unchosen, fused = (
            open_session(load_settings(collection=place, **chosen).settings, embedder)
            for chosen in ({}, {"ranking": "fused"})
        )
        query = [Query("pear plum")]
        assert unchosen.searcher.search(query, 5) == fused.searcher.search(query, 5)

    def test_vectors_of_text_that_are_left_out_are_told_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        embedder = embedder_taking(TEXT)
        places = [texts_with_vectors(tmp_path / name, embedder) for name in "ab"]
        session = open_session(load_settings(collections=places).settings)
        session.search("apple")
        session.search("fig")
        (record,) = [record for record in caplog.records if "words alone" in record.message]
        assert embedder.name in record.message
        assert "--ranking fused" in record.message
        caplog.clear()
        open_session(load_settings(collections=places, ranking="fused").settings, embedder).search("apple")
        assert not caplog.records

    def test_collections_whose_different_vectors_of_text_are_not_used_are_searched_together(
        self, tmp_path: Path
    ) -> None:
        places = [
            texts_with_vectors(tmp_path / str(seed), HashEmbedder(seed=seed, modalities=frozenset({TEXT})))
            for seed in (1, 2)
        ]
        assert open_session(load_settings(collections=places).settings).search("apple")
        with pytest.raises(FingerprintMismatch, match="lexical"):
            open_session(load_settings(collections=places, ranking="fused").settings)

    @pytest.mark.parametrize("command", [["search", "apple"], ["ask", "Which apple?"], ["index", "status"]])
    def test_each_command_tells_it_in_one_line(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        command: list[str],
    ) -> None:
        place = texts_with_vectors(tmp_path / "texts", embedder_taking(TEXT))
        monkeypatch.setenv("VRAG_COLLECTION", place)
        done = run_vrag(*command, cwd=tmp_path)
        assert (done.out + done.err + caplog.text).count("words alone") == 1, done
        caplog.clear()
        monkeypatch.setenv("VRAG_RANKING", "lexical")
        done = run_vrag(*command, cwd=tmp_path)
        assert "words alone" not in done.out + done.err + caplog.text

    def test_adding_tells_it_in_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        place = texts_with_vectors(tmp_path / "texts", embedder_taking(TEXT))
        monkeypatch.setenv("VRAG_COLLECTION", place)
        done = run_vrag("index", "add", "texts/0.txt", cwd=tmp_path)
        assert (done.status, done.err.count("words alone")) == (0, 1), done


def test_the_tier_for_accelerators_needs_one(tmp_path: Path) -> None:
    assert vector_options(load_settings(tier="cuda").settings).device == "cuda"
    assert vector_options(load_settings(tier="cuda", device="cuda:1").settings).device == "cuda:1"
    assert vector_options(load_settings(device="cuda").settings).device == "cuda"
    assert vector_options(load_settings().settings).device == "cpu"
    with pytest.raises(SettingsError, match="VRAG_DEVICE"):
        vector_options(load_settings(tier="cuda", device="cpu").settings)


def test_vectors_that_are_not_there_cannot_be_searched_through_qdrant(tmp_path: Path) -> None:
    report = filled(tmp_path, "a", "an apple", qdrant="qdrant://localhost:6333/a")
    with pytest.raises(SettingsError, match="without vectors"):
        open_session(report.settings)
    lexical = load_settings(collection=tmp_path / "a", qdrant="qdrant://localhost:6333/a", ranking="lexical")
    assert len(open_session(lexical.settings).searcher.search([Query("apple")], 3)[0]) == 1


class TestTraining:
    """Who judges, and what a run earns."""

    def test_rules_judge_where_no_model_is_named(self) -> None:
        settings = load_settings().settings
        assert open_judge(settings) == RulesJudge()
        assert open_judge(settings, exact=True) == RulesJudge(exact=True)

    def test_claims_are_not_checked_in_training_unless_that_is_asked_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert settings_to_train(load_settings().settings).verify == "off"
        assert settings_to_train(load_settings().settings, check_claims=True).verify == "tell"
        monkeypatch.setenv("VRAG_VERIFY", "tell")
        assert settings_to_train(load_settings().settings).verify == "tell"

    def test_a_judge_needs_a_server(self) -> None:
        with pytest.raises(SettingsError, match="gpt-9") as told:
            open_judge(load_settings(judge_model="gpt-9").settings)
        assert open_judge(load_settings(judge_model="gpt-9").settings, exact=True) == RulesJudge(exact=True)
        assert "VRAG_JUDGE_URL" in (told.value.hint or "")

    def test_a_judge_has_its_own_server_and_key(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Those of the agent go to the agent's server, and nowhere else."""
        monkeypatch.setenv("VRAG_JUDGE_KEY", "secret-of-the-judge")
        monkeypatch.setenv("VRAG_MODEL_KEY", "secret-of-the-model")
        settings = load_settings(
            model="reader", base_url="http://reader.invalid/v1", judge_model="gpt-9",
            judge_url="http://judge.invalid/v1", judge_cache=str(tmp_path / "verdicts"),
        ).settings  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            seen: list[Settings] = []

            def noted(asked: Settings) -> OpenAIChat:
                seen.append(asked)
                return open_chat(asked)

            patch.setattr("vrag.factory.models.open_chat", noted)
            judge = open_judge(settings)
        assert isinstance(judge, CachedJudge)
        (asked,) = seen
        assert (asked.model, asked.base_url) == ("gpt-9", "http://judge.invalid/v1")
        assert asked.key("model_key") == "secret-of-the-judge"

    def test_short_answers_are_made_by_the_model_of_the_judge_and_by_nobody_else(
        self, tmp_path: Path
    ) -> None:
        named = load_settings(judge_model="gpt-9", judge_url="http://judge.invalid/v1").settings
        assert open_extractor(named, beside=tmp_path).identity.startswith("gpt-9:")
        assert open_judge(named, beside=tmp_path).identity.startswith("endpoint:gpt-9:")
        assert [path.name for path in tmp_path.iterdir()] == ["verdicts.sqlite"]
        with pytest.raises(SettingsError, match="needs a judge model") as told:
            open_extractor(load_settings().settings, beside=tmp_path)
        assert "VRAG_JUDGE_MODEL" in (told.value.hint or "")

    def test_the_reward_is_that_of_the_agent(self) -> None:
        linear, graph = (open_scorer(load_settings(agent=agent).settings) for agent in ("vrag", "vimrag"))
        assert (type(linear), linear.weights) == (CompositeReward, Weights())
        assert isinstance(graph, OutcomeReward)
        given = Weights(retrieval=0.3, answer=0.7, pattern=0.0)
        own = open_scorer(load_settings(agent="vimrag").settings, given)
        assert (type(own), own.weights) == (CompositeReward, given)

    def test_checkpoints_of_one_name_make_runs_of_their_own(self, tmp_path: Path) -> None:
        header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        agent, searcher = open_agent(load_settings().settings, tiny_corpus()), tiny_corpus()
        made: list[dict[str, object]] = []
        for weights in (b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\0"):
            folder = tmp_path / str(len(made)) / "model"
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + weights)
            made.append(made_with(load_settings(model=f"local:{folder}").settings, agent, searcher))
        assert made[0] == made[2] != made[1]
        assert "checkpoint" not in made_with(load_settings().settings, agent, searcher)
        assert made[0]["collection"] == searcher.version

    def test_a_part_that_is_not_installed_is_told_of(self) -> None:
        with pytest.raises(SettingsError, match="brevity"):
            open_scorer(load_settings().settings, parts=["brevity"])
        with pytest.raises(SettingsError, match="brevity"):
            open_scorer(
                load_settings().settings,
                Weights(retrieval=0.2, answer=0.7, pattern=0.0, extras={"brevity": 0.1}),
            )
