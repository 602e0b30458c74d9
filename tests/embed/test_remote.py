from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from embedding_server import DIMENSION, Served, serving
from fastapi import Response
from PIL import Image
from stored_items import location_of, vectors_by_text

from vrag.corpus.converter import CorpusOptions
from vrag.embed.embedder import EmbedContent, Modality, VectorKind
from vrag.embed.models.remote import Address, RemoteEmbedder
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedderFailedError, EmbedError
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.index.integrity.verification import verify
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

RED = Image.new("RGB", (20, 10), "red")


@pytest.fixture
def server() -> Generator[Served]:
    with serving(Served()) as served:
        yield served


def opened(server: Served, **settings: Any) -> RemoteEmbedder:  # noqa: ANN401
    options = settings.pop("options", EmbedOptions(batch=4))
    return RemoteEmbedder(f"tiny@{server.url}/v1", options, pause=0.01, **settings)


class TestVectors:
    def test_of_texts_come_in_their_order_in_batches(self, server: Served) -> None:
        embedder = opened(server)
        server.bodies.clear()
        texts = [f"page {number}" for number in range(10)]
        made = embedder.embed_items([EmbedContent(text=text) for text in texts])
        assert [len(body["input"]) for body in server.bodies] == [4, 4, 2]
        for text, vector in zip(texts, made, strict=True):
            np.testing.assert_array_equal(vector, server.vector(text)[0])
        np.testing.assert_array_equal(np.stack(made), np.stack(embedder.embed_queries(texts)))

    def test_are_the_same_in_base64_and_as_numbers(self, server: Served) -> None:
        embedder = opened(server)
        assert server.bodies[0]["encoding_format"] == "base64"
        encoded = embedder.embed_queries(["a"])[0]
        server.base64_too = False
        np.testing.assert_allclose(embedder.embed_queries(["a"])[0], encoded, rtol=1e-6)

    def test_of_pictures_are_asked_for_as_chat(self, server: Served) -> None:
        embedder = opened(server)
        contents = [
            EmbedContent(text="a"),
            EmbedContent(image=RED),
            EmbedContent(text="b", image=RED),
            EmbedContent(text="c"),
        ]
        made = embedder.embed_items(contents)
        parts = server.bodies[-1]["messages"][0]["content"]
        assert [part["type"] for part in parts] == ["image_url", "text"]
        head, _, data = parts[0]["image_url"]["url"].partition(",")
        assert head == "data:image/png;base64"
        assert Image.open(io.BytesIO(base64.b64decode(data))).tobytes() == RED.tobytes()
        np.testing.assert_array_equal(made[2], server.vector(server.bodies[-1]["messages"])[0])
        np.testing.assert_array_equal(made[3], server.vector("c")[0])

    def test_of_tokens_come_from_the_pooling_api(self, server: Served) -> None:
        embedder = opened(server, kind=VectorKind.MULTI)
        assert (embedder.kind, embedder.dimension, embedder.name[:8]) == (
            VectorKind.MULTI,
            DIMENSION,
            "pooling:",
        )
        made = embedder.embed_items(
            [EmbedContent(text="a"), EmbedContent(text="longer"), EmbedContent(image=RED)]
        )
        assert len({len(vectors) for vectors in made}) > 1
        np.testing.assert_allclose(made[1], server.vector("longer", len(made[1])), rtol=1e-6)

    def test_of_texts_go_as_chat_where_that_is_asked_for(self, server: Served) -> None:
        embedder = opened(server, chat=True)
        embedder.embed_queries(["red"])
        body = server.bodies[-1]
        assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant"]
        assert body["messages"][1]["content"] == [{"type": "text", "text": "red"}]
        assert body["continue_final_message"] is True
        assert embedder.fingerprint != opened(server).fingerprint


class TestWhatItLooksAt:
    def test_is_found_out(self, server: Served) -> None:
        assert opened(server).modalities == {Modality.TEXT, Modality.IMAGE}
        server.sees = False
        blind = opened(server)
        assert blind.modalities == {Modality.TEXT}
        with pytest.raises(EmbedError, match="cannot embed image"):
            blind.embed_items([EmbedContent(image=RED)])

    def test_is_not_taken_for_text_alone_because_the_server_fails(self, server: Served) -> None:
        def down(answer: dict[str, Any]) -> object:
            return Response("down", 503) if "messages" in server.bodies[-1] else answer

        server.spoil = down
        with pytest.raises(EmbedError, match="answered 503"):
            opened(server)

    def test_is_never_nothing(self, server: Served) -> None:
        with pytest.raises(EmbedError, match="empty content"):
            opened(server).embed_items([EmbedContent()])


class TestTheFingerprint:
    def test_stays_when_the_server_moves(self, server: Served) -> None:
        with serving(Served()) as moved:
            assert opened(moved).fingerprint == opened(server).fingerprint

    @pytest.mark.parametrize(("what", "value"), [("model", "tiny-v2"), ("seed", 1)])
    def test_tells_another_model_under_the_same_name(self, server: Served, what: str, value: object) -> None:
        before = opened(server).fingerprint
        setattr(server, what, value)
        assert opened(server).fingerprint != before

    def test_survives_the_noise_of_other_hardware(self, server: Served) -> None:
        before = opened(server).fingerprint
        server.base64_too = False

        def noisy(answer: dict[str, Any]) -> dict[str, Any]:
            for entry in answer["data"]:
                entry["embedding"] = [number * 1.003 + 0.002 for number in entry["embedding"]]
            return answer

        server.spoil = noisy
        assert opened(server).fingerprint == before


class TestAServerThatFails:
    @pytest.mark.parametrize("status", [429, 500, 502, 503])
    def test_for_a_while_is_asked_again(self, server: Served, status: int) -> None:
        embedder = opened(server)
        server.failures = [Response("busy", status)] * 3
        np.testing.assert_array_equal(embedder.embed_queries(["a"])[0], server.vector("a")[0])

    def test_for_good_is_an_error_that_says_what_it_answered(self, server: Served) -> None:
        embedder = opened(server)
        server.failures = [Response("no memory left", 503)] * 9
        with pytest.raises(EmbedderFailedError, match=r"answered 503: no memory left"):
            embedder.embed_queries(["a"])
        assert len(server.failures) == 3  # asked five times, and once what it had answered before

    @pytest.mark.parametrize("status", [500, 503, 408, 403])
    def test_on_one_content_alone_is_that_contents_fault(self, server: Served, status: int) -> None:
        embedder = opened(server)

        def poisoned(answer: dict[str, Any]) -> object:
            return Response("no", status) if server.bodies[-1].get("input") == ["poison"] else answer

        server.spoil = poisoned
        with pytest.raises(EmbedError, match=f"answered {status}") as raised:
            embedder.embed_items([EmbedContent(text="poison")])
        assert not isinstance(raised.value, EmbedderFailedError)

    def test_by_refusing_what_it_was_asked_is_not_asked_again(self, server: Served) -> None:
        embedder = opened(server)
        server.failures = [Response('{"error": "too long"}', 400)] * 2
        with pytest.raises(EmbedError, match=r"400.*too long") as raised:
            embedder.embed_queries(["a"])
        assert len(server.failures) == 1
        assert not isinstance(raised.value, EmbedderFailedError)

    @pytest.mark.parametrize("status", [401, 404])
    def test_by_refusing_all_is_gone(self, server: Served, status: int) -> None:
        embedder = opened(server)
        server.failures = [Response('{"error": "no such model"}', status)] * 2
        with pytest.raises(EmbedderFailedError, match=rf"{status}.*no such model"):
            embedder.embed_queries(["a"])

    def test_by_having_too_much_to_do_is_gone_though_it_answers_between(self, server: Served) -> None:
        embedder = opened(server)
        server.failures = [Response("busy", 429)] * 5
        with pytest.raises(EmbedderFailedError, match="answered 429"):
            embedder.embed_queries(["a"])
        assert not server.failures
        assert len(embedder.embed_queries(["a"])) == 1

    def test_by_wanting_a_key_says_so_and_a_key_is_sent(self, server: Served) -> None:
        server.failures = [Response("who are you", 401)]
        with pytest.raises(EmbedError, match="Set the API key"):
            opened(server)
        opened(server, options=EmbedOptions(api_key="s3cret"))
        assert server.headers[-1]["authorization"] == "Bearer s3cret"

    def test_is_waited_for_as_long_as_it_asks(self, server: Served) -> None:
        embedder = opened(server)
        server.failures = [Response("busy", 429, headers={"Retry-After": "0.3"})]
        import time

        started = time.monotonic()
        embedder.embed_queries(["a"])
        assert time.monotonic() - started >= 0.3

    def test_by_redirecting_is_not_followed(self, server: Served) -> None:
        embedder = opened(server)
        server.failures = [Response("", 307, headers={"Location": "http://127.0.0.1:9/"})]
        with pytest.raises(EmbedError, match="answered 307"):
            embedder.embed_queries(["a"])

    def test_by_not_being_there_says_so(self) -> None:
        with pytest.raises(EmbedderFailedError, match=r"does not answer.*Start it"):
            RemoteEmbedder("tiny@http://127.0.0.1:9", pause=0.001)

    def test_by_being_slow_is_given_up(self, server: Served) -> None:
        embedder = opened(server, options=EmbedOptions(timeout=0.05))

        def slow(answer: dict[str, Any]) -> dict[str, Any]:
            import time

            time.sleep(0.2)
            return answer

        server.spoil = slow
        with pytest.raises(EmbedderFailedError, match="does not answer: ReadTimeout"):
            embedder.embed_queries(["a"])


def rows(collection: Collection) -> list[dict[str, Any]]:
    made = collection.store.read_items(["id", "text"], "TRUE ORDER BY id").records()
    vectors = vectors_by_text(collection)
    return [row | {"vector": vectors[row["text"]][0].tolist()} for row in made]


@pytest.mark.parametrize("answers", [0, 2])
def test_indexing_ends_when_the_server_does_and_goes_on_when_it_is_back(
    server: Served, tmp_path: Path, answers: int
) -> None:
    options = CorpusOptions(workers=1, passage_chars=200)
    folder = tmp_path / "files"
    folder.mkdir()
    for name in "abcde":
        text = " ".join(f"Sentence {number} of {name} says what it says." for number in range(60))
        (folder / f"{name}.txt").write_text(text)
    embedder = opened(server, options=EmbedOptions(batch=16))
    clean, stopped = (
        Collection.create(tmp_path / name, options, embedder=embedder) for name in ("clean", "stopped")
    )
    add(clean, [folder], embedder=embedder)
    server.bodies.clear()
    server.spoil = lambda answer: answer if len(server.bodies) <= answers else Response("Try later.", 503)

    with pytest.raises(EmbedderFailedError, match=r"answered 503.*add the same files again"):
        add(stopped, [folder], embedder=embedder)

    assert len(server.bodies) == answers + 6  # five times, and once what it answered before
    assert all(document.status is not DocumentStatus.FAILED for document in stopped.documents())
    assert any(document.status is DocumentStatus.PENDING for document in stopped.documents())
    kept = len(rows(stopped))
    assert kept == 16 * answers < len(rows(clean))
    server.spoil = None
    report = add(stopped, [folder], embedder=embedder)
    assert (report.failed, report.items, report.problems) == (0, len(rows(clean)) - kept, ())
    assert rows(stopped) == rows(clean)
    assert verify(location_of(stopped)).ok


def entry(**more: Any) -> Callable[[dict[str, Any]], Any]:  # noqa: ANN401
    """Spoils the first entry of an answer."""

    def spoil(answer: dict[str, Any]) -> dict[str, Any]:
        answer["data"][0] |= more
        return answer

    return spoil


BAD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no JSON": lambda _: Response("<html>"),
    "a list": lambda _: [1, 2],
    "no data": lambda answer: answer | {"data": None},
    "too few": lambda answer: answer | {"data": answer["data"][1:]},
    "too many": lambda answer: answer | {"data": answer["data"] * 2},
    "the same index twice": entry(index=0),
    "an index that is no number": entry(index="1"),
    "an index beyond": entry(index=7),
    "an entry that is text": lambda answer: answer | {"data": ["x", "y"]},
    "another dimension": entry(embedding=[1.0, 2.0]),
    "no numbers": entry(embedding=None),
    "text": entry(embedding="!!"),
    "cut base64": entry(embedding="AAAAAA=="),
    "nothing": entry(embedding=[]),
    "not finite": entry(embedding=[1.0, float("nan")] * (DIMENSION // 2)),
    "infinite": entry(embedding=[1e300] * DIMENSION),
    "words": entry(embedding=["a"] * DIMENSION),
    "a matrix": entry(embedding=[[1.0] * DIMENSION]),
    "ragged": entry(embedding=[[1.0], [1.0, 2.0]]),
}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("name", BAD)
def test_answers_that_cannot_be_used_are_errors(server: Served, name: str) -> None:
    embedder = opened(server)
    server.spoil = BAD[name]
    with pytest.raises(EmbedError):
        embedder.embed_queries(["a", "b"])
    server.spoil = None
    assert len(embedder.embed_queries(["a", "b"])) == 2


class TestAddresses:
    @pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
    def test_end_in_v1_or_not(self, end: str) -> None:
        address = Address(f"org/model@x@https://host:8000/deep{end}")
        assert address.model == "org/model@x"
        assert address.embeddings == "https://host:8000/deep/v1/embeddings"
        assert address.pooling == "https://host:8000/deep/pooling"

    def test_are_recorded_with_their_scheme(self, server: Served) -> None:
        embedder = RemoteEmbedder(f"tiny@{server.url.removeprefix('http://')}/v1")
        assert embedder.name == f"remote:tiny@{server.url}/v1"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "model",
            "model@",
            "@http://host",
            "model@ftp://host",
            "m@http://user:pass@host",
            "m@http://a b",
        ],
    )
    def test_that_are_none_are_refused(self, text: str) -> None:
        with pytest.raises(EmbedError, match="MODEL@URL"):
            Address(text)
