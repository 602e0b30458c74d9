"""The report of an evaluation: HTML to browse, Markdown to paste, JSON for other programs."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.evaluation.measures.chains import count_stages
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.report.case_list import ThumbnailSource, entries_of
from vrag.evaluation.report.images import Thumbnails, histogram
from vrag.evaluation.report.labels import (
    FURTHER,
    STAGE_MOODS,
    families,
    is_share,
)
from vrag.evaluation.report.rendering import render_html, render_markdown
from vrag.reading.verification.claim import ClaimVerdict
from vrag.text.numerals import count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PIL.Image import Image

    from vrag.agent.runs.run_store import RunStore
    from vrag.evaluation.record import CaseRecord
    from vrag.evaluation.report.case_list import CaseEntry
    from vrag.evaluation.summary import Estimate, MeasureValues, Resampling, Summary

_PLOTTED = ("ndcg@10", "turns", "seconds", "completion_tokens", "prompt_tokens", "visual_tokens", "iou")
"""Measures whose values are drawn, in order."""
_MAX_PLOTS = 6


@dataclass(frozen=True)
class ReportPage:
    """The content of the report of an evaluation."""

    title: str
    summary: Summary
    entries: tuple[CaseEntry, ...]
    """The cases, in the order of the records."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of the run by name: model, judge, seeds, revision of the data."""
    notes: tuple[str, ...] = ()
    """Sentences about what was dropped or corrected."""
    thumbnails: Thumbnails = field(default_factory=Thumbnails)
    reported: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """By benchmark, the measures that its authors report, their main one first."""
    runs: str = ""
    """Folder of the files of runs, relative to the page; empty where they are not there."""
    unfinished: str = ""
    """Progress in a sentence, where the run was stopped."""
    made: float = 0.0
    """Time of writing, in seconds since 1970, UTC."""

    @property
    def size(self) -> str:
        """Number of questions, documents and runs, in words."""
        overall = self.summary.overall
        text = count(overall.questions, "question")
        if overall.documents:
            text += f" about {count(overall.documents, 'document')}"
        return text if overall.records == overall.questions else f"{text}, {count(overall.records, 'run')}"

    @property
    def benchmarks(self) -> Mapping[str, MeasureValues]:
        """Results of benchmarks that were asked together; none where there is one benchmark."""
        found = self.summary.groups.get("benchmark", {})
        return found if len(found) > 1 else {}

    @property
    def groups(self) -> dict[str, Mapping[str, MeasureValues]]:
        """Groups by kind, of the kinds that distinguish questions; without benchmarks."""
        return {
            kind: groups
            for kind, groups in self.summary.groups.items()
            if kind != "benchmark"
            and any(group.records < self.summary.overall.records for group in groups.values())
        }

    @property
    def headline(self) -> list[str]:
        """The first measure of each family, then those of cost."""
        measures = self.summary.overall.measures
        return [*self.first_shares, *(name for name in ("turns", "seconds", "cost") if name in measures)][:8]

    @property
    def first_shares(self) -> list[str]:
        """The first measure of each family that is a share."""
        named = families(self.summary.overall.measures).items()
        return [names[0] for family, names in named if is_share(names[0]) and family not in FURTHER]

    def reported_measures(self, benchmark: str) -> dict[str, Estimate]:
        """Return the measures that the authors of a benchmark report, of those that were measured."""
        measures = self.summary.groups["benchmark"][benchmark].measures
        names = (name for name in self.reported.get(benchmark, ()) if name != "accuracy")
        return {name: measures[name] for name in names if name in measures}

    @property
    def stages(self) -> dict[str, dict[str, int]]:
        """The outcome of the chains of evidence at each stage, as in `STAGE_MOODS`; empty without chains."""
        counts = count_stages(entry.sides[0].record.measures for entry in self.entries)
        names = tuple(STAGE_MOODS)
        return {
            at.stage: dict(zip(names, (at.held, at.unmeasured, at.broken, at.before), strict=True))
            for at in counts
        }

    @property
    def without_stages(self) -> str:
        """The runs that have a chain, and the stages that none of them has, in words."""
        chains = sum("chain_page" in entry.sides[0].record.measures for entry in self.entries)
        sentences = [
            f"{count(chains, 'run')} of {len(self.entries):,}, of questions with gold pages and an answer."
        ]
        if "chain_region" not in self.stages:
            sentences.append("No question has gold boxes: regions are left out.")
        if "chain_fact" not in self.stages:
            sentences.append("The words of no gold page say the answer: facts are left out.")
        return " ".join(sentences)

    @property
    def verdicts(self) -> dict[str, dict[ClaimVerdict, int]]:
        """Answers by outcome and by the verifier's verdict; empty where no claim was checked."""
        found = Counter(
            (entry.sides[0].record.outcome, entry.sides[0].record.verdict) for entry in self.entries
        )
        rows = {
            outcome.value: {verdict: found[outcome, verdict] for verdict in ClaimVerdict}
            for outcome in (CaseOutcome.RIGHT, CaseOutcome.WRONG, CaseOutcome.UNJUDGED)
        }
        return {name: row for name, row in rows.items() if any(row.values())}

    @cached_property
    def html(self) -> str:
        """One page that needs no other file."""
        measured = [entry.sides[0].record.measures for entry in self.entries]
        names = _PLOTTED if any("ndcg@10" in values for values in measured) else ("ndcg@5", *_PLOTTED)
        drawn = (histogram(name, [values[name] for values in measured if name in values]) for name in names)
        plots = [drawing for drawing in drawn if drawing is not None][:_MAX_PLOTS]
        outcomes = {outcome.value: n for outcome, n in self.summary.overall.outcomes.items()}
        sections = {
            "Result": True,
            "Chains": self.stages or self.verdicts,
            "Measures": self.summary.overall.measures,
            "Benchmarks": self.benchmarks,
            "Groups": self.groups,
            "Spread": plots,
            "Settings": True,
            "Cases": True,
        }
        return render_html(
            "evaluation.html",
            self.entries,
            self.thumbnails,
            names=("",),
            runs=(self.runs,),
            page=self,
            size=self.size,
            sections=[name for name, content in sections.items() if content],
            overall=self.summary.overall,
            outcomes=outcomes,
            outcome_text=", ".join(f"{n:,} {name}" for name, n in outcomes.items()),
            plots=plots,
        )

    @cached_property
    def markdown(self) -> str:
        """The numbers, without the cases."""
        return render_markdown("evaluation.md.jinja", self)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the report: settings, the summary, and all records."""
        return {
            "title": self.title,
            "made": self.made,
            "written_by": f"vrag {__version__}",
            "unfinished": self.unfinished,
            "settings": dict(self.facts),
            "notes": list(self.notes),
            "summary": self.summary.as_dict(),
            "stages": self.stages,
            "verdicts": self.verdicts,
            "records": [entry.sides[0].record.model_dump(mode="json") for entry in self.entries],
        }


def intervals_text(level: float, resamples: int, seed: int) -> str:
    """Return the settings of intervals in words.

    >>> intervals_text(0.95, 2000, 0)
    '95 %, by 2,000 draws of documents, seed 0'
    """
    return f"{100 * level:g} %, by {resamples:,} draws of documents, seed {seed}"


def report_page(  # noqa: PLR0913 - all but the first three may be left out
    title: str,
    records: Sequence[CaseRecord],
    summary: Summary,
    *,
    facts: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    reported: Mapping[str, Sequence[str]] | None = None,
    store: RunStore | None = None,
    page_image: Callable[[str, int], Image | None] | None = None,
    thumbnails: Thumbnails | None = None,
    runs: str = "runs",
    unfinished: str = "",
    made: float | None = None,
) -> ReportPage:
    """Gather the content of the report of an evaluation.

    Args:
        title: Title; `Evaluation` if empty.
        records: The cases, in the order of the report.
        summary: Their summary.
        facts: Settings of the run by name.
        notes: Sentences about what was dropped or corrected.
        reported: By benchmark, the measures that its authors report, their main one first.
        store: The runs, for steps and images of pages; a run that cannot be read is left out.
        page_image: Returns the image of a page that no run was shown, by file name and number from 1, or
            None.
        thumbnails: Bounds of the images, without images yet; they are added.
        runs: Folder of the files of runs, relative to the page.
        unfinished: Progress in a sentence, where the run was stopped.
        made: Time of writing in seconds since 1970; now if None.
    """
    gathered = thumbnails or Thumbnails()
    intervals: Resampling = summary.intervals
    return ReportPage(
        title=" ".join(title.split()) or "Evaluation",
        summary=summary,
        entries=entries_of(records, ThumbnailSource(gathered, page_image), store),
        facts={
            **(facts or {}),
            "intervals": intervals_text(intervals.level, intervals.resamples, intervals.seed),
        },
        notes=tuple(notes),
        reported=dict(reported or {}),
        thumbnails=gathered,
        runs=runs if store is not None else "",
        unfinished=unfinished,
        made=time.time() if made is None else made,
    )
