"""Checks of environment, settings, collections and search servers, and how checks are run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from extras import require
from question_answering_models import write_checkpoint
from server_harness import serving

from vrag.corpus.workers.sandbox import Protection
from vrag.doctor import Check, CheckStatus, DoctorOptions, examine_all
from vrag.doctor import environment as env
from vrag.doctor.check import CheckStep, examine_steps, run_check
from vrag.errors import CollectionError, SettingsError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.samples import corpus_dir
from vrag.settings import load_settings
from vrag.testing import MemorySearcher, tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL.Image import Image

    from vrag.geometry import Size

ROOT = Path(__file__).parents[2]


def looked_at(**flags: Any) -> dict[str, Check]:  # noqa: ANN401
    return {check.name: check for check in examine_all(load_settings(**flags), DoctorOptions())}


def found(status: CheckStatus, message: str = "it is so") -> Callable[[], Check]:
    return lambda: Check("", status, message)


def raises(error: BaseException) -> Callable[[], Check]:
    def probe() -> Check:
        raise error

    return probe


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of one sample document."""
    place = tmp_path_factory.mktemp("doctor") / "collection"
    document = next(path for path in sorted(corpus_dir().iterdir()) if path.suffix == ".pdf")
    add(Collection.create(place), [document])
    return place


# How checks are run


def test_an_error_of_ours_is_a_failed_check_with_its_hint() -> None:
    check = run_check("disk", raises(CollectionError("It is gone.", "Make one.")), 5)
    assert (check.name, check.status, check.message, check.hint) == (
        "disk", CheckStatus.FAILED, "It is gone.", "Make one."
    )  # fmt: skip


def test_an_error_without_a_hint_gets_that_of_the_check() -> None:
    assert run_check("disk", raises(CollectionError("It is gone.")), 5, "Look there.").hint == "Look there."
    assert run_check("disk", found(CheckStatus.OK), 5, "Look there.").hint == ""


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), RuntimeError(), MemoryError("much")])
def test_a_check_that_breaks_is_a_failed_check(error: Exception) -> None:
    check = run_check("disk", raises(error), 5)
    assert check.status is CheckStatus.FAILED
    assert type(error).__name__ in check.message
    assert "--json" in check.hint


def test_a_check_that_hangs_is_left_behind() -> None:
    done = threading.Event()

    def probe() -> Check:
        done.wait(30)
        return Check("", CheckStatus.OK, "at last")

    start = time.monotonic()
    check = run_check("disk", probe, 0.2)
    done.set()
    assert time.monotonic() - start < 5
    assert (check.status, check.message) == (CheckStatus.FAILED, "No result within 0.2 s.")
    assert check.seconds >= 0.2


def test_checks_that_are_stopped_end_with_the_one_that_runs() -> None:
    stop, go = threading.Event(), threading.Event()

    def probe() -> Check:
        stop.set()
        assert go.wait(30)
        return Check("", CheckStatus.OK, "late")

    steps = [CheckStep("first", probe), CheckStep("second", found(CheckStatus.OK))]
    checks = list(examine_steps(steps, 600, stop))
    go.set()
    assert [(check.name, check.status) for check in checks] == [("first", CheckStatus.FAILED)]


def test_what_stands_on_a_failed_check_is_skipped_and_nothing_else() -> None:
    steps = [
        CheckStep("a", raises(ValueError("x"))),
        CheckStep("b", found(CheckStatus.OK), "a"),
        CheckStep("c", found(CheckStatus.OK), "b"),
        CheckStep("d", found(CheckStatus.WARNING)),
        CheckStep("e", found(CheckStatus.OK), "d"),
        CheckStep("f", found(CheckStatus.SKIPPED)),
        CheckStep("g", found(CheckStatus.OK), "f"),
    ]
    assert {check.name: check.status.value for check in examine_steps(steps, 5)} == {
        "a": "failed", "b": "skipped", "c": "skipped", "d": "warning", "e": "ok", "f": "skipped", "g": "ok"
    }  # fmt: skip


def test_a_model_that_cannot_be_opened_hides_no_other_check(tmp_path: Path) -> None:
    checks = looked_at(model=f"local:{tmp_path / 'nothing'}", collection=str(tmp_path / "none"))
    assert {checks[name].status for name in ("model", "collection")} == {CheckStatus.FAILED}
    assert checks["python"].status is CheckStatus.OK


def test_every_failure_and_warning_says_what_to_do(tmp_path: Path) -> None:
    checks = looked_at(
        model="m",
        base_url="http://127.0.0.1:1/v1",
        search_url="http://127.0.0.1:1",
        collection=str(tmp_path / "none"),
        device="cuda:7",
        embedder="bge-m3",
    )
    bad = {
        name: check
        for name, check in checks.items()
        if check.status in {CheckStatus.FAILED, CheckStatus.WARNING}
    }
    assert {"endpoint", "collection", "accelerator", "search server"} <= bad.keys()
    assert all(check.hint for check in bad.values())


def test_settings_that_cannot_be_used_fail_and_the_environment_is_looked_at_still() -> None:
    error = SettingsError("The setting 'dpi' (environment) cannot be used.")
    checks = {check.name: check for check in examine_all(error, DoctorOptions())}
    assert (checks["settings"].status, checks["settings"].message) == (CheckStatus.FAILED, error.message)
    assert checks["settings"].hint
    assert checks["python"].status is CheckStatus.OK
    assert "collection" not in checks


# The environment


def test_every_extra_of_the_package_is_looked_at() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra.name for extra in env.EXTRAS} == set(extras)
    for extra in env.EXTRAS:
        brought = {re.split(r"[\[<>=]", requirement)[0] for requirement in extras[extra.name]}
        assert set(extra.packages.values()) == brought


def test_an_absent_extra_is_skipped_with_what_it_means_and_how_to_get_it() -> None:
    check = env.check_extra(env.Extra("video", {"no_such_module": "no-such"}, "videos cannot be read"))
    assert (check.status, check.message) == (CheckStatus.SKIPPED, "Not installed: videos cannot be read.")
    assert "pip install 'vrag-agent[video]'" in check.hint


@pytest.mark.parametrize("module", ["no_such_parent.part", "json.no_such_part", "json.no_such_part.deeper"])
def test_an_extra_of_which_the_parent_package_is_absent_is_skipped(module: str) -> None:
    """fastapi brings `opentelemetry-api` and with it the parent of the exporters, but not the exporters."""
    assert env.check_extra(env.Extra("otel", {module: "no-such"}, "no traces")).status is CheckStatus.SKIPPED


def test_a_missing_package_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ["numpy>=2", "no-such-package>=1", "x>=1; extra == 'y'"]

    def requires(distribution: str) -> list[str]:
        return needs

    monkeypatch.setattr(env, "requires", requires)
    check = env.check_packages()
    assert (check.status, check.message) == (CheckStatus.FAILED, "Missing: no-such-package.")


def test_an_old_python_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "MIN_PYTHON", (99, 1))
    check = env.check_python()
    assert (check.status, check.hint) == (CheckStatus.FAILED, "Install Python 99.1 or newer.")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_other_systems_than_linux_are_told_where_their_limits_stand(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env.sys, "platform", platform)
    check = env.check_python()
    assert check.status is CheckStatus.OK
    assert ("docs/platforms.md" in check.message) is (platform != "linux")


def test_a_process_that_stays_root_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "There is no user nobody: the process stays root, without capabilities."
    for protection, status, hint in (
        (Protection(7, seccomp=True, user="nobody"), CheckStatus.OK, ""),
        (Protection(7, seccomp=True, missing=(reason,)), CheckStatus.WARNING, "VRAG_PARSE_USER"),
        (Protection(missing=("There is no Landlock.", reason)), CheckStatus.WARNING, "threats.md"),
    ):
        monkeypatch.setattr(env, "start_worker", lambda protection=protection: protection)
        check = env.check_sandbox()
        assert check.status is status
        assert hint in check.hint
        assert all(sentence in check.message for sentence in protection.missing)


def test_without_libreoffice_a_warning_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("vrag.corpus.formats.office.PLACES", ())
    check = env.check_office()
    assert check.status is CheckStatus.WARNING
    assert "apt install libreoffice" in check.hint


@pytest.mark.parametrize("missing", [(), ("Carlito",), ("libsmlo.so", "Caladea")])
def test_formulas_and_fonts_of_office_documents_are_looked_for(
    missing: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, fonts = tmp_path / "program", tmp_path / "share" / "fonts" / "truetype"
    program.mkdir()
    fonts.mkdir(parents=True)
    for folder, name in ((program, "libsmlo.so"), (fonts, "Carlito-Regular.ttf"), (fonts, "Caladea.ttf")):
        if not name.startswith(missing):
            (folder / name).touch()
    (fonts / "LiberationSans-Regular.ttf").touch()
    (program / "soffice").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program))
    monkeypatch.setattr(env, "list_fonts", lambda: "dejavu sans")

    check = env.check_office()

    assert check.status is (CheckStatus.WARNING if missing else CheckStatus.OK)
    assert len(check.details["missing"]) == len(missing)
    assert all(package in check.hint for package in check.details["missing"])


def test_missing_models_of_ocr_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env.check_ocr().status is CheckStatus.OK
    monkeypatch.setattr("vrag.corpus.ocr.MODELS", {"Det.model_path": "gone.onnx"})
    check = env.check_ocr()
    assert (check.status, "gone.onnx" in check.message) == (CheckStatus.FAILED, True)


@pytest.mark.parametrize(("free", "status"), [(1e8, "failed"), (1e9, "warning"), (1e10, "ok")])
def test_little_room_is_warned_of(
    free: float, status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def usage(path: Path) -> SimpleNamespace:
        assert path == tmp_path
        return SimpleNamespace(free=int(free), total=int(2e11))

    monkeypatch.setattr("shutil.disk_usage", usage)
    check = env.check_disk(tmp_path / "not" / "there" / "yet")
    assert (check.status, check.details["free_bytes"]) == (status, int(free))


@pytest.mark.slow
def test_torch_is_not_imported_where_nothing_needs_it(tmp_path: Path) -> None:
    code = (
        "import sys; from vrag.doctor import *; from vrag.settings import load_settings\n"
        "checks = list(examine_all(load_settings(), DoctorOptions()))\n"
        "print([c.status.value for c in checks if c.name == 'accelerator'], 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.strip() == "['skipped'] False"


def test_a_device_that_is_asked_for_is_opened() -> None:
    require("models", "torch")
    assert looked_at(device="cpu")["accelerator"].message == "Models run on cpu in float32."


@pytest.mark.parametrize(("embedder", "needed"), [("remote:m@localhost:1", False), ("bge-m3", True)])
def test_an_embedder_on_a_server_needs_no_device(
    monkeypatch: pytest.MonkeyPatch, embedder: str, needed: bool
) -> None:
    seen: list[bool] = []

    def look(_: object, *, needed: bool) -> Check:
        seen.append(needed)
        return Check("", CheckStatus.SKIPPED, "nothing")

    monkeypatch.setattr(env, "check_accelerator", look)
    report = load_settings()
    settings = report.settings.model_copy(update={"embedder": embedder})
    for _ in examine_all(replace(report, settings=settings), DoctorOptions(local_servers=())):
        pass
    assert seen == [needed]


# Settings and what is searched


def test_settings_are_told_with_their_origin_and_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_DPI", "96")
    monkeypatch.setenv("VRAG_MODEL_KEY", "sk-secret")
    check = looked_at(padding=4.0)["settings"]
    assert check.status is CheckStatus.OK
    assert check.details["dpi"] == {"value": 96.0, "origin": "environment"}
    assert check.details["padding"] == {"value": 4.0, "origin": "flag"}
    assert "sk-secret" not in json.dumps(check.details) + check.message


def test_a_password_in_an_address_is_not_told() -> None:
    checks = looked_at(search_url="http://user:geheim@localhost:1/search")
    assert checks["search server"].status is CheckStatus.FAILED
    assert "geheim" not in " ".join(map(str, checks.values()))


def test_a_search_server_that_a_folder_names_is_not_sent_the_users_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VRAG_SEARCH_KEY", "geheim")
    (tmp_path / "vrag.toml").write_text('search_url = "http://evil.example/search"\n')
    checks = looked_at()
    assert checks["settings"].details["search_key"]["origin"].endswith("vrag.toml names the address")
    check = checks["search server"]
    assert (check.status, "VRAG_SEARCH_URL" in check.hint) == (CheckStatus.FAILED, True)


def test_a_variable_that_is_no_setting_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAG_MODLE", "x")
    check = looked_at()["settings"]
    assert check.status is CheckStatus.WARNING
    assert "Unknown setting 'VRAG_MODLE'. Did you mean 'VRAG_MODEL'?" in check.message


def test_no_collection_yet_is_a_warning_and_a_named_one_that_is_missing_a_failure(tmp_path: Path) -> None:
    fresh, named = looked_at()["collection"], looked_at(collection=str(tmp_path / "none"))["collection"]
    assert (fresh.status, fresh.hint) == (CheckStatus.WARNING, "Make one: vrag index add PATH")
    assert named.status == CheckStatus.FAILED
    assert named.hint.startswith("Create one: vrag index add PATH --collection /")


def test_a_good_collection_passes(filled: Path) -> None:
    checks = looked_at(collection=str(filled))
    assert checks["collection"].status is CheckStatus.OK
    assert checks["collection"].details["documents"] == 1
    assert checks["collection"].details["items"] > 0
    assert (checks["embedder"].status, checks["disk"].status) == (CheckStatus.SKIPPED, CheckStatus.OK)


def test_several_collections_are_looked_at_one_by_one(filled: Path, tmp_path: Path) -> None:
    Collection.create(tmp_path / "empty")
    checks = looked_at(collections=(str(filled), str(tmp_path / "empty"), str(tmp_path / "none")))
    assert [checks[f"collection {n}"].status.value for n in (1, 2, 3)] == ["ok", "warning", "failed"]
    assert checks["embedder 3"].status is CheckStatus.SKIPPED


def test_a_damaged_picture_fails(filled: Path) -> None:
    collection = Collection.open(filled)
    for name in collection.store.named_blobs():
        collection.store.blobs.path(name).write_bytes(b"no picture")
    check = looked_at(collection=str(filled))["collection"]
    assert (check.status, "is damaged" in check.message) == (CheckStatus.FAILED, True)


def test_a_damaged_header_fails(tmp_path: Path) -> None:
    Collection.create(tmp_path / "collection")
    (tmp_path / "collection" / "collection.db").write_bytes(b"x" * 5000)
    check = looked_at(collection=str(tmp_path / "collection"))["collection"]
    assert (check.status, "damaged" in check.message) == (CheckStatus.FAILED, True)


def test_a_search_server_is_asked_and_no_collection_is_wanted_beside_it() -> None:
    with serving() as url:
        checks = looked_at(search_url=url)
    assert checks["search server"].status is CheckStatus.OK, checks["search server"]
    assert checks["search server"].details["hits"] > 1
    assert "collection" not in checks


def test_a_search_server_that_finds_nothing_passes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrag.doctor.environment.COMMON_WORDS", "xyzzy")
    with serving() as url:
        check = looked_at(search_url=url)["search server"]
    assert check.status is CheckStatus.OK
    assert "does not find even common words" in check.message


def test_a_search_server_whose_pictures_cannot_be_had_fails() -> None:
    class Blind(MemorySearcher):
        def image(self, id: str, *, least: Size | None = None) -> Image:
            raise CollectionError("The picture is gone.")

    with serving(Blind(tiny_corpus().items)) as url:
        check = looked_at(search_url=url)["search server"]
    assert check.status is CheckStatus.FAILED
    assert check.hint


def test_a_search_server_that_is_gone_fails_with_how_to_start_it() -> None:
    check = looked_at(search_url="http://127.0.0.1:1")["search server"]
    assert (check.status, "vrag serve" in check.hint) == (CheckStatus.FAILED, True)


@pytest.mark.slow
def test_a_pretrained_reader_is_loaded_and_reads(tmp_path: Path) -> None:
    require("models", "torch", "transformers")
    folder = str(write_checkpoint(tmp_path, "Bert"))
    check = looked_at(reader=folder, device="cpu")["reader"]
    assert (check.status, check.details["reader"]) == (CheckStatus.OK, folder)
    assert "reader" not in looked_at()


def test_a_pretrained_reader_that_cannot_be_used_fails(tmp_path: Path) -> None:
    check = looked_at(reader=str(tmp_path / "none"))["reader"]
    assert check.status is CheckStatus.FAILED
    assert "VRAG_READER" in check.hint


def test_an_action_that_is_not_installed_fails() -> None:
    check = looked_at(actions=("no-such-action",))["actions"]
    assert check.status is CheckStatus.FAILED
    assert "no-such-action" in check.message
    assert "Install the package" in check.hint
    assert "actions" not in looked_at()
