/** The markers and claims of an answer: in their places, whatever the answer holds. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { install } from "./dom.mjs";

const Element = install();
const { markedText, marksIn } = await import("./js/run/cited-text.js");
const { prose } = await import("./js/run/prose.js");
const { claimSummary, claimText, notableClaims } = await import("./js/run/verdicts.js");

const cite = (end, ...numbers) => ({ start: 0, end, numbers, source: "matched" });
const claim = (start, end, verdict, more = {}) => ({ kind: "number", start, end, verdict, numbers: [], found: "", judge: "", ...more });
const made = (text) => Object.assign(new Element("i"), { textContent: text });
const read = (text, citations, claims) => prose(text, { ...marksIn(text, citations, claims), chip: (number) => made(`<${number}>`), claim: (index, words) => made(`{${index}:${words}}`) }).map((one) => one.textContent).join("\n");

test("markers stand before full stops, and behind a block in a paragraph of their own", () => {
  assert.equal(markedText("It rose. It fell.", [cite(8, 1, 2), { ...cite(17, 3), start: 9 }]), "It rose [1][2]. It fell [3].");
  assert.equal(markedText("```\nx\n```", [cite(9, 1)]), "```\nx\n```\n\n[1]");
  assert.equal(markedText("none", []), "none");
});

test("places count characters, as the server does", () => {
  const text = "😀😀 rose. It fell.";
  assert.equal(markedText(text, [cite(8, 1)]), "😀😀 rose [1]. It fell.");
  assert.equal(read(text, [], [claim(3, 7, "not_found")]), "😀😀 {0:rose}. It fell.");
});

test("words, markers and claims come out as they were set in", () => {
  const claims = [claim(3, 7, "not_found"), claim(12, 16, "contradicted")];
  assert.equal(read("It rose. It fell.", [cite(8, 1), cite(17, 2)], claims), "It {0:rose}\u202f<1>. It {1:fell}\u202f<2>.");
});

test("a marker of a row of a table stands in its last cell", () => {
  const table = "| a | b |\n|---|---|\n| c | d |\n| e | f |";
  assert.equal(read(table, [cite(29, 1), cite(39, 2)], []), "abcd\u202f<1>ef\u202f<2>");
});

test("a sentence is not named beside the claim in it", () => {
  const [number, sentence, other] = [claim(3, 7, "contradicted"), claim(0, 10, "not_found", { kind: "sentence" }), claim(11, 20, "only_visible", { kind: "sentence" })];
  assert.deepEqual(notableClaims([sentence, other, number, claim(0, 1, "supported")]), [number, other]);
  assert.equal(claimSummary([sentence, other, number, claim(0, 1, "supported")]), "4 claims checked: 1 supported, 1 contradicted, 1 not found, 1 only visible.");
  assert.equal(claimSummary([]), "");
  assert.equal(claimText("It was 84,210.", claim(7, 13, "contradicted", { found: "84,120", numbers: [2] })), "The evidence says “84,120” [2], not “84,210”.");
});
