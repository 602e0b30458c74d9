/** A draft is shown as what it is going to be: nothing that stands there becomes something else as it grows. */

import assert from "node:assert/strict";
import { test } from "node:test";

const { completed, readDraft } = await import("./js/run/draft.js");
const { readMarkdown } = await import("./js/run/markdown.js");

/** It begins with words: the only line of a text is a paragraph, whatever it begins with. */
const ANSWER = [
  "These are the fares.",
  "## Fares",
  "A **single fare** for a *kayak* is `4.20`, and ~~not~~ 5.",
  "- a **bold** entry\n- another\n  1. within\n  2. it",
  "| Ship | Price |\n|:---|---:|\n| **Gannet** | 9 |\n| Tern | `12` |",
  "```python\nprint(1)\n```",
  "> quoted\n> **twice**",
  "***Both*** and [words](https://example.org/a_b) at the end.",
].join("\n\n");

const kinds = (blocks) => blocks.map((one) => [one.type, ...(one.type === "list" || one.type === "quote" || one.type === "item" ? kinds(one.children) : [])].join(" "));
const words = (nodes) => nodes.map((one) => ("children" in one ? words(one.children) : one.type === "break" ? "\n" : one.text)).join("");
const textOf = (block) => (block.rows ? block.rows.flat().map((cell) => words(cell.children)).join("|") : block.pieces ? block.pieces.map((one) => one.text).join("") : block.type === "rule" ? "" : "level" in block ? words(block.children) : block.children.map(textOf).join("\n"));

/** Every state of the answer as it grows by a character. */
function* states() {
  let before = { text: "", blocks: [] };
  for (let end = 1; end <= ANSWER.length; end++) {
    const text = ANSWER.slice(0, end);
    before = { text, blocks: readDraft(text, before) };
    yield before;
  }
}

test("blocks keep their kind, and none goes away", () => {
  const last = kinds(readMarkdown(ANSWER)).map((kind) => kind.split(" ")[0]);
  let most = 0;
  for (const { text, blocks } of states()) {
    const here = kinds(blocks).map((kind) => kind.split(" ")[0]);
    assert.deepEqual(here, last.slice(0, here.length), JSON.stringify(text.slice(-30)));
    assert.ok(here.length >= most, JSON.stringify(text.slice(-30)));
    most = here.length;
  }
});

test("no sign of Markdown is shown before it means something", () => {
  for (const { text, blocks } of states()) {
    const shown = blocks.map(textOf).join("\n");
    assert.doesNotMatch(shown, /[*`~#]|\|-|-\||^>/m, JSON.stringify(text.slice(-30)));
  }
});

test("what was read of the beginning is what is read of the whole", () => {
  for (const { text, blocks } of states()) assert.deepEqual(blocks, readMarkdown(completed(text), { open: true }), JSON.stringify(text.slice(-30)));
});

test("a short answer is shown at once", () => {
  for (const text of ["42", "4", "-5", "No", "3.5 m"]) assert.equal(completed(text), text);
  for (const text of ["*", "**", "-", "1.", "#", "|", "```", "So:\n-", "So:\n1", "So:\n---"]) assert.equal(readDraft(text).map(textOf).join(""), text.startsWith("So") ? "So:" : "");
});

test("a draft that is long takes no longer for each of its words", () => {
  let before = { text: "", blocks: [] };
  const began = process.cpuUsage();
  for (let part = 0; part < 4000; part++) {
    const text = `${before.text}Words of **paragraph** ${part}.${part % 5 ? " " : "\n\n"}`;
    before = { text, blocks: readDraft(text, before) };
  }
  assert.ok(process.cpuUsage(began).user < 20_000_000); // microseconds of processor time
  assert.equal(before.blocks.length, 801);
});
