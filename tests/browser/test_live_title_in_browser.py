"""The question of a run that goes on: nothing lies over it, however far the run is scrolled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import NARROW
from hosting import ANSWER, SEARCH
from playwright.sync_api import expect

if TYPE_CHECKING:
    from browsing import Desk, Opener

QUESTION = "How many passengers travelled on the line from Orla to Saltby in 2024, and how many in 2023?"
COVERED = """async () => {
  const thread = document.querySelector(".thread"), question = thread.querySelector("h1.question");
  const title = document.querySelector(".toolbar-title"), covered = [];
  const look = () => {
    const frame = thread.getBoundingClientRect(), range = document.createRange(), faults = [];
    range.selectNodeContents(question);
    let visible = 0;
    for (const line of range.getClientRects()) {
      const y = line.top + line.height / 2;
      if (y < frame.top || y > frame.bottom) continue;
      visible += 1;
      const there = document.elementFromPoint(line.left + line.width / 2, y);
      if (!question.contains(there)) faults.push(there?.outerHTML.slice(0, 80));
    }
    const told = getComputedStyle(title).visibility === "visible";
    const above = question.getBoundingClientRect().bottom < frame.top;
    if (above && !told) faults.push("told nowhere");
    return { faults, visible };
  };
  let seen = 0;
  for (let top = thread.scrollHeight; top >= 0; top -= 12) {
    thread.scrollTop = top;
    let found = { faults: ["not looked yet"], visible: 0 };
    for (let frame = 0; frame < 30 && found.faults.length > 0; frame++) { // the title follows later
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      found = look();
    }
    covered.push(...found.faults.map((fault) => `${top}: ${fault}`));
    seen += found.visible > 0;
  }
  return [covered, seen, thread.scrollHeight > thread.clientHeight + question.offsetHeight];
}"""


@pytest.mark.parametrize(
    "size",
    [{"width": 1440, "height": 520}, {"width": 768, "height": 520}, NARROW | {"height": 520}],
    ids=["1440", "768", "390"],
)
def test_nothing_lies_over_the_question_while_its_run_goes_on(
    desk: Desk, visit: Opener, size: dict[str, int]
) -> None:
    thought = "<think>" + "The report has a table of the lines and their passengers. " * 12 + "</think>"
    search = SEARCH[SEARCH.index("<search>") :]
    desk.answers.policy.replies = (
        *[thought + search.replace("ferry", f"ferry {n}") for n in range(5)],
        ANSWER,
    )
    desk.answers.policy.release(5)
    opened = visit(desk.address, viewport=size)
    opened.ask(QUESTION, agent="vrag", model="scripted")
    page = opened.page
    expect(page.locator("#stop")).to_be_visible()
    expect(page.get_by_text("ferry 4 passengers").first).to_be_attached()
    covered, seen, scrolls = page.evaluate(COVERED)
    assert scrolls
    assert seen > 0
    assert covered == []
