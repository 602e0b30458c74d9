/** The evidence of an answer, numbered; and the other pages that were looked at. Pure. */

import { where } from "../format.js";
import { isWhole } from "./figures.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {{number: number, evidence: any, nodes: string[]}} Cited A place, and the nodes that remember it. */

/** The answer, or what is written of it; null without either. @param {State} state @returns {any} */
const answerOf = (state) => state.answer ?? state.draft;

/** The text that citations and claims refer to: the answer, what is written of it, or the one that was withdrawn. @param {State} state @returns {string} */
export const checkedText = (state) => answerOf(state)?.text ?? state.answer?.withdrawn ?? "";

/**
 * The evidence of a run that has ended, by its numbers: what the answer cites first, then what was looked at besides.
 *
 * Runs from before citations were recorded name none. An agent that was asked which of its evidence counts, and one
 * with a graph, name only what the answer rests on. The others name all that they were shown, the last closer look
 * first: there the closer looks are the evidence, or the first page when there was none. The server tells how much is
 * cited (`cited`) of a run whose events are not loaded. Of a draft only what it cites is known.
 * @param {State} state
 * @returns {{main: Cited[], besides: Cited[], unused: import("./reducer.js").Shown[]}}
 */
export function cited(state) {
  const evidence = answerOf(state)?.evidence ?? [];
  const all = distinct(evidence);
  const main = citedAmong(all, state);
  const known = new Set(main.map((one) => one.evidence.item));
  const besides = all.filter(({ evidence: one }) => !known.has(one.item) && known.add(one.item));
  const items = new Set(evidence.map((/** @type {any} */ one) => one.item));
  const numbered = [...main, ...besides].map((one, index) => ({ ...one, number: index + 1 }));
  return { main: numbered.slice(0, main.length), besides: numbered.slice(main.length), unused: state.answer ? unusedOf(state, items) : [] };
}

/** The evidence that the answer cites. @param {Cited[]} all @param {State} state */
function citedAmong(all, { answer, draft, started }) {
  if (answer?.cited !== undefined) return all.slice(0, answer.cited ?? 0);
  const numbers = ((answer ?? draft)?.citations ?? []).flatMap((/** @type {any} */ citation) => citation.numbers);
  if (numbers.length > 0) return all.slice(0, Math.max(...numbers));
  const settings = started?.settings;
  if (!answer) return [];
  if (answer.text === null || !settings || settings.agent === "vimrag" || settings.reselect) return all;
  const closer = all.filter(({ evidence: one }) => one.box !== null && !isWhole(one.box));
  return closer.length > 0 ? closer : all.slice(0, 1);
}

/**
 * The parts of the answer and the numbers of their evidence; of an old run all of it, at the end of the answer.
 * @param {State} state
 * @returns {import("./cited-text.js").Citation[]}
 */
export function citationsOf(state) {
  const { text = null, citations = [] } = answerOf(state) ?? {};
  if (citations.length > 0 || !text) return citations;
  const { main } = cited(state);
  return main.length ? [{ start: 0, end: [...text].length, numbers: main.map((one) => one.number), source: "matched" }] : [];
}

/** Each place once: two nodes may remember the same. @param {any[]} evidence @returns {Cited[]} */
function distinct(evidence) {
  /** @type {Map<string, Cited>} */
  const places = new Map();
  for (const one of evidence) {
    const key = JSON.stringify([one.item, one.box, one.seconds]);
    const place = places.get(key) ?? { number: 0, evidence: one, nodes: [] };
    if (one.node !== null) place.nodes.push(one.node);
    places.set(key, place);
  }
  return [...places.values()];
}

/** @param {State} state @param {Set<string>} items */
function unusedOf(state, items) {
  /** @type {Map<string, import("./reducer.js").Shown>} */
  const unused = new Map();
  for (const shown of state.pictures) if (!items.has(shown.item) && !unused.has(shown.item)) unused.set(shown.item, shown);
  return [...unused.values()];
}

/** The place of a piece of evidence, in words. @param {any} evidence */
export function placeOf(evidence) {
  const place = where({ kind: evidence.kind, page: evidence.page, page_label: evidence.page_label, seconds: evidence.seconds });
  return evidence.kind === "page" && !isWhole(evidence.box) ? `part of ${place}` : place;
}

const MARK_LABELS = { answer: "The answer", operand: "Used in the calculation", head: "Head of its row or column", match: "Words of the question" };

/**
 * The words and cells of the answer within a piece of evidence, as rectangles of its page.
 * @param {any} evidence
 * @returns {{box: import("./figures.js").Sides, label: string, kind: string}[]}
 */
export function marksOf(evidence) {
  return (evidence.marks ?? []).map((/** @type {any} */ mark) => ({ box: mark.box, kind: mark.role, label: MARK_LABELS[/** @type {keyof typeof MARK_LABELS} */ (mark.role)] ?? "" }));
}

/**
 * Pieces of evidence as the places that the viewer goes through.
 * @param {Cited[]} all
 */
export function placesOf(all) {
  return all.map(({ number, evidence }) => ({
    item: evidence.item,
    document: evidence.document,
    boxes: evidence.box ? [{ box: evidence.box, label: `Evidence ${number}`, kind: "mark" }, ...marksOf(evidence)] : [],
    flash: 0,
    seconds: evidence.seconds?.[0],
    quote: evidence.quote,
    label: `${number}`,
  }));
}
