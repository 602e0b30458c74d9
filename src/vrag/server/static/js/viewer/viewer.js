/**
 * The page viewer: a panel at the right of a wide screen, a sheet on a narrow one. It shows a page with the rectangles
 * that matter, a clip from the right second, or a passage with its quote; with the other pages beside it.
 */

import { get, Problem } from "../api.js";
import { announce, h, icon, iconButton, replace, toast } from "../dom.js";
import { moment } from "../run/wording.js";
import { ViewerPage } from "./page.js";
import { Pages } from "./pages.js";
import { clipElement, passageElement } from "./media.js";
import { Zoom } from "./zoom.js";

/**
 * @typedef {object} Place What is to be seen.
 * @property {string} item Id of an item.
 * @property {string} [document] File name, until the server has told it.
 * @property {readonly import("./page.js").Box[]} [boxes] In fractions of the page.
 * @property {number} [flash] Index of the rectangle that flashes.
 * @property {number} [seconds] Moment of the video, for a clip.
 * @property {string} [quote] Words of a passage that are marked.
 * @property {readonly Place[]} [places] Citations to go through; this one is `places[at]`.
 * @property {number} [at]
 */

/** A screen on which the viewer is a sheet over everything else. */
const NARROW = window.matchMedia("(max-width: 900px)");

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
  /** @type {Place} */
  #place = { item: "" };
  /** @type {readonly Place[]} */
  #places = [];
  #at = -1;
  #document = "";
  #ratio = 1;
  /** @type {Element | null} What had the focus before. */
  #before = null;
  #asked = 0;

  constructor() {
    this.title = h("h2", { class: "viewer-title clip", id: "viewer-title", tabindex: "-1", dir: "auto" });
    this.where = h("span", { class: "viewer-where" });
    this.previous = iconButton("back", "Previous page", { on: { click: () => this.#turn(-1) } });
    this.next = iconButton("forward", "Next page", { on: { click: () => this.#turn(1) } });
    this.percent = h("button", { type: "button", class: "quiet viewer-percent", title: "Natural size", on: { click: () => this.zoom.to(1) } });
    this.wide = h("button", { type: "button", class: "quiet", "aria-pressed": "false", text: "Width", title: "Fit the width", on: { click: () => this.zoom.fit("width") } });
    this.whole = h("button", { type: "button", class: "quiet", "aria-pressed": "true", text: "Page", title: "Fit the page (0)", on: { click: () => this.zoom.fit("page") } });
    this.sizes = h("div", { class: "viewer-sizes", role: "group", "aria-label": "Size" }, iconButton("minus", "Smaller (-)", { on: { click: () => this.zoom.smaller() } }), this.percent, iconButton("plus", "Larger (+)", { on: { click: () => this.zoom.larger() } }), this.wide, this.whole);
    this.cited = h("div", { class: "viewer-cited", role: "group", "aria-label": "Citations", hidden: true });
    this.pages = new Pages((item) => this.#go({ item: item.id, document: this.#place.document, boxes: this.#boxesOf(item.id) }));
    this.leaf = new ViewerPage({ failed: () => this.#fail("The picture of this page cannot be shown.", "The document may have been changed or removed."), ready: (width, height) => this.#ready(width, height) });
    this.window = h("div", { class: "viewer-window", tabindex: "0", role: "group", "aria-label": "Page" }, this.leaf.element);
    this.other = h("div", { class: "viewer-other", hidden: true });
    this.element = h(
      "div",
      { class: "viewer", id: "viewer", role: "dialog", "aria-labelledby": "viewer-title", hidden: true },
      h("div", { class: "viewer-head" }, h("div", { class: "viewer-name" }, this.title, this.where), h("div", { class: "viewer-turn", role: "group", "aria-label": "Pages" }, this.previous, this.next), iconButton("close", "Close (Esc)", { id: "viewer-close", on: { click: () => this.close() } })),
      h("div", { class: "viewer-tools" }, this.sizes, this.cited),
      h("div", { class: "viewer-body" }, this.pages.element, h("div", { class: "viewer-stage" }, this.window, this.other)),
    );
    this.zoom = new Zoom(this.window, this.leaf.element, (scale, fit) => this.#sized(scale, fit));
    this.element.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("keydown", (event) => this.#escape(event));
    window.addEventListener("hashchange", () => this.#left());
    NARROW.addEventListener("change", () => this.#modal());
    document.body.append(this.element);
  }

  /** @param {Place} place */
  open(place) {
    const opened = this.element.hidden;
    if (opened) this.#before = document.activeElement;
    this.element.hidden = false;
    document.documentElement.dataset.viewer = "";
    if (opened) window.dispatchEvent(new Event("vrag:viewer")); // the page makes room
    this.hash = location.hash.split("?")[0];
    this.#modal();
    this.#places = place.places ?? [];
    this.#at = place.places ? (place.at ?? 0) : -1;
    this.#go(place);
    this.title.focus({ preventScroll: true });
  }

  close() {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.#asked++;
    delete document.documentElement.dataset.viewer;
    window.dispatchEvent(new Event("vrag:viewer"));
    this.#inert(false);
    replace(this.other);
    if (this.#before instanceof HTMLElement || this.#before instanceof SVGElement) this.#before.focus({ preventScroll: true });
  }

  /** Another page of the application takes the viewer with it. */
  #left() {
    if (!this.element.hidden && location.hash.split("?")[0] !== this.hash) this.close();
  }

  /** @param {Place} place */
  async #go(place) {
    this.#place = place;
    this.#tellCited();
    this.#name(place.document ?? "", "");
    const asked = ++this.#asked;
    try {
      const info = await get(`/items/${encodeURIComponent(place.item)}`);
      if (asked !== this.#asked) return;
      this.#show(info, place);
      await this.#list(info, asked);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (asked === this.#asked) this.#fail(error.detail, error.hint);
    }
  }

  /** @param {any} info @param {Place} place */
  #show(info, place) {
    this.#name(info.document_name, info.kind === "clip" && info.clip ? `${moment(info.clip.start)}–${moment(info.clip.end)}` : `${info.kind} ${info.page}`);
    announce(`${info.document_name}, ${info.kind} ${info.page}`);
    this.pages.mark(info.id);
    this.#enable(info.id);
    if (info.kind === "clip" && info.clip) return this.#showOther(clipElement(info, place.seconds));
    if (info.width === undefined) return this.#showOther(passageElement(info, place.quote ?? ""));
    this.#showLeaf(info, place);
  }

  /** @param {any} info @param {Place} place */
  #showLeaf(info, place) {
    this.other.hidden = true;
    replace(this.other);
    this.window.hidden = this.sizes.hidden = false;
    this.#ratio = info.width / info.height;
    this.leaf.show(info.id, `${info.document_name}, page ${info.page}`, place.boxes ?? []);
    this.zoom.page(info.width, info.height);
    if (place.boxes?.length) this.leaf.flash(place.flash ?? 0, this.window);
  }

  /** @param {HTMLElement} element */
  #showOther(element) {
    this.window.hidden = this.sizes.hidden = true;
    this.other.hidden = false;
    replace(this.other, element);
  }

  /** @param {any} info @param {number} asked */
  async #list(info, asked) {
    if (this.#document !== info.document) {
      const record = await get(`/documents/${encodeURIComponent(info.document)}`).catch(() => ({ items: [] }));
      if (asked !== this.#asked) return;
      this.#document = info.document;
      this.pages.show(record.items);
    }
    this.pages.mark(info.id);
    this.#enable(info.id);
    const last = this.pages.items.length;
    if (last > 1 && info.kind !== "clip") this.where.textContent = `${info.kind} ${info.page} of ${last}`;
  }

  /** @param {number} width @param {number} height */
  #ready(width, height) {
    if (Math.abs(width / height / this.#ratio - 1) > 0.02) this.#ratio = width / height;
  }

  /** @param {number} scale @param {import("./zoom.js").Fit} fit */
  #sized(scale, fit) {
    this.percent.textContent = `${Math.round(scale * 100)} %`;
    this.percent.setAttribute("aria-label", `${Math.round(scale * 100)} per cent. Show the natural size`);
    this.wide.setAttribute("aria-pressed", String(fit === "width"));
    this.whole.setAttribute("aria-pressed", String(fit === "page"));
    this.leaf.sharpen(this.leaf.element.offsetWidth, this.#ratio);
  }

  /** @param {string} title @param {string} hint */
  #fail(title, hint) {
    this.#showOther(h("div", { class: "notice", role: "alert" }, h("span", { class: "notice-sign" }, icon("warn")), h("h3", { text: title }), h("p", { class: "soft", text: hint }), h("button", { type: "button", text: "Try again", on: { click: () => this.#go(this.#place) } })));
  }

  /** @param {string} name @param {string} where */
  #name(name, where) {
    this.title.textContent = name;
    this.title.title = name;
    this.where.textContent = where;
  }

  /** @param {string} item */
  #enable(item) {
    /** @type {HTMLButtonElement} */ (this.previous).disabled = this.pages.beside(item, -1) === null;
    /** @type {HTMLButtonElement} */ (this.next).disabled = this.pages.beside(item, 1) === null;
  }

  /** @param {number} by */
  #turn(by) {
    const item = this.pages.beside(this.#place.item, by);
    if (item) this.#go({ item: item.id, document: this.#place.document, boxes: this.#boxesOf(item.id) });
  }

  /** All that is cited of a page. @param {string} item */
  #boxesOf(item) {
    return this.#places.filter((place) => place.item === item).flatMap((place) => place.boxes ?? []);
  }

  #tellCited() {
    const { length } = this.#places;
    this.cited.hidden = length < 2;
    const step = (/** @type {number} */ by) => () => this.#cite((this.#at + by + length) % length);
    if (length > 1) replace(this.cited, iconButton("back", "Previous citation", { on: { click: step(-1) } }), h("span", h("span", { class: "viewer-cited-word", text: "Citation " }), `${this.#at + 1} of ${length}`), iconButton("forward", "Next citation", { on: { click: step(1) } }));
  }

  /** @param {number} at */
  #cite(at) {
    this.#at = at;
    this.#go(this.#places[at]);
  }

  /** On a narrow screen nothing behind the sheet can be reached. */
  #modal() {
    const modal = NARROW.matches && !this.element.hidden;
    this.element.toggleAttribute("data-sheet", NARROW.matches);
    if (modal) this.element.setAttribute("aria-modal", "true");
    else this.element.removeAttribute("aria-modal");
    this.#inert(modal);
  }

  /** @param {boolean} inert */
  #inert(inert) {
    document.getElementById("app")?.toggleAttribute("inert", inert);
  }

  /** @param {KeyboardEvent} event */
  #escape(event) {
    if (event.key !== "Escape" || this.element.hidden || event.defaultPrevented) return;
    if (/** @type {Element} */ (event.target).closest("dialog, details[open], [popover]")) return;
    event.preventDefault();
    this.close();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /** @type {Element} */ (event.target).closest("video")) return;
    const act = KEYS[event.key];
    if (act === undefined) return;
    event.preventDefault();
    if (typeof act === "number") this.#turn(act);
    else act(this.zoom);
  }
}

/** @type {Record<string, number | ((zoom: Zoom) => void)>} What keys do in the viewer. */
const KEYS = {
  ArrowLeft: -1,
  ArrowRight: 1,
  PageUp: -1,
  PageDown: 1,
  "+": (zoom) => zoom.larger(),
  "=": (zoom) => zoom.larger(),
  "-": (zoom) => zoom.smaller(),
  0: (zoom) => zoom.fit("page"),
};

/** Opens a document at its first page. @param {{id: string, name: string}} document */
export async function openDocument({ id, name }) {
  try {
    const { items } = await get(`/documents/${encodeURIComponent(id)}`);
    if (items.length > 0) open({ item: items[0].id, document: name });
    else toast(`Nothing of ${name} can be shown.`);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) toast(error.detail, { kind: "danger", hint: error.hint });
  }
}
