/** Documents that disagree with an answer: both sides beside each other, each opens its page. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { install } from "./dom.mjs";

const Element = install();
Element.prototype.addEventListener = function (type, listener) {
  this.listeners = { ...this.listeners, [type]: listener };
};
const { conflictList, isUndoubted } = await import("./js/run/conflicts.js");
const { EMPTY, apply } = await import("./js/run/reducer.js");

const side = (more) => ({ document: "a.pdf", item: "a-1", page: 1, box: [0.1, 0.1, 0.5, 0.2], marks: [[0.3, 0.1, 0.4, 0.2]], value: "12", quote: "It has 12 boats.", dated: null, revision: [], ...more });
const conflict = { kind: "number", subject: "Fulmar", attribute: "boats", sides: [side({}), side({ document: "b.md", item: "b-1", page: null, box: null, marks: [], value: "14", dated: "2025-05-02", revision: ["draft"] })], newer: 1 };

const all = (element) => [element, ...[...(element.children ?? [])].flatMap(all)];

test("a conflict has both sides, and a click opens each at its statement", () => {
  const opened = [];
  const list = conflictList([conflict], { run: "r", look: (place) => opened.push(place) });
  const sides = all(list).filter((one) => one.tag === "button");
  assert.equal(sides.length, 2);
  assert.match(list.textContent, /Two sources disagree: Fulmar, boats/);
  assert.match(list.textContent, /b\.md · 2025-05-02, draft, newer/);
  for (const one of sides) one.listeners.click();
  assert.deepEqual(opened.map((place) => [place.item, place.boxes.length]), [["a-1", 2], ["b-1", 0]]);
});

test("nothing is shown without conflicts", () => {
  assert.equal(conflictList([], { run: "r" }), null);
});

test("a conflict that the model doubts is shown with its judgement", () => {
  for (const [judgement, isSaid] of [["same", true], ["differ", false], ["unclear", false], [null, false]]) {
    const list = conflictList([{ ...conflict, judgement }], { run: "r", look: () => {} });
    assert.equal(/The model sees no disagreement\./.test(list.textContent), isSaid);
    assert.match(list.textContent, /Two sources disagree/);
    assert.equal(isUndoubted({ ...conflict, judgement }), !isSaid);
  }
});

test("an event adds a conflict to the state", () => {
  assert.deepEqual(apply(EMPTY, { type: "conflict_found", seq: 0, ts: 1, step: 0, conflict }).conflicts, [conflict]);
});
