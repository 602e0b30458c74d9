/** The edge between a conversation and its evidence: it can be dragged, and moved by the arrow keys. */

import { h } from "../dom.js";

const KEPT = "vrag.side";
const [LEAST, MOST, STRIDE] = [280, 760, 24];

/**
 * @param {HTMLElement} view That holds both; its `--side` is the width of the evidence.
 * @returns {HTMLElement}
 */
export function splitter(view) {
  const kept = Number(localStorage.getItem(KEPT));
  const edge = h("div", { class: "splitter", role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": "Width of the evidence", "aria-controls": "run-side", "aria-valuemin": LEAST, "aria-valuemax": MOST, "aria-valuenow": kept || 400 });
  const set = (/** @type {number} */ wanted) => {
    const width = Math.round(Math.min(MOST, Math.max(LEAST, wanted)));
    view.style.setProperty("--side", `${width}px`);
    edge.setAttribute("aria-valuenow", String(width));
    localStorage.setItem(KEPT, String(width));
  };
  if (kept) set(kept);
  edge.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    edge.setPointerCapture(event.pointerId);
  });
  edge.addEventListener("pointermove", (event) => {
    if (edge.hasPointerCapture(event.pointerId)) set(view.getBoundingClientRect().right - event.clientX);
  });
  edge.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    event.stopPropagation();
    set(Number(edge.getAttribute("aria-valuenow")) + (event.key === "ArrowLeft" ? STRIDE : -STRIDE));
  });
  return edge;
}
