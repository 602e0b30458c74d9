/** Pictures with rectangles over them, as in print: figures, thumbnails, and where they come from. */

import { h, icon } from "../dom.js";
import { where } from "../format.js";

/** @typedef {import("./reducer.js").Sides} Sides */
/** @typedef {import("./reducer.js").Shown} Shown */

/** Pixels of the picture of a thumbnail: enough for 72 × 96 on a screen of double density. */
const THUMB_PIXELS = 40_000;
/** Part of each side of a picture from which a box is the whole of it, and not drawn; as in vrag.agent.runs.run_result. */
const WHOLE = 0.995;
/** Part of each side of a picture within which the line around a box would lie beyond the picture, where nothing is seen. */
const EDGE = 0.01;

/** Address of a picture that lies with a run. @param {string} run @param {string} sha256 */
export const fileUrl = (run, sha256) => `runs/${encodeURIComponent(run)}/files/${encodeURIComponent(sha256)}.jpg`;

/** Address of the picture of an item. @param {string} item @param {number} [pixels] At most. */
export const itemUrl = (item, pixels = THUMB_PIXELS) => `items/${encodeURIComponent(item)}/image?max_pixels=${pixels}`;

/** True if a box is as good as its whole page. @param {Sides | null} box */
export const isWhole = (box) => box === null || Math.min(box[2] - box[0], box[3] - box[1]) >= WHOLE;

/**
 * The place of a box of a page on a picture of a part of that page, in fractions of the picture; null when it is
 * not on it, or is the whole of it.
 * @param {Sides} box In fractions of the page.
 * @param {Sides} outer The part of the page that the picture shows, in the same.
 * @returns {Sides | null}
 */
export function placed(box, outer) {
  const [width, height] = [outer[2] - outer[0], outer[3] - outer[1]];
  if (![...box, ...outer].every(Number.isFinite) || !(width > 0 && height > 0)) return null;
  const inside = (/** @type {number} */ side) => Math.min(1, Math.max(0, side));
  /** @type {Sides} */
  const sides = [
    inside((box[0] - outer[0]) / width),
    inside((box[1] - outer[1]) / height),
    inside((box[2] - outer[0]) / width),
    inside((box[3] - outer[1]) / height),
  ];
  return sides[2] <= sides[0] || sides[3] <= sides[1] || isWhole(sides) ? null : sides;
}

/** True if a side of a box, in fractions of the picture, is at its edge. @param {Sides} box */
const touchesEdge = ([left, top, right, bottom]) => Math.min(left, top, 1 - right, 1 - bottom) < EDGE;

/**
 * A rectangle over a picture.
 * @param {Sides} box In fractions of the picture.
 * @param {{label?: string, kind?: string, index?: number, content?: [number, number]}} [how] `content` is the part
 *   of the picture that is no margin, along x and y; the margin is at the right and below.
 */
export function rectangle(box, { label = "", kind = "mark", index = 0, content = [1, 1] } = {}) {
  const [x, y] = content;
  /** @type {Sides} */
  const sides = [box[0] * x, box[1] * y, box[2] * x, box[3] * y];
  const style = {
    left: `${sides[0] * 100}%`,
    top: `${sides[1] * 100}%`,
    width: `${(sides[2] - sides[0]) * 100}%`,
    height: `${(sides[3] - sides[1]) * 100}%`,
  };
  return h("span", { class: `box box-${kind}${isWhole(box) ? " box-whole" : touchesEdge(sides) ? " box-edge" : ""}`, style, dataset: { box: box.join(",") }, title: label || null, role: "img", "aria-label": label || `Rectangle ${index + 1}` });
}

/**
 * A picture, with rectangles. It keeps its shape while it loads, so that nothing jumps.
 * @param {{src: string, alt: string, width: number, height: number, boxes?: Sides[], marks?: {box: Sides | null, label: string, kind: string}[],
 *   content?: [number, number], lazy?: boolean}} shown `marks`: further rectangles, which have a kind.
 */
export function figure({ src, alt, width, height, boxes = [], marks = [], content = [1, 1], lazy = true }) {
  const ratio = width > 0 && height > 0 ? width / height : 1;
  const image = h("img", { src, alt, loading: lazy ? "lazy" : null, decoding: "async", draggable: "false" });
  const element = h("span", { class: "picture-frame", style: { "aspect-ratio": String(ratio) } }, image, boxes.map((box, index) => rectangle(box, { index, content })), marks.map((mark) => mark.box && rectangle(mark.box, { ...mark, content })));
  image.addEventListener("error", () => element.classList.add("absent"), { once: true });
  return element;
}

/** Height of the part of a page that is shown around a box, by its width. */
const BAND = 2 / 3;
/** Width by height of a page whose picture has not told it yet. */
const PAGE = 0.707;

/**
 * The part of a page around a box, as wide as the page, with the box on it. Where the shape of the page is not
 * known yet, its picture tells it.
 * @param {{src: string, box: Sides, ratio: number | null, marks?: {box: Sides, label: string, kind: string}[], least?: number}} shown
 *   `ratio`: width by height of the page; `marks`: further rectangles; `least`: height of the part, by its width.
 */
export function band({ src, box, ratio, marks = [], least = BAND }) {
  const image = /** @type {HTMLImageElement} */ (h("img", { src, alt: "", loading: "lazy", decoding: "async", draggable: "false" }));
  const page = h("span", { class: "band-page" }, image, rectangle(box), marks.map((mark) => rectangle(mark.box, mark)));
  const element = h("span", { class: "picture-frame band" }, page);
  const shape = (/** @type {number} */ wide) => {
    const high = 1 / wide; // of the page, in widths of it
    const seen = Math.min(high, Math.max(least, (box[3] - box[1]) * high + 0.12));
    const top = Math.min(Math.max(((box[1] + box[3]) / 2) * high - seen / 2, 0), high - seen);
    element.style.setProperty("aspect-ratio", String(1 / seen));
    page.style.setProperty("aspect-ratio", String(wide));
    page.style.setProperty("top", `${(-top / seen) * 100}%`);
  };
  shape(ratio ?? PAGE);
  if (ratio === null) image.addEventListener("load", () => shape(image.naturalWidth / Math.max(1, image.naturalHeight)), { once: true });
  image.addEventListener("error", () => element.classList.add("absent"), { once: true });
  return element;
}

/**
 * The picture of an `image_shown` as a button.
 * @param {{run: string, shown: Shown, boxes?: Sides[], open: () => void, label?: string, lazy?: boolean}} how
 */
export function figureButton({ run, shown, boxes = [], open, label = described(shown), lazy = true }) {
  const image = figure({ src: fileUrl(run, shown.sha256), alt: "", width: shown.width, height: shown.height, boxes, content: contentOf(shown), lazy });
  const style = { "--ratio": String(shown.width / Math.max(1, shown.height)) };
  return h("button", { type: "button", class: "figure-button", style, "aria-label": `${label}. Open`, title: label, on: { click: open } }, image);
}

/**
 * A small picture of an item; of a passage, a sign.
 * @param {{item: string, kind: string, label: string, caption?: string, open: () => void, class?: string, src?: string}} how
 */
export function thumb({ item, kind, label, caption = "", open, class: more = "", src = itemUrl(item) }) {
  const inside = kind === "passage" ? h("span", { class: "thumb-text" }, icon("report")) : h("img", { src, alt: "", loading: "lazy", decoding: "async", draggable: "false" });
  inside.addEventListener("error", () => inside.replaceWith(h("span", { class: "thumb-text" }, icon("image"))), { once: true });
  return h(
    "button",
    { type: "button", class: `thumb ${more}`, title: label, "aria-label": `${label}. Open`, dataset: { item }, on: { click: open } },
    h("span", { class: "thumb-frame" }, inside),
    caption && h("span", { class: "thumb-caption", dir: "auto", text: caption }),
  );
}

/** A picture in words: `report.pdf, page 3, enlarged`. @param {Shown} shown */
export function described(shown) {
  return `${shown.document}, ${where(shown)}${shown.crop ? ", enlarged" : ""}`;
}

/**
 * The part of a picture that is no margin: an item smaller than the least picture stands in its left upper corner.
 * @param {Shown} shown
 * @returns {[number, number]}
 */
function contentOf(shown) {
  if (shown.crop || shown.number > 0) return [1, 1];
  const [width, height] = [shown.region[2] - shown.region[0], shown.region[3] - shown.region[1]];
  const fits = width > 0 && height > 0 && width <= shown.width && height <= shown.height;
  return fits ? [width / shown.width, height / shown.height] : [1, 1];
}
