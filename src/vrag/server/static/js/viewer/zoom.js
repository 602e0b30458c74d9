/** Gestures on the pages: Ctrl and wheel, two fingers, and dragging by the mouse where no text is. */

/** @typedef {{x: number, y: number}} Point Of the window, in pixels. */

/**
 * Watches for gestures.
 * @param {HTMLElement} window_ What scrolls.
 * @param {(factor: number, about: Point) => void} zoom
 */
export function watchGestures(window_, zoom) {
  /** @type {Map<number, Point>} */
  const fingers = new Map();
  const at = (/** @type {MouseEvent} */ event) => {
    const frame = window_.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };
  window_.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), at(event));
    },
    { passive: false },
  );
  window_.addEventListener("pointerdown", (event) => {
    const mouse = event.pointerType === "mouse";
    if (event.button !== 0 || /** @type {Element} */ (event.target).closest(mouse ? "button, a, video, .text-line" : "button, a, video")) return;
    if (mouse && onScrollbar(window_, event)) return;
    fingers.set(event.pointerId, at(event));
    if (!mouse) return;
    event.preventDefault(); // selects nothing
    window_.setPointerCapture(event.pointerId);
    window_.focus({ preventScroll: true });
    document.getSelection()?.removeAllRanges();
  });
  window_.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) return;
    const now = at(event);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, now);
    if (other) zoom(apart(now, other) / Math.max(1, apart(before, other)), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    else if (event.pointerType === "mouse") window_.scrollBy({ left: before.x - now.x, top: before.y - now.y, behavior: "instant" });
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    window_.addEventListener(end, (event) => fingers.delete(/** @type {PointerEvent} */ (event).pointerId));
  }
}

/** @param {HTMLElement} window_ @param {MouseEvent} event */
function onScrollbar(window_, event) {
  const frame = window_.getBoundingClientRect();
  return event.clientX - frame.left >= window_.clientWidth || event.clientY - frame.top >= window_.clientHeight;
}

/** @param {Point} a @param {Point} b */
function apart(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
