/** The chips of citations: small numbers at the end of a sentence that open their place and tell what stands there. */

import { h } from "../dom.js";
import { citeHash } from "../router.js";
import { placeOf } from "./citations.js";

/** @typedef {import("./citations.js").Cited} Cited */

/** Characters of the words of a place that are told beside its chip. */
const MAX_QUOTE = 260;
/** Pixels between a chip and what is told of it. */
const GAP = 6;

/** A chip; `nameChips` tells what it leads to. @param {number} number */
export function chip(number) {
  const bracket = (/** @type {string} */ sign) => h("span", { class: "chip-bracket", text: sign }); // for who copies the text
  return h("a", { class: "marker", dataset: { marker: String(number) } }, bracket("["), String(number), bracket("]"));
}

/**
 * Gives all chips in an element the names and addresses of their places.
 * @param {Element} element
 * @param {string} run
 * @param {readonly Cited[]} places
 */
export function nameChips(element, run, places) {
  for (const one of chipsIn(element)) {
    const number = Number(one.dataset.marker);
    const place = places.find((known) => known.number === number);
    const name = place ? `${place.evidence.document}, ${placeOf(place.evidence)}` : "";
    one.setAttribute("href", citeHash(run, number));
    one.setAttribute("aria-label", `Evidence ${number}: ${name}`);
  }
}

/** @param {Element} element @returns {HTMLElement[]} */
export const chipsIn = (element) => [...element.querySelectorAll(".marker")].map((one) => /** @type {HTMLElement} */ (one));

/**
 * Listens to the chips in an element: pressed they open their place, hovered or focused they tell of it.
 * @param {HTMLElement} element
 * @param {{open: (number: number) => void, point: (number: number | null) => void, place: (number: number) => Cited | undefined}} calls
 */
export function listenToChips(element, { open, point, place }) {
  const chipOf = (/** @type {Event} */ event) => /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(".marker"));
  const leave = () => {
    point(null);
    hideTip();
  };
  const enter = (/** @type {Event} */ event) => {
    const one = chipOf(event);
    if (!one) return;
    point(Number(one.dataset.marker));
    const cited = place(Number(one.dataset.marker));
    if (cited && !(event instanceof PointerEvent && event.pointerType === "touch")) showTip(one, cited);
  };
  element.addEventListener("click", (event) => {
    const one = chipOf(event);
    if (!one || event.ctrlKey || event.metaKey || event.shiftKey) return; // in a window of its own
    event.preventDefault();
    hideTip();
    open(Number(one.dataset.marker));
  });
  element.addEventListener("pointerover", enter);
  element.addEventListener("focusin", enter);
  element.addEventListener("pointerout", (event) => chipOf(event) && leave());
  element.addEventListener("focusout", (event) => chipOf(event) && leave());
}

/** @type {HTMLElement | null} */
let tip = null;
/** @type {Element | null} The chip that it tells of. */
let tipChip = null;

/** @param {HTMLElement} one @param {Cited} cited */
function showTip(one, { number, evidence }) {
  hideTip();
  const quote = evidence.quote.length > MAX_QUOTE ? `${evidence.quote.slice(0, MAX_QUOTE)}…` : evidence.quote;
  tip = h(
    "div",
    { class: "chip-tip card", id: "chip-tip", role: "tooltip" },
    h("p", { class: "evidence-where" }, h("span", { class: "number", text: number }), h("span", { class: "clip", dir: "auto", text: evidence.document }), h("span", { class: "citation-place", text: placeOf(evidence).replace("page", "p.") })),
    quote && h("p", { class: "chip-quote", dir: "auto", text: quote }),
  );
  tipChip = one;
  one.setAttribute("aria-describedby", tip.id);
  document.body.append(tip);
  const [at, size] = [one.getBoundingClientRect(), tip.getBoundingClientRect()];
  const below = at.bottom + GAP + size.height <= window.innerHeight;
  tip.style.setProperty("top", `${below ? at.bottom + GAP : Math.max(GAP, at.top - GAP - size.height)}px`);
  tip.style.setProperty("left", `${Math.max(GAP, Math.min(at.left + at.width / 2 - size.width / 2, window.innerWidth - size.width - GAP))}px`);
  window.addEventListener("scroll", hideTip, { capture: true, once: true });
}

/** Hides what is told beside a chip. @returns {boolean} Whether something was. */
export function hideTip() {
  if (!tip) return false;
  tip.remove();
  tipChip?.removeAttribute("aria-describedby");
  tip = tipChip = null;
  window.removeEventListener("scroll", hideTip, { capture: true });
  return true;
}
