/** The evidence of an answer, numbered; and the other pages that were looked at. Pure. */

import { isWhole } from "./figures.js";
import { where } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {{number: number, evidence: any, nodes: string[]}} Cited A place, and the nodes that remember it. */

/**
 * The evidence of a run that has ended.
 *
 * An agent that was asked which of its evidence counts, and one with a graph, name only what the answer rests on.
 * The others name all that they were shown, the last closer look first: there the closer looks are the evidence, or the
 * first page when there was none, and the rest was looked at besides.
 * @param {State} state
 * @returns {{main: Cited[], besides: Cited[], unused: import("./reducer.js").Shown[]}}
 */
export function cited(state) {
  const evidence = state.answer?.evidence ?? [];
  const all = distinct(evidence);
  const settings = state.started?.settings;
  const chosen = !settings || settings.agent === "vimrag" || settings.reselect;
  const closer = all.filter(({ evidence: one }) => one.box !== null && !isWhole(one.box));
  const main = chosen ? all : closer.length > 0 ? closer : all.slice(0, 1);
  const known = new Set(main.map((one) => one.evidence.item));
  const besides = all.filter(({ evidence: one }) => !known.has(one.item) && known.add(one.item));
  const items = new Set(evidence.map((/** @type {any} */ one) => one.item));
  return { main: main.map((one, index) => ({ ...one, number: index + 1 })), besides, unused: unusedOf(state, items) };
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
  const place = where({ kind: evidence.kind, page: evidence.page, seconds: evidence.seconds });
  return evidence.kind === "page" && !isWhole(evidence.box) ? `part of ${place}` : place;
}

const MARK_LABELS = { answer: "The answer", operand: "Used in the calculation", head: "Head of its row or column" };

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
