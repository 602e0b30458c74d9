/** The places of a run without an answer, as a search result: ranked, each with the words around those of the question. */

import { h } from "../dom.js";
import { count } from "../format.js";
import { cited, marksOf, placeOf } from "./citations.js";
import { band, isWhole, itemUrl } from "./figures.js";

/** @typedef {import("./reducer.js").State} State */

/** Places that are shown without being asked for. */
const FIRST = 5;
/** Characters of an excerpt, and of it before the first word of the question. */
const [MAX_EXCERPT, MAX_LEAD] = [260, 80];
/** Letters of a word of the question from which it is marked, in writing without blanks too. */
const MIN_LETTERS = 3;
const MIN_LETTERS_CJK = 2;
const CJK = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;
/** Words that say nothing about a passage. */
const COMMON = new Set("about and any are been can could did does for from had has have how into its many may much not our that the their them there these they this those was were what when where which who whose why will with would you your".split(" "));
const WORDS = new Intl.Segmenter(undefined, { granularity: "word" });

/**
 * The places, the first of them in sight; each opens its rectangle.
 * @param {State} state
 * @param {(number: number) => void} open
 */
export function placeList(state, open) {
  const { question = "" } = state.started ?? {};
  const items = cited(state).main.map((one) => placeItem(one, question, open));
  const [first, more] = [items.slice(0, FIRST), items.slice(FIRST)];
  const folded = more.length > 0 && h("details", { class: "more more-places" }, h("summary", count(more.length, "more passage")), h("ol", { class: "places", start: FIRST + 1 }, more));
  return h("div", h("ol", { class: "places" }, first), folded);
}

/** @param {import("./citations.js").Cited} one @param {string} question @param {(number: number) => void} open */
function placeItem({ number, evidence }, question, open) {
  const { document, box, quote, item, seconds } = evidence;
  const place = placeOf(evidence);
  const words = excerptParts(quote, question).map((part) => (part.marked ? h("mark", { text: part.text }) : part.text));
  const picture = box && !seconds && !isWhole(box) && band({ src: itemUrl(item), box, ratio: null, marks: marksOf(evidence) });
  return h(
    "li",
    { dataset: { place: String(number) } },
    h(
      "button",
      { type: "button", class: "place-button", "aria-label": `Place ${number}: ${document}, ${place}. Open`, "aria-describedby": quote ? `place-words-${item}-${number}` : null, on: { click: () => open(number) } },
      h("span", { class: "evidence-where" }, h("span", { class: "number", text: number }), h("span", { class: "clip", dir: "auto", title: document, text: document }), h("span", { class: "citation-place", text: place.replace("page", "p.") })),
      quote && h("span", { class: "place-words", id: `place-words-${item}-${number}`, dir: "auto" }, words),
      picture && h("span", { class: "place-picture" }, picture),
    ),
  );
}

/**
 * The part of a quote around the first words of a question, in pieces. Pure.
 * @param {string} quote
 * @param {string} question
 * @returns {{text: string, marked: boolean}[]}
 */
export function excerptParts(quote, question) {
  const asked = new Set(wordsIn(question).filter(tells).map(({ root }) => root));
  const found = wordsIn(quote).filter((word) => asked.has(word.root));
  const from = startOf(quote, found[0]?.start ?? 0);
  const to = Math.min(quote.length, from + MAX_EXCERPT);
  const parts = [{ text: from > 0 ? "…" : "", marked: false }];
  let at = from;
  for (const { start, end } of found.filter((word) => word.start >= from && word.end <= to)) {
    parts.push({ text: quote.slice(at, start), marked: false }, { text: quote.slice(start, end), marked: true });
    at = end;
  }
  const rest = quote.slice(at, to);
  parts.push({ text: to < quote.length ? `${rest.replace(/\s+\S*$/, "")}…` : rest, marked: false });
  return parts.filter(({ text }) => text !== "");
}

/** Where an excerpt begins: at a word, a little before the first word that is marked. @param {string} quote @param {number} first */
function startOf(quote, first) {
  if (first <= MAX_LEAD) return 0;
  const blank = quote.slice(first - MAX_LEAD, first).search(/\s/);
  return blank < 0 ? first : first - MAX_LEAD + blank + 1;
}

/** @param {string} text @returns {{start: number, end: number, root: string}[]} */
function wordsIn(text) {
  return [...WORDS.segment(text)].filter((one) => one.isWordLike).map(({ index, segment }) => ({ start: index, end: index + segment.length, root: rootOf(segment) }));
}

/** A word without case and the ending of a plural. @param {string} word */
function rootOf(word) {
  const lower = word.normalize("NFKC").toLocaleLowerCase("en");
  return lower.length > MIN_LETTERS ? lower.replace(/(['’]s|(?<![su])s)$/, "") : lower;
}

/** True if a word of a question says what it is about. @param {{root: string}} word */
function tells({ root }) {
  return !COMMON.has(root) && (root.length >= (CJK.test(root) ? MIN_LETTERS_CJK : MIN_LETTERS) || /\d/.test(root));
}
