/** A clip in the viewer: its film from the second that is meant; where the browser cannot play it, its picture. */

import { h, icon } from "../dom.js";
import { itemUrl } from "../run/figures.js";
import { moment } from "../run/wording.js";

const PICTURE_PIXELS = 1_600_000;

/**
 * @param {any} info Of the item.
 * @param {number} [seconds] Of the video, where it is to begin; the beginning of the clip without.
 * @returns {HTMLElement}
 */
export function clipElement(info, seconds = info.clip.start) {
  const url = `/items/${encodeURIComponent(info.id)}/clip`;
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
