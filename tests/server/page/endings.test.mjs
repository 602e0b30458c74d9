/** How a run ended is called alike wherever the page tells it. */

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document = { createElement: () => ({}), createElementNS: () => ({}) };
const { outcome } = await import("./js/history.js");
const { endingOf } = await import("./js/run/answer.js");

const run = (more) => ({ id: "a", session: "a", question: "?", state: "finished", started: 0, answer: null, collection: null, ...more });
const state = (policy, reason, evidence = []) => ({ started: { settings: { policy } }, answer: reason && { text: null, stop_reason: reason, evidence }, failure: null });

test("what the offline policy cannot say is not said to be missing", () => {
  const names = [["none", []], ["passages", [{}]]].map(([result, evidence]) => {
    const [kind, words] = outcome(run({ stop_reason: "abstained", model: "extractive", kind: result }));
    const ending = endingOf(state("extractive", "abstained", evidence));
    assert.deepEqual([kind, words], ["abstained", ending.name]);
    assert.match(ending.hint, /model/);
    assert.doesNotMatch(ending.name + ending.said, /in the documents/);
    return ending.name;
  });
  assert.equal(names[1], "Closest passages");
  assert.notEqual(names[0], names[1]);
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

test("nothing but its model tells an answer of the offline policy from another", () => {
  for (const model of ["extractive", "chat:m"]) assert.deepEqual(outcome(run({ stop_reason: "answered", model })), ["", "Answered"]);
});
