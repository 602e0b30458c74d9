"""The clients of the soak, which do all that a server offers, and check every answer.

A client does one thing after the other, drawn by random numbers of its own. It has an address of its own
(127.1.0.x), a user's token and a pool of connections. A check that fails is a `SoakFault`, whose kind is
counted in the samples:

- `status`: an answer with another status than the one that is due
- `content`: an answer that is wrong: no evidence, a document that is not found, a picture that is none
- `events`: a stream with a gap, a repetition or a wrong end
- `broken`: a connection or a stream that broke off
- `timeout`: no answer within a minute
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.durability.files import pdf

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

__all__ = ["Client", "Outcomes", "SoakFault", "User"]

TIMEOUT = 60.0
JOB_SECONDS = 180.0
"""Seconds after which an upload has to be indexed."""
LOAD_SECONDS = 10.0
"""Seconds after its job at which a document has to be found, on a machine that others use, too."""
MAX_RUNS = 40
"""Runs that a client keeps; it removes older ones."""
WORDS = "harbour ledger copper orchard glacier signal meadow turbine".split()
SIZE_IN_FILE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class SoakFault(Exception):
    """An answer that is wrong, with the kind under which it is counted."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class User:
    """A user of the server."""

    name: str
    token: str


@dataclass
class Outcomes:
    """What clients saw since the last sample."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Of each request that was answered as it should be, by kind."""
    errors: Counter[str] = field(default_factory=Counter[str])
    """By kind of fault and kind of request."""
    faults: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, kind: str, seconds: float) -> None:
        """Count an answer."""
        self.seconds[kind].append(seconds)

    def fail(self, kind: str, request: str, message: str) -> None:
        """Count a fault."""
        self.errors[f"{kind}: {request}"] += 1
        self.faults.append({"time": time.time(), "kind": kind, "request": request, "message": message[:1000]})

    def take(self) -> Outcomes:
        """Return what there is, and begin anew."""
        taken = Outcomes(self.seconds, self.errors, self.faults)
        self.seconds, self.errors, self.faults = defaultdict(list), Counter(), []
        return taken


def check(holds: object, message: str, kind: str = "content") -> None:
    """Raise a `SoakFault` unless it holds."""
    if not holds:
        raise SoakFault(kind, message)


@dataclass
class Client:
    """One client.

    Args:
        url: Address of the server.
        number: Its number, from 0, which gives it an address of its own.
        user: Whose token it sends.
        collection: Name of the collection.
        questions: What it asks.
        outcomes: Where it counts.
    """

    url: str
    number: int
    user: User
    collection: str
    questions: Sequence[str]
    outcomes: Outcomes
    http: httpx.AsyncClient = field(init=False)
    chance: random.Random = field(init=False)
    runs: list[str] = field(default_factory=list[str])
    """Finished runs of this client whose answers have evidence, oldest first."""
    sessions: list[str] = field(default_factory=list[str])
    strangers: list[str] = field(default_factory=list[str])
    """Runs of other users, which this one must not see."""
    serial: int = 0

    def __post_init__(self) -> None:
        """Open the pool of connections."""
        self.chance = random.Random(self.number)
        self.http = self.connection(self.user.token, self.number + 1)

    def connection(self, token: str, host: int, network: int = 0) -> httpx.AsyncClient:
        """Return a pool of connections from an address of its own."""
        # Shorter than the server keeps an idle connection: else both give it up at the same moment at times.
        limits = httpx.Limits(keepalive_expiry=2)
        transport = httpx.AsyncHTTPTransport(local_address=f"127.1.{network}.{host}", limits=limits)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(base_url=self.url, transport=transport, timeout=TIMEOUT, headers=headers)

    async def go_on(self, until: float, think: float) -> None:
        """Do one thing after the other until then (monotonic clock), with mean pauses of `think` seconds."""
        await asyncio.sleep(self.chance.uniform(0, think))
        while time.monotonic() < until:
            name, action = self.chance.choices(ACTIONS, [weight for *_, weight in ACTIONS])[0][:2]
            await self.do(name, action)
            await asyncio.sleep(self.chance.expovariate(1 / think) if think else 0)
        await self.http.aclose()

    async def do(self, name: str, action: Callable[[Client], Awaitable[None]]) -> None:
        """Do one thing; what goes wrong is counted."""
        try:
            await action(self)
        except SoakFault as fault:
            self.outcomes.fail(fault.kind, name, str(fault))
        except (httpx.TimeoutException, TimeoutError) as error:
            self.outcomes.fail("timeout", name, repr(error))
        except (httpx.HTTPError, OSError) as error:
            self.outcomes.fail("broken", name, repr(error))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            self.outcomes.fail("content", name, repr(error))

    async def request(
        self,
        kind: str,
        method: str,
        path: str,
        due: int = 200,
        **options: Any,  # noqa: ANN401
    ) -> httpx.Response:
        """Send a request and check the status of its answer."""
        http: httpx.AsyncClient = options.pop("http", self.http)
        began = time.monotonic()
        response = await http.request(method, path, **options)
        took = time.monotonic() - began
        told = f"{method} {path}: {response.status_code}, due {due}: {response.text[:300]}"
        check(response.status_code == due, told if response.status_code != due else "", "status")
        self.outcomes.add(kind, took)
        return response

    def question(self) -> str:
        """Return one of the questions."""
        return self.chance.choice(self.questions)

    async def hits(self) -> list[dict[str, Any]]:
        """Search the collection and return what was found, of one query."""
        body = {"queries": [self.question()], "top_k": 10, "search_corpus": self.collection}
        found = (await self.request("search", "POST", "/search", json=body)).json()
        entries = found["results"][0]["data"]
        check(entries, "no hits")
        return entries

    async def page(self) -> dict[str, Any]:
        """Find a page with a picture."""
        pages = [
            hit
            for hit in await self.hits()
            if hit["type"] == "image" and hit["document_name"].endswith(".pdf")
        ]
        check(pages, "no page among the hits")
        return self.chance.choice(pages)


# Questions.


async def ask(client: Client) -> None:
    """Ask without a model or the scripted one, follow the run, and hang up once in the middle."""
    body: dict[str, Any] = {"question": client.question(), "collection": client.collection}
    body["agent"] = client.chance.choice(("vrag", "vrag", "vimrag", "rag", "react"))
    body["model"] = ""
    if client.chance.random() < 0.4:
        body |= {"agent": "vrag", "model": "scripted"}
    if client.sessions and client.chance.random() < 0.35:
        body["session"] = client.chance.choice(client.sessions[-5:])
        body["question"] = client.chance.choice(("And the year before?", "Why?", body["question"]))
    kind = "ask: scripted" if body["model"] else "ask: without a model"
    began = time.monotonic()
    run = (await client.request("POST /runs", "POST", "/runs", 201, json=body)).json()
    events = await followed(client, run["id"], hang_up=client.chance.random() < 0.5)
    client.outcomes.add(kind, time.monotonic() - began)
    told = (await client.request("GET /runs/ID", "GET", f"/runs/{run['id']}")).json()
    check(told["state"] == "finished", f"the run is {told['state']}")
    check(told["events"] == len(events), f"{told['events']} events, {len(events)} came", "events")
    check(told["stop_reason"] != "failed", f"the run failed: {told['failure']}")
    looked = (
        told["evidence"]
        or told["looked_at"]
        or (told["stop_reason"] == "abstained" and told["visual_tokens"])
    )
    check(looked, f"no evidence: {json.dumps(told)}")
    if body["model"]:
        check(told["answer"] == "Forty-two.", f"answered {told['answer']!r}")
        check(told["evidence"], f"no evidence of the answer: {run['id']}")
    if told["answer"] and told["evidence"]:
        client.runs.append(run["id"])
    client.sessions.append(run["session"])


async def followed(client: Client, run: str, *, hang_up: bool) -> list[dict[str, Any]]:
    """Follow a run to its end and return its events, whose numbers have to be without gaps."""
    events: list[dict[str, Any]] = []
    stop_after = client.chance.randrange(1, 8) if hang_up else None
    ended = await follow(client, run, events, stop_after)
    if ended is None:
        check(hang_up, "the stream broke off", "broken")
        await asyncio.sleep(client.chance.uniform(0, 1))
        ended = await follow(client, run, events, None)
    check(ended == "finished", f"the stream ended {ended}", "events")
    return events


async def follow(
    client: Client, run: str, events: list[dict[str, Any]], stop_after: int | None
) -> str | None:
    """Follow a stream from where it is; None if it has no end, or this client hung up."""
    headers = {"Last-Event-ID": str(len(events) - 1)} if events else {}
    came = 0
    async with client.http.stream("GET", f"/runs/{run}/events", headers=headers) as response:
        check(response.status_code == 200, f"events: {response.status_code}", "status")
        async for frame in frames(response):
            if frame.get("event") == "end":
                return json.loads(frame["data"])["state"]
            if "id" not in frame:
                continue
            event, due = json.loads(frame["data"]), len(events)
            check(
                int(frame["id"]) == due == event["seq"], f"event {frame['id']} where {due} was due", "events"
            )
            events.append(event)
            came += 1
            if came == stop_after:
                return None
    return None


async def frames(response: httpx.Response) -> AsyncGenerator[dict[str, str], None]:
    """Yield the frames of an event stream."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line and fields:
            yield fields
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


async def leave(client: Client) -> None:
    """Leave in the middle: stop a run, close a stream, or break off an upload or a search."""
    what = client.chance.randrange(4)
    question = client.question()
    if what == 0:
        body = {"question": question, "collection": client.collection, "model": "scripted"}
        run = (await client.request("POST /runs", "POST", "/runs", 201, json=body)).json()["id"]
        events: list[dict[str, Any]] = []
        await follow(client, run, events, 1)
        response = await client.http.delete(f"/runs/{run}")
        check(response.status_code in {200, 202}, f"DELETE /runs: {response.status_code}", "status")
        check(await follow(client, run, events, None) == "finished", "a stopped run has no end", "events")
        client.outcomes.add("stop", 0.0)
    elif what == 1:
        body = completion(client, stream=True)
        async with client.http.stream("POST", "/v1/chat/completions", json=body) as response:
            check(response.status_code == 200, f"completions: {response.status_code}", "status")
            async for _ in frames(response):
                break
        client.outcomes.add("leave: OpenAI", 0.0)
    else:
        path = f"/collections/{client.collection}/documents/broken-{client.number}.pdf"
        head = f"PUT {path} HTTP/1.1\r\nContent-Length: 1000000\r\n" if what == 2 else search_head(question)
        await break_off(client, head)
        client.outcomes.add("leave: upload" if what == 2 else "leave: search", 0.0)


def search_head(question: str) -> str:
    """Return the head of a search, as far as the Host header."""
    return f"GET /search?queries={httpx.QueryParams({'q': question})['q'].replace(' ', '+')} HTTP/1.1\r\n"


async def break_off(client: Client, head: str) -> None:
    """Send a request or half of one, and close the connection at once."""
    address = httpx.URL(client.url)
    own = (f"127.1.0.{client.number + 1}", 0)
    _, writer = await asyncio.open_connection(address.host, address.port, local_addr=own)
    head = head.encode("ascii", "ignore").decode()
    writer.write(
        f"{head}Host: {address.netloc.decode()}\r\nAuthorization: Bearer {client.user.token}\r\n\r\n".encode()
    )
    writer.write(b"%PDF-1.4 " * 1000)
    with contextlib.suppress(ConnectionError):
        await writer.drain()
        await asyncio.sleep(client.chance.uniform(0, 0.3))
    writer.transport.abort()


# Search, and what was found.


async def search(client: Client) -> None:
    """Search for several things at once, and in the older form."""
    queries = [client.question() for _ in range(client.chance.randint(1, 4))]
    body: dict[str, Any] = {
        "queries": queries,
        "top_k": client.chance.choice((1, 3, 10, 50)),
        "search_corpus": client.collection,
    }
    found = (await client.request("search", "POST", "/search", json=body)).json()["results"]
    check(len(found) == len(queries) and all(one["data"] for one in found), "a query found nothing")
    check(all(len(one["data"]) <= body["top_k"] for one in found), "more hits than asked for")
    older = (await client.request("GET /search", "GET", "/search", params={"queries": queries[0]})).json()
    check(older and older[0] and "image_file" in older[0][0], "nothing found in the older form")


async def look(client: Client) -> None:
    """Get a page: what is known of it, its picture, parts of it, its words."""
    path = f"/items/{(await client.page())['id']}"
    info = (await client.request("item", "GET", path)).json()
    whole = await client.request("picture", "GET", f"{path}/image", params={"max_pixels": 500_000})
    check(is_picture(whole), f"the picture is none: {whole.headers.get('content-type')}")
    again = {"If-None-Match": whole.headers["etag"]}
    await client.request(
        "picture, known", "GET", f"{path}/image", 304, params={"max_pixels": 500_000}, headers=again
    )
    left, top = client.chance.uniform(0, 0.6), client.chance.uniform(0, 0.6)
    box = f"{left:.3f},{top:.3f},{left + 0.35:.3f},{top + 0.3:.3f}"
    crop = await client.request("crop", "GET", f"{path}/crop", params={"box": box})
    check(is_picture(crop), "the crop is no picture")
    response = await client.http.get(f"{path}/part", params={"box": box, "size": "400x300"})
    check(response.status_code == 200 and is_picture(response), f"part: {response.status_code}", "status")
    words = (await client.request("words", "GET", f"{path}/words")).json()
    text: str = info.get("text", "")
    if word := next(iter(re.findall(r"[A-Za-z]{6,}", text)), ""):
        found = (await client.request("find", "GET", f"{path}/find", params={"text": word})).json()
        check(found["matches"], f"{word!r} stands in the text and is not found: {path}")
    check("lines" in words, "no lines")


def is_picture(response: httpx.Response) -> bool:
    """Tell whether a response is a whole JPEG or PNG."""
    data = response.content
    return (data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9") or (
        data[:4] == b"\x89PNG" and b"IEND" in data[-12:]
    )


async def read_file(client: Client) -> None:
    """Get a document's items, words in it, and ranges of its file."""
    document = (await client.page())["document"]
    parts = (await client.request("document", "GET", f"/documents/{document}")).json()
    check(parts["items"], "a document without items")
    await client.request("document find", "GET", f"/documents/{document}/find", params={"text": "the"})
    start = client.chance.randrange(0, 5000)
    ranged = await client.request(
        "range",
        "GET",
        f"/documents/{document}/file",
        206,
        headers={"Range": f"bytes={start}-{start + 65535}"},
    )
    match = SIZE_IN_FILE.fullmatch(ranged.headers["content-range"])
    check(match, f"Content-Range: {ranged.headers['content-range']}")
    assert match
    first, last, size = map(int, match.groups())
    check(first == start and len(ranged.content) == last - first + 1, "a range of another length")
    beyond = {"Range": f"bytes={size + 10}-"}
    await client.request("range, refused", "GET", f"/documents/{document}/file", 416, headers=beyond)


# Documents.


async def upload(client: Client) -> None:
    """Upload a document, wait for its job, find it, replace it at times, remove it, and find it no more."""
    client.serial += 1
    word = f"zyx{client.number}q{client.serial}"
    lines = [f"{word} {' '.join(client.chance.choices(WORDS, k=5))}" for _ in range(10)]
    name, data = document_of(client, word, lines)
    began = time.monotonic()
    path = f"/collections/{client.collection}/documents"
    job = (await client.request("upload", "PUT", f"{path}/{name}", 202, content=data)).json()
    job = await finished(client, job["id"])
    client.outcomes.add("upload until found", time.monotonic() - began)
    check(job["state"] == "finished", f"the job {job['state']}: {job['message']} {job['problems']}")
    began = time.monotonic()
    while not any(hit["document"] == job["document"] for hit in await named(client, word)):
        check(time.monotonic() < began + LOAD_SECONDS, f"{name} is not found after its job")
        await asyncio.sleep(0.5)
    client.outcomes.add("found after its job", time.monotonic() - began)
    await client.request("remove", "DELETE", f"{path}/{job['document']}", 204)
    hits = await named(client, word)
    check(all(hit.get("document") != job["document"] for hit in hits), f"{name} is found after its removal")
    await client.request("document, removed", "GET", f"/documents/{job['document']}", 404)


def document_of(client: Client, word: str, lines: list[str]) -> tuple[str, bytes]:
    """Return name and content of a new document: text, HTML, a table or a PDF."""
    text = "\n\n".join(lines)
    match client.chance.choice(("md", "txt", "html", "csv.txt", "pdf", "pdf")):
        case "html":
            paragraphs = "".join(f"<p>{line}</p>" for line in lines)
            return f"{word}.html", f"<!doctype html><title>{word}</title><h1>Notes</h1>{paragraphs}".encode()
        case "pdf":
            return f"{word}.pdf", pdf([lines] * client.chance.randint(1, 6))
        case suffix:
            return f"{word}.{suffix}", f"# Notes\n\n{text}\n".encode()


async def finished(client: Client, job: str) -> dict[str, Any]:
    """Wait until a job has ended, and return it."""
    async with asyncio.timeout(JOB_SECONDS):
        while True:
            told = (await client.request("job", "GET", f"/jobs/{job}")).json()
            if told["state"] not in {"waiting", "running"}:
                return told
            await asyncio.sleep(0.5)


async def named(client: Client, word: str) -> list[dict[str, Any]]:
    """Search for a word that one document has."""
    body = {"queries": [word], "top_k": 5, "search_corpus": client.collection}
    return (await client.request("search", "POST", "/search", json=body)).json()["results"][0]["data"]


async def collect(client: Client) -> None:
    """Create a collection, list it, and delete it."""
    client.serial += 1
    name = f"soak-{client.number}-{client.serial}"
    await client.request("create collection", "POST", "/collections", 201, json={"name": name})
    listed = (await client.request("collections", "GET", "/collections")).json()["collections"]
    check(name in {one["name"] for one in listed}, "a new collection is not listed")
    job = (
        await client.request(
            "upload", "PUT", f"/collections/{name}/documents/note.md", 202, content=b"# One\n\nlighthouse\n"
        )
    ).json()
    check((await finished(client, job["id"]))["state"] == "finished", "the job of a new collection failed")
    await client.request("delete collection", "DELETE", f"/collections/{name}", 204)


# Programs: MCP and OpenAI's interface.


async def call_tools(client: Client) -> None:
    """List MCP's tools, search, look and crop; at times ask."""
    tools = (await mcp(client, "tools/list", {}))["tools"]
    check({tool["name"] for tool in tools} == {"search", "look", "crop", "ask"}, "other tools than due")
    found = await called(client, "search", {"query": client.question(), "collection": client.collection})
    ids = re.findall(r"[0-9a-f]{16}-\d+", json.dumps(found))
    check(ids, "MCP found nothing")
    seen = await called(client, "look", {"item": ids[0], "max_pixels": 200_000})
    pictures = [part for part in seen["content"] if part["type"] == "image"]
    check(all(base64.b64decode(part["data"])[:1] in b"\xff\x89" for part in pictures), "look has no picture")
    if pictures:
        await called(client, "crop", {"item": ids[0], "box": [0.1, 0.1, 0.6, 0.5], "max_pixels": 200_000})
    if client.chance.random() < 0.3:
        model = client.chance.choice(("", "scripted"))
        asked = {"question": client.question(), "collection": client.collection, "model": model}
        told = await called(client, "ask", asked)
        check("run" in json.dumps(told), "MCP's answer names no run")


async def called(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool of MCP and return its result."""
    result = await mcp(client, "tools/call", {"name": tool, "arguments": arguments})
    check(not result.get("isError"), f"MCP {tool}: {json.dumps(result)[:300]}")
    return result


async def mcp(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send one message of MCP over HTTP and return the result."""
    client.serial += 1
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    body = {"jsonrpc": "2.0", "id": client.serial, "method": method, "params": params}
    kind = f"MCP {params.get('name', method)}"
    response = await client.request(kind, "POST", "/mcp", json=body, headers=headers)
    if response.headers["content-type"].startswith("application/json"):
        messages = [response.json()]
    else:
        lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
        messages = [json.loads(line[6:]) for line in lines if line[6:].strip()]
    answers = [message for message in messages if message.get("id") == client.serial]
    check(len(answers) == 1 and "result" in answers[0], f"MCP {method}: {json.dumps(messages)[:300]}")
    return answers[0]["result"]


def completion(client: Client, *, stream: bool) -> dict[str, Any]:
    """Return a request of OpenAI's interface."""
    messages = [{"role": "user", "content": client.question()}]
    if client.chance.random() < 0.3:
        messages = [
            {"role": "user", "content": client.question()},
            {"role": "assistant", "content": "No."},
            *messages,
        ]
    model = client.chance.choice(("vrag", "vrag/without-a-model", "rag/without-a-model"))
    return {
        "model": model,
        "messages": messages,
        "stream": stream,
        "vrag": {"collection": client.collection},
    }


async def complete(client: Client) -> None:
    """Ask as OpenAI's clients do, with and without a stream."""
    body = completion(client, stream=client.chance.random() < 0.5)
    if not body["stream"]:
        response = await client.request("OpenAI", "POST", "/v1/chat/completions", json=body)
        message = response.json()["choices"][0]["message"]
        told, content = message["vrag"], message["content"]
    else:
        told, content = await completed(client, body)
    check(content, "an empty completion")
    looked = told["evidence"] or told["looked_at"] or told["stop_reason"] == "abstained"
    check(looked, f"a completion without evidence: {json.dumps(told)}")
    await client.request("GET /runs/ID", "GET", f"/runs/{told['run_id']}")
    if told["answer"] and told["evidence"]:
        client.runs.append(told["run_id"])


async def completed(client: Client, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return what a streamed completion says in `vrag`, and its content."""
    began = time.monotonic()
    told: dict[str, Any] = {}
    content, done = "", False
    async with client.http.stream("POST", "/v1/chat/completions", json=body) as response:
        check(response.status_code == 200, f"completions: {response.status_code}", "status")
        async for frame in frames(response):
            if done := frame["data"] == "[DONE]":
                break
            chunk = json.loads(frame["data"])
            check("error" not in chunk, f"completions: {chunk}")
            for choice in chunk["choices"]:
                content += choice["delta"].get("content") or ""
                told |= choice["delta"].get("vrag") or {}
    check(done, "a streamed completion broke off", "broken")
    client.outcomes.add("OpenAI, streamed", time.monotonic() - began)
    return told, content


# The page, runs of the past, and what is refused.


async def open_page(client: Client) -> None:
    """Load the page with everything that it names, and what it asks the server for."""
    text = (await client.request("page", "GET", "/")).text
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', text):
        response = await client.request("page file", "GET", path)
        check(response.content, f"{path} is empty")
    for path in ("/options", "/collections", "/setup", "/healthz", "/version", "/metrics", "/session"):
        await client.request("state", "GET", path)
    path = f"/collections/{client.collection}"
    listed = (await client.request("documents", "GET", f"{path}/documents")).json()
    check(listed["total"] >= 1, "no documents")
    await client.request("jobs", "GET", f"{path}/jobs", params={"open": "true"})
    await client.request("suggestions", "GET", f"{path}/questions")


async def look_back(client: Client) -> None:
    """List runs, export one, rename it, get its pictures, and remove what is old."""
    listed = (await client.request("runs", "GET", "/runs", params={"limit": 20})).json()["runs"]
    check(all(run["owner"] == client.user.name for run in listed), "runs of another user are listed")
    if not client.runs:
        return
    run = client.chance.choice(client.runs)
    for kind in client.chance.sample(("html", "markdown", "json", "pdf", "annotations", "pictures"), 2):
        response = await client.request(
            f"export {kind}", "GET", f"/runs/{run}/export", params={"format": kind}
        )
        check(response.content, f"an empty export: {kind}")
    title = f"Title {client.serial}"
    await client.request("PATCH /runs/ID", "PATCH", f"/runs/{run}", json={"title": title, "pinned": False})
    check((await client.request("GET /runs/ID", "GET", f"/runs/{run}")).json()["title"] == title, "title")
    if len(client.runs) >= 2:
        body = {"runs": client.chance.sample(client.runs, 2), "format": "markdown"}
        await client.request("report", "POST", "/reports", json=body)
    while len(client.runs) > MAX_RUNS:
        old = client.runs.pop(0)
        response = await client.http.delete(f"/runs/{old}", params={"remove": "run"})
        check(response.status_code in {200, 409}, f"DELETE /runs: {response.status_code}", "status")
        if response.status_code == 200:  # else later questions follow on it
            await client.request("run, removed", "GET", f"/runs/{old}", 404)


async def be_refused(client: Client) -> None:
    """Send what has to be refused: wrong tokens, invalid bodies, unknown ids, other users' runs."""
    await client.request("refused: body", "POST", "/search", 422, json={"queries": [], "top_k": 3})
    await client.request("refused: body", "POST", "/search", 422, json={"queries": ["a"], "top_k": 10**9})
    await client.request("refused: body", "POST", "/runs", 422, json={"question": ""})
    await client.request("refused: body", "POST", "/runs", 422, content=b"\x00{", headers=JSON)
    await client.request("refused: unknown", "GET", "/items/0000000000000000-1", 404)
    await client.request("refused: unknown", "GET", "/runs/20200101-000000-000000-0000/events", 404)
    await client.request("refused: unknown", "GET", "/no/such/place", 404)
    await client.request("refused: method", "PUT", "/runs", 405)
    model = {"model": "gpt-none", "messages": [{"role": "user", "content": "Who?"}]}
    await client.request("refused: model", "POST", "/v1/chat/completions", 404, json=model)
    origin = {"Origin": "http://elsewhere.example"}
    await client.request("refused: origin", "GET", "/options", 403, headers=origin)
    documents = f"/collections/{client.collection}/documents"
    await client.request("refused: type", "PUT", f"{documents}/a.exe", 415, content=b"MZ")
    await client.request("refused: type", "PUT", f"{documents}/a.pdf", 415, content=b"no PDF at all")
    for run in client.strangers[-3:]:
        await client.request("refused: stranger", "GET", f"/runs/{run}", 404)
        await client.request("refused: stranger", "GET", f"/runs/{run}/events", 404)
    # From many addresses: one with many wrong tokens is locked out for a while.
    host, network = client.chance.randint(1, 250), client.chance.randint(1, 250)
    async with client.connection("wrong", host, network) as http:
        await client.request("refused: token", "GET", "/runs", 401, http=http)
        await client.request("refused: token", "POST", "/session", 401, json={"token": "x"}, http=http)


async def sign_in(client: Client) -> None:
    """Exchange the token for a cookie, use it, and end the session."""
    async with client.connection("", client.number + 1) as http:
        body = {"token": client.user.token}
        await client.request("sign in", "POST", "/session", 204, json=body, http=http)
        await client.request("runs", "GET", "/runs", http=http)
        await client.request("sign out", "DELETE", "/session", 204, headers={"Origin": client.url}, http=http)
        await client.request("refused: session", "GET", "/runs", 401, http=http)


JSON = {"Content-Type": "application/json"}
ACTIONS: Sequence[tuple[str, Callable[[Client], Awaitable[None]], float]] = (
    ("ask", ask, 8),
    ("search", search, 12),
    ("look", look, 8),
    ("read file", read_file, 5),
    ("upload", upload, 3),
    ("collection", collect, 0.4),
    ("MCP", call_tools, 4),
    ("OpenAI", complete, 4),
    ("page", open_page, 4),
    ("look back", look_back, 5),
    ("leave", leave, 4),
    ("refused", be_refused, 3),
    ("sign in", sign_in, 2),
)
"""Name, what is done, and how often in comparison."""
