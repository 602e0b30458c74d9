"""Runs of a benchmark → records, in a folder that reports and comparisons read.

The folder is a rollout store (`vrag.rollouts.rollout_store`): a run is on disk before it counts, and is
not repeated. The records are derived from the runs each time, in the order of the questions, so that an
evaluation that was killed and resumed has the same records as one that was not::

    conditions.json     what was run: written with the records
    records.jsonl       a line for each question and sample
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from vrag.atomic_io import write_lines, write_whole
from vrag.cases import gold_documents, gold_pages
from vrag.errors import RunError
from vrag.evaluation.prepare import PreparedPart
from vrag.evaluation.record import CaseRecord, needs_extraction, needs_verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from vrag.evaluation.answer_extraction import Extractor
    from vrag.evaluation.record import Extraction
    from vrag.reward.reward import Reward, Scorer
    from vrag.rollouts.rollout import Rollout
    from vrag.types import Case, Document


class Searched(BaseModel):
    """The documents that were searched: another download of a benchmark may have unreadable files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: int
    """Documents that can be found."""
    absent: tuple[str, ...] = ()
    """File names of documents that questions are about and that cannot be found, in order."""
    questions: int = 0
    """Questions about one of these."""


def searched_for(cases: Sequence[Case], documents: Iterable[Document]) -> Searched | None:
    """Compare the documents of questions with those that are searched; None if these are unknown."""
    there = {document.name for document in documents if document.status.served}
    if not there:
        return None
    missing: list[set[str]] = []
    for case in cases:
        pages = {name for name, _ in gold_pages(case)}
        names = {case.file_name, *pages, *gold_documents(case)}
        missing.append({name for name in names if name} - there)
    absent = sorted(set[str]().union(*missing))
    return Searched(documents=len(there), absent=tuple(absent), questions=sum(map(bool, missing)))


_Model = TypeVar("_Model", bound=BaseModel)
CONDITIONS, RECORDS = "conditions.json", "records.jsonl"
SCHEMA_VERSION = 1
MEASURES_VERSION = 2
"""Version of the definitions of measures: one higher with each change of the numbers of the same run."""


class Conditions(BaseModel):
    """The conditions of a run, to run it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    version: str
    """Version of this package."""
    benchmarks: tuple[PreparedPart, ...]
    cases: str
    """SHA-256 of the questions, as they were prepared: another revision of a data set has another one."""
    samples: int
    """Runs of each question."""
    judge: str
    """The judge of answers: `rules`, or a model."""
    judge_identity: str = ""
    """The same for machines (`IdentifiedJudge.identity`): a model under another prompt has another one.
    Empty in files from before it was kept."""
    extractor: str = ""
    """The extractor of short answers for rules to compare (`Extractor.identity`): a model, and a hash of its
    prompts; empty where rules compared answers as they were given."""
    made_with: dict[str, Any]
    """Agent, policy, limits, sampling and collection, as in the rollout store."""
    places: tuple[str, ...] = ()
    """Places of the collections that were searched: reports draw images of gold pages from them."""
    stopped: bool = False
    """True if questions were left that were not asked."""
    asked: int = 0
    """Number of questions to ask; 0 in files from before it was kept."""
    searched: Searched | None = None
    """Documents that were searched; None if unknown."""
    measures: int = 0
    """`MEASURES_VERSION` of the recording version; 0 in files from before it was kept."""
    retrieval: dict[str, float] = {}
    """Pages and seconds of the search by the question, where it was measured."""


class Evaluation(BaseModel):
    """A recorded run of a benchmark."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conditions: Conditions
    records: tuple[CaseRecord, ...]
    """In the order of the questions, then of the samples."""


ResultRecorder: TypeAlias = (
    "Callable[[Rollout, Reward | None, Extraction | None, Sequence[bool] | None], CaseRecord]"
)
"""A function that makes the record of a run; verdict, short answer and verdicts on facts are None where no
model was asked."""


async def record_rollouts(
    rollouts: AsyncIterable[Rollout],
    scorer: Scorer,
    record: ResultRecorder,
    *,
    extractor: Extractor | None = None,
    judge_facts: Callable[[Rollout], Awaitable[Sequence[bool] | None]] | None = None,
    concurrency: int = 32,
    progress: Callable[[CaseRecord], None] = lambda _: None,
) -> dict[tuple[str, int], CaseRecord]:
    """Judge runs as they come, in any order, and return their records by uid and sample.

    A slow judge does not hold up the next run. The scorer judges answers where that is needed
    (`needs_verdict`), and the extractor extracts short answers for rules to compare (`needs_extraction`);
    without one, rules compare answers as they were given. `judge_facts` returns verdicts on gold facts, where
    a data set has them. `progress` is called with each record. Raises the error of taking a run; those that
    were being judged are then cancelled.
    """
    records: dict[tuple[str, int], CaseRecord] = {}
    places = asyncio.Semaphore(concurrency)

    async def work(rollout: Rollout) -> None:
        case, reward, extraction, facts = rollout.attempt.case, None, None, None
        try:
            if needs_verdict(rollout):
                reward = await scorer.score(case, rollout.trajectory)
            if extractor is not None and needs_extraction(rollout):
                extraction = await extractor.extract(case.query, rollout.trajectory.answer or "")
            if judge_facts is not None:
                facts = await judge_facts(rollout)
        finally:
            places.release()
        records[case.uid, rollout.attempt.sample] = made = record(rollout, reward, extraction, facts)
        progress(made)

    try:
        async with asyncio.TaskGroup() as group:
            async for rollout in rollouts:
                await places.acquire()
                group.create_task(work(rollout))
    except ExceptionGroup as errors:  # of the runs: scorers report their own errors as missing verdicts
        raise errors.exceptions[0] from None
    return records


def write_evaluation(folder: Path, conditions: Conditions, records: Iterable[CaseRecord]) -> Evaluation:
    """Write the conditions and the records; the old ones stay until the new ones are on disk.

    Raises `RunError` if they cannot be written.
    """
    done = Evaluation(conditions=conditions, records=tuple(records))
    try:
        write_lines(folder / RECORDS, [record.model_dump_json().encode() for record in done.records])
        write_whole(folder / CONDITIONS, (conditions.model_dump_json(indent=2) + "\n").encode())
    except OSError as error:
        raise RunError(
            f"Records cannot be written to {folder}: {error.strerror or error}.",
            "Free some disk space; the same command continues from the existing runs.",
        ) from error
    return done


def read_evaluation(folder: Path) -> Evaluation:
    """Read the conditions and the records.

    Raises `RunError` if there are none in the folder, or they are damaged.
    """
    try:
        conditions = _read(Conditions, (folder / CONDITIONS).read_bytes(), CONDITIONS)
        *lines, rest = (folder / RECORDS).read_bytes().split(b"\n")
        if rest:  # it is written at once: a torn line is not a run in progress
            raise _damaged(folder / RECORDS, "it ends in the middle of a line")
        records = [_read(CaseRecord, line, f"{RECORDS}, line {at}") for at, line in enumerate(lines, start=1)]
    except FileNotFoundError as error:
        raise RunError(f"{folder} holds no evaluation.", "Make one: vrag eval run.") from error
    except OSError as error:
        raise _damaged(folder, error.strerror or str(error)) from error
    except ValueError as error:
        raise _damaged(folder, str(error)) from error
    return Evaluation(conditions=conditions, records=tuple(records))


def _read(kind: type[_Model], text: bytes, place: str) -> _Model:
    """Validate JSON; the message of a ValueError has the place and the first error."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {at + ': ' if at else ''}{first['msg']}") from error


def _damaged(path: Path, why: str) -> RunError:
    return RunError(
        f"The evaluation in {path} cannot be read: {why}.",
        "Make it again from its runs: vrag eval run, with the same folder.",
    )
