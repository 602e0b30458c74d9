"""Runs of a benchmark → records, in a folder that reports and comparisons read.

The folder is a rollout store (`vrag.rollouts.rollout_store`): a run is on disk before it counts, and is
not repeated. The records are derived from the runs each time, in the order of the questions, so that an
evaluation that was killed and resumed has the same records as one that was not::

    conditions.json     what was run: written with the records
    records.jsonl       a line for each question and sample
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from vrag.atomic_io import write_lines, write_whole
from vrag.cases import gold_documents, gold_pages
from vrag.errors import RunError
from vrag.evaluation.prepare import PreparedPart
from vrag.evaluation.record import CaseRecord
from vrag.evaluation.record_builder import needs_extraction, needs_verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence
    from pathlib import Path

    from vrag.evaluation.answer_extraction import Extractor
    from vrag.evaluation.record import Extraction
    from vrag.reward.reward import Reward, Scorer
    from vrag.rollouts.rollout import Rollout
    from vrag.types import Case, Document


class Searched(BaseModel):
    """What was searched: another download of a benchmark may have files that cannot be read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: int
    """Those that can be found."""
    absent: tuple[str, ...] = ()
    """File names of documents that questions are about and that cannot be found, in order."""
    questions: int = 0
    """How many questions are about one of these."""


def searched_for(cases: Sequence[Case], documents: Iterable[Document]) -> Searched | None:
    """Compares what questions are about with what is searched.

    Args:
        cases: The questions.
        documents: What is searched; without any nothing is known, as where a server searches.
    """
    there = {document.name for document in documents if document.status.served}
    if not there:
        return None
    missing = [_about(case) - there for case in cases]
    absent = sorted(set[str]().union(*missing))
    return Searched(documents=len(there), absent=tuple(absent), questions=sum(map(bool, missing)))


def _about(case: Case) -> set[str]:
    """File names."""
    pages = {name for name, _ in gold_pages(case)}
    return {name for name in {case.file_name, *pages, *gold_documents(case)} if name}


_Model = TypeVar("_Model", bound=BaseModel)
CONDITIONS, RECORDS = "conditions.json", "records.jsonl"
SCHEMA_VERSION = 1
MEASURES_VERSION = 1
"""Of what measures mean: one higher with each change after which the same run has other numbers."""


class Conditions(BaseModel):
    """What was run, so that others can run it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    version: str
    """Of this package."""
    benchmarks: tuple[PreparedPart, ...]
    cases: str
    """SHA-256 of the questions, as they were prepared: another revision of a data set has another one."""
    samples: int
    """Runs of each question."""
    judge: str
    """Who says what is right: `rules`, or a model."""
    judge_identity: str = ""
    """The same for machines (`IdentifiedJudge.identity`): a model under another prompt has another one.
    Empty in files from before it was kept."""
    extractor: str = ""
    """Who made short answers of long ones for rules to compare (`Extractor.identity`): a model, and a hash
    of its prompts; empty where rules compared answers as they were given."""
    made_with: dict[str, Any]
    """Agent, policy, limits, sampling and collection, as the campaign holds them."""
    places: tuple[str, ...] = ()
    """Where the collections were that were searched: reports draw pictures of gold pages from them."""
    stopped: bool = False
    """Whether questions are left that were not asked."""
    asked: int = 0
    """How many questions there are to ask; 0 in files from before it was kept."""
    searched: Searched | None = None
    """Which documents were searched; None where it is not known."""
    measures: int = 0
    """`MEASURES_VERSION` of who recorded it; 0 in files from before it was kept."""
    retrieval: dict[str, float] = {}
    """Pages and seconds of the search by the question, where it was measured."""


class Evaluation(BaseModel):
    """A run of a benchmark that was recorded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conditions: Conditions
    records: tuple[CaseRecord, ...]
    """In the order of the questions, then of the samples."""


class ResultRecorder(Protocol):
    """A run, the verdict on its answer and its short answer → what is kept."""

    def __call__(
        self, rollout: Rollout, reward: Reward | None, extraction: Extraction | None, /
    ) -> CaseRecord:
        """The record; verdict and short answer are None where nobody was asked."""
        ...


async def record_rollouts(
    rollouts: AsyncIterable[Rollout],
    scorer: Scorer,
    record: ResultRecorder,
    *,
    extractor: Extractor | None = None,
    concurrency: int = 32,
    progress: Callable[[CaseRecord], None] = lambda _: None,
) -> dict[tuple[str, int], CaseRecord]:
    """Judges runs as they come, in whatever order; a slow judge does not hold up the next run.

    Args:
        rollouts: The runs.
        scorer: Says what is right, where it takes somebody to say so; see `needs_verdict`.
        record: What is kept of a run and its verdict.
        extractor: Makes short answers for rules to compare, of what was answered; see `needs_extraction`.
            None: rules compare answers as they were given.
        concurrency: Runs that are judged at once, at most.
        progress: Is told of each record.

    Returns:
        The records by uid and sample.

    Raises:
        Exception: What taking a run raised. Runs that were being judged are given up then, and not told of.
    """
    records: dict[tuple[str, int], CaseRecord] = {}
    places = asyncio.Semaphore(concurrency)

    async def work(rollout: Rollout) -> None:
        case, reward, extraction = rollout.attempt.case, None, None
        try:
            if needs_verdict(rollout):
                reward = await scorer.score(case, rollout.trajectory)
            if extractor is not None and needs_extraction(rollout):
                extraction = await extractor.extract(case.query, rollout.trajectory.answer or "")
        finally:
            places.release()
        records[case.uid, rollout.attempt.sample] = made = record(rollout, reward, extraction)
        progress(made)

    try:
        async with asyncio.TaskGroup() as group:
            async for rollout in rollouts:
                await places.acquire()
                group.create_task(work(rollout))
    except ExceptionGroup as faults:  # of the runs: whoever scores says of itself what is missing
        raise faults.exceptions[0] from None
    return records


def write_evaluation(folder: Path, conditions: Conditions, records: Iterable[CaseRecord]) -> Evaluation:
    """Writes what was run and its records; the old ones stand until the new ones are on disk.

    Raises:
        RunError: If the disk refuses.
    """
    done = Evaluation(conditions=conditions, records=tuple(records))
    try:
        write_lines(folder / RECORDS, [record.model_dump_json().encode() for record in done.records])
        write_whole(folder / CONDITIONS, (conditions.model_dump_json(indent=2) + "\n").encode())
    except OSError as error:
        raise RunError(
            f"Records cannot be written to {folder}: {error.strerror or error}.",
            "Make room; the same command goes on from the runs that are there.",
        ) from error
    return done


def read_evaluation(folder: Path) -> Evaluation:
    """What was run and its records.

    Raises:
        RunError: If there is none in the folder, or it is damaged.
    """
    try:
        conditions = _read(Conditions, (folder / CONDITIONS).read_bytes(), CONDITIONS)
        *lines, rest = (folder / RECORDS).read_bytes().split(b"\n")
        if rest:  # it is written whole: a torn line is no run that is being made
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
    """Raises: ValueError: If it is none; says where, and what is wrong first."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {at + ': ' if at else ''}{first['msg']}") from error


def _damaged(path: Path, why: str) -> RunError:
    return RunError(
        f"The evaluation in {path} cannot be read: {why}.",
        "Make it again of its runs: vrag eval run, with the same folder.",
    )
