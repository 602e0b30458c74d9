/** A window on a drawing: drag moves it, the wheel with Ctrl, two fingers or the buttons change its size, 0 fits it. */

import { h, iconButton, s } from "../dom.js";

const LEAST = 0.2;
const MOST = 2.5;
/** A drawing that is fitted is not enlarged beyond this. */
const FITTED = 1.1;
/** Below this its text cannot be read: a drawing that fits only when smaller is shown in part, and moved. */
const READABLE = 0.88;
const MARGIN = 20;

/** Shows `layer`, an SVG group, through an SVG of the size of its frame. */
export class Canvas {
  #size = { width: 0, height: 0 };
  #view = { x: 0, y: 0, scale: 1 };
  /** The way the view follows the drawing: so that it can be read, so that all is seen, or as the reader left it. @type {"readable" | "whole" | "free"} */
  #mode = "readable";
  /** The part of the drawing that is seen first where it is larger than the frame. */
  #begins = { x: 0, y: 0, width: 0, height: 0 };
  /** @type {Map<number, {x: number, y: number}>} */
  #fingers = new Map();
  #moved = 0;
  #watch;

  /** @param {string} label */
  constructor(label) {
    this.layer = s("g");
    this.svg = s("svg", { class: "graph-drawing", role: "group", "aria-label": label }, this.layer);
    this.element = h(
      "div",
      { class: "graph-canvas" },
      this.svg,
      h(
        "div",
        { class: "graph-controls", role: "group", "aria-label": "Size of the graph" },
        iconButton("plus", "Enlarge the graph", { on: { click: () => this.zoom(1.25) } }),
        iconButton("minus", "Make the graph smaller", { on: { click: () => this.zoom(0.8) } }),
        iconButton("fit", "Fit the graph", { on: { click: () => this.fit() } }),
      ),
    );
    this.#listen();
    this.#watch = new ResizeObserver(() => this.#settle());
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
   * Makes the frame as high as the drawing is at a size that can be read, or leaves its height to the style sheet.
   * @param {boolean} grows
   */
  grow(grows) {
    const { height } = this.#size;
    const scale = this.#readable();
    this.element.style.height = grows && height && scale ? `${Math.ceil(height * scale + 2 * MARGIN)}px` : "";
  }

  /** Shows the whole drawing. */
  fit() {
    this.#mode = "whole";
    this.#settle();
  }

  #settle() {
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

  /** The size at which it is as wide as the frame, within what can be read. */
  #readable() {
    const { clientWidth: wide } = this.element;
    const { width } = this.#size;
    return wide && width ? Math.min(FITTED, Math.max(READABLE, (wide - 2 * MARGIN) / width)) : 0;
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
    if (!event.ctrlKey && !event.metaKey) return;
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
    if (event.key === "+" || event.key === "=") this.zoom(1.25);
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
