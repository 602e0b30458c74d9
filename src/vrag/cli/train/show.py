"""`vrag train show`: the kept rollouts of a training, listed by their rewards and opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import typer

from vrag.agent.runs.run_store import RunState, StoredRun
from vrag.cli import options as opt
from vrag.cli.run_printer import RunPrinter, print_end
from vrag.cli.terminal import files
from vrag.cli.terminal.console import (
    echo,
    plain,
    print_result,
    print_table,
    quote_argument,
)
from vrag.errors import RunError
from vrag.render.exports import Format
from vrag.render.run_page import page_of
from vrag.text.numerals import count

if TYPE_CHECKING:
    from vrag.rl.kept_rollouts import KeptRollout, QuestionChange

MAX_QUESTION_CHARS, MAX_ANSWER_CHARS = 50, 40


def show(
    training: Path = typer.Argument(..., metavar="FOLDER", help="Output folder of `vrag train local rl`."),
    rollout: str | None = typer.Argument(
        None,
        metavar="ROLLOUT",
        help="Name of a rollout as listed, such as 400/3.5, or the id of its run: it is opened.",
    ),
    step: int | None = typer.Option(
        None, "--step", min=0, help="Step whose rollouts are listed.", show_default="the last one kept"
    ),
    part: str | None = typer.Option(
        None, "--part", help="Part of the reward to order by, such as retrieval.", show_default="the total"
    ),
    held_out: bool = typer.Option(False, "--held-out", help="List the rollouts of evaluations instead."),
    limit: int = typer.Option(5, "--limit", "-n", min=1, help="Rollouts of each list."),
    out: str | None = typer.Option(
        None, "--out", "-o", help="Also write the opened rollout to a page (.html): pictures, boxes, rewards."
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Show kept rollouts of a training: the worst, the best, and the questions that changed most.

    Read them when a reward rises: the best ones show what it pays for. Each question is listed once. The
    questions that changed most are compared between the first and the last step that have kept them.
    A training keeps the rollouts of every n-th step (`vrag train local rl --keep-every`). They are ordinary
    runs: with VRAG_RUNS_DIR=FOLDER/rollouts/runs, `vrag runs`, `vrag report` and `vrag serve` open them.

    Examples:

      vrag train show trained

      vrag train show trained 400/3.5 --out rollout.html
    """
    from vrag.rl.kept_rollouts import find_rollout, read_kept_rollouts

    entries = read_kept_rollouts(training)
    if rollout is not None:
        if step is not None or part is not None or held_out:
            raise typer.BadParameter("--step, --part and --held-out are for lists: leave them out.")
        _show_rollout(training, find_rollout(entries, rollout), out, as_json=as_json)
        return
    if out is not None:
        raise typer.BadParameter("Name the rollout to be written: vrag train show FOLDER 400/3.5 --out …")
    kept = [entry for entry in entries if entry.held_out == held_out]
    if not kept:
        kind, other = ("evaluations", "without") if held_out else ("training steps", "with")
        raise RunError(f"{training} has no kept rollouts of {kind}.", f"List the others {other} --held-out.")
    _RolloutList(training, kept, _check_step(kept, step), _check_part(kept, part), limit).show(
        as_json=as_json
    )


def _check_step(entries: Sequence[KeptRollout], step: int | None) -> int:
    steps = sorted({entry.step for entry in entries})
    if step is None:
        return steps[-1]
    if step not in steps:
        known = ", ".join(map(str, steps))
        raise typer.BadParameter(f"Step {step} is not kept. Kept are: {known}.", param_hint="--step")
    return step


def _check_part(entries: Sequence[KeptRollout], part: str | None) -> str | None:
    known = _parts(entries)
    if part is not None and part not in known:
        message = f"The rewards have no part {part!r}. Parts are: {', '.join(known)}."
        raise typer.BadParameter(message, param_hint="--part")
    return part


def _parts(entries: Iterable[KeptRollout]) -> list[str]:
    return list(dict.fromkeys(name for entry in entries for name in entry.reward.parts))


class _RolloutList:
    """The worst and the best rollouts of a step, and the questions that changed most."""

    def __init__(
        self, training: Path, entries: Sequence[KeptRollout], step: int, part: str | None, limit: int
    ) -> None:
        from vrag.rl.kept_rollouts import find_changes, rank_rollouts

        self._training, self._entries, self._step, self._part = training, entries, step, part
        made = [entry for entry in entries if entry.step == step]
        self._worst = rank_rollouts(made, part)[:limit]
        self._best = rank_rollouts(made, part, best=True)[:limit]
        self._changes = find_changes(entries)[:limit]

    def show(self, *, as_json: bool) -> None:
        """Print the lists."""
        lists = {"worst": [*map(_facts, self._worst)], "best": [*map(_facts, self._best)]}
        changes = [_change_facts(change) for change in self._changes]
        steps = sorted({entry.step for entry in self._entries})
        facts = {
            "folder": str(self._training),
            "steps": steps,
            "step": self._step,
            **lists,
            "changed": changes,
        }
        print_result(facts, self._print, as_json=as_json)

    def _print(self) -> None:
        steps = sorted({entry.step for entry in self._entries})
        kind = "rollouts of evaluations" if self._entries[0].held_out else "rollouts"
        echo(f"{len(self._entries):,} {kind} of {count(len(steps), 'step')} are kept.")
        ends = dict.fromkeys((steps[0], self._step))
        means = [_means([entry for entry in self._entries if entry.step == step]) for step in ends]
        echo("")
        print_table(
            ("mean", *(f"step {step}" for step in ends)),
            ([name, *map(_number, values)] for name, values in _rows_of(means)),
        )
        order = f" by {self._part}" if self._part else ""
        for title, listed in ((f"Worst{order}", self._worst), (f"Best{order}", self._best)):
            echo("")
            echo((f"{title}, step {self._step}", "bold"))
            print_table(*_table(listed))
        if self._changes:
            echo("")
            echo(("Most changed", "bold"), ": the same question, first and last, mean reward of its rollouts")
            print_table(*_change_table(self._changes))
        name = (self._best or self._worst or self._entries)[0].name
        folder = plain(quote_argument(str(self._training)))
        echo("")
        echo(f"Open one: vrag train show {folder} {name} --out rollout.html")


def _means(entries: Sequence[KeptRollout]) -> dict[str, float | None]:
    """Average the measures of rollouts, those without a value left out."""
    rewards = [entry.reward for entry in entries]
    values: dict[str, list[float | None]] = {"reward": [reward.total for reward in rewards]}
    values |= {name: [reward.parts.get(name) for reward in rewards] for name in _parts(entries)}
    values["right"] = [None if reward.correct is None else float(reward.correct) for reward in rewards]
    values["calls"] = [float(entry.rollout.steps) for entry in entries]
    values["tokens"] = [float(entry.rollout.tokens) for entry in entries]
    found = {name: [value for value in each if value is not None] for name, each in values.items()}
    return {name: fmean(each) if each else None for name, each in found.items()}


def _rows_of(means: Sequence[Mapping[str, float | None]]) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the measures that have a value, with the values; a part may be of some steps only."""
    for name in dict.fromkeys(name for mean in means for name in mean):
        values = [mean.get(name) for mean in means]
        if any(value is not None for value in values):
            yield name, values


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _table(entries: Sequence[KeptRollout]) -> tuple[tuple[str, ...], Iterator[Sequence[str]]]:
    """Return the columns and rows of a list of rollouts."""
    parts = _parts(entries)
    columns = ("rollout", "reward", *parts, "calls", "tokens", "question", "answer", "reference")
    rows = (
        (
            entry.name,
            _number(entry.reward.total),
            *(_number(entry.reward.parts.get(name)) for name in parts),
            str(entry.rollout.steps),
            str(entry.rollout.tokens),
            plain(entry.rollout.question, MAX_QUESTION_CHARS),
            _answer(entry),
            plain(entry.reference, MAX_ANSWER_CHARS),
        )
        for entry in entries
    )
    return columns, rows


def _change_table(changes: Sequence[QuestionChange]) -> tuple[tuple[str, ...], Iterator[Sequence[str]]]:
    columns = ("question", "reference", "first", "reward", "answer", "last", "reward", "answer")
    rows = (
        (
            plain(change.early[0].rollout.question, MAX_QUESTION_CHARS),
            plain(change.early[0].reference, MAX_ANSWER_CHARS),
            *(
                cell
                for entries, reward in zip((change.early, change.late), change.rewards, strict=True)
                for cell in (_typical(entries).name, _number(reward), _answer(_typical(entries)))
            ),
        )
        for change in changes
    )
    return columns, rows


def _typical(entries: Sequence[KeptRollout]) -> KeptRollout:
    """Return the rollout with the median reward."""
    return sorted(entries, key=lambda entry: entry.reward.total or 0.0)[len(entries) // 2]


def _answer(entry: KeptRollout) -> str:
    if entry.rollout.answer is not None:
        return plain(entry.rollout.answer, MAX_ANSWER_CHARS)
    return f"({plain(entry.rollout.reason or entry.rollout.stop or 'none', MAX_ANSWER_CHARS)})"


def _facts(entry: KeptRollout) -> dict[str, Any]:
    return {"name": entry.name, **entry.model_dump(mode="json")}


def _change_facts(change: QuestionChange) -> dict[str, Any]:
    early, late = change.rewards
    return {
        "question": change.early[0].rollout.question,
        "first": {"reward": early, "rollouts": [*map(_facts, change.early)]},
        "last": {"reward": late, "rollouts": [*map(_facts, change.late)]},
    }


def _show_rollout(training: Path, entry: KeptRollout, out: str | None, *, as_json: bool) -> None:
    """Print a rollout with its reward, and write its page where one is asked for."""
    from vrag.rl.kept_rollouts import read_kept_run

    if out is not None:
        if out != files.STDOUT and files.format_of(str(opt.parse_path(out))) is not Format.HTML:
            raise typer.BadParameter(f"The name of a page ends in .html, not in {out!r}.", param_hint="--out")
        files.check_out(out, as_json=as_json)
    stored = read_kept_run(training, entry)
    written: dict[str, Any] = {}
    if out is not None:
        page = page_of(stored, facts=_reward_facts(entry))
        written = files.write_file(out, page.data) | {"pictures": page.pictures, "missing": page.absent}
    if out == files.STDOUT:
        return

    def render() -> None:
        _print_rollout(entry, stored)
        files.print_saved(written)

    folder = {"folder": str(stored.store.directory)}
    print_result(_facts(entry) | folder | ({"page": written} if written else {}), render, as_json=as_json)


def _reward_facts(entry: KeptRollout) -> dict[str, str]:
    """Return where a rollout belongs and what it earned, in words by name."""
    facts = {"rollout": entry.name, "reference": entry.reference, "reward": _number(entry.reward.total)}
    return facts | {f"reward: {name}": _number(value) for name, value in entry.reward.parts.items()}


def _print_rollout(entry: KeptRollout, stored: StoredRun) -> None:
    echo(("Question: ", "bold"), plain(entry.rollout.question))
    echo(("Reference: ", "bold"), plain(entry.reference))
    parts = ", ".join(f"{plain(name)} {_number(value)}" for name, value in entry.reward.parts.items())
    echo(("Reward: ", "bold"), f"{_number(entry.reward.total)} ({parts})")
    for label, text in (("Why", entry.reward.why), ("Judge", entry.reward.said)):
        if text:
            echo((f"{label}: ", "bold"), plain(text))
    if entry.rollout.failure:
        echo(("Failed: ", "bold red"), plain(entry.rollout.failure))
    printer = RunPrinter()
    for event in stored.events:
        printer.print_event(event)
    print_end(stored, RunState.FINISHED if stored.has_end else RunState.INTERRUPTED)
