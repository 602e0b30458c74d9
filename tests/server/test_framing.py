"""Requests with doubtful framing, as this server and nginx answer them; limits of heads and bodies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import h11
import pytest
from server_harness import dial, serving

from tools.framing import (
    FramingAnswer,
    FramingCase,
    ask_server,
    compare_answers,
    load_answers,
    load_cases,
    serving_recorder,
)
from vrag.server.http.framing import FramingError, StrictConnection
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Generator

CASES = load_cases()
NGINX = load_answers()
HOST = b"Host: localhost\r\n"


@pytest.fixture(scope="module")
def own() -> dict[str, FramingAnswer]:
    """The answers of this server, by the id of the case."""
    with serving_recorder() as (port, recorder):
        return ask_server(port, recorder, CASES)


class TestCases:
    def test_are_many_and_each_has_an_answer_of_nginx(self) -> None:
        assert len(CASES) >= 150
        assert [case.id for case in CASES] == list(NGINX)

    def test_are_answered_as_nginx_answers_or_more_strictly(self, own: dict[str, FramingAnswer]) -> None:
        verdicts = {case.id: compare_answers(own[case.id], NGINX[case.id]) for case in CASES}
        assert {id: verdict for id, verdict in verdicts.items() if verdict not in {"same", "stricter"}} == {}
        assert {id for id, verdict in verdicts.items() if verdict != "same"} == {
            case.id for case in CASES if case.difference
        }

    def test_that_are_refused_are_the_last_of_their_connection(self, own: dict[str, FramingAnswer]) -> None:
        refused = {400, 405, 414, 431, 501, 505}
        answered_on = [id for id, answer in own.items() if refused & set(answer.statuses[:-1])]
        assert answered_on == []

    def test_of_both_lengths_are_all_refused(self, own: dict[str, FramingAnswer]) -> None:
        both = [case for case in CASES if case.group == "both lengths"]
        assert len(both) > 8
        for case in both:
            assert own[case.id].statuses in ([400], [501]), case.id
            assert own[case.id].requests == []


class TestComparison:
    """Else the test above could find nothing."""

    @pytest.mark.parametrize(
        ("statuses", "requests", "verdict"),
        [
            ([200], ["GET / 0"], "same"),
            ([201], ["GET / 0"], "same"),
            ([400], [], "stricter"),
            ([400], ["GET / 0"], "other"),
            ([200, 200], ["GET / 0"], "other"),
            ([200, 200], ["GET / 0", "GET /next 0"], "laxer"),
            ([200], ["GET / 5"], "laxer"),
            ([200], [], "stricter"),
            ([200, 200], [], "laxer"),
        ],
    )
    def test_finds_more_requests_other_requests_and_other_answers(
        self, statuses: list[int], requests: list[str], verdict: str
    ) -> None:
        nginx = FramingAnswer([200], ["GET / 0"])
        assert compare_answers(FramingAnswer(statuses, requests), nginx) == verdict

    def test_repeats_texts(self) -> None:
        [case] = [case for case in CASES if case.id == "limits: value of 4,000 bytes"]
        assert b"X: " + b"a" * 4000 + b"\r\n" in case.request
        assert isinstance(case, FramingCase)


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    options = ServerOptions(
        token="secret", head_bytes=4000, field_bytes=1000, body_bytes=50_000, drain_seconds=1
    )
    with serving(options=options) as address:
        yield address


def send(address: str, *pieces: bytes) -> bytes:
    """Send the pieces of a request; return all that comes until the server ends the connection."""
    with dial(address) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


class TestHeads:
    @pytest.mark.parametrize("length", [4001, 5000, 300_000])
    @pytest.mark.parametrize("piece", [1000, 10**6])
    def test_that_are_too_long_are_refused_whether_or_not_they_end(
        self, address: str, length: int, piece: int
    ) -> None:
        for end in (b"\r\n\r\n", b""):
            head = b"GET /healthz HTTP/1.1\r\n" + HOST
            fields = b"X: 1234\r\n" * (length // 9)
            head = (head + fields)[: length - len(end)] + end
            pieces = [head[start : start + piece] for start in range(0, len(head), piece)]
            answer = send(address, *pieces[:20])
            assert statuses(answer) == [431], (answer, end)
            assert b"4,000 bytes" in answer

    def test_of_just_the_allowed_length_are_answered(self, address: str) -> None:
        head = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST
        fields = (b"X: " + b"1" * 85 + b"\r\n") * 50
        whole = head + fields[: (4000 - len(head)) // 90 * 90 - 90]
        whole += b"Y: " + b"y" * (4000 - len(whole) - 7) + b"\r\n\r\n"
        assert len(whole) == 4000
        assert statuses(send(address, whole)) == [200]
        assert statuses(send(address, whole.replace(b"Y: y", b"Y: yy"))) == [431]

    def test_with_a_long_field_are_refused(self, address: str) -> None:
        head = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST
        assert statuses(send(address, head + b"X: " + b"x" * 997 + b"\r\n\r\n")) == [200]
        answer = send(address, head + b"X: " + b"x" * 998 + b"\r\n\r\n")
        assert statuses(answer) == [431]
        assert b"1,000 bytes" in answer

    def test_with_a_long_path_are_refused(self, address: str) -> None:
        """Also where their query is allowed to be longer."""
        for path, query, expected in ((b"/" * 1001, b"", 414), (b"/version", b"?" + b"q" * 2000, 401)):
            request = b"GET " + path + query + b" HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
            assert statuses(send(address, request)) == [expected]

    def test_with_many_fields_are_refused(self, address: str) -> None:
        head = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST
        assert statuses(send(address, head + b"X: y\r\n" * 254 + b"\r\n")) == [200]
        answer = send(address, head + b"X: y\r\n" * 255 + b"\r\n")
        assert statuses(answer) == [431]
        assert b"256 fields" in answer

    def test_with_a_long_target_are_told_to_send_a_body(self, address: str) -> None:
        answer = send(address, b"GET /search?queries=" + b"a" * 5000)
        assert statuses(answer) == [414]
        assert b"POST /search" in answer

    def test_that_arrive_byte_by_byte_are_checked_as_those_that_come_at_once(self, address: str) -> None:
        request = (
            b"POST /session HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        pieces = [request[start : start + 1] for start in range(len(request))]
        answer = send(address, *pieces)
        assert statuses(answer) == [400]
        assert b"both Content-Length and Transfer-Encoding" in answer

    @pytest.mark.parametrize(
        ("front", "expected"),
        [(b"\r\n", [200, 200]), (b"\r\n\r\n", [400]), (b"\r", [400]), (b"\n", [400]), (b"\r\n\n", [400])],
    )
    @pytest.mark.parametrize("size", [1, 1000])
    def test_may_have_one_empty_line_in_front(
        self, address: str, front: bytes, expected: list[int], size: int
    ) -> None:
        """One each, also of those that were sent before the answer to the first."""
        request = front + b"GET /healthz HTTP/1.1\r\n" + HOST + b"%b\r\n"
        sent = request % b"" + request % b"Connection: close\r\n"
        pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
        assert (
            statuses(send(address, *pieces[: len(sent) if expected[0] == 200 else len(front) + 1]))
            == expected
        )

    def test_count_no_empty_line_against_their_length(self, address: str) -> None:
        head = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST
        fields = (b"X: " + b"1" * 85 + b"\r\n") * ((4000 - len(head) - 20) // 90)
        whole = head + fields + b"Y: " + b"y" * (4000 - len(head) - len(fields) - 7) + b"\r\n\r\n"
        assert len(whole) == 4000
        assert statuses(send(address, b"\r\n" + whole)) == [200]


class TestBodies:
    CHUNKED = (
        b"POST /search HTTP/1.1\r\n"
        + HOST
        + b"Authorization: Bearer secret\r\nContent-Type: application/json\r\n"
        + b"Transfer-Encoding: chunked\r\n\r\n"
    )
    ROUTES = (
        ("POST", "/search", 50_000),
        ("POST", "/session", 32 * 1024),
        ("POST", "/runs", 48 * 1024 * 1024),
        ("POST", "/v1/chat/completions", 48 * 1024 * 1024),
        ("POST", "/v1/responses", 48 * 1024 * 1024),
        ("PUT", "/collections/a/documents/b.pdf", 512 * 1024 * 1024),
        ("GET", "/version", 50_000),
        ("DELETE", "/nothing", 50_000),
    )

    @pytest.mark.parametrize(("method", "path", "limit"), ROUTES)
    @pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
    def test_that_are_announced_too_long_are_refused_at_once_and_end_the_connection(
        self, address: str, method: str, path: str, limit: int, expect: bytes
    ) -> None:
        head = f"{method} {path} HTTP/1.1\r\nAuthorization: Bearer secret\r\nContent-Length: {limit + 1}\r\n"
        answer = send(address, head.encode() + HOST + expect + b"\r\n")
        assert statuses(answer) == [413]
        assert b"connection: close" in answer.lower()

    @pytest.mark.parametrize("token", [b"", b"Authorization: Bearer wrong\r\n"])
    def test_of_unknown_clients_are_not_waited_for(self, address: str, token: bytes) -> None:
        head = b"POST /search HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 10\r\n"
        answer = send(address, head + HOST + token + b"\r\n")
        assert statuses(answer) == [401]
        assert b"connection: close" in answer.lower()

    def test_that_are_expected_are_asked_for(self, address: str) -> None:
        with dial(address) as connection:
            head = b"POST /session HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
            connection.sendall(head + HOST + b"Expect: 100-continue\r\nContent-Length: 19\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
            connection.sendall(b'{"token": "secret"}')
            assert statuses(connection.recv(65536)) == [204]

    def test_whose_chunks_carry_mostly_extensions_are_refused(self, address: str) -> None:
        piece = (b"1;" + b"x" * 500 + b"\r\na\r\n") * 20
        answer = send(address, self.CHUNKED, *[piece] * 4)
        assert statuses(answer) == [400]
        assert b"extensions" in answer

    @pytest.mark.parametrize("size", [100, 700, 100_000])
    def test_have_no_more_extensions_for_more_content(self, address: str, size: int) -> None:
        """Whether they arrive in pieces or at once."""
        chunks = (b"1f4;" + b"x" * 480 + b"\r\n" + b"a" * 500 + b"\r\n") * 40 + b"0\r\n\r\n"
        pieces = [chunks[start : start + size] for start in range(0, len(chunks), size)]
        answer = send(address, self.CHUNKED, *pieces[: 35_000 // size + 1])
        assert statuses(answer) == [400]
        assert b"extensions" in answer

    @pytest.mark.parametrize("chunks", [b"3\nabc", b"3\nabc\n0\n\n", b"3\r\nabc\r\n\n", b"3;\n"])
    def test_with_a_bare_line_feed_behind_a_size_are_refused_before_more_comes(
        self, address: str, chunks: bytes
    ) -> None:
        answer = send(address, self.CHUNKED + chunks)
        assert statuses(answer) == [400]
        assert b"bare LF" in answer

    @pytest.mark.parametrize("end", [b"\n", b"X: y\n\r\n", b"X: y\r\n\n"])
    def test_with_a_bare_line_feed_in_trailers_are_refused(self, address: str, end: bytes) -> None:
        answer = send(address, self.CHUNKED + b"2\r\n{}\r\n0\r\n" + end)
        assert statuses(answer) == [400]
        assert b"bare LF" in answer

    def test_of_many_small_chunks_are_read(self, address: str) -> None:
        body = b'{"queries": ["ferry"], "top_k": 1' + b" " * 5000 + b"}"
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        head = self.CHUNKED.replace(HOST, HOST + b"Connection: close\r\n")
        assert statuses(
            send(address, head, *[chunks[start : start + 700] for start in range(0, len(chunks), 700)])
        ) == [200]

    @pytest.mark.parametrize("token", [b"secret", b"wrong"])
    def test_of_very_many_small_chunks_are_refused_before_they_end(self, address: str, token: bytes) -> None:
        """A body of some million takes the server minutes."""
        head = self.CHUNKED.replace(b"secret", token)
        answer = send(address, head + b"1\r\n \r\n" * 9000)
        assert statuses(answer) == [400]
        assert b"too many small chunks" in answer
        assert b"connection: close" in answer.lower()

    @pytest.mark.parametrize("size", [50, 64])
    def test_of_small_chunks_are_read_if_these_have_64_bytes_on_average(self, size: int) -> None:
        connection = StrictConnection(head_bytes=65536, field_bytes=16384)
        connection.receive_data(self.CHUNKED)
        assert isinstance(connection.next_event(), h11.Request)

        def read() -> int:
            connection.receive_data(b"%x\r\n%s\r\n" % (size, b"a" * size) * 50_000)
            content = 0
            while isinstance(event := connection.next_event(), h11.Data):
                content += len(event.data)
            return content

        if size == 64:
            assert read() == 50_000 * 64
        else:
            with pytest.raises(FramingError, match="small chunks"):
                read()

    def test_of_small_chunks_are_counted_for_each_request(self, address: str) -> None:
        body = b'{"queries": ["ferry"]}' + b" " * 5000
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        last = self.CHUNKED.replace(HOST, HOST + b"Connection: close\r\n")
        with dial(address) as connection:
            connection.sendall(self.CHUNKED + chunks)
            assert statuses(connection.recv(65536)) == [200]
            connection.sendall(last + chunks)
            assert statuses(b"".join(iter(lambda: connection.recv(65536), b""))) == [200]

    def test_that_break_off_in_a_wrong_chunk_get_one_answer(self, address: str) -> None:
        assert statuses(send(address, self.CHUNKED + b"3\r\nabc\r\nzz\r\n")) == [400]
