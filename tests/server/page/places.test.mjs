/** The places of a run without an answer: a list whose excerpts show the words of the question. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { install } from "./dom.mjs";

const Element = install();
Element.prototype.addEventListener = function (type, listener) {
  this.listeners = { ...this.listeners, [type]: listener };
};
const { excerptParts, placeList } = await import("./js/run/places.js");
const { EMPTY } = await import("./js/run/reducer.js");

const marked = (quote, question) => excerptParts(quote, question).filter((one) => one.marked).map((one) => one.text);
const textOf = (quote, question) => excerptParts(quote, question).map((one) => one.text).join("");
const all = (element) => [element, ...[...(element.children ?? [])].flatMap(all)];
const place = (number) => ({ item: `i-${number}`, document: "a.pdf", document_id: "a", page: number, page_label: "", kind: "page", box: [0.1, 0.1, 0.5, 0.2], quote: `Line ${number} takes bicycles.`, marks: [], seconds: null, node: null, crop_sha256: null });
const state = (count) => ({ ...EMPTY, started: { question: "Which line takes a bicycle?", settings: { policy: "extractive" } }, answer: { text: null, stop_reason: "abstained", cited: count, evidence: Array.from({ length: count }, (_, at) => place(at + 1)), claims: [], citations: [] } });

test("the words of the question are marked, in the plural too, and common words are not", () => {
  assert.deepEqual(marked("Bicycles travel on the Line; bus and cars do not.", "Which line takes a bicycle, and what of the bus?"), ["Bicycles", "Line", "bus"]);
  assert.deepEqual(marked("In 2024 the fare was 12.", "What was the fare in 2024?"), ["2024", "fare"]);
  assert.deepEqual(marked("成人的船票是 4.20。", "成人多少钱？"), ["成人"]);
});

test("an excerpt without common words is the beginning of the quote, and all of a short one", () => {
  const long = "word ".repeat(100);
  assert.equal(textOf("No such thing.", "Which line?"), "No such thing.");
  assert.match(textOf(long, "Which line?"), /^word .*word…$/);
  assert.equal(textOf("", "Which line?"), "");
});

test("an excerpt begins at a word a little before the first that is marked", () => {
  const text = textOf(`${"before ".repeat(60)}the ferry sails ${"after ".repeat(60)}`, "When does the ferry sail?");
  assert.match(text, /^…before .*the ferry sails after .*after…$/);
  assert.ok(text.length <= 262);
});

test("places are ranked, the first in sight, and each opens by its number", () => {
  const opened = [];
  const list = placeList(state(7), (number) => opened.push(number));
  const [first, more] = all(list).filter((one) => one.tag === "ol");
  assert.deepEqual([first, more].map((one) => one.children.length), [5, 2]);
  assert.match(list.textContent, /2 more passages/);
  for (const button of all(list).filter((one) => one.tag === "button")) button.listeners.click();
  assert.deepEqual(opened, [1, 2, 3, 4, 5, 6, 7]);
});

test("few places fold nothing", () => {
  assert.equal(all(placeList(state(3), () => {})).filter((one) => one.tag === "details").length, 0);
});
