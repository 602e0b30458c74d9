/** A passage in the viewer: its text, with the words that were quoted marked. */

import { h } from "../dom.js";

/** Part of a text from which a quote is as good as the whole, and is not marked. */
const WHOLE = 0.8;

/**
 * @param {any} info Of the item.
 * @param {string} quote
 */
export function passageElement(info, quote) {
  const headings = info.heading ? h("p", { class: "passage-heading", dir: "auto", text: info.heading }) : null;
  return h("article", { class: "passage", tabindex: "0", "aria-label": "Text of the passage" }, headings, h("p", { class: "passage-text", dir: "auto" }, marked(info.text, quote)));
}

/** @param {string} text @param {string} quote */
function marked(text, quote) {
  const at = quote ? text.indexOf(quote) : -1;
  if (at < 0 || quote.length > WHOLE * text.length) return text;
  return [text.slice(0, at), h("mark", { text: quote }), text.slice(at + quote.length)];
}
