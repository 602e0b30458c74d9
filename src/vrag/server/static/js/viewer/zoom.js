/** The size at which a page is shown: fitted to its window or free; by wheel, fingers, buttons and keys. */

const LEAST = 0.1;
const MOST = 6;
const STEP = 1.25;

/** @typedef {"width" | "page" | "free"} Fit */

/** Makes `leaf` larger and smaller within `window_`, which scrolls. */
export class Zoom {
  /** Pixels of the page at its natural size. */
  #natural = { width: 1, height: 1 };
  #scale = 1;
  /** @type {Fit} */
  #fit = "page";
  /** @type {Map<number, {x: number, y: number}>} */
  #fingers = new Map();
  #watch;

  /**
   * @param {HTMLElement} window_
   * @param {HTMLElement} leaf
   * @param {(scale: number, fit: Fit) => void} changed
   */
  constructor(window_, leaf, changed) {
    this.window = window_;
    this.leaf = leaf;
    this.changed = changed;
    window_.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    window_.addEventListener("pointerdown", (event) => this.#down(event));
    window_.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) window_.addEventListener(end, (event) => this.#up(/** @type {PointerEvent} */ (event)));
    this.#watch = new ResizeObserver(() => this.#refit());
    this.#watch.observe(window_);
  }

  /**
   * Another page.
   * @param {number} width
   * @param {number} height
   */
  page(width, height) {
    this.#natural = { width: Math.max(1, width), height: Math.max(1, height) };
    if (this.#fit === "free") this.#apply();
    else this.#refit();
  }

  /** @param {Fit} fit */
  fit(fit) {
    this.#fit = fit;
    this.#refit();
  }

  /**
   * @param {number} factor
   * @param {{x: number, y: number}} [about] A point of the window.
   */
  by(factor, about = { x: this.window.clientWidth / 2, y: this.window.clientHeight / 2 }) {
    this.to(this.#scale * factor, about);
  }

  larger() {
    this.by(STEP);
  }

  smaller() {
    this.by(1 / STEP);
  }

  /**
   * @param {number} scale 1 for the natural size.
   * @param {{x: number, y: number}} [about] What stays where it is.
   */
  to(scale, about = { x: this.window.clientWidth / 2, y: this.window.clientHeight / 2 }) {
    const frame = this.window.getBoundingClientRect();
    const before = this.leaf.getBoundingClientRect();
    const at = { x: (frame.left + about.x - before.left) / before.width, y: (frame.top + about.y - before.top) / before.height };
    this.#fit = "free";
    this.#scale = Math.min(MOST, Math.max(LEAST, scale));
    this.#apply();
    const after = this.leaf.getBoundingClientRect();
    this.window.scrollLeft += after.left + at.x * after.width - frame.left - about.x;
    this.window.scrollTop += after.top + at.y * after.height - frame.top - about.y;
  }

  #refit() {
    const { width, height } = this.#natural;
    const style = getComputedStyle(this.window);
    const wide = this.window.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight);
    const high = this.window.clientHeight - Number.parseFloat(style.paddingTop) - Number.parseFloat(style.paddingBottom);
    if (wide <= 0 || high <= 0 || this.#fit === "free") return;
    this.#scale = this.#fit === "width" ? wide / width : Math.min(wide / width, high / height);
    this.#apply();
  }

  #apply() {
    this.leaf.style.width = `${this.#natural.width * this.#scale}px`;
    this.leaf.style.height = `${this.#natural.height * this.#scale}px`;
    this.changed(this.#scale, this.#fit);
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.by(Math.exp(-event.deltaY / 300), this.#at(event));
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0 || /** @type {Element} */ (event.target).closest("button, a, video")) return;
    this.#fingers.set(event.pointerId, this.#at(event));
    if (event.pointerType === "mouse") this.window.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const before = this.#fingers.get(event.pointerId);
    if (before === undefined) return;
    const now = this.#at(event);
    const other = [...this.#fingers].find(([id]) => id !== event.pointerId)?.[1];
    this.#fingers.set(event.pointerId, now);
    if (other) this.by(apart(now, other) / Math.max(1, apart(before, other)), other);
    else if (event.pointerType === "mouse") {
      this.window.scrollLeft -= now.x - before.x;
      this.window.scrollTop -= now.y - before.y;
    }
  }

  /** @param {PointerEvent} event */
  #up(event) {
    this.#fingers.delete(event.pointerId);
  }

  /** @param {MouseEvent} event */
  #at(event) {
    const frame = this.window.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  }
}

/** @param {{x: number, y: number}} a @param {{x: number, y: number}} b */
function apart(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
