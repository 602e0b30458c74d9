/** The right side of a run: while it goes on what the agent looks at; when it has ended, the evidence. */

import { h, replace } from "../dom.js";
import { checkedText, cited, marksOf, placeOf, placesOf } from "./citations.js";
import { lookAt } from "./entries.js";
import { band, described, fileUrl, isWhole, itemUrl, placed, figure, figureButton, thumb } from "./figures.js";
import { sourceOf } from "./reducer.js";
import { amount, where } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./reducer.js").Shown} Shown */
/** @typedef {import("./entries.js").RunContext} RunContext */

/** Pixels of the picture of a page that was not shown to the agent as a whole. */
const PAGE_PIXELS = 500_000;

/** The page that the agent looks at, or the evidence of its answer. */
export class EvidencePanel {
  #context;
  /** @type {unknown[]} */
  #from = [];

  /** @param {RunContext} context */
  constructor(context) {
    this.#context = context;
    this.element = h("section", { class: "evidence-panel", id: "evidence-panel", "aria-labelledby": "evidence-title" });
  }

  /** @param {State} state @param {boolean} over Whether nothing comes any more. */
  update(state, over) {
    const from = [state.pictures.length, state.passages.length, state.answer, state.failure, over, state.started];
    if (from.every((part, index) => part === this.#from[index])) return;
    this.#from = from;
    this.element.hidden = false;
    const ended = over || state.answer !== null || state.failure !== null;
    const evidence = ended ? this.#evidence(state) : null;
    replace(this.element, evidence ?? this.#looking(state, ended));
  }

  /** Points out the card of a number, and brings it into sight; null ends it. @param {number | null} number */
  point(number) {
    for (const card of /** @type {NodeListOf<HTMLElement>} */ (this.element.querySelectorAll("[data-evidence]"))) {
      const meant = card.dataset.evidence === String(number);
      card.classList.toggle("pointed", meant);
      const side = /** @type {HTMLElement | null} */ (this.element.parentElement);
      if (meant && side && side.scrollHeight > side.clientHeight) reveal(card, side);
    }
  }

  /** @param {State} state @param {boolean} ended */
  #looking(state, ended) {
    const last = state.pictures.at(-1);
    const title = h("h2", { class: "side-title", id: "evidence-title", text: ended ? "What it looked at" : "In view" });
    if (last === undefined) return [title, h("p", { class: "side-empty", text: ended ? "Nothing was looked at." : "What the agent looks at appears here." })];
    const source = last.crop ? sourceOf(state.pictures, last) : null;
    const box = source ? placed(last.box, source.box) : null;
    const page = source ?? last;
    const earlier = distinct(state.pictures).filter((shown) => shown.sha256 !== page.sha256 && shown.sha256 !== last.sha256);
    return [
      title,
      h(
        "figure",
        { class: "view-now" },
        figureButton({ run: this.#context.run, shown: page, boxes: box ? [box] : [], open: () => lookAt(this.#context, last), lazy: false }),
        source && figureButton({ run: this.#context.run, shown: last, open: () => lookAt(this.#context, last), lazy: false }),
        h("figcaption", { dir: "auto" }, described(last), h("span", { class: "faint", text: `, ${last.width} × ${last.height} px, ${amount(last.visual_tokens)} visual tokens` })),
      ),
      earlier.length > 0 && h("div", h("h3", { class: "small-label", text: "Seen before" }), h("div", { class: "strip wraps" }, earlier.toReversed().map((shown) => this.#seen(shown)))),
    ];
  }

  /** @param {State} state */
  #evidence(state) {
    const { main, besides, unused } = cited(state);
    if (main.length === 0) return null;
    const answered = checkedText(state) !== "";
    const places = placesOf(main);
    const open = (/** @type {number} */ at) => () => this.#context.look({ ...places[at], places, at });
    const rest = [...besides.map((one) => this.#besides(one)), ...unused.map((shown) => this.#seen(shown))];
    return [
      h("h2", { class: "side-title", id: "evidence-title" }, answered ? "Evidence" : "Where it looked", h("span", { class: "faint", text: main.length })),
      h("ol", { class: "evidence" }, main.map((one, index) => this.#card(one, state, open(index)))),
      rest.length > 0 && h("div", { class: "besides" }, h("h3", { class: "small-label", text: "Looked at, not used" }), h("div", { class: "strip wraps" }, rest)),
    ];
  }

  /** @param {import("./citations.js").Cited} one @param {State} state @param {() => void} open */
  #card({ number, evidence, nodes }, state, open) {
    const place = placeOf(evidence);
    return h(
      "li",
      { class: "evidence-card card", dataset: { evidence: String(number) } },
      h("button", { type: "button", class: "evidence-button", "aria-label": `Evidence ${number}: ${evidence.document}, ${place}. Open`, on: { click: open } }, this.#picture(evidence, state), h("span", { class: "evidence-words" }, h("span", { class: "evidence-where" }, h("span", { class: "number", text: number }), h("span", { class: "clip", dir: "auto", title: evidence.document, text: evidence.document }), h("span", { class: "citation-place", text: place.replace("page", "p.") })))),
      evidence.quote && h("blockquote", { dir: "auto", tabindex: "0", text: evidence.quote }),
      nodes.length > 0 && h("p", { class: "faint size-2 row" }, "Remembered by", nodes.map((node) => h("button", { type: "button", class: "chip node-link", dir: "auto", text: node, on: { click: () => this.#context.node(node) } }))),
    );
  }

  /** The page with the part that is meant, and that part as it was enlarged; or the whole page. @param {any} evidence @param {State} state */
  #picture(evidence, state) {
    const shown = state.pictures.find((one) => one.sha256 === evidence.crop_sha256);
    if (evidence.box === null && !shown) return null;
    if (!isWhole(evidence.box)) {
      const size = shown?.crop ? shown : evidence.located ? partSize(evidence, state) : null;
      return [this.#band(evidence, state), size && h("span", { class: "evidence-crop" }, this.#closer(evidence, size))];
    }
    const src = shown ? fileUrl(this.#context.run, shown.sha256) : itemUrl(evidence.item, PAGE_PIXELS);
    return h("span", { class: "picture-frame top" }, h("img", { src, alt: "", loading: "lazy", decoding: "async" }));
  }

  /** The part enlarged, with the words of the answer. @param {any} evidence @param {{width: number, height: number}} size */
  #closer(evidence, { width, height }) {
    const marks = marksOf(evidence).map((mark) => ({ ...mark, box: placed(mark.box, evidence.box) }));
    return figure({ src: fileUrl(this.#context.run, evidence.crop_sha256), alt: "", width, height, marks });
  }

  /** The page around the part that is meant. @param {any} evidence @param {State} state */
  #band(evidence, state) {
    const { item, box, seconds } = evidence;
    const then = (/** @type {Shown} */ one) => (seconds ? one.seconds !== null && seconds[0] <= one.seconds && one.seconds <= seconds[1] : one.seconds === null);
    const whole = state.pictures.find((one) => one.item === item && then(one) && isWhole(one.box) && !padded(one));
    if (seconds && !whole) return null;
    return band({ src: whole ? fileUrl(this.#context.run, whole.sha256) : itemUrl(item, PAGE_PIXELS), box, ratio: whole ? whole.width / whole.height : null, marks: marksOf(evidence) });
  }

  /** @param {import("./citations.js").Cited} one */
  #besides(one) {
    const { evidence } = one;
    const place = placeOf(evidence);
    const open = () => this.#context.look(placesOf([one])[0]);
    return thumb({ item: evidence.item, kind: evidence.kind, label: `${evidence.document}, ${place}`, caption: `${place.replace("page", "p.")} · ${evidence.document}`, open });
  }

  /** @param {Shown} shown */
  #seen(shown) {
    const place = where(shown);
    return thumb({ item: shown.item, kind: "page", src: fileUrl(this.#context.run, shown.sha256), label: described(shown), caption: `${place.replace("page", "p.")} · ${shown.document}`, open: () => lookAt(this.#context, shown) });
  }
}

/** The size of a part of a page that was shown, in pixels of the page; null where that is not known. @param {any} evidence @param {State} state */
function partSize({ item, box, crop_sha256: sha256 }, state) {
  const page = state.pictures.find((one) => one.item === item && isWhole(one.box));
  if (!page || !sha256) return null;
  const [width, height] = [page.region[2] - page.region[0], page.region[3] - page.region[1]];
  return { width: (box[2] - box[0]) * width, height: (box[3] - box[1]) * height };
}

/** Scrolls what holds a card as far as it has to. @param {HTMLElement} card @param {HTMLElement} side */
function reveal(card, side) {
  const [part, frame] = [card.getBoundingClientRect(), side.getBoundingClientRect()];
  const margin = 16;
  if (part.top < frame.top) side.scrollTop += part.top - frame.top - margin;
  else if (part.bottom > frame.bottom) side.scrollTop += Math.min(part.bottom - frame.bottom + margin, part.top - frame.top - margin);
}

/** True if a picture has a margin that is not of its page. @param {Shown} shown */
function padded({ region, width, height }) {
  return Math.abs((region[2] - region[0]) / Math.max(1, region[3] - region[1]) / (width / Math.max(1, height)) - 1) > 0.02;
}

/** Each picture once. @param {readonly Shown[]} pictures */
function distinct(pictures) {
  return [...new Map(pictures.map((shown) => [shown.sha256, shown])).values()];
}
