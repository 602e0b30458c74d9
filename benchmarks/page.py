"""Loading of the web page in Chromium: requests, bytes, first paint, time until a question can be asked.

    python benchmarks/page.py COLLECTION [--before CHECKOUT] [--runs 9]

Each checkout serves a copy of the collection by `vrag serve` in a process of its own; Chromium opens the
servers in turn, so that whatever else the machine does meets all of them. A page can be used when its
question box can have the focus and the options of a question are there. Cold is a browser without a cache,
warm the same browser once more; slow is cold, with a processor four times as slow and a network of 10 Mbit/s
and 40 ms from request to response. Bytes are what came over the network, with headers: until the page could
be used, and altogether, with what it loads ahead. Needs Playwright and Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect, sync_playwright
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser, BrowserContext

HERE = Path(__file__).parents[1]
SITUATIONS = ("cold", "warm", "slow")
SLOW_NETWORK = {"offline": False, "latency": 40, "downloadThroughput": 1.25e6, "uploadThroughput": 1.25e6}
SLOW_PROCESSOR = 4
AHEAD_MS = 2500
"""Time in which a page may load what it will need later."""
WATCH = """(() => {
  const usable = () => {
    const box = document.querySelector("#ask-box, #first-box");
    if (box?.offsetHeight && !("vragBox" in window)) window.vragBox = performance.now();
    const options = document.querySelector("#options-button .clip");
    if (options && options.textContent.trim()) window.vragUsable = performance.now();
    else requestAnimationFrame(usable);
  };
  requestAnimationFrame(usable);
  window.vragShift = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.vragShift += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
})();"""
READ = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  box: window.vragBox, usable: window.vragUsable, shift: window.vragShift,
})"""


@dataclass
class Side:
    """A server that is measured, and what was measured of it, by situation."""

    name: str
    address: str
    loads: dict[str, list[dict[str, float]]] = field(default_factory=dict[str, list[dict[str, float]]])


@contextmanager
def served(checkout: Path, collection: Path) -> Generator[str]:
    """Serve a copy of a collection from a checkout; yield the address."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(collection, Path(folder) / collection.name)
        command = [sys.executable, "-m", "vrag", "serve", "--port", "0", "--collection", str(copy)]
        env = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        env |= {"XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env, cwd=folder
        ) as server:
            try:
                assert server.stdout is not None
                found = (re.search(r"http://[\w.:]+", line) for line in server.stdout)
                yield next(match[0] for match in found if match)
            finally:
                server.terminate()


def load(context: BrowserContext, address: str, *, slow: bool) -> dict[str, float]:
    """Open the page once; return times in ms and what came over the network."""
    page = context.new_page()
    page.add_init_script(WATCH)
    session: Any = context.new_cdp_session(page)
    session.send("Network.enable")
    if slow:
        session.send("Network.emulateNetworkConditions", SLOW_NETWORK)
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_PROCESSOR})
    sent: dict[str, tuple[float, float]] = {}
    """Of each request, when its response was there and how long it was, with its headers."""
    cached: set[str] = set[str]()
    begun: list[float] = []

    def begin(event: Any) -> None:  # noqa: ANN401 - the protocol's
        begun.append(event["timestamp"])

    def skip(event: Any) -> None:  # noqa: ANN401 - as above
        cached.add(event["requestId"])

    def finish(event: Any) -> None:  # noqa: ANN401 - as above
        if event["requestId"] not in cached and event["encodedDataLength"]:
            sent[event["requestId"]] = event["timestamp"] - begun[0], event["encodedDataLength"]

    session.on("Network.requestWillBeSent", begin)
    session.on("Network.requestServedFromCache", skip)
    session.on("Network.loadingFinished", finish)
    page.goto(address)
    expect(page.locator("#options-button .clip")).not_to_be_empty()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(AHEAD_MS)
    times: dict[str, float] = page.evaluate(READ)
    page.close()
    first = [length for time, length in sent.values() if 1000 * time <= times["usable"]]
    return {
        **times,
        "requests until usable": len(first),
        "bytes until usable": sum(first),
        "requests": len(sent),
        "bytes": sum(length for _, length in sent.values()),
    }


def measure(browser: Browser, sides: list[Side], runs: int) -> None:
    """Load the page of each side in each situation, in turn."""
    for run in range(runs + 1):  # the first one warms the servers up
        for side in sides:
            for slow in (False, True):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                loads = {"slow" if slow else "cold": load(context, side.address, slow=slow)}
                if not slow:
                    loads["warm"] = load(context, side.address, slow=False)
                context.close()
                for situation, figures in loads.items():
                    if run:
                        side.loads.setdefault(situation, []).append(figures)


def show(sides: list[Side]) -> None:
    """Print the medians, and the ratio of the last side to the first."""
    table = Table("", *(side.name for side in sides), "ratio")
    units = {"requests until usable": "", "bytes until usable": " B", "requests": "", "bytes": " B"}
    units |= {"paint": " ms", "box": " ms", "usable": " ms", "shift": ""}
    for situation in SITUATIONS:
        for figure, unit in units.items():
            middles = [statistics.median(load[figure] for load in side.loads[situation]) for side in sides]
            digits = 3 if figure == "shift" else 0
            ratio = f"{middles[-1] / middles[0]:.2f}" if middles[0] else "–"
            table.add_row(
                f"{situation}, {figure}", *(f"{middle:,.{digits}f}{unit}" for middle in middles), ratio
            )
    Console().print(table)


def main() -> None:
    """Measure this checkout, and another one beside it."""
    parser = argparse.ArgumentParser(description="Measure how the web page loads.")
    parser.add_argument("collection", type=Path)
    parser.add_argument("--before", type=Path, help="another checkout of vrag to compare with")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", type=Path, help="a file for all figures")
    options = parser.parse_args()
    checkouts = ([("before", options.before)] if options.before else []) + [("now", HERE)]
    with ExitStack() as stack:
        sides = [
            Side(name, stack.enter_context(served(path, options.collection))) for name, path in checkouts
        ]
        playwright = stack.enter_context(sync_playwright())
        chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        measure(browser, sides, options.runs)
        browser.close()
    show(sides)
    if options.json:
        options.json.write_text(json.dumps({side.name: side.loads for side in sides}, indent=1))


if __name__ == "__main__":
    main()
