"""The page parts evidence as every other door does."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path

from javascript import NODE

import vrag.server
from vrag.agent.events import RunSettings
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.runs.run_result import citations
from vrag.types import ItemKind

SCRIPTS = Path(vrag.server.__file__).parent / "static" / "js"
PROGRAM = """
globalThis.document = { createElement: () => ({}), createElementNS: () => ({}) };
const { cited } = await import(process.argv[2]);
const cases = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const items = (all) => all.map((one) => [one.evidence.item, one.evidence.box]);
console.log(JSON.stringify(cases.map(([settings, evidence]) => {
  const { main, besides } = cited({ started: { settings }, answer: { text: "a", evidence }, pictures: [] });
  return [items(main), items(besides)];
})));
"""


def seen(item: str, box: BoxSides | None) -> Evidence:
    return Evidence(item=item, document="a.pdf", document_id="a", page=1, kind=ItemKind.PAGE, box=box)


def test_the_page_cites_what_the_other_doors_cite(tmp_path: Path) -> None:
    sides = [None, *((0.0, 0.0, width, 1.0) for width in (0.5, 0.98, 0.99, 0.995, 1.0))]
    told = [
        RunSettings(agent=agent, policy="p", profile="qwen2.5-vl", reselect=reselect)
        for agent, reselect in (
            ("vrag", False),
            ("vrag", True),
            ("vimrag", False),
            ("rag", False),
            ("react", True),
        )
    ]
    cases = [
        (settings, [seen("a", first), seen("b", second), seen("a", second), seen("c", (0.0, 0.0, 1.0, 1.0))])
        for settings, first, second in product(told, sides, sides)
    ]
    shutil.copytree(SCRIPTS, tmp_path / "js")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    program = tmp_path / "cited.mjs"
    program.write_text(
        'import { createRequire } from "node:module";\nconst require = createRequire(import.meta.url);\n'
        + PROGRAM
    )
    given = json.dumps(
        [[s.model_dump(mode="json"), [e.model_dump(mode="json") for e in es]] for s, es in cases]
    )
    command = [*NODE, str(program), (tmp_path / "js" / "run" / "citations.js").as_uri()]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    for (settings, evidence), page in zip(cases, json.loads(done.stdout), strict=True):
        ours = citations(evidence, settings)
        parts = [
            [[one.item, one.box and list(one.box)] for one in part] for part in (ours.rests, ours.besides)
        ]
        assert parts == page
