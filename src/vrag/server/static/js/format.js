/** Numbers, durations, moments and places in words; numbers as in the exported page. */

const COUNTS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/**
 * A count with separators; a dash where it is unknown.
 * @param {number | null | undefined} value
 */
export const amount = (value) => (value === null || value === undefined ? "–" : COUNTS.format(value));

/**
 * A count with its noun: `1 step`, `2 searches`.
 * @param {number} value
 * @param {string} noun
 */
export function count(value, noun) {
  const many = /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}${/(ch|s|x)$/.test(noun) ? "es" : "s"}`;
  return `${COUNTS.format(value)} ${value === 1 ? noun : many}`;
}

const ENDINGS = { zero: "th", one: "st", two: "nd", few: "rd", many: "th", other: "th" };
const RULES = new Intl.PluralRules("en", { type: "ordinal" });

/** A place in an order: `1st`, `22nd`. @param {number} value From 1. */
export const ordinal = (value) => `${COUNTS.format(value)}${ENDINGS[RULES.select(value)]}`;

/**
 * A duration: `0.03 s`, `7.2 s`, `1 min 23 s`.
 * @param {number} value In seconds.
 */
export function seconds(value) {
  if (!Number.isFinite(value)) return "–";
  if (value >= 60) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  return value < 1 ? `${value.toFixed(2)} s` : `${value.toFixed(1)} s`;
}

/**
 * A moment of a video: `0:12`, `1:15.5`, `1:02:03`.
 * @param {number} value In seconds.
 */
export function moment(value) {
  if (!Number.isFinite(value) || value < 0) return "–";
  const tenths = Math.round(value * 10);
  const whole = Math.floor(tenths / 10);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const clock = hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  return tenths % 10 ? `${clock}.${tenths % 10}` : clock;
}

/**
 * A stretch of a video: `0:12–0:30`.
 * @param {[number, number]} value
 */
export const span = ([from, to]) => (from === to ? moment(from) : `${moment(from)}–${moment(to)}`);

/**
 * A cost in whatever currency; small ones with the digits that count.
 * @param {number | null | undefined} value
 */
export function money(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value >= 1 || value === 0 ? value.toFixed(2) : String(Number(value.toPrecision(2)));
}

/**
 * The place of something in its document: `page 3`, `page 4 (printed 2)`, `passage 2`, `at 0:12`.
 * @param {{kind?: string, page: number, page_label?: string, seconds?: number | [number, number] | null}} place
 */
export function where({ kind = "page", page, page_label: label = "", seconds: at = null }) {
  if (Array.isArray(at)) return span(at);
  if (at !== null) return `at ${moment(at)}`;
  return `${kind} ${page}${label && ` (printed ${label})`}`;
}

/**
 * When a run began: `21 November, 14:37`, in the reader's own time.
 * @param {number} value Seconds since 1970.
 */
export function when(value) {
  const date = new Date(value * 1000);
  if (Number.isNaN(date.getTime())) return "";
  return date.toLocaleString("en-GB", { day: "numeric", month: "long", hour: "2-digit", minute: "2-digit" });
}

/**
 * A time of day: `14:37`, in the reader's own time.
 * @param {number} value Seconds since 1970.
 */
export const clock = (value) => new Date(value * 1000).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false });
