/** A window on a drawing: drag and Shift with arrows move it; the wheel with Ctrl, two fingers, + and − change its size; 0 fits it. */

import { h, iconButton, s } from "../dom.js";
import { READABLE } from "./graph-column.js";

const LEAST = 0.2;
const MOST = 2.5;
/** A drawing that is fitted is not enlarged beyond this. */
const FITTED = 1.1;
export const MARGIN = 20;
/** Pixels that an arrow moves it. */
const STEP = 60;

/** What is seen moves the other way than the drawing. @type {Record<string, [number, number]>} */
const MOVES = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/** Shows `layer`, an SVG group, through an SVG of the size of its frame. */
export class Canvas {
  #size = { width: 0, height: 0 };
  #view = { x: 0, y: 0, scale: 1 };
  /** The way the view follows the drawing: so that it can be read, so that all is seen, or as the reader left it. @type {"readable" | "whole" | "free"} */
  #mode = "readable";
  /** Whether the frame is as high as the drawing. */
  #grows = false;
  /** The part of the drawing that is seen first where it is larger than the frame. */
  #begins = { x: 0, y: 0, width: 0, height: 0 };
  /** @type {Map<number, {x: number, y: number}>} */
  #fingers = new Map();
  #moved = 0;
  #watch;

  /** @param {string} label @param {(width: number) => void} resized Called when the width of the frame has changed. */
  constructor(label, resized) {
    this.layer = s("g");
    this.svg = s("svg", { class: "graph-drawing", role: "group", "aria-label": label }, this.layer);
    this.element = h("div", { class: "graph-canvas" }, this.svg);
    this.controls = h(
      "div",
      { class: "graph-controls", role: "group", "aria-label": "Size of the graph" },
      iconButton("plus", "Enlarge the graph", { on: { click: () => this.zoom(1.25) } }),
      iconButton("minus", "Make the graph smaller", { on: { click: () => this.zoom(0.8) } }),
      iconButton("fit", "Fit the graph", { on: { click: () => this.fit() } }),
    );
    this.#listen();
    let width = 0;
    this.#watch = new ResizeObserver(() => {
      if (this.element.clientWidth !== width) resized((width = this.element.clientWidth));
      this.#settle();
    });
    this.#watch.observe(this.element);
  }

  destroy() {
    this.#watch.disconnect();
  }

  /** True if the pointer that is just released had dragged: then its click means nothing. */
  get dragged() {
    return this.#moved > 4;
  }

  /**
   * The size of the drawing; its view is settled again unless the reader moved it.
   * @param {number} width
   * @param {number} height
   * @param {{x: number, y: number, width: number, height: number}} begins What is seen first when not all can be.
   */
  resize(width, height, begins) {
    this.#size = { width, height };
    this.#begins = begins;
    this.#settle();
  }

  /**
   * Shows the whole drawing from now on, or so much of it that it can be read, unless the reader moved it.
   * @param {boolean} whole
   * @param {boolean} grows Makes the frame as high as the drawing is where it is as wide as the frame.
   */
  follow(whole, grows) {
    this.#grows = grows;
    if (this.#mode !== "free") this.#mode = whole ? "whole" : "readable";
    this.#settle();
  }

  /** Shows the whole drawing. */
  fit() {
    this.#mode = "whole";
    this.#settle();
  }

  #settle() {
    const fitted = this.#size.width ? Math.min(FITTED, (this.element.clientWidth - 2 * MARGIN) / this.#size.width) : 0;
    this.element.style.height = this.#grows && fitted > 0 ? `${Math.ceil(this.#size.height * fitted + 2 * MARGIN)}px` : "";
    const { clientWidth: wide, clientHeight: high } = this.element;
    const { width, height } = this.#size;
    if (!wide || !high || !width || !height || this.#mode === "free") return this.#apply();
    const whole = Math.min(FITTED, (wide - 2 * MARGIN) / width, (high - 2 * MARGIN) / height);
    const scale = this.#mode === "whole" ? whole : Math.max(whole, READABLE);
    const first = { from: this.#begins.x + this.#begins.width / 2, size: wide / scale };
    const x = width * scale <= wide ? (wide - width * scale) / 2 : -Math.min(Math.max(first.from - first.size / 2, -MARGIN), width - first.size + MARGIN) * scale;
    const y = height * scale <= high ? (high - height * scale) / 2 : MARGIN;
    this.#view = { scale, x, y };
    this.#apply();
  }

  /**
   * Changes the size about a point of the frame, or its middle.
   * @param {number} factor
   * @param {{x: number, y: number}} [about]
   */
  zoom(factor, about = { x: this.element.clientWidth / 2, y: this.element.clientHeight / 2 }) {
    const { x, y, scale: before } = this.#view;
    const scale = Math.min(MOST, Math.max(LEAST, before * factor));
    const by = scale / before;
    this.#view = { scale, x: about.x - (about.x - x) * by, y: about.y - (about.y - y) * by };
    this.#mode = "free";
    this.#apply();
  }

  /**
   * Moves the drawing so that a part of it can be seen.
   * @param {{x: number, y: number, width: number, height: number}} part
   */
  reveal(part) {
    const { scale } = this.#view;
    const { clientWidth: wide, clientHeight: high } = this.element;
    const shift = (/** @type {number} */ from, /** @type {number} */ size, /** @type {number} */ room) =>
      from < 8 ? 8 - from : from + size > room - 8 ? Math.max(room - 8 - size - from, 8 - from) : 0;
    const dx = shift(this.#view.x + part.x * scale, part.width * scale, wide);
    const dy = shift(this.#view.y + part.y * scale, part.height * scale, high);
    if (!dx && !dy) return;
    this.#view = { ...this.#view, x: this.#view.x + dx, y: this.#view.y + dy };
    this.#apply();
  }

  /** @param {number} dx @param {number} dy */
  #pan(dx, dy) {
    this.#view = { ...this.#view, x: this.#view.x + dx, y: this.#view.y + dy };
    this.#mode = "free";
    this.#apply();
  }

  #apply() {
    const { x, y, scale } = this.#view;
    this.layer.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${scale.toFixed(4)})`);
  }

  #listen() {
    this.svg.addEventListener("wheel", (event) => this.#wheel(/** @type {WheelEvent} */ (event)), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => this.#down(/** @type {PointerEvent} */ (event)));
    this.svg.addEventListener("pointermove", (event) => this.#move(/** @type {PointerEvent} */ (event)));
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
      this.svg.addEventListener(end, (event) => this.#fingers.delete(/** @type {PointerEvent} */ (event).pointerId));
    }
    this.element.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !this.element.closest("dialog")) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 300), this.#at(event));
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0) return;
    if (this.#fingers.size === 0) this.#moved = 0;
    this.#fingers.set(event.pointerId, this.#at(event));
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const before = this.#fingers.get(event.pointerId);
    if (before === undefined) return;
    const now = this.#at(event);
    const other = [...this.#fingers].find(([id]) => id !== event.pointerId)?.[1];
    this.#fingers.set(event.pointerId, now);
    this.#moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (other) this.zoom(apart(now, other) / Math.max(1, apart(before, other)), other);
    else if (this.dragged) this.#pan(now.x - before.x, now.y - before.y);
    if (this.dragged && !this.svg.hasPointerCapture(event.pointerId)) this.svg.setPointerCapture(event.pointerId);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [dx, dy] = (event.shiftKey && MOVES[event.key]) || [0, 0];
    if (dx || dy) this.#pan(dx * STEP, dy * STEP);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  /** @param {MouseEvent} event */
  #at(event) {
    const frame = this.element.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  }
}

/** @param {{x: number, y: number}} a @param {{x: number, y: number}} b */
function apart(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
