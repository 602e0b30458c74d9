/** The size at which a page opens: its words can be read, and the place that matters is seen. Pure. */

/** @typedef {import("./page.js").Box} Box */
/** @typedef {{width: number, height: number}} Size */
/** @typedef {readonly [number, number, number, number]} Sides */
/**
 * @typedef {object} OpeningPlace In fractions of the page.
 * @property {Sides} outer The rectangle.
 * @property {Sides | null} words Around the words of the answer in it, where they are known.
 * @property {number} high Height of one of these words; 0 where they are not known.
 */

/** Heights of words on the screen, in pixels, without the blank above and below them: easy to read, and the least that can be read. */
const [EASY, LEAST] = [11, 7.5];
/** Height of the words of a page of which nothing is known, in widths of the page: of a sheet, and of a slide. */
const [OF_SHEET, OF_SLIDE] = [0.0145, 0.02];
/** Words of an answer may be larger or smaller than others by these factors, and still tell the size of the text. */
const [SMALLER, LARGER] = [0.5, 1.5];

/**
 * The place that the rectangles of a piece of evidence make.
 * @param {readonly Box[]} boxes The place first, then what is marked in it.
 * @param {number} [flash] Number of the one that matters.
 * @returns {OpeningPlace | null}
 */
export function openingPlace(boxes, flash = 0) {
  const outer = boxes[flash] ?? boxes[0];
  if (!outer) return null;
  const words = boxes.filter(({ kind }) => kind === "answer").map(({ box }) => box);
  return { outer: outer.box, words: words.length > 0 ? around(words) : null, high: words.length > 0 ? Math.min(...words.map((box) => box[3] - box[1])) : 0 };
}

/**
 * The scale at which a page opens: no smaller than the whole page in the window; as large as its words are easy to read,
 * unless the place would not fit into the width, but never so small that they cannot be read.
 * @param {Size} page In its own pixels.
 * @param {Size} seen What there is room for, in pixels.
 * @param {OpeningPlace | null} place
 */
export function openingScale(page, seen, place) {
  const whole = Math.min(seen.width / page.width, seen.height / page.height);
  const words = wordHeight(page, place);
  const wide = seen.width / page.width;
  if (place === null) return Math.max(whole, Math.min(wide, EASY / words));
  const fits = wide / Math.max(0.05, place.outer[2] - place.outer[0]);
  return Math.max(whole, Math.min(EASY / words, Math.max(fits, LEAST / words)));
}

/** Height of the words of a page in its own pixels. @param {Size} page @param {OpeningPlace | null} place */
function wordHeight({ width, height }, place) {
  const usual = (height > width ? OF_SHEET : OF_SLIDE) * width;
  const marked = (place?.high ?? 0) * height;
  return marked >= SMALLER * usual && marked <= LARGER * usual ? marked : usual;
}

/**
 * What is to be in the middle along one axis: the place, or where there is no room for it, its words.
 * @param {OpeningPlace} place @param {0 | 1} axis Across, or down. @param {number} length Of the page. @param {number} seen Of the window.
 * @returns {number} In the unit of both.
 */
export function middle({ outer, words }, axis, length, seen) {
  const fits = (outer[axis + 2] - outer[axis]) * length <= seen + 1; // but for rounding
  if (!fits && words === null) return outer[axis] * length + seen / 2; // its beginning
  const sides = fits || words === null ? outer : words;
  return ((sides[axis] + sides[axis + 2]) / 2) * length;
}

/** @param {readonly Sides[]} boxes @returns {Sides} */
function around(boxes) {
  const least = (/** @type {number} */ side) => Math.min(...boxes.map((box) => box[side]));
  const most = (/** @type {number} */ side) => Math.max(...boxes.map((box) => box[side]));
  return [least(0), least(1), most(2), most(3)];
}
