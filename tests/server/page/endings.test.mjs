/** How a run ended is called alike wherever the page tells it. */

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document = { createElement: () => ({}), createElementNS: () => ({}) };
const { outcome } = await import("./js/history.js");
const { endingOf } = await import("./js/run/answer.js");

const run = (more) => ({ id: "a", session: "a", question: "?", state: "finished", started: 0, answer: null, collection: null, ...more });
const state = (policy, reason, evidence = []) => ({ started: { settings: { policy } }, answer: reason && { text: null, stop_reason: reason, evidence }, failure: null });

test("without a model, a question without an answer has places, or nothing is found", () => {
  const names = [["none", []], ["places", [{}]]].map(([result, evidence]) => {
    const [kind, words] = outcome(run({ stop_reason: "abstained", model: "extractive", kind: result }));
    const ending = endingOf(state("extractive", "abstained", evidence));
    assert.deepEqual([kind, words], ["abstained", ending.name]);
    return ending.name;
  });
  assert.deepEqual(names, ["Nothing found", "Places to look"]);
});

test("a model that abstains found no answer in the documents", () => {
  const [, words] = outcome(run({ stop_reason: "abstained", model: "chat:m" }));
  assert.equal(words, endingOf(state("chat:m", "abstained")).name);
  assert.match(words, /in the documents/);
});

test("a run without an end is interrupted", () => {
  const [, words] = outcome(run({ state: "interrupted", stop_reason: null }));
  assert.equal(words, "Interrupted");
  assert.equal(endingOf(state("chat:m", null)).name, words);
});

test("nothing but its model tells an answer without a model from another", () => {
  for (const model of ["extractive", "chat:m"]) assert.deepEqual(outcome(run({ stop_reason: "answered", model })), ["", "Answered"]);
});
