/**
 * The page viewer: a panel at the right of a wide screen, a sheet on a narrow one. It shows the pages of a document one
 * below the other with the rectangles that matter, a clip from the right second, or a passage with its quote.
 */

import { get, Problem } from "../api.js";
import { announce, h, icon, iconButton, replace, toast } from "../dom.js";
import { moment, where } from "../format.js";
import { attempt } from "../overlays.js";
import { CitedPlaces, marksOn, numbersByItem } from "./cited-places.js";
import { FindBar } from "./find.js";
import { clipElement, markPassage, passageElement } from "./media.js";
import { openingPlace } from "./opening-size.js";
import { PageField } from "./page-field.js";
import { Panel } from "./panel.js";
import { PageScroller } from "./scroller.js";
import { stripButton, Thumbnails } from "./thumbnails.js";

/**
 * @typedef {object} Place What is to be seen.
 * @property {string} item Id of an item.
 * @property {string} [document] File name, until the server has told it.
 * @property {readonly import("./page.js").Box[]} [boxes] In fractions of the page.
 * @property {number} [flash] Index of the rectangle that is brought into sight.
 * @property {number} [seconds] Moment of the video, for a clip.
 * @property {string} [quote] Words of a passage that are marked.
 * @property {string} [label] Number of the citation.
 * @property {readonly Place[]} [places] Citations to go through; this one is `places[at]`.
 * @property {number} [at]
 */

/** @typedef {import("./page.js").Part} Part */
/** @typedef {{id: string, name: string, parts: readonly Part[], known: boolean}} ShownDocument `known`: the server told all its items. */

const KEPT_STRIP = "vrag.strip";
/** A screen with room for thumbnails beside a page. */
const ROOMY = window.matchMedia("(min-width: 901px)");

/** @type {Viewer | null} */
let viewer = null;

/**
 * Opens the viewer, or shows something else in it.
 * @param {Place} place
 */
export function open(place) {
  viewer ??= new Viewer();
  viewer.open(place);
}

/** Closes the viewer, if it is open. */
export function close() {
  viewer?.close();
}

class Viewer {
  /** @type {ShownDocument} */
  #document = { id: "", name: "", parts: [], known: false };
  /** Number of the part that is shown. */
  #index = 0;
  /** @type {Place} What was asked for last. */
  #place = { item: "" };
  /** @type {Element | null} What had the focus before. */
  #before = null;
  /** @type {any} The passage that is shown, if it is one. */
  #passage = null;
  #asked = 0;

  constructor() {
    this.title = h("h2", { class: "viewer-title clip", id: "viewer-title", tabindex: "-1", dir: "auto" });
    this.original = h("a", { class: "button quiet square", id: "viewer-original", target: "_blank", rel: "noopener" }, icon("share"));
    this.download = h("a", { class: "button quiet square", id: "viewer-download", download: "", title: "Download the original", "aria-label": "Download the original" }, icon("download"));
    this.ask = h("a", { class: "button quiet", id: "viewer-ask", title: "Ask about this document", "aria-label": "Ask about this document", on: { click: () => this.close() } }, icon("answer"), h("span", { class: "viewer-ask-word", text: "Ask" }));
    this.strip = stripButton((shown) => this.#showStrip(shown, true));
    this.field = new PageField({ turn: (by) => this.#turn(by), go: (index) => this.#jump(index) });
    this.percent = h("button", { type: "button", class: "quiet viewer-percent", title: "Natural size", on: { click: () => this.scroller.to(1) } });
    this.wide = h("button", { type: "button", class: "quiet viewer-fit", "aria-pressed": "false", text: "Width", title: "Fit the width", on: { click: () => this.scroller.fit("width") } });
    this.whole = h("button", { type: "button", class: "quiet viewer-fit", "aria-pressed": "false", text: "Page", title: "Fit the page (0)", on: { click: () => this.scroller.fit("page") } });
    this.sizes = h("div", { class: "viewer-sizes", role: "group", "aria-label": "Size" }, iconButton("minus", "Smaller (-)", { on: { click: () => this.scroller.smaller() } }), this.percent, iconButton("plus", "Larger (+)", { on: { click: () => this.scroller.larger() } }), this.wide, this.whole);
    this.finder = iconButton("search", "Find in the document (f)", { id: "viewer-find-open", "aria-keyshortcuts": "f Control+F", on: { click: () => this.#openFind() } });
    this.cited = new CitedPlaces({ go: (place) => this.#go(place), changed: () => this.#drawMarks() });
    this.find = new FindBar({ ordinal: () => this.#document.parts[this.#index]?.ordinal ?? 1, show: (item, within) => this.#showMatch(item, within), changed: () => this.#drawMatches(), closed: () => this.#focusPages() });
    this.thumbs = new Thumbnails((index) => this.#jump(index));
    this.scroller = new PageScroller({ moved: (index) => this.#moved(index), sized: (scale, fit) => this.#sized(scale, fit), built: (page) => this.#draw(page) });
    this.other = h("div", { class: "viewer-other", hidden: true });
    this.element = h("div", { class: "viewer", id: "viewer", role: "dialog", "aria-labelledby": "viewer-title", hidden: true });
    this.panel = new Panel(this.element, "Width of the document");
    replace(
      this.element,
      this.panel.edge,
      h("div", { class: "viewer-head" }, this.title, this.ask, this.original, this.download, this.panel.fullButton, iconButton("close", "Close (Esc)", { id: "viewer-close", on: { click: () => this.close() } })),
      h("div", { class: "viewer-tools" }, this.strip, this.field.element, this.sizes, this.finder, this.cited.element),
      this.find.element,
      h("div", { class: "viewer-body" }, this.thumbs.element, h("div", { class: "viewer-stage" }, this.scroller.window, this.other)),
    );
    this.element.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("keydown", (event) => this.#keyElsewhere(event));
    window.addEventListener("hashchange", () => this.#left());
    document.body.append(this.element);
  }

  /** @param {Place} place @param {any} [record] Of its document, where it is known. */
  open(place, record) {
    const opened = this.element.hidden;
    if (opened) this.#before = document.activeElement;
    this.element.hidden = false;
    document.documentElement.dataset.viewer = "";
    if (opened) window.dispatchEvent(new Event("vrag:viewer")); // the page makes room
    this.hash = location.hash.split("?")[0];
    this.panel.settle();
    if (opened) this.#showStrip(ROOMY.matches && localStorage.getItem(KEPT_STRIP) !== "closed");
    this.cited.show(place.places ?? [], place.places ? (place.at ?? 0) : -1);
    this.thumbs.cite(numbersByItem(this.cited.places));
    if (record) this.#setDocument({ id: record.id, name: record.name, parts: record.items, known: true });
    this.#go(place.places?.[place.at ?? 0] ?? place);
    this.title.focus({ preventScroll: true });
  }

  close() {
    if (this.element.hidden) return;
    this.find.close();
    this.panel.setFull(false);
    this.element.hidden = true;
    this.#asked++;
    delete document.documentElement.dataset.viewer;
    window.dispatchEvent(new Event("vrag:viewer"));
    this.panel.settle();
    replace(this.other); // a film does not go on
    if (this.#before instanceof HTMLElement || this.#before instanceof SVGElement) this.#before.focus({ preventScroll: true });
  }

  /** Another page of the application takes the viewer with it. */
  #left() {
    if (!this.element.hidden && location.hash.split("?")[0] !== this.hash) this.close();
  }

  /** Goes to a place, in this document or in another one. @param {Place} place */
  async #go(place) {
    this.#place = place;
    const asked = ++this.#asked;
    if (this.#showKnown(place)) return;
    this.#name(place.document ?? "");
    try {
      const info = await get(`/items/${encodeURIComponent(place.item)}`);
      if (asked !== this.#asked || this.#showKnown(place)) return;
      this.#setDocument({ id: info.document, name: (info.shown_name || info.document_name), parts: [partOf(info)], known: false });
      this.#showPart(0, place, info);
      await this.#list(info);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (asked === this.#asked) this.#fail(error.detail, error.hint);
    }
  }

  /** Shows a place of the document whose pages are known; false where it is in another one. @param {Place} place */
  #showKnown(place) {
    const index = this.#document.known ? this.#document.parts.findIndex((part) => part.id === place.item) : -1;
    if (index >= 0) this.#showPart(index, place);
    return index >= 0;
  }

  /** All pages of a document, once one of them is shown. @param {any} info Of its item. */
  async #list(info) {
    const record = await get(`/documents/${encodeURIComponent(info.document)}`).catch(() => null);
    const index = record?.items.findIndex((/** @type {Part} */ part) => part.id === info.id) ?? -1;
    if (index < 0 || this.#document.known || this.#document.parts[0]?.id !== info.id) return;
    this.#setDocument({ id: record.id, name: (info.shown_name || info.document_name), parts: record.items, known: true });
    if (isPage(record.items[index])) {
      const place = this.#place.item === info.id ? this.#place : undefined; // another one may be on its way
      this.scroller.show(record.items, (info.shown_name || info.document_name), index, placeIn(place));
      this.#reveal(index, place);
    }
    this.#moved(index);
  }

  /** @param {ShownDocument} document */
  #setDocument(document) {
    this.#document = document;
    this.#name(document.name);
    this.thumbs.show(document.parts);
    this.strip.hidden = document.parts.length < 2;
    this.#layStrip();
    this.field.show(document.parts, document.known);
    const file = `documents/${encodeURIComponent(document.id)}/file`;
    this.download.setAttribute("href", file);
    this.ask.setAttribute("href", `#/?${new URLSearchParams({ documents: document.id })}`);
    this.original.hidden = !document.known || !/\.pdf$/i.test(document.name);
    this.download.hidden = this.finder.hidden = !document.known;
    this.find.of(document.known ? document.id : "", document.parts[0]?.kind ?? "page");
  }

  /**
   * @param {number} index
   * @param {Place} [place] On it.
   * @param {any} [info] Of the item, where it is known.
   */
  async #showPart(index, place, info) {
    const part = this.#document.parts[index];
    this.#announce(part);
    if (isPage(part)) {
      this.#showPages();
      if (this.scroller.page(index)?.part !== part) this.scroller.show(this.#document.parts, this.#document.name, index, placeIn(place));
      this.#reveal(index, place);
      return;
    }
    this.#moved(index);
    const asked = this.#asked;
    try {
      const shown = info ?? (await get(`/items/${encodeURIComponent(part.id)}`));
      if (asked !== this.#asked) return;
      if (shown.kind === "clip" && shown.clip) return this.#showOther(clipElement(shown, place?.seconds));
      this.#showOther(passageElement(shown, place?.quote ?? ""));
      this.#passage = shown;
      this.#drawMatches();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (asked === this.#asked) this.#fail(error.detail, error.hint);
    }
  }

  /** Goes to a page with the rectangle that matters in sight. @param {number} index @param {Place} [place] */
  #reveal(index, place) {
    const opened = placeIn(place);
    if (opened) this.scroller.open(index, opened);
    else this.scroller.goTo(index);
    this.#moved(index);
    this.#drawMarks();
    if (opened) this.scroller.flash(index);
  }

  #showPages() {
    this.#passage = null;
    this.other.hidden = true;
    replace(this.other);
    this.scroller.window.hidden = this.sizes.hidden = false;
  }

  /** @param {HTMLElement} element */
  #showOther(element) {
    this.#passage = null;
    this.scroller.window.hidden = this.sizes.hidden = true;
    this.other.hidden = false;
    replace(this.other, element);
  }

  /** What is shown now. @param {number} index */
  #moved(index) {
    const { parts, id } = this.#document;
    const part = parts[index];
    if (part === undefined) return;
    this.#index = index;
    this.field.mark(index);
    this.thumbs.mark(index);
    this.original.setAttribute("href", `documents/${encodeURIComponent(id)}/file#page=${part.ordinal}`);
    const label = `Open the original at ${where({ page: part.ordinal, page_label: part.page_label })}`;
    this.original.title = label;
    this.original.setAttribute("aria-label", label);
  }

  /** A page that a person chose. @param {number} index */
  #jump(index) {
    if (index === this.#index && isPage(this.#document.parts[index])) return this.scroller.goTo(index);
    this.#asked++;
    this.#showPart(index);
  }

  /** @param {number} by */
  #turn(by) {
    const index = this.#index + by;
    if (index >= 0 && index < this.#document.parts.length) this.#jump(index);
  }

  /** @param {Part} part */
  #announce(part) {
    announce(`${this.#document.name}, ${part.kind === "clip" ? `from ${moment(part.start ?? 0)}` : where({ kind: part.kind, page: part.ordinal, page_label: part.page_label })}`);
  }

  /** @param {number} scale @param {import("./scroller.js").Fit} fit */
  #sized(scale, fit) {
    this.percent.textContent = `${Math.round(scale * 100)} %`;
    this.percent.setAttribute("aria-label", `${Math.round(scale * 100)} per cent. Show the natural size`);
    this.wide.setAttribute("aria-pressed", String(fit === "width"));
    this.whole.setAttribute("aria-pressed", String(fit === "page"));
  }

  /** @param {string} title @param {string} hint */
  #fail(title, hint) {
    this.#showOther(h("div", { class: "notice", role: "alert" }, h("span", { class: "notice-sign" }, icon("warn")), h("h3", { text: title }), h("p", { class: "soft", text: hint }), h("button", { type: "button", text: "Try again", on: { click: () => this.#go(this.#place) } })));
  }

  /** @param {string} name */
  #name(name) {
    this.title.textContent = name;
    this.title.title = name;
  }

  /** The place that stands out: the citation that is gone to, or what the viewer was opened for. */
  get #current() {
    return this.cited.places[this.cited.at] ?? this.#place;
  }

  /** What lies on a page. @param {import("./page.js").ViewerPage} page */
  #draw(page) {
    page.mark(marksOn(page.part.id, this.cited.places, this.#current, this.cited.all));
    if (this.find.open) this.#drawFound(page);
  }

  #drawMarks() {
    for (const page of this.scroller.pages) page.mark(marksOn(page.part.id, this.cited.places, this.#current, this.cited.all));
  }

  /** @param {import("./page.js").ViewerPage} page */
  async #drawFound(page) {
    const { matches, current } = await this.find.matchesOf(page.part.id);
    page.markMatches(matches, current);
  }

  async #drawMatches() {
    for (const page of this.scroller.pages) this.#drawFound(page);
    const info = this.#passage;
    if (info === null || !this.find.open) return;
    const { matches, current } = await this.find.matchesOf(info.id);
    const passage = this.other.firstElementChild;
    if (passage && info === this.#passage) markPassage(passage, info.text, matches, current);
  }

  /** @param {string} item @param {number} within */
  async #showMatch(item, within) {
    const index = this.#document.parts.findIndex((part) => part.id === item);
    if (index < 0) return;
    const asked = ++this.#asked;
    if (!isPage(this.#document.parts[index])) {
      await this.#showPart(index);
      return;
    }
    this.#showPages();
    if (this.scroller.page(index) === undefined) this.scroller.goTo(index);
    const { matches } = await this.find.matchesOf(item);
    if (asked !== this.#asked) return;
    const box = matches[within]?.boxes[0];
    if (box) this.scroller.reveal(index, { outer: box, words: null, high: 0 });
    else this.scroller.goTo(index);
    this.#moved(index);
    this.#drawMatches();
  }

  #openFind() {
    if (this.finder.hidden) return;
    const selection = document.getSelection();
    const words = selection && this.element.contains(selection.anchorNode) ? selection.toString().trim() : "";
    this.find.reveal(words.length <= 100 ? words.replace(/\s+/g, " ") : "");
  }

  #focusPages() {
    const other = /** @type {HTMLElement | null} */ (this.other.querySelector("[tabindex]"));
    (this.other.hidden ? this.scroller.window : (other ?? this.title)).focus({ preventScroll: true });
  }

  /** @param {boolean} shown @param {boolean} [byHand] Whether a person did it: then it is kept. */
  #showStrip(shown, byHand = false) {
    this.strip.setAttribute("aria-pressed", String(shown));
    if (byHand && ROOMY.matches) localStorage.setItem(KEPT_STRIP, shown ? "open" : "closed");
    this.#layStrip();
  }

  #layStrip() {
    this.thumbs.element.hidden = this.strip.getAttribute("aria-pressed") !== "true" || this.#document.parts.length < 2;
    this.thumbs.update();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const action = event.defaultPrevented ? undefined : this.#action(event, /** @type {Element} */ (event.target));
    if (action === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // the page has other uses for some keys
    action();
  }

  /** Escape closes the viewer from anywhere, and a viewer over all has the other keys too. @param {KeyboardEvent} event */
  #keyElsewhere(event) {
    const target = /** @type {Element} */ (event.target);
    if (this.element.hidden || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") this.#escape(event, target);
    else if (target === document.body && this.element.hasAttribute("data-sheet")) this.#key(event);
  }

  /** Escape closes what was opened last. @param {KeyboardEvent} event @param {Element} target */
  #escape(event, target) {
    if (target.closest("details[open], [popover]")) return;
    event.preventDefault();
    if (this.find.open) this.find.close();
    else if (this.panel.full) this.panel.setFull(false);
    else this.close();
  }

  /**
   * What a key does; undefined where the browser's own use of it stays.
   * @param {KeyboardEvent} event
   * @param {Element} target
   * @returns {(() => void) | undefined}
   */
  #action(event, target) {
    const { key } = event;
    const command = event.ctrlKey || event.metaKey;
    if (command && !event.altKey && !event.shiftKey && key.toLowerCase() === "f") {
      return target === this.find.input || this.finder.hidden ? undefined : () => this.#openFind(); // pressed again, it is the browser's own
    }
    if (key === "F3" && this.find.open) return () => this.find.step(event.shiftKey ? -1 : 1);
    if (target.closest("input, video, [role=separator]")) return undefined;
    if (command && key.toLowerCase() === "a") return this.other.hidden && this.scroller.currentPage?.selectAll() ? () => {} : undefined;
    if (command || event.altKey || event.shiftKey && key.startsWith("Arrow")) return undefined;
    const { scroller } = this;
    const pages = this.other.hidden;
    /** @type {Record<string, (() => void) | false>} */
    const actions = {
      ArrowLeft: () => this.#turn(-1),
      ArrowRight: () => this.#turn(1),
      PageUp: () => this.#turn(-1),
      PageDown: () => this.#turn(1),
      Home: () => this.#jump(0),
      End: () => this.#jump(this.#document.parts.length - 1),
      ArrowUp: pages && !scroller.window.contains(target) && (() => scroller.scrollBy(-48)),
      ArrowDown: pages && !scroller.window.contains(target) && (() => scroller.scrollBy(48)),
      "+": pages && (() => scroller.larger()),
      "=": pages && (() => scroller.larger()),
      "-": pages && (() => scroller.smaller()),
      0: pages && (() => scroller.fit("page")),
      f: () => this.#openFind(),
      "/": () => this.#openFind(),
      n: () => this.cited.step(1),
      p: () => this.cited.step(-1),
    };
    return actions[key] || undefined;
  }
}

/** @param {any} info Of an item. @returns {Part} */
function partOf({ id, kind, page, page_label, width, height, clip }) {
  return { id, kind, ordinal: page, page_label, width, height, start: clip?.start, end: clip?.end };
}

/** What a page is opened for. @param {Place} [place] */
function placeIn(place) {
  return openingPlace(place?.boxes ?? [], place?.flash);
}

/** True if a part is shown among the pages. @param {Part} part */
function isPage({ kind, width }) {
  return kind === "page" && width !== undefined;
}

/** Opens a document at its first page. @param {{id: string, name: string}} document */
export async function openDocument({ id, name }) {
  await attempt(async () => {
    const record = await get(`/documents/${encodeURIComponent(id)}`);
    viewer ??= new Viewer();
    if (record.items.length > 0) viewer.open({ item: record.items[0].id, document: name }, { ...record, name });
    else toast(`${name} has no pages to show.`);
  });
}
