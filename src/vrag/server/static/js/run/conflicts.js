/** Documents that disagree with what an answer rests on: both sides beside each other, each with its place. */

import { h, icon } from "../dom.js";
import { band, itemUrl } from "./figures.js";

/** @typedef {import("./entries.js").RunContext} RunContext */

/** Pixels of the picture of a page. */
const PAGE_PIXELS = 500_000;
/** Height of the part of a page that is shown, by its width. */
const LEAST = 0.3;
/** The judgement of a model that doubts a conflict. */
const SAME = "same";

/** True if a model that was asked does not doubt a conflict. @param {any} conflict */
export const isUndoubted = (conflict) => conflict.judgement !== SAME;

/** The conflicts of an answer; null without any. @param {readonly any[]} conflicts @param {RunContext} context */
export function conflictList(conflicts, context) {
  if (conflicts.length === 0) return null;
  return h("div", { class: "conflicts" }, conflicts.map((conflict) => conflictOf(conflict, context)));
}

/** @param {any} conflict @param {RunContext} context */
function conflictOf(conflict, context) {
  const topic = [conflict.subject, conflict.attribute].filter(Boolean).join(", ");
  const sides = conflict.sides.map((/** @type {any} */ side, /** @type {number} */ at) => sideOf(side, conflict.newer === at, context));
  return h("section", { class: "conflict", "aria-label": "Two sources disagree" }, h("p", { class: "conflict-title" }, icon("warn"), h("span", topic ? "Two sources disagree: " : "Two sources disagree", topic && h("span", { class: "soft", dir: "auto", text: topic }))), h("div", { class: "conflict-sides" }, sides), conflict.judgement === SAME && h("p", { class: "soft", text: "The model sees no disagreement." }));
}

/** One side; a click opens its page at the statement. @param {any} side @param {boolean} newer @param {RunContext} context */
function sideOf(side, newer, context) {
  const place = side.page === null ? side.document : `${side.document}, page ${side.page}`;
  const marks = side.marks.map((/** @type {any} */ box) => ({ box, kind: "answer", label: "The value" }));
  const boxes = side.box ? [{ box: side.box, label: "The statement", kind: "mark" }, ...marks] : [];
  const open = () => context.look({ item: side.item, document: side.document, boxes, flash: 0, quote: side.quote });
  const facts = [side.dated, ...side.revision, newer ? "newer" : ""].filter(Boolean).join(", ");
  return h(
    "button",
    { type: "button", class: "conflict-side card", "aria-label": `${side.value}: ${place}. Open`, on: { click: open } },
    h("strong", { class: "conflict-value", dir: "auto", text: side.value }),
    side.quote !== side.value && h("span", { class: "conflict-quote soft", dir: "auto", text: side.quote }),
    h("span", { class: "faint size-2", dir: "auto", text: facts ? `${place} · ${facts}` : place }),
    side.box && band({ src: itemUrl(side.item, PAGE_PIXELS), box: side.box, ratio: null, marks, least: LEAST }),
  );
}
