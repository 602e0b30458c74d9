"""Files of benchmarks come from a hub on this machine into its cache, or it is said what to do instead."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from extras import require
from hub_server import REVISION, HubServer
from typer.testing import CliRunner

from vrag.cli.eval import app
from vrag.datasets.own import DatasetJson
from vrag.datasets.protocols import Hub
from vrag.datasets.registry import BENCHMARKS
from vrag.datasets.squad import SQuAD
from vrag.errors import CaseError, MissingExtra
from vrag.evaluation.prepare import fetch, hub_repository, is_on_hub

if TYPE_CHECKING:
    from pathlib import Path

REPO = "somebody/questions"
ROW = {
    "uid": "0",
    "query": "How many passengers?",
    "reference_answer": "48,200",
    "meta_info": {"file_name": "note.md"},
}
FILES = {
    "rag_dataset.json": json.dumps({"examples": [ROW]}).encode(),
    "pdf/note.md": b"48,200 passengers.\n",
    "pdf/video.mp4": b"\0" * 1000,
    "README.md": b"nobody reads it",
}
PATTERNS = ("rag_dataset.json", "pdf/*.md")


def published(*files: str) -> DatasetJson:
    """A benchmark that is on a hub."""
    benchmark = DatasetJson()
    benchmark.hub = Hub(repo=REPO, files=files or PATTERNS)
    return benchmark


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and nobody's token; what the client reads from the environment when it is imported."""
    require("models", "huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "*")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "hub"


def pointed_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        url + "/{repo_id}/resolve/{revision}/{filename}",
    )


def no_sleep(_: float) -> None:
    """The client waits a second before it tries again."""


def test_the_files_that_are_read_come_once_and_no_other(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HubServer(REPO, FILES) as hub:
        pointed_at(hub.url, monkeypatch)
        folder = fetch(published())
        assert fetch(published()) == folder

    assert sorted(hub.sent) == ["pdf/note.md", "rag_dataset.json"]
    assert folder.is_relative_to(cache)
    assert folder.name == REVISION
    (case,) = published().open(folder).cases
    assert case.query == "How many passengers?"


def test_what_came_before_is_used_where_the_hub_is_not(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HubServer(REPO, FILES) as hub:
        pointed_at(hub.url, monkeypatch)
        folder = fetch(published())
    assert fetch(published()) == folder  # nobody listens any more

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert fetch(published()) == folder
    with pytest.raises(CaseError, match=r"not fetched completely.*HF_HUB_OFFLINE.*dataset=FOLDER"):
        fetch(published("*"))


def test_offline_nothing_is_asked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with HubServer(REPO, FILES) as hub:
        pointed_at(hub.url, monkeypatch)
        with pytest.raises(CaseError, match=r"Unset HF_HUB_OFFLINE.*dataset=FOLDER"):
            fetch(published())
    assert hub.asked == 0


def test_terms_are_to_be_agreed_to_and_a_token_opens(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HubServer(REPO, FILES, token="hf_mine") as hub:
        pointed_at(hub.url, monkeypatch)
        with pytest.raises(CaseError, match=rf"terms.*Agree to them at {hub.url}/datasets/{REPO}.*=FOLDER"):
            fetch(published())
        assert not hub.sent

        monkeypatch.setenv("HF_TOKEN", "hf_mine")
        assert (fetch(published()) / "pdf" / "note.md").read_bytes() == FILES["pdf/note.md"]


def test_terms_are_to_be_agreed_to_by_who_is_known_too(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    with HubServer(REPO, FILES, token="hf_mine") as hub:
        pointed_at(hub.url, monkeypatch)
        with pytest.raises(CaseError, match=r"terms.*Agree to them at"):
            fetch(published())


def test_a_data_set_that_is_not_shown_may_be_somebodys(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HubServer(REPO, FILES, token="hf_mine", private=True) as hub:
        pointed_at(hub.url, monkeypatch)
        with pytest.raises(CaseError, match=r"no data set.*or does not show it to you.*auth login"):
            fetch(published())
        monkeypatch.setenv("HF_TOKEN", "hf_mine")
        assert (fetch(published()) / "pdf" / "note.md").is_file()


def test_large_files_come_from_where_the_hub_sends_for_them(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HubServer(REPO, FILES, large={"pdf/video.mp4"}) as hub:
        pointed_at(hub.url, monkeypatch)
        folder = fetch(published("pdf/*.mp4"))
        assert fetch(published("pdf/*.mp4")) == folder

    assert (folder / "pdf" / "video.mp4").read_bytes() == FILES["pdf/video.mp4"]
    assert hub.sent == ["pdf/video.mp4"]


def test_what_breaks_off_goes_on_where_it_stopped(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", no_sleep)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100)
    with HubServer(REPO, FILES, large={"pdf/video.mp4"}) as hub:
        pointed_at(hub.url, monkeypatch)
        hub.cuts["pdf/video.mp4"] = [400, 0, 550]
        folder = fetch(published("pdf/*.mp4"))

    assert (folder / "pdf" / "video.mp4").read_bytes() == FILES["pdf/video.mp4"]
    assert hub.begun["pdf/video.mp4"] == [0, 400, 400, 900]


def test_what_breaks_off_for_good_is_told_and_the_next_time_the_rest_comes(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", no_sleep)
    with HubServer(REPO, FILES) as hub:
        pointed_at(hub.url, monkeypatch)
        hub.cuts["pdf/note.md"] = [0] * 100
        with pytest.raises(CaseError, match=r"could not be fetched.*the same command continues.*=FOLDER"):
            fetch(published())
        assert hub.sent.count("rag_dataset.json") == 1

        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(CaseError, match="not fetched completely"):
            fetch(published())  # half a data set is none

        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        hub.cuts.clear()
        folder = fetch(published())

    assert (folder / "pdf" / "note.md").read_bytes() == FILES["pdf/note.md"]
    assert hub.sent.count("rag_dataset.json") == 1


def test_a_hub_that_fails_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HubServer("another/one", FILES) as hub:
        pointed_at(hub.url, monkeypatch)
        with pytest.raises(CaseError, match=r"no data set somebody/questions.*auth login.*=FOLDER"):
            fetch(published())
    with pytest.raises(CaseError, match=r"could not be fetched: .*is reachable.*=FOLDER"):
        fetch(published())  # nobody listens any more


def test_files_that_moved_are_missed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HubServer(REPO, FILES) as hub:
        pointed_at(hub.url, monkeypatch)
        with pytest.raises(CaseError, match=r"none of the files data/\*\.parquet.*moved"):
            fetch(published("data/*.parquet"))


def test_without_the_client_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"vrag-agent\[models\]"):
        fetch(SQuAD())


@pytest.mark.parametrize("name", [name for name, one in BENCHMARKS.items() if not is_on_hub(one)])
def test_what_is_on_no_hub_is_refused_with_what_to_do(name: str) -> None:
    benchmark = BENCHMARKS[name]
    with pytest.raises(CaseError) as refused:
        fetch(benchmark)
    assert benchmark.hub.note in refused.value.hint
    assert f"{name}=FOLDER" in refused.value.hint


def test_a_split_that_would_not_come_is_refused_first() -> None:
    assert hub_repository(SQuAD(), "dev-v2.0") == hub_repository(SQuAD()) == "rajpurkar/squad_v2"
    with pytest.raises(
        CaseError, match=r"dev-v2\.0 alone is fetched, not 'dev-v1\.1'.*squad:dev-v1\.1=FOLDER"
    ):
        hub_repository(SQuAD(), "dev-v1.1")
    assert hub_repository(BENCHMARKS["vidore_v3"], "french")
    assert hub_repository(BENCHMARKS["hotpotqa"], "fullwiki")
    with pytest.raises(CaseError, match=r"distractor, fullwiki alone .*hotpotqa:train=FOLDER"):
        hub_repository(BENCHMARKS["hotpotqa"], "train")


def test_those_on_a_hub_are_the_others() -> None:
    assert {name for name, one in BENCHMARKS.items() if not is_on_hub(one)} == {
        "webqa",
        "m3docvqa",
        "dataset",
    }


@dataclass
class Fetching:
    """Stands for the hub: tells what was fetched."""

    folder: Path
    names: list[str]

    def __call__(self, benchmark: DatasetJson) -> Path:
        self.names.append(benchmark.name)
        return self.folder


def test_the_command_fetches_what_has_no_folder_but_nothing_before_all_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, data in FILES.items():
        (tmp_path / "at" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "at" / name).write_bytes(data)
    fetching = Fetching(tmp_path / "at", [])
    monkeypatch.setattr("vrag.cli.eval.prepare.fetch", fetching)
    monkeypatch.setattr("vrag.datasets.registry.BENCHMARKS", {**BENCHMARKS, "dataset": published()})

    def invoked(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["prepare", *words, "--out", str(tmp_path / "out")])
        return done.exit_code, done.output + str(done.exception or "")

    assert "not on the hub" in invoked("dataset", "webqa")[1]
    assert "alone is fetched" in invoked("dataset", "slidevqa:dev")[1]
    assert invoked("dataset=")[0] == 2
    assert invoked("=x")[0] == 2
    assert not fetching.names
    code, told = invoked("dataset", "--json")
    assert code == 0, told
    assert json.loads(told)["benchmarks"][0]["source"] == str(tmp_path / "at")
    assert fetching.names == ["dataset"]


def test_vidoseek_is_prepared_without_a_hand(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its PDFs are in an archive on the hub, which stays one: in the cache, and everywhere else."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name in ("ferry.pdf", "harbour.pdf"):
            made.writestr(f"vidoseek_pdf_document/{name}", name)
    row = ROW | {"meta_info": {"file_name": "ferry.pdf", "reference_page": [3]}}
    files = {
        "vidoseek.json": json.dumps({"examples": [row]}).encode(),
        "vidoseek_pdf_document.zip": packed.getvalue(),
        "slidevqa_pdf_document.zip": b"not asked for",
    }
    with HubServer("autumncc/ViDoSeek", files, large=["vidoseek_pdf_document.zip"]) as hub:
        pointed_at(hub.url, monkeypatch)
        done = CliRunner().invoke(app, ["prepare", "vidoseek", "--out", str(tmp_path / "out")])

    assert done.exit_code == 0, done.output
    documents = tmp_path / "out" / "documents"
    assert {path.name: path.read_text() for path in documents.iterdir()} == {
        "ferry.pdf": "ferry.pdf",
        "harbour.pdf": "harbour.pdf",
    }
    assert sorted(hub.sent) == ["vidoseek.json", "vidoseek_pdf_document.zip"]
    assert not [path for path in cache.rglob("*") if path.suffix == ".pdf"]


PROCESS = """
from vrag.datasets.protocols import Hub
from vrag.datasets.own import DatasetJson
from vrag.evaluation.prepare import fetch
benchmark = DatasetJson()
benchmark.hub = Hub(repo="somebody/questions", files=("pdf/*.md",))
print(fetch(benchmark))
"""


@pytest.mark.slow
def test_the_environment_counts(tmp_path: Path) -> None:
    """In a process of its own: the client reads it when it is imported."""
    require("models", "huggingface_hub")
    with HubServer(REPO, FILES, token="hf_mine") as hub:
        told = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_mine", "HF_HOME": str(tmp_path), "NO_PROXY": "*"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        line = [sys.executable, "-c", PROCESS]
        done = subprocess.run(line, env=kept | told, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        asked = hub.asked
        offline = kept | told | {"HF_HUB_OFFLINE": "1"}
        again = subprocess.run(line, env=offline, capture_output=True, text=True, check=False, timeout=60)
    assert (
        again.stdout == done.stdout == f"{tmp_path}/hub/datasets--somebody--questions/snapshots/{REVISION}\n"
    )
    assert hub.asked == asked
