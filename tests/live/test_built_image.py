"""The image, run as compose.yaml runs it: `make image-check` builds it and passes these tests.

They start real containers and take some minutes. Without `VRAG_IMAGE` they are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from container_engine import IMAGE, TOKEN, Container, engine, inspect, run_once, service, volume

from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not IMAGE, reason="no image is named: make image-check")

NAME = f"vrag-check-{os.getpid()}"
SLIDES = "guillemot-slides.pdf"
QUESTION = "When is the first crossing of the Guillemot from Orla to Saltby planned?"
ANSWER = "3 May 2027"
READ_SECONDS = 300


@pytest.fixture(scope="module")
def data() -> Generator[str]:
    with volume(NAME) as name:
        yield name


@pytest.fixture(scope="module")
def container(data: str) -> Generator[Container]:
    with service(NAME, f"--volume={data}:/data") as running:
        yield running


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A folder of documents that everybody may read, as most are."""
    folder = tmp_path / "documents"
    folder.mkdir()
    shutil.copy(corpus_dir() / SLIDES, folder)
    folder.chmod(0o755)
    (folder / SLIDES).chmod(0o644)
    return folder


def upload(container: Container) -> None:
    """Upload the slides and wait until they are read."""
    with container.client as client:
        content = (corpus_dir() / SLIDES).read_bytes()
        job = client.put(f"/collections/documents/documents/{SLIDES}", content=content)
        assert job.status_code == 202, job.text
        deadline = time.monotonic() + READ_SECONDS
        while (state := client.get(f"/jobs/{job.json()['id']}").json())["state"] in {"waiting", "running"}:
            assert time.monotonic() < deadline, state
            time.sleep(0.5)
    assert state["state"] == "finished", state


def ask(container: Container) -> str:
    """Ask the question. Returns the events of the run."""
    with container.client as client:
        run = client.post("/runs", json={"question": QUESTION})
        assert run.status_code == 201, run.text
        return client.get(f"/runs/{run.json()['id']}/events").text


def test_it_does_not_start_without_a_token() -> None:
    done = run_once()
    assert done.returncode == 2
    assert "Set VRAG_API_KEY" in done.stderr


def test_the_process_has_no_privileges_and_writes_to_its_volume_alone(container: Container) -> None:
    status = container.execute("cat", "/proc/self/status").stdout
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split()[0] == "10001"
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    for path, writable in {"/data/x": True, "/tmp/x": True, "/opt/vrag/x": False, "/x": False}.items():
        assert (container.execute("python", "-c", f"open({path!r}, 'w')").returncode == 0) == writable, path


def test_the_image_tells_an_engine_when_it_is_healthy(container: Container) -> None:
    image = inspect("image", IMAGE)  # docker and podman differ in where they list it
    kind, *command = (image.get("Healthcheck") or image["Config"]["Healthcheck"])["Test"]
    assert kind == "CMD"
    done = container.execute(*command)
    assert done.returncode == 0, done.stderr


def test_a_document_is_uploaded_asked_about_and_there_after_a_restart(container: Container) -> None:
    upload(container)
    assert ANSWER in ask(container)
    with container.client as client:
        assert "<html" in client.get("/").text
        assert client.get("/runs", headers={"Authorization": "Bearer wrong"}).status_code == 401

    assert container.stop() == 0
    log = [json.loads(line) for line in container.logs().splitlines()]
    assert [line["message"] for line in log if line["logger"] == "vrag.runs"] == ["started", "ended"]
    assert TOKEN not in str(log)
    assert QUESTION not in str(log)

    container.start()
    assert ANSWER in ask(container)
    with container.client as client:
        assert len(client.get("/runs").json()["runs"]) == 2


def test_any_user_of_group_0_runs_it() -> None:
    """As OpenShift does: it chooses a number of its own for each project."""
    with volume(f"{NAME}-any") as data, service(
        f"{NAME}-any", f"--volume={data}:/data", "--user=1000650000:0"
    ) as container:  # fmt: skip
        upload(container)
        assert ANSWER in ask(container)
        assert container.stop() == 0


def test_a_folder_is_asked_about(documents: Path) -> None:
    with volume(f"{NAME}-ask") as data:
        mounts = (f"--volume={documents}:/documents:ro", f"--volume={data}:/data")
        asked = run_once("ask", "/documents", QUESTION, options=mounts)
        assert ANSWER in asked.stdout, asked.stdout + asked.stderr
        again = run_once("ask", "/documents", QUESTION, options=mounts)
        assert ANSWER in again.stdout
        assert "1 files new" not in again.stderr
        doctor = run_once("doctor", options=mounts)
        assert doctor.returncode == 0, doctor.stdout
        assert [path.name for path in documents.iterdir()] == [SLIDES]


def test_a_folder_of_another_user_is_read_as_its_owner(documents: Path) -> None:
    documents.chmod(0o700)
    mount = f"--volume={documents}:/documents:ro"
    refused = run_once("index", "add", "/documents", options=(mount,))
    assert refused.returncode == 1
    assert "no permission to read /documents" in refused.stderr
    assert "--user" in refused.stderr
    if os.getuid() == 0:
        os.chown(documents, 1234, 1234)
    owner = f"--user={documents.stat().st_uid}"
    done = run_once("index", "add", "/documents", options=(mount, owner))
    assert done.returncode == 0, done.stderr


def test_office_documents_are_read_by_an_image_with_libreoffice(tmp_path: Path) -> None:
    if "libreoffice" not in engine("run", "--rm", "--entrypoint=ls", IMAGE, "/usr/lib").stdout:
        pytest.skip("built without OFFICE=1")
    tmp_path.chmod(0o755)
    text = r"{\rtf1\ansi The lantern of Fennick is 31 metres high.\par}"
    (tmp_path / "lantern.rtf").write_text(text, encoding="ascii")
    mount = f"--volume={tmp_path}:/documents:ro"
    done = run_once("ask", "/documents", "How high is the lantern of Fennick?", options=(mount,))
    assert "31 metres" in done.stdout, done.stdout + done.stderr
