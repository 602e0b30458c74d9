/** Clips and passages in the viewer: a film from a second on, and a text with what was quoted or found marked. */

import { h, icon, replace } from "../dom.js";
import { moment } from "../format.js";
import { itemUrl } from "../run/figures.js";

const PICTURE_PIXELS = 1_600_000;
/** Part of a text from which a quote is as good as the whole, and is not marked. */
const WHOLE = 0.8;

/**
 * The film of a clip; where the browser cannot play it, its picture.
 * @param {any} info Of the item.
 * @param {number} [seconds] Of the video, where it is to begin; the beginning of the clip without.
 * @returns {HTMLElement}
 */
export function clipElement(info, seconds = info.clip.start) {
  const url = `items/${encodeURIComponent(info.id)}/clip`;
  const name = `${info.document_name}, from ${moment(info.clip.start)} to ${moment(info.clip.end)}`;
  const video = /** @type {HTMLVideoElement} */ (h("video", { controls: true, preload: "metadata", src: url, "aria-label": name }));
  const element = h("div", { class: "clip-shown" }, video, h("p", { class: "soft size-2", text: `From ${moment(seconds)}. The clip is ${moment(info.clip.start)}–${moment(info.clip.end)} of the video.` }));
  video.addEventListener("loadedmetadata", () => (video.currentTime = Math.max(0, seconds - info.clip.start)), { once: true });
  video.addEventListener("error", () => element.replaceChildren(...still(info, url, name)), { once: true });
  return element;
}

/** @param {any} info @param {string} url @param {string} name */
function still(info, url, name) {
  return [
    h("img", { src: itemUrl(info.id, PICTURE_PIXELS), alt: name }),
    h("p", { class: "soft", role: "status" }, "This browser cannot play the clip; here is one frame of it. "),
    h("p", h("a", { class: "button", href: url, download: "" }, icon("download"), "Download the clip")),
  ];
}

/**
 * The text of a passage.
 * @param {any} info Of the item.
 * @param {string} quote
 */
export function passageElement(info, quote) {
  const headings = info.heading ? h("p", { class: "passage-heading", dir: "auto", text: info.heading }) : null;
  const at = quote ? info.text.indexOf(quote) : -1;
  const text = h("p", { class: "passage-text", dir: "auto" }, at < 0 || quote.length > WHOLE * info.text.length ? info.text : [info.text.slice(0, at), h("mark", { text: quote }), info.text.slice(at + quote.length)]);
  return h("article", { class: "passage", tabindex: "0", "aria-label": `${info.document_name}, passage ${info.page}` }, headings, text);
}

/**
 * Marks what was found in a passage, and brings the current place into sight.
 * @param {Element} passage
 * @param {string} text
 * @param {readonly {start: number, end: number}[]} matches In characters of Unicode.
 * @param {number} current Number of the match that is looked at.
 */
export function markPassage(passage, text, matches, current) {
  const characters = [...text];
  /** @type {(Node | string)[]} */
  const parts = [];
  let at = 0;
  matches.forEach(({ start, end }, index) => {
    parts.push(characters.slice(at, start).join(""), h("mark", { class: `found-here${index === current ? " here" : ""}`, text: characters.slice(start, end).join("") }));
    at = end;
  });
  const element = passage.querySelector(".passage-text");
  if (element) replace(element, parts, characters.slice(at).join(""));
  element?.querySelector(".here")?.scrollIntoView({ block: "center" });
}
