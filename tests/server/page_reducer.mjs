// What the page makes of the events of a run: run by test_page_reducer.py with the folder of the page's scripts and a file of events.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [scripts, recorded] = process.argv.slice(2);
const { EMPTY, apply, fold, sourceOf } = await import(pathToFileURL(`${scripts}/run/reducer.js`));
const { RunState, endedState, refusals, stopReason, titleOf } = await import(pathToFileURL(`${scripts}/run/run-state.js`));
const { moment, money, seconds, span, where } = await import(pathToFileURL(`${scripts}/format.js`));
const events = readFileSync(recorded, "utf8").trim().split("\n").map((line) => JSON.parse(line));

let failed = 0;
const test = (name, check) => {
  try {
    check();
  } catch (error) {
    failed += 1;
    console.error(`✗ ${name}\n${error.stack}\n`);
  }
};
const event = (seq, type, step, more = {}) => ({ run_id: "r", seq, ts: 100 + seq, step, type, ...more });
const shown = (seq, item, box, more = {}) => event(seq, "image_shown", 1, { item, box, number: 0, crop: false, seconds: null, document: "a.pdf", page: 1, label: "", node: null, sha256: `${seq}`, ...more });
const story = () => {
  const made = new RunState();
  for (const one of events) made.add(one);
  return made;
};

test("the state at any event is that of the events up to it, alone", () => {
  const whole = story();
  for (const { seq } of events) assert.deepEqual(whole.at(seq), fold(events.filter((one) => one.seq <= seq)));
  assert.deepEqual(whole.at(-1), EMPTY);
  assert.equal(whole.at(1e9), whole.last);
});

test("a state is never changed by what comes after it", () => {
  let state = EMPTY;
  const states = events.map((one) => {
    state = apply(state, one);
    return [state, JSON.stringify(state)];
  });
  for (const [kept, before] of states) assert.equal(JSON.stringify(kept), before);
});

test("what an event does not concern keeps its identity", () => {
  const before = fold(events.slice(0, -1));
  const after = apply(before, events.at(-1));
  assert.equal(after.pictures, before.pictures);
  assert.equal(after.steps[0], before.steps[0]);
});

test("an event that came before is passed over", () => {
  const whole = story();
  const last = whole.last;
  for (const one of events) assert.equal(whole.add(one), false);
  assert.equal(whole.last, last);
  assert.equal(whole.add({ type: "thought" }), false);
});

test("an event of a kind that is not known changes nothing but the place in the run", () => {
  const before = fold(events);
  const after = apply(before, event(before.seq + 1, "from_the_future", 0, { anything: 1 }));
  assert.deepEqual({ ...after, seq: 0, ts: 0 }, { ...before, seq: 0, ts: 0 });
});

test("the recorded run has its steps, its pictures and its answer", () => {
  const { last, moments } = story();
  assert.equal(last.steps.length, Math.max(...events.map((one) => one.step)));
  assert.deepEqual(moments.map((one) => one.number), last.steps.map((one) => one.number));
  assert.equal(moments.at(-1).seq, events.at(-1).seq);
  assert.equal(last.pictures.length, events.filter((one) => one.type === "image_shown").length);
  assert.equal(last.totals.visual, events.filter((one) => one.type === "usage").reduce((sum, one) => sum + one.visual_tokens, 0));
  assert.equal(stopReason(last), events.at(-1).stop_reason);
  assert.ok(last.steps.every((step) => !step.thinking));
});

test("deltas before a retry do not count, and the whole thought takes their place", () => {
  const state = fold([event(0, "thought_delta", 1, { text: "wro" }), event(1, "model_retried", 1, { reason: "503", seconds: 1, partial: "wro", chunks: [3] }), event(2, "thought_delta", 1, { text: "ri" }), event(3, "thought_delta", 1, { text: "ght" })]);
  assert.equal(state.steps[0].thought, "right");
  assert.ok(state.steps[0].thinking);
  const whole = apply(state, event(4, "thought", 1, { text: "right." }));
  assert.equal(whole.steps[0].thought, "right.");
  assert.ok(!whole.steps[0].thinking);
  assert.deepEqual(whole.steps[0].entries.map((one) => one.kind), ["retry"]);
});

const drafted = () => fold([event(0, "thought_delta", 1, { text: "a" }), event(1, "answer_delta", 1, { text: "48" }), event(2, "answer_delta", 1, { text: ",200" })]);

test("an answer is written piece by piece, and what it cites so far replaces what it cited", () => {
  const state = drafted();
  assert.deepEqual(state.draft, { text: "48,200", citations: [], evidence: [], step: 1 });
  assert.equal(state.steps[0].thinking, false);
  assert.deepEqual(titleOf(state.steps[0]), { kind: "answer", title: "Answer" });
  const first = apply(state, event(3, "answer_cited", 1, { length: 2, citations: [1], evidence: ["a"] }));
  const second = apply(first, event(4, "answer_cited", 1, { length: 6, citations: [2], evidence: ["b"] }));
  assert.deepEqual([second.draft.text, second.draft.citations, second.draft.evidence], ["48,200", [2], ["b"]]);
  assert.equal(apply(drafted(), event(3, "usage", 1, { prompt_tokens: 1, completion_tokens: 1, visual_tokens: 0, seconds: 1, cost: null })).draft.text, "48,200", "it stands while it is checked");
  assert.equal(fold([event(0, "answer_cited", 1, { length: 0, citations: [], evidence: [] })]).draft, null);
});

test("a draft is discarded by what takes its place or calls the model again", () => {
  const ends = [["model_retried", 1], ["context_shortened", 1], ["invalid_action", 1], ["answer_doubted", 1], ["answer", 1], ["run_failed", 1], ["thought_delta", 2], ["answer_delta", 2], ["search_requested", 2]];
  for (const [type, step] of ends) {
    const after = apply(drafted(), event(3, type, step, { text: "7", dropped: [], claims: [], reason: "", query: "q", stop_reason: "answered", message: "" }));
    assert.equal(after.draft?.text ?? null, type === "answer_delta" ? "7" : null, type);
  }
});

test("a step whose context is shortened begins again", () => {
  const { steps } = apply(drafted(), event(3, "context_shortened", 1, { dropped: ["page 2"] }));
  assert.deepEqual([steps[0].thought, steps[0].thinking, steps[0].answering], ["", false, false]);
  const thinking = apply(fold([event(0, "thought_delta", 1, { text: "wrong" })]), event(1, "context_shortened", 1, { dropped: [] }));
  assert.deepEqual([thinking.steps[0].thought, thinking.steps[0].thinking], ["", false]);
});

test("a search that is refused is not waited for", () => {
  const asked = fold([event(0, "search_requested", 1, { query: "q", node: "n" })]);
  assert.ok(asked.steps[0].entries[0].waiting);
  const refused = apply(asked, event(1, "invalid_action", 1, { reason: "No." }));
  assert.equal(refused.steps[0].entries[0].waiting, false);
  assert.deepEqual(titleOf(refused.steps[0]), { kind: "search", title: "Search" });
});

test("a crop is told beside the picture that it was cut from", () => {
  const whole = [0, 0, 1, 1];
  const pages = [shown(0, "a", whole, { number: 1 }), shown(1, "b", whole, { number: 2 }), shown(2, "a", [0, 0, 0.5, 0.5], { number: 3 })];
  const crop = shown(4, "a", [0.1, 0.1, 0.2, 0.2], { crop: true });
  assert.equal(sourceOf(pages, crop).seq, 2);
  assert.equal(sourceOf(pages, crop, 1).seq, 0);
  assert.equal(sourceOf(pages, { ...crop, box: [0.6, 0.6, 0.9, 0.9] }).seq, 0);
  assert.equal(sourceOf(pages, { ...crop, item: "c" }), null);
  const state = fold([...pages, event(3, "crop_requested", 1, { image: null, box: [1, 2, 3, 4], label: "" }), crop]);
  const entry = state.steps[0].entries.at(-1);
  assert.equal(entry.kind, "closer");
  assert.equal(entry.picture.seq, 4);
  assert.equal(entry.source.seq, 2);
});

test("what was never counted stays unknown, and is not taken for nothing", () => {
  const usage = { prompt_tokens: null, completion_tokens: null, visual_tokens: 3, seconds: 1, cost: null };
  assert.deepEqual(fold([event(0, "usage", 1, usage)]).totals, { prompt: null, completion: null, visual: 3, cost: null, seconds: 1 });
  assert.equal(fold([event(0, "usage", 1, usage), event(1, "usage", 2, { ...usage, prompt_tokens: 0 })]).totals.prompt, 0);
});

test("a model does not keep to the format when half of its replies are refused, and three at least", () => {
  const steps = (refused, all) => fold(Array.from({ length: all }, (_, index) => event(index, index < refused ? "invalid_action" : "thought", index + 1, { reason: "No.", text: "" })));
  assert.deepEqual([[2, 2], [3, 6], [3, 7], [5, 5]].map(([refused, all]) => refusals(steps(refused, all))), [0, 3, 0, 5]);
});

test("the end of a run is known from its details, and from its entry in a list", () => {
  const run = { question: "?", agent: "vrag", model: "m", collection: null, started: 5, seconds: 2, steps: 3, prompt_tokens: 1, completion_tokens: 2, visual_tokens: 3, cost: null, stop_reason: "answered", answer: "42", session: "s" };
  const listed = endedState(run);
  assert.deepEqual([listed.answer.text, listed.answer.cited, listed.calls, listed.ts, stopReason(listed)], ["42", null, 3, 7, "answered"]);
  const known = endedState({ ...run, evidence: ["a"], looked_at: ["b"], citations: [], failure: null });
  assert.deepEqual([known.answer.evidence, known.answer.cited], [["a", "b"], 1]);
  const choices = [{ document: "d", name: "a.pdf" }];
  assert.deepEqual([known.answer.choices, endedState({ ...run, choices }).answer.choices], [[], choices]);
  assert.deepEqual(endedState({ ...run, answer: null, stop_reason: "model_error", failure: "away" }).failure, { message: "away", stop_reason: "model_error" });
  assert.deepEqual([endedState({ ...run, answer: null, stop_reason: null }).answer, stopReason(EMPTY)], [null, null]);
});

test("an end before the first step is an end", () => {
  const state = fold([event(0, "run_failed", 0, { boundary: "SearchError", message: "gone", stop_reason: "search_error" })]);
  assert.equal(stopReason(state), "search_error");
  assert.deepEqual(state.steps, []);
});

test("a place has the printed number of its page where that is another", () => {
  assert.equal(where({ page: 4, page_label: "2" }), "page 4 (printed 2)");
  assert.equal(where({ page: 4, page_label: "" }), "page 4");
  assert.equal(where({ kind: "passage", page: 2 }), "passage 2");
});

test("numbers read as in the exported page", () => {
  assert.deepEqual([seconds(0.0312), seconds(7.31), seconds(83)], ["0.03 s", "7.3 s", "1 min 23 s"]);
  assert.deepEqual([moment(12), moment(75.5), moment(3723)], ["0:12", "1:15.5", "1:02:03"]);
  assert.equal(span([12, 30]), "0:12–0:30");
  assert.deepEqual([money(1.5), money(0.00312), money(null)], ["1.50", "0.0031", "–"]);
});

process.exit(failed ? 1 : 0);
