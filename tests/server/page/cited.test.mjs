/** The markers and claims of an answer: in their places, whatever the answer holds. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { install } from "./dom.mjs";

const Element = install();
const { markedText, marksIn } = await import("./js/run/cited-text.js");
const { prose } = await import("./js/run/prose.js");
const { claimSummary, claimText, listedClaims, notableClaims, readerRemark } = await import("./js/run/verdicts.js");

const cite = (end, ...numbers) => ({ start: 0, end, numbers, source: "matched" });
const claim = (start, end, verdict, more = {}) => ({ kind: "number", start, end, verdict, numbers: [], found: "", doubt: null, needs_picture: false, judge: "", ...more });
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
  assert.equal(read(text, [], [claim(3, 7, "unverified")]), "😀😀 {0:rose}. It fell.");
});

test("words, markers and claims come out as they were set in", () => {
  const claims = [claim(3, 7, "unverified"), claim(12, 16, "doubted")];
  assert.equal(read("It rose. It fell.", [cite(8, 1), cite(17, 2)], claims), "It {0:rose}\u202f<1>. It {1:fell}\u202f<2>.");
});

test("a marker of a row of a table stands in its last cell", () => {
  const table = "| a | b |\n|---|---|\n| c | d |\n| e | f |";
  assert.equal(read(table, [cite(29, 1), cite(39, 2)], []), "abcd\u202f<1>ef\u202f<2>");
});

test("a sentence is not named beside the claim in it", () => {
  const [number, sentence, other] = [claim(3, 7, "doubted"), claim(0, 10, "unverified", { kind: "sentence" }), claim(11, 20, "unverified", { kind: "sentence" })];
  assert.deepEqual(notableClaims([sentence, other, number, claim(0, 1, "seen")]), [number, other]);
  assert.equal(claimSummary([sentence, other, number, claim(0, 1, "seen")]), "None of 2 statements verified on the page, 2 not found.");
  assert.equal(claimSummary([]), "");
  assert.equal(claimText("It was 84,210.", claim(7, 13, "doubted", { found: "84,120", numbers: [2] })), "The evidence says “84,120” [2], not “84,210”.");
});

test("one line says how much is verified", () => {
  const claims = [claim(0, 5, "seen"), claim(0, 10, "computed", { kind: "sentence" }), claim(11, 20, "stated", { kind: "sentence" })];
  assert.equal(claimSummary(claims), "1 of 2 statements verified on the page, 1 stated in the text.");
});

test("a lone statement is not counted", () => {
  const lone = (/** @type {string} */ verdict) => claimSummary([claim(0, 5, verdict)]);
  assert.deepEqual(["seen", "computed", "stated", "doubted", "unverified"].map(lone), ["1 statement, verified on the page.", "1 statement, verified on the page.", "1 statement, stated in the text.", "1 statement, doubted.", "1 statement, not found."]);
});

test("the list has every statement, and what is in doubt in place of its sentence", () => {
  const [seen, inSeen, whole, doubted] = [claim(0, 10, "seen", { kind: "sentence" }), claim(3, 7, "seen"), claim(11, 30, "doubted", { kind: "sentence" }), claim(14, 18, "doubted")];
  assert.deepEqual(listedClaims([seen, inSeen, whole, doubted]), [seen, doubted]);
});

test("a doubt names what says something else", () => {
  const doubted = (/** @type {string} */ doubt) => claimText("It was 84,210.", claim(7, 13, "doubted", { found: "84,120", numbers: [2], doubt }));
  assert.equal(doubted("second_reading"), "The picture, read again, says “84,120” [2], not “84,210”.");
  assert.equal(doubted("other_evidence"), "Another piece of the evidence says “84,120” [2], not “84,210”.");
});

test("without a model the words are said to stand on the page only where both readings have them", () => {
  const remark = (/** @type {string} */ verdict) => readerRemark([claim(0, 5, verdict, { numbers: [1] })], () => "page 4");
  assert.equal(remark("seen"), "These words stand on page 4 (read twice: as text and as a picture). Check whether it answers the question.");
  assert.equal(remark("stated"), "Found on the page, without a model. Check whether it answers the question.");
});
