"""What makes runs of a benchmark hard to compare, and is no reason to refuse it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vrag.evaluation.result_store import Conditions, Evaluation

__all__ = ["differences", "judges_of", "row_differences"]


def differences(a: Conditions, b: Conditions) -> list[str]:
    """In sentences, for people; what cannot be compared at all, `pairing.pair` refuses."""
    told: list[str] = []
    if a.cases != b.cases:
        told.append("The two were asked questions of other preparations; those with equal ids are compared.")
    if a.samples != b.samples:
        told.append(
            f"Questions were asked {a.samples} and {b.samples} times; the samples of both are compared."
        )
    if a.extractor != b.extractor:
        told.append(
            f"Rules compared {_compared(a)} in the first run, and {_compared(b)} in the second:"
            " the difference in what they measure (em, f1, anls, the benchmark's own) may be that alone."
        )
    if a.measures != b.measures:
        told.append(
            "The two were recorded by versions that measure differently;"
            " run `vrag eval run` on both folders again."
        )
    if a.stopped or b.stopped:
        told.append("One was stopped before all questions were asked.")
    return told


def row_differences(rows: Mapping[str, Sequence[Evaluation]]) -> list[str]:
    """What makes the rows of a table hard to compare, in sentences, for people.

    Args:
        rows: The runs of each row, by its name.
    """
    if len(rows) < 2:
        return []
    return [*_judged(rows), *_extracted(rows), *_asked(rows), *_measured(rows)]


def judges_of(runs: Iterable[Evaluation]) -> str:
    """Who judged the runs of a row."""
    return _joined(dict.fromkeys(run.conditions.judge for run in runs))


def _judged(rows: Mapping[str, Sequence[Evaluation]]) -> Iterator[str]:
    every = [run.conditions for runs in rows.values() for run in runs]
    identities = {one.judge_identity for one in every if one.judge_identity}
    if len({one.judge for one in every}) > 1:
        told = {name: judges_of(runs) for name, runs in rows.items()}
    elif len(identities) > 1:
        told = {
            name: _joined(
                dict.fromkeys(run.conditions.judge_identity or run.conditions.judge for run in runs)
            )
            for name, runs in rows.items()
        }
    else:
        return
    who = ", ".join(f"{name} by {judge}" for name, judge in told.items())
    yield f"Judged by different judges: {who}. Their numbers cannot stand beside each other."


def _extracted(rows: Mapping[str, Sequence[Evaluation]]) -> Iterator[str]:
    told = {
        name: _joined(dict.fromkeys(_compared(run.conditions) for run in runs)) for name, runs in rows.items()
    }
    if len({run.conditions.extractor for runs in rows.values() for run in runs}) > 1:
        what = ", ".join(f"of {name} {compared}" for name, compared in told.items())
        may = "what they measure (em, f1, anls, the benchmark's own) may differ by that alone"
        yield f"Rules compared {what}: {may}."


def _asked(rows: Mapping[str, Sequence[Evaluation]]) -> Iterator[str]:
    """By what was asked, not by files: benchmarks may be run together or one by one."""
    asked = {
        name: {(one.subject.benchmark, one.subject.uid) for run in runs for one in run.records}
        for name, runs in rows.items()
    }
    first, *others = asked.values()
    both = first.intersection(*others)
    if any(questions != both for questions in asked.values()):
        each = ", ".join(f"{name} {count(len(questions), 'question')}" for name, questions in asked.items())
        yield f"Asked different questions: {each}; {len(both):,} are the same."
        return
    files = {tuple(sorted(run.conditions.cases for run in runs)) for runs in rows.values()}
    if len(files) > 1 and len({*map(len, files)}) == 1:
        yield "Asked questions of different preparations: those of one name may differ in their words."


def _measured(rows: Mapping[str, Sequence[Evaluation]]) -> Iterator[str]:
    if len({run.conditions.measures for runs in rows.values() for run in runs}) > 1:
        yield "Recorded by versions that measure differently; run `vrag eval run` on all these folders again."


def _joined(words: Iterable[str]) -> str:
    return " and ".join(words)


def _compared(conditions: Conditions) -> str:
    by = conditions.extractor
    return f"short answers that {by} extracted" if by else "answers as they were given"
