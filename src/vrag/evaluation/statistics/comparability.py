"""Differences between the conditions of runs that make them hard to compare, without ruling it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vrag.evaluation.result_store import Conditions, Evaluation


def differences(a: Conditions, b: Conditions) -> list[str]:
    """Return the differences of two runs in sentences; `pairs.pair` refuses runs that cannot be compared."""
    sentences: list[str] = []
    if a.cases != b.cases:
        sentences.append("The questions of the two were prepared apart; those with equal ids are compared.")
    if a.samples != b.samples:
        sentences.append(
            f"Questions were asked {a.samples} and {b.samples} times; the samples of both are compared."
        )
    if a.extractor != b.extractor:
        sentences.append(
            f"Rules compared {_compared(a)} in the first run, and {_compared(b)} in the second:"
            " the difference in what they measure (em, f1, anls, the benchmark's own) may be that alone."
        )
    if a.measures != b.measures:
        sentences.append(
            "The two were recorded by versions that measure differently;"
            " run `vrag eval run` on both folders again."
        )
    if a.stopped or b.stopped:
        sentences.append("One was stopped before all questions were asked.")
    return sentences


def row_differences(rows: Mapping[str, Sequence[Evaluation]]) -> list[str]:
    """Return the differences of the rows of a table in sentences.

    Args:
        rows: The runs of each row, by its name.
    """
    if len(rows) < 2:
        return []
    conditions = [run.conditions for runs in rows.values() for run in runs]
    sentences = [*_judge_differences(rows, conditions)]
    if len({condition.extractor for condition in conditions}) > 1:
        compared = {name: _joined(_compared(run.conditions) for run in runs) for name, runs in rows.items()}
        answers = ", ".join(f"of {name} {answers}" for name, answers in compared.items())
        may = "what they measure (em, f1, anls, the benchmark's own) may differ by that alone"
        sentences.append(f"Rules compared {answers}: {may}.")
    sentences += _question_differences(rows)
    if len({condition.measures for condition in conditions}) > 1:
        sentences.append(
            "Recorded by versions that measure differently; run `vrag eval run` on all these folders again."
        )
    return sentences


def judges_of(runs: Iterable[Evaluation]) -> str:
    """Return the judges of the runs of a row."""
    return _joined(run.conditions.judge for run in runs)


def _judge_differences(
    rows: Mapping[str, Sequence[Evaluation]], conditions: Sequence[Conditions]
) -> Iterator[str]:
    if len({condition.judge for condition in conditions}) > 1:
        judges = {name: judges_of(runs) for name, runs in rows.items()}
    elif len({condition.judge_identity for condition in conditions} - {""}) > 1:
        judges = {
            name: _joined(run.conditions.judge_identity or run.conditions.judge for run in runs)
            for name, runs in rows.items()
        }
    else:
        return
    each = ", ".join(f"{name} by {judge}" for name, judge in judges.items())
    yield f"Judged by different judges: {each}. Their numbers cannot be compared."


def _question_differences(rows: Mapping[str, Sequence[Evaluation]]) -> Iterator[str]:
    """Compare questions, not files: benchmarks may be run together or one by one."""
    questions = {
        name: {(record.subject.benchmark, record.subject.uid) for run in runs for record in run.records}
        for name, runs in rows.items()
    }
    first, *others = questions.values()
    common = first.intersection(*others)
    if any(each != common for each in questions.values()):
        counts = ", ".join(f"{name} {count(len(each), 'question')}" for name, each in questions.items())
        yield f"Asked different questions: {counts}; {len(common):,} are the same."
        return
    files = {tuple(sorted(run.conditions.cases for run in runs)) for runs in rows.values()}
    if len(files) > 1 and len({*map(len, files)}) == 1:
        yield "Asked questions of different preparations: those of one name may differ in their words."


def _joined(words: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(words))


def _compared(conditions: Conditions) -> str:
    by = conditions.extractor
    return f"short answers that {by} extracted" if by else "answers as they were given"
