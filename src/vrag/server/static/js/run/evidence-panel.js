/** The evidence of an answer, a card for each place; while there is none yet, what the agent looks at. */

import { h, icon, replace, showList } from "../dom.js";
import { amount, count, where } from "../format.js";
import { endingOf, openCitation } from "./answer.js";
import { checkedText, cited, marksOf, placeOf, placesOf } from "./citations.js";
import { lookAt } from "./entries.js";
import { band, described, fileUrl, isWhole, itemUrl, placed, figure, figureButton, thumb } from "./figures.js";
import { EMPTY, sourceOf } from "./reducer.js";
import { PLACES } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./reducer.js").Shown} Shown */
/** @typedef {import("./entries.js").RunContext} RunContext */

/** Pixels of the picture of a page that was not shown to the agent as a whole. */
const PAGE_PIXELS = 500_000;
/** Width by height of a page whose shape is not known yet. */
const PAGE_RATIO = 0.707;
/** Part of the width of a page up to which a rectangle is small on it. */
const SMALL = 0.6;
/** Pixels of the height of a part that is shown enlarged, at most. */
const HIGH = 220;
/** Pixels around a card that is brought into sight. */
const MARGIN = 16;

/** The page that the agent looks at, or the evidence of its answer. */
export class EvidencePanel {
  #context;
  /** @type {unknown[]} */
  #from = [];
  /** @type {State} */
  #state = EMPTY;
  /** @type {number | null} The card under the pointer, which stays where it is. */
  #own = null;
  /** True if the places are listed with their words beside it. */
  #isListed = false;

  /** @param {RunContext} context */
  constructor(context) {
    this.#context = context;
    this.title = h("h2", { class: "side-title" });
    this.cards = h("ol", { class: "evidence", hidden: true });
    this.looking = h("div", { class: "looking" });
    this.rest = h("div", { class: "evidence-rest" });
    this.element = h("section", { class: "evidence-panel", "aria-label": "Evidence" }, this.title, this.cards, this.looking, this.rest);
    this.cards.addEventListener("pointerover", (event) => this.#hover(event));
    this.cards.addEventListener("focusin", (event) => this.#hover(event));
    for (const left of ["pointerleave", "focusout"]) this.cards.addEventListener(left, () => this.#leave());
  }

  /** @param {Event} event Whoever is at a card sees the chips of its number. */
  #hover(event) {
    const card = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-evidence]"));
    this.#own = card ? Number(card.dataset.evidence) : null;
    this.#context.point(this.#own);
  }

  #leave() {
    this.#own = null;
    this.#context.point(null);
  }

  /** @param {State} state @param {boolean} over Whether nothing comes any more. */
  update(state, over) {
    const from = [state.pictures.length, state.passages.length, state.draft?.evidence, state.answer, state.failure, over];
    if (from.every((part, index) => part === this.#from[index])) return;
    this.#from = from;
    const ended = over || state.answer !== null || state.failure !== null;
    const { main, besides, unused } = cited(state);
    this.#state = state;
    const isWritten = main.length > 0;
    this.#isListed = ended && endingOf(state) === PLACES;
    const shown = this.#isListed ? main.filter(({ evidence }) => hasPicture(evidence)) : main;
    this.title.textContent = isWritten ? (checkedText(state) ? "Evidence" : this.#isListed ? "The passages on their pages" : "Where it looked") : ended ? "What it looked at" : "In view";
    showList(this.cards, shown, (one) => JSON.stringify([one, crops(one.evidence) && ended, this.#isListed]), (one) => this.#card(one, ended));
    this.cards.hidden = !isWritten;
    replace(this.looking, !isWritten && this.#looking(state, ended));
    const rest = isWritten ? [...besides.map((one) => this.#besides(one)), ...unused.map((shown) => this.#seen(shown))] : [];
    replace(this.rest, rest.length > 0 && h("details", { class: "more besides" }, h("summary", `${count(rest.length, "page")} looked at, not used`), h("div", { class: "strip wraps" }, rest)));
    this.element.hidden = ended && !isWritten && state.pictures.length === 0;
  }

  /** Points out the card of a number, and brings it into sight; null ends it. @param {number | null} number */
  point(number) {
    for (const card of /** @type {NodeListOf<HTMLElement>} */ (this.cards.querySelectorAll("[data-evidence]"))) {
      const meant = card.dataset.evidence === String(number);
      card.classList.toggle("pointed", meant);
      if (meant && number !== this.#own) reveal(card);
    }
  }

  /** @param {State} state @param {boolean} ended */
  #looking(state, ended) {
    const last = state.pictures.at(-1);
    if (last === undefined) return h("p", { class: "side-empty", text: ended ? "Nothing was looked at." : "What the agent looks at appears here." });
    const source = last.crop ? sourceOf(state.pictures, last) : null;
    const box = source ? placed(last.box, source.box) : null;
    const page = source ?? last;
    const earlier = distinct(state.pictures).filter((shown) => shown.sha256 !== page.sha256 && shown.sha256 !== last.sha256);
    return [
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

  /**
   * A place: its page with the rectangle; the part enlarged where it is small there; its words where they cannot be read there.
   * @param {import("./citations.js").Cited} one @param {boolean} ended Whether all its pictures are stored.
   */
  #card({ number, evidence, nodes }, ended) {
    const place = placeOf(evidence);
    const words = !this.#isListed && evidence.quote && `words-${number}-${this.#context.run}`;
    const open = () => openCitation(this.#context, this.#state, number);
    const isHidden = evidence.kind === "page" && crops(evidence);
    return h(
      "li",
      { class: `evidence-card card${isHidden ? " has-crop" : ""}`, dataset: { evidence: String(number) } },
      h(
        "button",
        { type: "button", class: "evidence-button", dataset: { citation: String(number) }, "aria-label": `Evidence ${number}: ${evidence.document}, ${place}. Open`, "aria-describedby": words || null, on: { click: open } },
        this.#picture(evidence, ended),
        h("span", { class: "evidence-where" }, h("span", { class: "number", text: number }), h("span", { class: "clip", dir: "auto", title: evidence.document, text: evidence.document }), h("span", { class: "citation-place", text: place.replace("page", "p.") })),
      ),
      words && h("blockquote", { class: "evidence-quote", id: words, dir: "auto", text: evidence.quote }),
      nodes.length > 0 && h("p", { class: "faint size-2 row evidence-nodes" }, "Remembered by", nodes.map((node) => h("button", { type: "button", class: "chip node-link", dir: "auto", text: node, on: { click: () => this.#context.node(node) } }))),
    );
  }

  /** @param {any} evidence @param {boolean} ended */
  #picture(evidence, ended) {
    if (!hasPicture(evidence)) return null;
    if (isWhole(evidence.box)) {
      const src = ended && evidence.crop_sha256 ? fileUrl(this.#context.run, evidence.crop_sha256) : itemUrl(evidence.item, PAGE_PIXELS);
      const moment = evidence.seconds && h("span", { class: "clip-sign" }, icon("play"));
      return h("span", { class: "picture-frame top" }, h("img", { src, alt: "", loading: "lazy", decoding: "async" }), moment);
    }
    return [this.#band(evidence), ended && crops(evidence) && h("span", { class: "evidence-crop" }, this.#closer(evidence))];
  }

  /** The part enlarged, with the words of the answer. @param {any} evidence */
  #closer(evidence) {
    const marks = marksOf(evidence).map((mark) => ({ ...mark, box: placed(mark.box, evidence.box) }));
    const [wide, high] = [evidence.box[2] - evidence.box[0], evidence.box[3] - evidence.box[1]];
    const page = this.#wholePage(evidence);
    const ratio = page ? page.width / page.height : PAGE_RATIO;
    return natural(figure({ src: fileUrl(this.#context.run, evidence.crop_sha256), alt: "", width: wide * ratio, height: high, marks }), (wide * ratio) / high);
  }

  /** The page around the part that is meant. @param {any} evidence */
  #band(evidence) {
    const { item, box, seconds } = evidence;
    const page = this.#wholePage(evidence);
    if (seconds && !page) return null;
    return band({ src: page ? fileUrl(this.#context.run, page.sha256) : itemUrl(item, PAGE_PIXELS), box, ratio: page ? page.width / page.height : null, marks: marksOf(evidence) });
  }

  /** The page of a piece of evidence as the agent was shown it, where that is known. @param {any} evidence @returns {Shown | undefined} */
  #wholePage({ item, seconds }) {
    const then = (/** @type {Shown} */ one) => (seconds ? one.seconds !== null && seconds[0] <= one.seconds && one.seconds <= seconds[1] : one.seconds === null);
    return this.#state.pictures.find((one) => one.item === item && then(one) && isWhole(one.box) && !padded(one));
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

/** True if a place can be shown as a picture. @param {any} evidence */
const hasPicture = ({ kind, box, crop_sha256: sha256 }) => kind !== "passage" && (box !== null || Boolean(sha256));

/** True if the part of a page is so small on it that it is shown enlarged. @param {any} evidence */
function crops({ box, crop_sha256: sha256, seconds }) {
  return Boolean(sha256) && !seconds && !isWhole(box) && box[2] - box[0] < SMALL;
}

/** A figure that takes the shape of its picture once that is known, and is never high. @param {HTMLElement} element @param {number} ratio */
function natural(element, ratio) {
  const image = /** @type {HTMLImageElement} */ (element.querySelector("img"));
  const shape = (/** @type {number} */ wide) => {
    element.style.setProperty("aspect-ratio", String(wide));
    element.style.setProperty("max-width", `${Math.round(HIGH * wide)}px`);
  };
  shape(ratio);
  image.addEventListener("load", () => shape(image.naturalWidth / Math.max(1, image.naturalHeight)), { once: true });
  return element;
}

/** Scrolls what holds a card as far as it has to, where it scrolls by itself. @param {HTMLElement} card */
function reveal(card) {
  const side = /** @type {HTMLElement | null} */ (card.closest(".run-side"));
  const row = /** @type {HTMLElement | null} */ (card.parentElement);
  if (row && row.scrollWidth > row.clientWidth) row.scrollLeft += card.getBoundingClientRect().left - row.getBoundingClientRect().left - MARGIN;
  if (!side || side.scrollHeight <= side.clientHeight) return;
  const [part, frame] = [card.getBoundingClientRect(), side.getBoundingClientRect()];
  if (part.top < frame.top) side.scrollTop += part.top - frame.top - MARGIN;
  else if (part.bottom > frame.bottom) side.scrollTop += Math.min(part.bottom - frame.bottom + MARGIN, part.top - frame.top - MARGIN);
}

/** True if a picture has a margin that is not of its page. @param {Shown} shown */
function padded({ region, width, height }) {
  return Math.abs((region[2] - region[0]) / Math.max(1, region[3] - region[1]) / (width / Math.max(1, height)) - 1) > 0.02;
}

/** Each picture once. @param {readonly Shown[]} pictures */
function distinct(pictures) {
  return [...new Map(pictures.map((shown) => [shown.sha256, shown])).values()];
}
