"""The plot of a soak: `python -m benchmarks.soak_plot DIR` writes `soak.svg` and `soak.png` into its folder.

Errors, latency, memory, descriptors, files and the load of the machine over time; memory and descriptors with
their linear trend. The first tenth of the time is left out of the trend: caches fill in it.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Axes: TypeAlias = Any  # matplotlib's types are incomplete

__all__ = ["Trend", "main", "plot", "trend"]

WARM_UP = 0.1
BIN_SECONDS = 120.0
"""Seconds of which one point of a latency is made."""
KINDS = ("search", "ask: without a model", "ask: scripted", "picture", "upload until found", "MCP search")
MEMORY = {"rss_mib": "RSS, all processes", "uss_mib": "USS, all processes", "server_uss_mib": "USS, server"}
HANDLES = {
    "descriptors": "descriptors, all processes",
    "server_descriptors": "descriptors, server",
    "threads": "threads",
    "processes": "child processes",
}


class Trend:
    """A straight line through a series: its slope per hour, and its values."""

    def __init__(self, hours: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        late = hours >= hours[-1] * WARM_UP
        slope, start = np.polyfit(hours[late], values[late], 1) if late.sum() > 1 else (0.0, values[-1])
        self.per_hour = float(slope)
        self.hours, self.values = hours[late], start + slope * hours[late]


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args(arguments).folder
    samples = [
        json.loads(line) for line in (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    figure = plot(samples)
    with import_module("matplotlib").rc_context({"svg.hashsalt": "soak"}):
        figure.savefig(folder / "soak.svg", metadata={"Date": None})
    figure.savefig(folder / "soak.png", dpi=110)
    print(table(samples))


def hours_of(samples: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """Return the times of samples, in hours."""
    return np.array([one["seconds"] / 3600 for one in samples])


def trend(samples: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> Trend:
    """Return the trend of a value of samples."""
    return Trend(hours_of(samples), np.array([float(value(one)) for one in samples]))


def plot(samples: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401
    """Return a figure of the samples."""
    figure: Any = import_module("matplotlib.figure").Figure(figsize=(12, 13), layout="constrained")
    (errors, machine), (latency, uploads), (memory, handles), (disk, files) = figure.subplots(4, 2)
    draw_errors(errors, samples)
    draw_machine(machine, samples)
    draw_latency(latency, samples, KINDS[:4:3], "Latency of searches and pictures, ms")
    draw_latency(uploads, samples, (*KINDS[1:3], KINDS[4]), "Latency of questions and uploads, ms")
    draw_lines(memory, samples, "server", MEMORY, "Memory of the server, MiB")
    draw_lines(handles, samples, "server", HANDLES, "Descriptors, threads and processes of the server")
    draw_lines(disk, samples, "mib", dict.fromkeys(("collection", "runs", "blobs")), "Size on disk, MiB")
    draw_lines(files, samples, "files", dict.fromkeys(("blobs", "temporary")), "Number of files")
    for axes in figure.axes:
        axes.set_xlabel("hours")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="best")
    total, wrong = (
        sum(one["requests"] for one in samples),
        sum(sum(one["errors"].values()) for one in samples),
    )
    figure.suptitle(f"{total:,} requests in {samples[-1]['seconds'] / 60:.0f} minutes, {wrong} errors")
    return figure


def draw_errors(axes: Axes, samples: Sequence[dict[str, Any]]) -> None:
    """Draw requests a second, and errors one by one."""
    hours = hours_of(samples)
    seconds = np.diff(hours * 3600, prepend=0)
    axes.plot(hours, [one["requests"] for one in samples] / seconds, lw=0.6, label="requests a second")
    kinds: dict[str, list[tuple[float, int]]] = {}
    for hour, one in zip(hours.tolist(), samples, strict=True):
        found: Counter[str] = Counter()
        for name, count in one["errors"].items():
            found[name.partition(":")[0]] += count
        for kind, count in found.items():
            kinds.setdefault(kind, []).append((hour, count))
    for kind, points in sorted(kinds.items()):
        label = f"errors in ten seconds, {kind}: {sum(count for _, count in points)}"
        axes.plot(*zip(*points, strict=True), "x", label=label)
    axes.plot([], [], "x", label="" if kinds else "errors (none)", color="black")
    axes.set_ylim(bottom=0)
    axes.set_title("Requests and errors", fontsize=9)


def draw_machine(axes: Axes, samples: Sequence[dict[str, Any]]) -> None:
    """Draw how busy the server and the machine were."""
    hours = hours_of(samples)
    busy = np.gradient([one["server"]["cpu"] for one in samples], hours * 3600) if len(samples) > 1 else [0]
    axes.plot(hours, np.clip(busy, 0, None), lw=0.6, label="processors that the server used")
    axes.plot(hours, [one["load"] for one in samples], lw=0.8, label="load of the machine, others included")
    axes.set_ylim(bottom=0)
    axes.set_title("Load", fontsize=9)


def draw_latency(axes: Axes, samples: Sequence[dict[str, Any]], kinds: Sequence[str], title: str) -> None:
    """Draw median, 95th and 99th percentile of some kinds of requests, each the median of two minutes."""
    for number, kind in enumerate(kinds):
        for style, name in (("-", "p50"), ("--", "p95"), (":", "p99")):
            binned: dict[int, list[float]] = {}
            for one in samples:
                if kind in one["latency_ms"]:
                    binned.setdefault(int(one["seconds"] // BIN_SECONDS), []).append(
                        one["latency_ms"][kind][name]
                    )
            hours = [(place + 0.5) * BIN_SECONDS / 3600 for place in binned]
            axes.plot(
                hours,
                [float(np.median(some)) for some in binned.values()],
                style,
                color=f"C{number}",
                lw=0.9,
                label=f"{kind}, {name}",
            )
    axes.set_yscale("log")
    axes.set_title(title, fontsize=9)


def draw_lines(
    axes: Axes, samples: Sequence[dict[str, Any]], part: str, names: Mapping[str, str | None], title: str
) -> None:
    """Draw values of a part of the samples, each with its trend."""
    for number, (name, label) in enumerate(names.items()):
        line = trend(samples, lambda one, name=name: one[part][name])
        told = f"{label or name}: {line.per_hour:+.1f} an hour"
        axes.plot(
            hours_of(samples), [one[part][name] for one in samples], lw=0.7, color=f"C{number}", label=told
        )
        axes.plot(line.hours, line.values, "--", lw=0.9, color=f"C{number}")
    axes.set_title(title, fontsize=9)


def table(samples: Sequence[dict[str, Any]]) -> str:
    """Return errors, trends, and the latency of every kind of request as Markdown."""
    errors: Counter[str] = Counter()
    for one in samples:
        errors.update(one["errors"])
    lines = ["| | |", "|---|---|", f"| minutes | {samples[-1]['seconds'] / 60:.1f} |"]
    lines.append(f"| requests | {sum(one['requests'] for one in samples):,} |")
    lines.append(f"| errors | {errors.total()} |")
    lines += [f"| errors, {kind} | {count} |" for kind, count in sorted(errors.items())]
    for name, label in (MEMORY | HANDLES).items():
        values = [one["server"][name] for one in samples]
        slope = trend(samples, lambda one, name=name: one["server"][name]).per_hour
        told = f"{values[0]}, {max(values)}, {values[-1]}; {slope:+.1f}"
        lines.append(f"| {label}: first, most, last; an hour | {told} |")
    lines += latency_lines(samples)
    return "\n".join(lines)


def latency_lines(samples: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table of the latency of requests by kind; percentiles are means of those of the samples."""
    lines = ["", "| request | number | p50 ms | p95 ms | p99 ms | most ms |", "|---|---|---|---|---|---|"]
    for kind in sorted({kind for one in samples for kind in one["latency_ms"]}):
        found = [one["latency_ms"][kind] for one in samples if kind in one["latency_ms"]]
        weights = [one["n"] for one in found]
        middle = [np.average([one[name] for one in found], weights=weights) for name in ("p50", "p95", "p99")]
        figures = [*middle, max(one["max"] for one in found)]
        lines.append(f"| {kind} | {sum(weights):,} | {' | '.join(f'{figure:.1f}' for figure in figures)} |")
    return lines


if __name__ == "__main__":
    main()
