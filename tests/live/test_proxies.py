"""The configuration files for nginx and Caddy, by the real programs in front of a real server.

nginx is also asked again what `framing_nginx.json` has. Only addresses and certificates are replaced. A
program that is not installed is skipped.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from hosting import Nothing, PacedPolicy, Scripted
from server_harness import serving

from tools.framing import (
    ANSWERS,
    ask_nginx,
    ask_through_nginx,
    compare_answers,
    load_answers,
    load_cases,
)
from vrag.server.app import Service
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Generator

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "vrag.example"
TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
SNI = {"sni_hostname": NAME}
PROGRAMS = ["nginx", "caddy"]


def find_program(name: str) -> str:
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if program is None or shutil.which("openssl") is None:
        pytest.skip(f"{name} or openssl is not installed")
    return program


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def read_nginx(below: str) -> str:
    """Read the configuration that is shipped; for a server below a path, in the place of that for a site."""
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    if not below:
        return text
    start = text.index("    location / {")
    location = (DEPLOY / "nginx-below-a-path.conf").read_text(encoding="utf-8")
    return f"{text[:start]}{location}}}\n"


def write_nginx(folder: Path, port: int, upstream: str, below: str = "") -> list[str]:
    """Write the configuration with a certificate of its own. Returns the arguments of nginx."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", certificate, "-subj", f"/CN={NAME}"],
        check=True, capture_output=True,
    )  # fmt: skip
    text = read_nginx(below)
    for shipped, here in {
        "/etc/ssl/vrag.example.pem": str(certificate),
        "/etc/ssl/vrag.example.key": str(key),
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        "http://127.0.0.1:8000": upstream,
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    (folder / "vrag.conf").write_text(text, encoding="utf-8")
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in "client_body proxy fastcgi uwsgi scgi".split()
    )
    main = (
        f"pid {folder}/pid; error_log stderr; daemon off; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; {paths} include {folder}/vrag.conf; }}\n"
    )
    (folder / "main.conf").write_text(main, encoding="utf-8")
    return ["-p", str(folder), "-c", str(folder / "main.conf")]


def write_caddyfile(folder: Path, port: int, upstream: str, below: str = "") -> list[str]:
    """Write the configuration with a certificate of Caddy's own authority. Returns the arguments of Caddy."""
    options = (
        f"{{\n admin off\n local_certs\n skip_install_trust\n auto_https disable_redirects\n"
        f" https_port {port}\n storage file_system {folder}\n}}\n"
    )
    name = "Caddyfile-below-a-path" if below else "Caddyfile"
    text = (DEPLOY / name).read_text(encoding="utf-8")
    assert "127.0.0.1:8000" in text
    path = folder / "Caddyfile"
    path.write_text(
        options + text.replace("127.0.0.1:8000", upstream.removeprefix("http://")), encoding="utf-8"
    )
    return ["run", "--config", str(path), "--adapter", "caddyfile"]


@contextmanager
def proxy(name: str, folder: Path, upstream: str, below: str = "") -> Generator[httpx.Client]:
    """Start a proxy. Yields a client of it, without a token; `below` is the path of the server."""
    port = free_port()
    write = write_nginx if name == "nginx" else write_caddyfile
    command = [find_program(name), *write(folder, port, upstream, below)]
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            with httpx.Client(
                base_url=f"https://127.0.0.1:{port}{below}", headers={"Host": NAME}, verify=False, timeout=60
            ) as client:
                while not _responds(client):
                    assert process.poll() is None, log.read_text()
                    time.sleep(0.05)
                yield client
        finally:
            process.terminate()


def _responds(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz", extensions=SNI).is_success
    except httpx.TransportError:
        return False


@pytest.fixture(params=PROGRAMS)
def proxied(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[httpx.Client, PacedPolicy]]:
    """A client of the proxy, and the policy that answers when the test lets it."""
    find_program(request.param)
    policy = PacedPolicy()
    options = ServerOptions(
        token=TOKEN, hosts=frozenset({NAME}), proxies=frozenset({"127.0.0.1"}), drain_seconds=1
    )
    with ExitStack() as stack:
        service = Service(Scripted(tmp_path / "runs", policy), Nothing())
        upstream = stack.enter_context(serving(options=options, service=service))
        stack.callback(policy.go.set)
        yield stack.enter_context(proxy(request.param, tmp_path, upstream)), policy


def test_the_page_and_its_cookie_come_through(proxied: tuple[httpx.Client, PacedPolicy]) -> None:
    client, _ = proxied

    assert "<html" in client.get("/", extensions=SNI).text
    assert client.get("/runs", extensions=SNI).status_code == 401
    wrong = client.get("/runs", headers={"Authorization": "Bearer wrong"}, extensions=SNI)
    assert wrong.status_code == 401
    origin = {"Origin": f"https://{NAME}", "Sec-Fetch-Site": "same-origin"}
    signed_in = client.post("/session", json={"token": TOKEN}, headers=origin, extensions=SNI)
    assert signed_in.is_success, signed_in.text
    assert is_secure(signed_in)
    forged = origin | {"X-Forwarded-Proto": "http", "X-Forwarded-For": "192.0.2.9"}
    assert is_secure(client.post("/session", json={"token": TOKEN}, headers=forged, extensions=SNI))


@pytest.mark.parametrize("name", PROGRAMS)
def test_below_a_path_page_session_events_and_links_come_through(name: str, tmp_path: Path) -> None:
    find_program(name)
    options = ServerOptions(
        token=TOKEN, hosts=frozenset({NAME}), proxies=frozenset({"127.0.0.1"}), drain_seconds=1
    )
    policy = PacedPolicy()
    policy.go.set()
    with ExitStack() as stack:
        service = Service(Scripted(tmp_path / "runs", policy), Nothing())
        upstream = stack.enter_context(serving(options=options, service=service))
        client = stack.enter_context(proxy(name, tmp_path, upstream, "/docs"))
        page = client.get("/", extensions=SNI)
        for file in re.findall(r'(?:src|href)="([^"#]+)"', page.text):
            assert client.get(f"/{file}", extensions=SNI).status_code == 200, file
        bare = str(client.base_url).rstrip("/")
        assert client.get(bare, extensions=SNI).headers["location"].endswith("/docs/")
        origin = {"Origin": f"https://{NAME}", "Sec-Fetch-Site": "same-origin"}
        signed_in = client.post("/session", json={"token": TOKEN}, headers=origin, extensions=SNI)
        assert signed_in.status_code == 204
        assert is_secure(signed_in)
        assert "path" not in signed_in.headers["set-cookie"].casefold()  # the browser takes that of the page
        run = client.post("/runs", json={"question": "How many?"}, headers=BEARER, extensions=SNI)
        assert run.headers["location"] == f"/docs/runs/{run.json()['id']}"
        with client.stream(
            "GET", f"/runs/{run.json()['id']}/events", headers=BEARER, extensions=SNI
        ) as events:
            assert "48,200" in "".join(events.iter_lines())
        export = client.get(
            f"/runs/{run.json()['id']}/export?format=markdown", headers=BEARER, extensions=SNI
        )
        assert f"https://{NAME}/docs/#/runs/" in export.text
        document = client.get("/openapi.json", headers=BEARER, extensions=SNI).json()
        assert document["servers"] == [{"url": "/docs"}]
        assert "HTTP interface" in client.get("/docs", headers=BEARER, extensions=SNI).text
        place = "/collections/x/documents/a%2Fb%20c.pdf"
        missing = client.put(place, content=b"%PDF-", headers=BEARER, extensions=SNI)
        assert missing.json()["detail"], missing.text  # the server's own refusal, and not the proxy's


def test_a_client_that_is_no_proxy_gets_no_secure_cookie_by_a_header(tmp_path: Path) -> None:
    """Only a trusted proxy can claim that the request came by https."""
    for proxies, secure in ((frozenset({"127.0.0.1"}), True), (frozenset({"192.0.2.1"}), False)):
        options = ServerOptions(token=TOKEN, proxies=proxies, drain_seconds=1)
        service = Service(Scripted(tmp_path / "runs", PacedPolicy()), Nothing())
        with serving(options=options, service=service) as address:
            headers = {"Origin": address, "X-Forwarded-Proto": "https"}
            signed_in = httpx.post(f"{address}/session", json={"token": TOKEN}, headers=headers)
            assert signed_in.is_success, signed_in.text
            assert is_secure(signed_in) == secure


def is_secure(response: httpx.Response) -> bool:
    return re.search(r";\s*Secure", response.headers["set-cookie"], re.IGNORECASE) is not None


def test_an_event_arrives_while_the_run_waits(proxied: tuple[httpx.Client, PacedPolicy]) -> None:
    client, policy = proxied
    run = client.post("/runs", json={"question": "How many?"}, headers=BEARER, extensions=SNI)
    assert run.status_code == 201, run.text
    path = f"/runs/{run.json()['id']}/events"
    with client.stream("GET", path, headers=BEARER, extensions=SNI) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("data:"))
        policy.go.set()  # nothing more happens before: what came was not held back
        assert "48,200" in "".join(lines)


def test_a_body_larger_than_the_usual_limit_of_proxies_arrives(
    proxied: tuple[httpx.Client, PacedPolicy],
) -> None:
    client, _ = proxied
    body = {"queries": ["ferry passengers"], "top_k": 1, "padding": "x" * 3 * 1024 * 1024}
    done = client.post("/search", json=body, headers=BEARER, extensions=SNI)
    assert done.status_code in {200, 422}, done.text
    assert done.headers["x-request-id"]


def test_nginx_answers_as_recorded() -> None:
    program = find_program("nginx")
    version = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    if json.loads(ANSWERS.read_text())["made_with"] not in version:
        pytest.skip("the answers are those of another version of nginx")
    answers = asyncio.run(ask_nginx(load_cases()))
    recorded = load_answers()
    assert {id for id, answer in answers.items() if compare_answers(answer, recorded[id]) != "same"} == set()


def test_no_request_reaches_the_server_that_nginx_did_not_forward() -> None:
    find_program("nginx")
    counts = ask_through_nginx(load_cases())
    unequal = {id for id, count in counts.items() if count.forwarded != count.answered + count.refused}
    assert unequal == set()
    assert sum(count.answered for count in counts.values()) > 200


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_that_takes_all_it_can_leaves_room_for_another(name: str, tmp_path: Path) -> None:
    """So does a program on the machine of the proxy that opens connections and sends nothing."""
    find_program(name)
    options = ServerOptions(
        token=TOKEN,
        hosts=frozenset({NAME}),
        proxies=frozenset({"127.0.0.1"}),
        connections=40,
        local_connections=20,
        drain_seconds=1,
    )
    policy = PacedPolicy()
    with ExitStack() as stack:
        service = Service(Scripted(tmp_path / "runs", policy), Nothing())
        upstream = stack.enter_context(serving(options=options, service=service))
        stack.callback(policy.go.set)
        client = stack.enter_context(proxy(name, tmp_path, upstream))
        greedy, other = (
            stack.enter_context(client_at(str(client.base_url), address))
            for address in ("127.0.0.2", "127.0.0.3")
        )
        run = client.post("/runs", json={"question": "How many?"}, headers=BEARER, extensions=SNI).json()[
            "id"
        ]
        statuses = [open_events(stack, greedy, run) for _ in range(30)]
        assert (statuses.count(200), statuses.count(429)) == (20, 10)
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(upstream.rpartition(":")[2]))))
        assert open_events(stack, other, run) == 200
        assert other.get("/runs", headers=BEARER, extensions=SNI).status_code == 200
        assert open_events(stack, greedy, run) == 429


def client_at(url: str, address: str) -> httpx.Client:
    """Return a client with an address of its own."""
    transport = httpx.HTTPTransport(verify=False, local_address=address)
    return httpx.Client(base_url=url, headers={"Host": NAME}, transport=transport, timeout=60)


def open_events(stack: ExitStack, client: httpx.Client, run: str) -> int:
    """Begin to read the events of a run; return the status."""
    stream = client.stream("GET", f"/runs/{run}/events", headers=BEARER, extensions=SNI)
    return stack.enter_context(stream).status_code
