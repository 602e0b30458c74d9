"""Settings: the strongest source wins, each value knows where it came from, faults are named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import vrag
from vrag.errors import SettingsError
from vrag.providers import DASHSCOPE
from vrag.settings import Settings, change_settings, load_settings, unknown_variables

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.settings import Key


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_flag_beats_environment_beats_dotenv_beats_file_beats_default(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now(**flags: object) -> tuple[float, str]:
        report = load_settings(**flags)
        return report.settings.dpi, report.origins["dpi"]

    assert now() == (144, "default")
    (here / "vrag.toml").write_text("dpi = 100\n")
    assert now() == (100, "vrag.toml")
    (here / ".env").write_text("VRAG_DPI=110\nOTHER=1\n")
    assert now() == (110, ".env")
    monkeypatch.setenv("VRAG_DPI", "120")
    assert now() == (120, "environment")
    assert now(dpi=130) == (130, "flag")
    assert now(dpi=None) == (120, "environment")


def test_the_file_that_the_environment_names_is_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "mine.toml").write_text('collection = "/data/collection"\n')
    monkeypatch.setenv("VRAG_CONFIG", str(here / "mine.toml"))
    report = load_settings()
    assert str(report.settings.collection) == "/data/collection"
    assert report.file == here / "mine.toml"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("dpi = 5000", "'dpi' (vrag.toml)"),
        ('dpi = "high"', "'dpi' (vrag.toml)"),
        ("dpu = 5", "Unknown setting 'dpu' (vrag.toml)"),
        ("dpi = = 5", "cannot be read"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_fault_names_the_setting_and_its_origin(here: Path, text: str, fault: str) -> None:
    (here / "vrag.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert fault in str(error.value)


def test_a_missing_named_file_is_an_error(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_CONFIG", str(here / "none.toml"))
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings()


def test_settings_are_frozen_and_described() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().settings.dpi = 1  # pyright: ignore[reportAttributeAccessIssue]
    assert all(field.description for field in Settings.model_fields.values())


class TestCollections:
    def test_several_stand_in_the_environment_with_commas_between(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VRAG_COLLECTIONS", "a, s3://bucket/b")
        assert load_settings().settings.places == ("a", "s3://bucket/b")

    def test_one_that_is_named_with_more_weight_outweighs_several(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VRAG_COLLECTIONS", "a,b")
        assert load_settings(collection="c").settings.places == ("c",)
        monkeypatch.setenv("VRAG_COLLECTION", "d")
        assert load_settings().settings.places == ("a", "b")

    @pytest.mark.parametrize("flag", [{"collection": "c"}, {"collections": ("c",)}])
    def test_one_on_the_command_line_outweighs_a_search_server(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, flag: dict[str, Any]
    ) -> None:
        monkeypatch.setenv("VRAG_SEARCH_URL", "http://127.0.0.1:8001")
        report = load_settings(**flag)
        assert (report.settings.search_url, report.origins["search_url"]) == ("", "default")
        assert load_settings(**flag, search_url="http://other").settings.search_url == "http://other"
        monkeypatch.setenv("VRAG_COLLECTION", "d")
        assert load_settings().settings.search_url == "http://127.0.0.1:8001"

    def test_a_tilde_is_the_home_folder(self, own_settings: Path) -> None:
        assert load_settings(collection="~/x").settings.collection == str(own_settings / "x")


@pytest.mark.parametrize(
    ("name", "value"),
    [("tier", "foo"), ("device", "tpu"), ("dtype", "int3"), ("ranking", "words"), ("collection", "")],
)
def test_a_value_that_is_none_of_those_known_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"VRAG_{name.upper()}", value)
    with pytest.raises(SettingsError, match=name):
        load_settings()


def test_a_variable_that_is_no_setting_is_told_with_the_nearest_that_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert unknown_variables() == []
    monkeypatch.setenv("VRAG_EMBEDER", "x")
    monkeypatch.setenv("VRAG_DPI", "100")
    monkeypatch.setenv("VRAG_API_KEY", "x")
    (error,) = unknown_variables()
    assert error.message == "Unknown setting 'VRAG_EMBEDER'. Did you mean 'VRAG_EMBEDDER'?"


def test_a_key_is_not_shown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_EMBED_KEY", "geheim")
    assert "geheim" not in repr(load_settings())


class TestVariablesOfOtherPrograms:
    """Address and key of the model's server, as other programs name them."""

    def test_they_count_where_ours_are_not_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        report = load_settings(model="some-model")
        assert report.settings.base_url == "http://localhost:9/v1"
        assert report.settings.model_key.get_secret_value() == "sk-1"
        assert report.origins["model_key"] == "OPENAI_API_KEY"
        monkeypatch.setenv("VRAG_BASE_URL", "http://localhost:8/v1")
        monkeypatch.setenv("VRAG_MODEL_KEY", "mine")
        report = load_settings(model="some-model")
        assert report.settings.base_url == "http://localhost:8/v1"
        assert report.origins["base_url"] == "environment"
        assert report.settings.model_key.get_secret_value() == "mine"

    def test_a_key_for_dashscope_says_where_the_model_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-d")
        report = load_settings(model="qwen3.5-plus")
        assert report.settings.base_url == DASHSCOPE
        assert report.settings.model_key.get_secret_value() == "sk-d"
        assert load_settings().settings.base_url == ""
        elsewhere = load_settings(model="m", base_url="http://localhost:9/v1").settings
        assert elsewhere.model_key.get_secret_value() == ""

    @pytest.mark.parametrize("file", ["vrag.toml", ".env"])
    def test_a_key_does_not_follow_an_address_that_a_folder_brings_along(
        self, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        name, quote = ("VRAG_BASE_URL", "") if file == ".env" else ("base_url", '"')
        (tmp_path / file).write_text(f"{name} = {quote}http://evil.example/v1{quote}")
        report = load_settings(model="some-model")
        assert report.settings.base_url == "http://evil.example/v1"
        assert report.settings.model_key.get_secret_value() == ""


class TestKeysOfTheUser:
    """They go to an address that the user named, and not to one that came with a folder."""

    PLACES: ClassVar = [
        ("model_key", "base_url", "http://evil.example/v1"),
        ("search_key", "search_url", "http://evil.example/search"),
        ("embed_key", "embedder", "remote:m@http://evil.example/v1"),
    ]

    @staticmethod
    def brought(here: Path, file: str, **settings: str) -> None:
        """Writes settings into a file of the current folder."""
        form = "VRAG_{}={}\n" if file == ".env" else '{} = "{}"\n'
        lines = (form.format(n.upper() if file == ".env" else n, v) for n, v in settings.items())
        (here / file).write_text("".join(lines))

    @pytest.mark.parametrize("file", ["vrag.toml", ".env"])
    @pytest.mark.parametrize(("key", "place", "address"), PLACES)
    def test_one_is_not_sent_to_an_address_that_a_folder_brings_along(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, file: str, key: Key, place: str, address: str
    ) -> None:
        self.brought(here, file, **{place: address})
        monkeypatch.setenv(f"VRAG_{key.upper()}", "geheim")
        report = load_settings()
        assert getattr(report.settings, key).get_secret_value() == ""
        assert report.origins[key] == f"environment, withheld: {file} names the address"
        for settings in (report.settings, report.settings.model_copy(update={"dpi": 100.0})):
            with pytest.raises(
                SettingsError, match=re.escape(f"not sent to {address}: only {file}")
            ) as caught:
                settings.key(key)
            assert f"VRAG_{place.upper()}=" in caught.value.hint
            assert "geheim" not in str(caught.value)

    @pytest.mark.parametrize(("key", "place", "address"), PLACES)
    def test_it_is_sent_to_an_address_that_the_user_named(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, key: Key, place: str, address: str
    ) -> None:
        self.brought(here, ".env", **{place: address})
        monkeypatch.setenv(f"VRAG_{key.upper()}", "geheim")
        assert load_settings(**{place: address}).settings.key(key) == "geheim"
        monkeypatch.setenv(f"VRAG_{place.upper()}", address)
        assert load_settings().settings.key(key) == "geheim"

    @pytest.mark.parametrize(("key", "place", "address"), PLACES)
    def test_a_folders_own_key_goes_to_its_own_address(
        self, here: Path, key: Key, place: str, address: str
    ) -> None:
        self.brought(here, ".env", **{key: "its-own"})
        self.brought(here, "vrag.toml", **{place: address})
        assert load_settings().settings.key(key) == "its-own"

    def test_a_key_in_the_users_settings_file_is_the_users(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (here / "mine").mkdir()
        (here / "mine" / "own.toml").write_text('model_key = "geheim"\n')
        monkeypatch.setenv("VRAG_CONFIG", str(here / "mine" / "own.toml"))
        self.brought(here, ".env", base_url="http://evil.example/v1")
        with pytest.raises(SettingsError, match=r"own\.toml"):
            load_settings().settings.key("model_key")

    def test_a_model_in_this_process_needs_no_key_and_withholds_none(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.brought(here, ".env", embedder="sentence:some/model")
        monkeypatch.setenv("VRAG_EMBED_KEY", "geheim")
        assert load_settings().settings.key("embed_key") == "geheim"


def test_user_names_and_passwords_in_addresses_are_not_shown() -> None:
    with_password = "http://user:ge@heim@host:1/x"
    names = ("base_url", "search_url", "qdrant", "ray_address", "collection")
    given: dict[str, object] = dict.fromkeys(names, with_password)
    given |= {"embedder": f"remote:m@{with_password}", "collections": ("plain", with_password)}
    settings = load_settings(**given).settings
    assert "heim" not in settings.model_dump_json()
    shown = settings.model_dump(mode="json")
    assert shown["search_url"] == "http://***@host:1/x"
    assert shown["embedder"] == "remote:m@http://***@host:1/x"
    assert shown["collections"][0] == "plain"
    assert settings.model_dump()["search_url"] == with_password
    plain = load_settings(embedder="remote:m@http://host/v1", base_url="http://host/v1").settings
    assert plain.model_dump(mode="json")["embedder"] == "remote:m@http://host/v1"


@pytest.mark.parametrize("name", ["memory_tokens", "fresh_tokens"])
def test_fewer_visual_tokens_than_any_picture_takes_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="256"):
        load_settings(**{name: 255})
    assert getattr(load_settings(**{name: 256}).settings, name) == 256


def test_an_address_that_cannot_be_taken_apart_is_told_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VRAG_BASE_URL", "http://me:secret@[::1")
    with pytest.raises(SettingsError, match="base_url") as caught:
        load_settings()
    assert "http://localhost" in caught.value.hint
    assert "secret" not in str(caught.value)


def test_where_a_key_was_put_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VRAG_MODEL_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    flags = {"base_url": "http://localhost:1/v1"}
    assert load_settings(**flags).settings.key_place("model_key") == "OPENAI_API_KEY"
    (tmp_path / "vrag.toml").write_text('model_key = "k"')
    assert load_settings(**flags).settings.key_place("model_key") == "model_key in vrag.toml"
    monkeypatch.setenv("VRAG_MODEL_KEY", "mine")
    assert load_settings(**flags).settings.key_place("model_key") == "VRAG_MODEL_KEY"


class TestUnknownSettings:
    """One sentence for all places: the name, where it is, and the nearest setting."""

    def test_a_keyword_of_python(self) -> None:
        with pytest.raises(SettingsError) as caught:
            vrag.open(modle="x")
        assert caught.value.message == "Unknown setting 'modle'. Did you mean 'model'?"

    def test_a_line_of_a_settings_file(self, here: Path) -> None:
        (here / "vrag.toml").write_text('modle = "x"\n')
        with pytest.raises(SettingsError, match=r"'modle' \(vrag\.toml\)\. Did you mean 'model'\?"):
            load_settings()

    def test_variables_of_the_environment_and_of_a_file(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VRAG_MODLE", "x")
        (here / ".env").write_text("VRAG_AGNET=vrag\nOTHER_MODLE=1\n")
        assert [error.message for error in unknown_variables()] == [
            "Unknown setting 'VRAG_AGNET' (.env). Did you mean 'VRAG_AGENT'?",
            "Unknown setting 'VRAG_MODLE'. Did you mean 'VRAG_MODEL'?",
        ]

    def test_a_name_like_none_has_no_suggestion(self) -> None:
        with pytest.raises(SettingsError, match=r"^Unknown setting 'zzzzzz'\. `vrag config show`"):
            load_settings(zzzzzz=1)


@pytest.mark.parametrize("name", ["base_url", "search_url", "judge_url"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("127.0.0.1:8001", "http://127.0.0.1:8001"),
        ("localhost:8001/v1", "http://localhost:8001/v1"),
        (":8001", "http://127.0.0.1:8001"),
        ("https://example.org/v1", "https://example.org/v1"),
    ],
)
def test_an_address_of_a_server_needs_no_scheme(
    monkeypatch: pytest.MonkeyPatch, name: str, written: str, meant: str
) -> None:
    assert getattr(load_settings(**{name: written}).settings, name) == meant
    monkeypatch.setenv(f"VRAG_{name.upper()}", written)
    assert getattr(load_settings().settings, name) == meant


def test_other_settings_are_checked_and_completed_as_the_first_ones_were() -> None:
    report = load_settings(model="ollama:a", agent="rag", dpi=100)
    changed = change_settings(report.settings, report.origins, model="lmstudio:b", agent="vimrag")
    assert (changed.model, changed.base_url) == ("b", "http://localhost:1234/v1")
    assert (changed.agent, changed.dpi) == ("vimrag", 100)
    without_model = change_settings(report.settings, report.origins, model="")
    assert (without_model.model, without_model.base_url) == ("", "")
    own = load_settings(model="a", base_url=":1/v1")
    assert change_settings(own.settings, own.origins, model="b").base_url == "http://127.0.0.1:1/v1"
    assert change_settings(own.settings, own.origins, model=None) == own.settings
    with pytest.raises(SettingsError, match="agent"):
        change_settings(report.settings, report.origins, agent="nobody")
