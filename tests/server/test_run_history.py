"""Recorded runs: titles, pins, search, deletion, and lists of thousands."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hosting import ANSWER, SEARCH, Nothing, Scripted, runs_of
from hypothesis import given
from hypothesis import strategies as st
from server_harness import serving
from service_harness import scripted

from vrag.agent.runs.run_meta import MAX_TITLE_CHARS, RunMeta, Via, clean_title
from vrag.agent.runs.run_store import RunStore
from vrag.server.app import Service
from vrag.server.http.users import EVERYBODY, User, UserRole
from vrag.server.options import ServerOptions
from vrag.server.runs.history import RunHistory
from vrag.server.runs.run_manager import RunManager
from vrag.server.runs.schema import RunQuery, RunRequest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from vrag.agent.runs.run_result import RunResult

ALICE, BOB = User("alice", UserRole.MANAGE), User("bob", UserRole.MANAGE)


@pytest.fixture
def answering(tmp_path: Path) -> Scripted:
    return scripted(tmp_path / "runs", (SEARCH, ANSWER))


@pytest.fixture
def client(answering: Scripted) -> Generator[httpx.Client]:
    service = Service(answering, Nothing())
    with (
        serving(service=service, options=ServerOptions(drain_seconds=2)) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        try:
            yield client
        finally:
            answering.policy.go.set()


def ended(client: httpx.Client, question: str, **asked: Any) -> str:  # noqa: ANN401
    run = client.post("/runs", json={"question": question} | asked).raise_for_status().json()["id"]
    client.get(f"/runs/{run}/events")
    return run


def listed(client: httpx.Client, **query: Any) -> list[str]:  # noqa: ANN401
    return [run["id"] for run in client.get("/runs", params=query).raise_for_status().json()["runs"]]


class TestTitles:
    def test_a_conversation_has_the_title_that_it_was_given_or_its_first_question(
        self, client: httpx.Client
    ) -> None:
        first = ended(client, "How many passengers?")
        later = ended(client, "And in 2023?", session=first)
        assert client.get(f"/runs/{later}").json()["title"] == "How many passengers?"
        changed = client.patch(f"/runs/{later}", json={"title": "Ferries"}).raise_for_status().json()
        assert changed["title"] == "Ferries"
        assert changed["question"] == "And in 2023?"
        titles = {run["title"] for run in client.get("/runs").json()["runs"]}
        assert titles == {"Ferries"}
        client.patch(f"/runs/{first}", json={"title": ""})
        assert client.get(f"/runs/{later}").json()["title"] == "How many passengers?"

    @pytest.mark.parametrize(
        ("title", "kept"),
        [
            ("  two\nlines\t", "two lines"),
            ("\x00\x1b[2Jbell\x07", "[2Jbell"),
            ("\u202egnp.exe", "gnp.exe"),
            ("كم عدد الركاب", "كم عدد الركاب"),
            ("<b>bold</b>", "<b>bold</b>"),
            ("x" * 200, "x" * 200),
        ],
    )
    def test_a_title_is_one_line(self, client: httpx.Client, title: str, kept: str) -> None:
        run = ended(client, "How many?")
        assert client.patch(f"/runs/{run}", json={"title": title}).json()["title"] == kept

    @pytest.mark.parametrize(
        "changes",
        [
            {"title": "x" * 201},
            {"title": 3},
            {"pinned": "perhaps"},
            {"owner": "bob"},
            {"via": "page"},
            [],
            "x",
        ],
    )
    def test_other_changes_are_refused(self, client: httpx.Client, changes: object) -> None:
        run = ended(client, "How many?")
        response = client.patch(f"/runs/{run}", json=changes)
        assert response.status_code == 422, response.text
        assert client.get(f"/runs/{run}").json()["title"] == "How many?"

    @given(st.text())
    def test_a_clean_title_stays_as_it_is(self, text: str) -> None:
        title = clean_title(text)
        assert clean_title(title) == title
        assert len(title) <= MAX_TITLE_CHARS
        assert title.isprintable() or not text.isprintable()

    def test_a_list_shows_each_change_however_soon_it_comes(self, client: httpx.Client) -> None:
        run = ended(client, "How many?")
        for number in range(20):
            client.patch(f"/runs/{run}", json={"title": f"Title {number}"})
            assert client.get("/runs").json()["runs"][0]["title"] == f"Title {number}"

    def test_changes_at_once_are_all_kept(self, client: httpx.Client, answering: Scripted) -> None:
        run = ended(client, "How many?")

        async def change(number: int) -> None:
            changes = {"title": "Ferries"} if number % 2 else {"pinned": True}
            await asyncio.to_thread(answering.store.change_meta, run, **changes)

        async def whole() -> None:
            await asyncio.gather(*(change(number) for number in range(20)))

        asyncio.run(whole())
        assert answering.store.meta(run) == RunMeta(via=Via.API, title="Ferries", pinned=True)


class TestSearch:
    def test_runs_are_found_by_words_of_title_question_and_answer(self, client: httpx.Client) -> None:
        first = ended(client, "How many Passengers?")
        second = ended(client, "What is the fare?")
        client.patch(f"/runs/{second}", json={"title": "Kayaks"})
        assert listed(client, text="passengers MANY") == [first]
        assert listed(client, text="kayaks fare") == [second]
        assert listed(client, text="48,200") == [second, first]
        assert listed(client, text="passengers kayaks") == []
        assert listed(client, text=" ") == [second, first]

    def test_pinned_conversations_are_listed_whole(self, client: httpx.Client) -> None:
        first = ended(client, "How many?")
        later = ended(client, "And in 2023?", session=first)
        ended(client, "What is the fare?")
        assert listed(client, pinned=True) == []
        client.patch(f"/runs/{later}", json={"pinned": True})
        assert listed(client, pinned=True) == [later, first]

    def test_runs_are_selected_by_agent_and_collection(self, client: httpx.Client) -> None:
        plain = ended(client, "How many?")
        graph = client.post("/runs", json={"question": "How many?", "agent": "vimrag"}).json()["id"]
        assert listed(client, agent="vimrag") == [graph]
        assert listed(client, agent="vrag") == [plain]
        assert listed(client, collection="other") == []

    @pytest.mark.parametrize(
        "query", [{"text": "x" * 301}, {"asker": "cats"}, {"limit": 201}, {"before": "x"}]
    )
    def test_a_query_that_cannot_be_is_refused(self, client: httpx.Client, query: dict[str, Any]) -> None:
        assert client.get("/runs", params=query).status_code == 422


class TestDeletion:
    def test_a_run_goes_with_its_files(self, client: httpx.Client, answering: Scripted) -> None:
        first, second = ended(client, "First?"), ended(client, "Second?")
        assert client.delete(f"/runs/{first}", params={"remove": "run"}).json()["question"] == "First?"
        assert client.get(f"/runs/{first}").status_code == 404
        assert listed(client) == [second]
        store = RunStore(answering.directory)
        assert store.ids() == [second]
        assert set(store.files.blobs.names()) == set(store.files.named_blobs(store.files.create()))

    def test_a_conversation_goes_whole(self, client: httpx.Client) -> None:
        first = ended(client, "First?")
        later = ended(client, "Later?", session=first)
        other = ended(client, "Other?")
        refused = client.delete(f"/runs/{first}", params={"remove": "run"})
        assert refused.status_code == 409
        assert "follow" in refused.json()["detail"]
        assert listed(client) == [other, later, first]
        client.delete(f"/runs/{later}", params={"remove": "conversation"}).raise_for_status()
        assert listed(client) == [other]

    def test_a_later_question_goes_alone(self, client: httpx.Client) -> None:
        first = ended(client, "First?")
        later = ended(client, "Later?", session=first)
        client.delete(f"/runs/{later}", params={"remove": "run"}).raise_for_status()
        assert listed(client) == [first]
        client.delete(f"/runs/{first}", params={"remove": "run"}).raise_for_status()
        assert listed(client) == []

    def test_a_run_that_is_followed_ends_for_its_followers(
        self, client: httpx.Client, answering: Scripted
    ) -> None:
        answering.policy.go.clear()
        run = client.post("/runs", json={"question": "How many?"}).json()["id"]
        with client.stream("GET", f"/runs/{run}/events") as response:
            lines = response.iter_lines()
            while not next(lines).startswith("id: 0"):
                pass
            assert client.delete(f"/runs/{run}", params={"remove": "run"}).status_code == 200
            rest = list(lines)
        assert "event: end" in rest
        assert '"stop_reason":"cancelled"' in "".join(rest)
        assert client.get(f"/runs/{run}").status_code == 404

    def test_one_that_another_process_writes_stays(self, client: httpx.Client, answering: Scripted) -> None:
        run = ended(client, "How many?")
        started = answering.store.started(run)
        with answering.store.record() as recording:
            recording.write(started.model_copy(update={"run_id": recording.id}))
            response = client.delete(f"/runs/{recording.id}", params={"remove": "run"})
            assert response.status_code == 409
            assert "in progress" in response.json()["detail"]
        client.delete(f"/runs/{recording.id}", params={"remove": "run"}).raise_for_status()


def copies(store: RunStore, source: str, number: int) -> list[str]:
    """Makes many runs of one; their ids, the newest first."""
    ids = [f"20{10 + n // 1000:02d}0101-000000-{n:06d}-aaaa" for n in range(number)]
    columns = "recorder, owner, via, title, pinned, shared, events, bytes, session, question, agent, "
    columns += "collection, answer, stop_reason, outcome"
    with store.changing() as connection:
        for run in ids:
            statement = f"INSERT INTO runs(id, {columns}) SELECT ?, {columns} FROM runs WHERE id = ?"
            connection.execute(statement, (run, source))
            statement = "SELECT type, data FROM events WHERE run = (SELECT number FROM runs WHERE id = ?) "
            statement += "ORDER BY number"
            for kind, data in connection.execute(statement, (source,)).fetchall():
                changed = data.replace(source.encode(), run.encode())
                values = connection.execute("SELECT max(number) FROM runs").fetchone()[0], kind, changed
                connection.execute("INSERT INTO events(run, type, data) VALUES (?, ?, ?)", values)
    return ids[::-1]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """10,000 runs, of which every hundredth is Alice's."""
    answering = scripted(tmp_path_factory.mktemp("many"), (SEARCH, ANSWER))

    async def ask() -> str:
        runs = runs_of(RunManager(answering))
        run = await runs.start(RunRequest(question="How many?"))
        async for _ in runs.follow(run.id):
            pass
        await runs.manager.close(5)
        return run.id

    source = asyncio.run(ask())
    ids = copies(answering.store, source, 10_000)
    answering.store.delete(source)
    with answering.store.changing() as connection:
        rows = [(run,) for run in ids[::100]]
        connection.executemany("UPDATE runs SET owner = 'alice', via = 'mcp' WHERE id = ?", rows)
    return answering.store


class TestThousands:
    def test_pages_hold_each_run_once(self, store: RunStore) -> None:
        history, seen, before = RunHistory(store), list[str](), ""
        while page := history.summaries({}, ALICE, RunQuery(limit=30, before=before)):
            seen += [run.id for run in page.runs]
            before = page.next
            if not page.more:
                break
        assert seen == store.ids()[::100]
        everything = history.summaries({}, EVERYBODY, RunQuery(limit=1))
        assert (everything.people, everything.programs) == (9900, 100)
        assert everything.owners == ("", "alice")
        assert history.summaries({}, BOB, RunQuery()).runs == ()

    def test_a_list_reads_events_of_what_it_lists_once(
        self, store: RunStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outlines, read_outline = Counter[str](), RunStore.outline

        def outline(store: RunStore, run: str) -> RunResult:
            outlines[run] += 1
            return read_outline(store, run)

        monkeypatch.setattr(RunStore, "outline", outline)
        history = RunHistory(store)
        for _ in range(3):
            assert len(history.summaries({}, EVERYBODY, RunQuery(limit=100)).runs) == 100
        assert (len(outlines), outlines.total()) == (100, 100)

    def test_a_search_reads_the_events_of_what_it_finds(
        self, store: RunStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        history, oldest, outlines = RunHistory(store), store.ids()[-1], list[str]()
        read_outline = RunStore.outline
        store.change_meta(oldest, title="Needle")

        def outline(store: RunStore, run: str) -> RunResult:
            outlines.append(run)
            return read_outline(store, run)

        monkeypatch.setattr(RunStore, "outline", outline)
        found = history.summaries({}, EVERYBODY, RunQuery(text="needle"))
        assert [run.id for run in found.runs] == outlines == [oldest]
        assert not found.more
