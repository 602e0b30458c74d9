/**
 * The words of a page over its picture: transparent, so that they can be selected, copied, found by the browser and
 * read by a screen reader. Each word is as wide as on the picture: it is measured once and set in the size that fits.
 */

import { h } from "../dom.js";

/** @typedef {[text: string, separator: string, x1: number, y1: number, x2: number, y2: number]} PlacedWord In fractions of the page. */
/** @typedef {{words: PlacedWord[], angle?: number, leftwards?: boolean}} WordLine */

/** Size in which words are measured, in pixels. */
const MEASURED = 100;
/** Sizes of words are multiples of this many pixels: a browser keeps a font for each size. */
const SIZES = 0.1;
/** Words whose width is kept. */
const KEPT = 50_000;
/** As in viewer.css. */
const FONT = "sans-serif";
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;

/** @type {Map<string, number>} */
const widths = new Map();
/** @type {CanvasRenderingContext2D | null} */
let canvas = null;

/** The width of a text at the measured size. @param {string} text */
function widthOf(text) {
  const known = widths.get(text);
  if (known !== undefined) return known;
  if (canvas === null) {
    canvas = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    canvas.font = `${MEASURED}px ${FONT}`;
    canvas.textRendering = "geometricPrecision";
  }
  if (widths.size >= KEPT) widths.clear();
  const width = Math.max(1, canvas.measureText(text).width);
  widths.set(text, width);
  return width;
}

/**
 * The lines of a page as an element of the page's natural size; its style sheet scales it.
 * @param {readonly WordLine[]} lines
 * @param {number} width Of the page, in pixels.
 * @param {number} height
 */
export function textLayer(lines, width, height) {
  const layer = h("div", { class: "leaf-text" }, lines.map((line, index) => lineElement(line, width, height, index === lines.length - 1)));
  layer.style.width = `${width}px`;
  layer.style.height = `${height}px`;
  layer.append(h("div", { class: "text-end" }));
  return layer;
}

/** @param {WordLine} line @param {number} width @param {number} height @param {boolean} last Whether it ends the page. */
function lineElement({ words, angle = 0, leftwards = false }, width, height, last) {
  const boxes = words.map(([, , x1, y1, x2, y2]) => [x1 * width, y1 * height, x2 * width, y2 * height]);
  const left = Math.min(...boxes.map((box) => box[0]));
  const top = Math.min(...boxes.map((box) => box[1]));
  const right = Math.max(...boxes.map((box) => box[2]));
  const bottom = Math.max(...boxes.map((box) => box[3]));
  const [long, high] = angle % 180 !== 0 ? [bottom - top, right - left] : [right - left, bottom - top];
  const element = document.createElement("div");
  element.className = "text-line";
  const { style } = element;
  style.width = `${long}px`;
  style.height = style.lineHeight = style.fontSize = `${high}px`;
  style.left = `${angle === 90 || angle === 180 ? right : left}px`;
  style.top = `${angle === 180 || angle === 270 ? bottom : top}px`;
  if (angle !== 0) style.transform = `rotate(${angle}deg)`;
  if (leftwards) element.dir = "rtl";
  const mixed = leftwards || words.some(([text]) => RIGHT_TO_LEFT.test(text));
  // Along the line, from where it begins
  const along = boxes.map(([x1, y1, x2, y2]) => {
    if (angle === 90) return [y1 - top, y2 - top];
    if (angle === 270) return [bottom - y2, bottom - y1];
    return leftwards || angle === 180 ? [right - x2, right - x1] : [x1 - left, x2 - left];
  });
  let at = 0;
  words.forEach(([text, separator], index) => {
    const [from, to] = along[index];
    const next = along[index + 1]?.[0] ?? to;
    const ending = last && index === words.length - 1 && !separator.endsWith("\n") ? `${separator}\n` : separator;
    at = addWord(element, { text, separator: ending, wide: Math.max(to - from, 0.5), gap: next - to, shift: from - at, mixed });
    at += from;
  });
  return element;
}

/**
 * @param {HTMLElement} line
 * @param {{text: string, separator: string, wide: number, gap: number, shift: number, mixed: boolean}} word `gap`: to
 *   the next word, may be negative. `shift`: from where the line has come to.
 * @returns {number} How far the line has come after it, from where the word begins.
 */
function addWord(line, { text, separator, wide, gap, shift, mixed }) {
  const size = Math.max(Math.round((MEASURED * wide) / widthOf(text) / SIZES) * SIZES, SIZES);
  const element = document.createElement("span");
  element.textContent = text + separator;
  element.style.fontSize = `${size}px`;
  if (mixed) element.className = "text-apart";
  if (Math.abs(shift) > 0.01) element.style.marginInlineStart = `${shift}px`;
  let came = (widthOf(text) * size) / MEASURED;
  gap += wide - came;
  const spaces = separator.replace(/[\r\n]+$/, "");
  if (spaces !== "" && gap > 0 && /^ +$/.test(spaces)) {
    element.style.wordSpacing = `${gap / spaces.length - (widthOf(" ") * size) / MEASURED}px`;
    came += gap;
  } else if (spaces !== "") {
    came += (widthOf(spaces) * size) / MEASURED;
  }
  line.append(element);
  return came;
}

/**
 * Keeps a selection where it was made while the pointer is between lines, where a browser would let it jump to the
 * start of the page: an element without text that fills the page follows the end that moves.
 * @param {HTMLElement} root Holds all layers.
 */
export function steadySelection(root) {
  /** @type {Range | null} */
  let before = null;
  const moved = () => {
    const selection = document.getSelection();
    if (!root.hasAttribute("data-selecting") || !selection?.rangeCount) return;
    const range = selection.getRangeAt(0);
    if (!root.contains(range.commonAncestorContainer)) return;
    const startMoves = before !== null && (range.compareBoundaryPoints(Range.END_TO_END, before) === 0 || range.compareBoundaryPoints(Range.START_TO_END, before) === 0);
    before = range.cloneRange();
    const [node, offset] = startMoves ? [range.startContainer, range.startOffset] : [range.endContainer, range.endOffset];
    follow(node, offset, startMoves);
  };
  const stop = () => {
    root.removeAttribute("data-selecting");
    before = null;
    for (const layer of root.querySelectorAll(".leaf-text")) layer.append(/** @type {Element} */ (layer.querySelector(".text-end")));
  };
  root.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && /** @type {Element} */ (event.target).closest(".text-line")) root.setAttribute("data-selecting", "");
  });
  document.addEventListener("selectionchange", moved);
  for (const end of ["pointerup", "pointercancel", "blur"]) window.addEventListener(end, stop);
}

/** @param {Node} node @param {number} offset @param {boolean} ahead Whether the end goes before the line. */
function follow(node, offset, ahead) {
  const word = node instanceof Element ? node : node.parentElement;
  let line = word?.closest(".text-line");
  if (line && !ahead && offset === 0 && word === line.firstElementChild) line = line.previousElementSibling; // none of it is selected
  const layer = line?.closest(".leaf-text");
  const end = layer?.querySelector(".text-end");
  if (line && layer && end && line !== end) layer.insertBefore(end, ahead ? line : line.nextSibling);
}

/**
 * What is selected, as plain text: with its line breaks, and without the styles of the layer.
 * @param {ClipboardEvent} event
 */
export function copyPlain(event) {
  const text = document.getSelection()?.toString() ?? "";
  if (text === "" || event.clipboardData === null) return;
  event.clipboardData.setData("text/plain", text.replace(/\n$/, ""));
  event.preventDefault();
}
