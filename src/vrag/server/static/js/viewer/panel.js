/** The viewer as a part of the page: beside a run on a wide screen, over all on a narrow one or in full. */

import { h, iconButton } from "../dom.js";

/** A screen on which the viewer is a sheet over everything else. */
const NARROW = window.matchMedia("(max-width: 900px)");
const KEPT = "vrag.viewer";
const STRIDE = 32;
/** Least width of the viewer, and of what stands beside it, in pixels. */
const [LEAST, BESIDE] = [400, 320];

/** Width, full screen and what lies behind. */
export class Panel {
  #full = false;

  /** @param {HTMLElement} element @param {string} label Of its edge. */
  constructor(element, label) {
    this.element = element;
    this.fullButton = iconButton("fit", "Full screen", { class: "viewer-full", "aria-pressed": "false", on: { click: () => this.setFull(!this.#full) } });
    this.edge = h("div", { class: "viewer-edge", role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": label, "aria-controls": "viewer" });
    const kept = Number(localStorage.getItem(KEPT));
    if (kept > 0) document.documentElement.style.setProperty("--viewer-chosen", `${kept}px`);
    this.edge.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.edge.setPointerCapture(event.pointerId);
    });
    this.edge.addEventListener("pointermove", (event) => {
      if (this.edge.hasPointerCapture(event.pointerId)) this.#setWidth(element.getBoundingClientRect().right - event.clientX);
    });
    this.edge.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: STRIDE, ArrowRight: -STRIDE }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.#setWidth(element.offsetWidth + by);
    });
    NARROW.addEventListener("change", () => this.settle());
    window.addEventListener("resize", () => this.#tellWidth());
  }

  /** True if it covers the window. */
  get full() {
    return this.#full;
  }

  /** @param {boolean} full */
  setFull(full) {
    this.#full = full;
    this.fullButton.setAttribute("aria-pressed", String(full));
    this.settle();
  }

  /** Behind a viewer that covers the window, nothing can be reached. */
  settle() {
    const over = NARROW.matches || this.#full;
    const modal = over && !this.element.hidden;
    this.element.toggleAttribute("data-sheet", over);
    this.edge.hidden = over;
    if (modal) this.element.setAttribute("aria-modal", "true");
    else this.element.removeAttribute("aria-modal");
    document.getElementById("app")?.toggleAttribute("inert", modal);
    this.#tellWidth();
  }

  /** @param {number} wanted */
  #setWidth(wanted) {
    const width = Math.round(Math.min(Math.max(LEAST, wanted), Math.max(LEAST, window.innerWidth - BESIDE)));
    document.documentElement.style.setProperty("--viewer-chosen", `${width}px`);
    localStorage.setItem(KEPT, String(width));
    this.#tellWidth();
  }

  #tellWidth() {
    this.edge.setAttribute("aria-valuemin", String(LEAST));
    this.edge.setAttribute("aria-valuemax", String(Math.max(LEAST, window.innerWidth - BESIDE)));
    this.edge.setAttribute("aria-valuenow", String(this.element.offsetWidth));
  }
}
